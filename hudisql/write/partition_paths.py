"""Which partition rows belong to, by their values of the partition columns.

Follows `PartitionPathEncodeUtils` and the hive-style option of Hudi 0.15. An existing partition keeps its
folder, whoever named it. Where a key generator computes the folders, the path itself is what tells the
partitions of rows apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import UnsupportedTableError
from hudisql.format.partition_path import partition_path, render_partition_value
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions import TablePartition, list_partitions
from hudisql.write.path_generator import PathGenerator, generates_paths

Values = tuple[object, ...]


class PartitionPaths:
    """Partition paths of rows; each combination of values is rendered once. Travels to tasks."""

    def __init__(self, table: HudiTable, generator: PathGenerator | None = None) -> None:
        if generator is None and generates_paths(table):
            raise UnsupportedTableError(
                f"hudisql does not know how the Hudi table at {table.base_path} names its folders, which are "
                "not the values of its partition columns"
            )
        self._generator = generator
        self.names = tuple(column.name for column in table.partition_columns)
        self._hive_style = table.properties.hive_style_partitioning
        self._url_encode = table.properties.url_encode_partitioning
        self.existing: Mapping[str, TablePartition] = {each.path: each for each in list_partitions(table)}
        """The partitions that the table has, by path."""
        self._known: dict[Values, str] = {each.values: each.path for each in self.existing.values()}

    def path(self, values: Values) -> str:
        """The path of the partition with these values: an existing one's, or as the table makes them."""
        if self._generator is not None:
            return str(values[0])
        if values not in self._known:
            self._known[values] = partition_path(
                self.names,
                [render_partition_value(value) for value in values],
                hive_style=self._hive_style,
                url_encode=self._url_encode,
            )
        return self._known[values]

    def named(self, values: Values) -> dict[str, object]:
        """The values of the partition columns that folders say, by name."""
        return {} if self._generator is not None else dict(zip(self.names, values, strict=True))

    def of(self, batch: pa.RecordBatch) -> pa.Array:
        """The partition path of each row."""
        if self._generator is not None:
            return self._generator.paths(batch)
        values, number = self._combinations(batch)
        return pa.array([self.path(each) for each in values], pa.string()).take(pa.array(number))

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[Values, pa.RecordBatch]]:
        """The rows of each partition with its values, in the order in which the partitions first come."""
        if not self.names and self._generator is None:
            yield (), batch
            return
        values, number = self._combinations(batch)
        if len(values) == 1:
            yield values[0], batch
            return
        order = np.argsort(number, kind="stable")
        starts = np.searchsorted(number[order], np.arange(len(values) + 1))
        by_first = sorted(range(len(values)), key=lambda each: int(order[starts[each]]))
        for each in by_first:
            yield values[each], batch.take(pa.array(order[starts[each] : starts[each + 1]]))

    def _combinations(self, batch: pa.RecordBatch) -> tuple[list[Values], npt.NDArray[np.int64]]:
        """The distinct combinations of values, and the number of each row's."""
        if self._generator is not None:
            columns = [self._generator.paths(batch).dictionary_encode()]
        else:
            columns = [batch.column(name).dictionary_encode() for name in self.names]
        codes = np.zeros(batch.num_rows, dtype=np.int64)
        for column in columns:
            indices = pc.fill_null(column.indices, len(column.dictionary)).to_numpy(zero_copy_only=False)
            codes = codes * (len(column.dictionary) + 1) + indices
        _, first, number = np.unique(codes, return_index=True, return_inverse=True)
        return [tuple(column[int(row)].as_py() for column in columns) for row in first], number
