"""Partition paths of rows, by their values of the partition columns.

Follows `PartitionPathEncodeUtils` and the hive-style option of Hudi 0.15. An existing partition keeps its
directory; a new one is refused if readers would not get its values from the directory name. If a key
generator computes the directories, the path itself identifies the partition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import CorruptTableError, UnsupportedTableError, WriteRefusedError
from hudisql.format.paths.partition_path import (
    HIVE_DEFAULT_PARTITION,
    escape_partition_value,
    partition_path,
    render_directory_value,
    split_partition_path,
    unique_values,
)
from hudisql.format.table_properties import URL_ENCODE_PARTITIONING
from hudisql.format.timeline.timeline_layout import METADATA_DIRECTORY
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import (
    TablePartition,
    first_directories,
    named_partitions,
    partition_of,
    partitions_along,
    partitions_at,
    reads_escaped,
)
from hudisql.table.partitions.registered_partitions import registered_partitions
from hudisql.table.partitions.table_directories import list_table_directories
from hudisql.write.keygen.key_generator import KeyGenerator, generates_paths
from hudisql.write.keygen.timestamp_directories import refuse_fractions, refuse_other_names

Values = tuple[object, ...]


class PartitionPaths:
    """Partition paths of rows; each combination of values is rendered once. Pickled into tasks."""

    def __init__(self, table: HudiTable, generator: KeyGenerator | None = None) -> None:
        if generator is None and generates_paths(table):
            raise UnsupportedTableError(
                f"hudisql does not know how the Hudi table at {table.base_path} names its directories, "
                "which are "
                "not the values of its partition columns"
            )
        self._generator = generator
        self.names = tuple(column.name for column in table.partition_columns)
        self._types = tuple(column.type for column in table.partition_columns)
        self._is_read_escaped = reads_escaped(table)
        table = table.with_listing()
        self._table = table
        self._existing: dict[str, TablePartition] = {}
        self._known: dict[Values, str] = {}
        self._paths: set[str] = set()
        self._above: set[str] = set()
        named = named_partitions(table)
        self._asks_for_paths = named is None
        self._asked: set[str] = set()
        for partition in named or ():
            self._existing[partition.path] = partition
            self._take(partition.path)
        self._directories: dict[Values, list[str]] = defaultdict(list)
        listed = first_directories(table) if named is None and self.names else named or ()
        refuse_other_names(table, listed)
        for partition in listed:
            self._directories[unique_values(partition.values)].append(partition.path)
        self._listed = frozenset(partition.path for partition in listed)
        for path in registered_partitions(table).by_path:
            values = unique_values(partition_of(table, path).values)
            if values not in self._directories:
                self._known[values] = path

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_table": self._table.listed_once()}

    def existing(self, path: str) -> TablePartition | None:
        """The partition at this path; None if the table has none there.

        If the names of directories tell the partitions, a directory without the marker file is taken for a
        partition, too; else the directories on the path are listed. Raises CorruptTableError, StorageError.
        """
        self._ask(path)
        return self._existing.get(path)

    def all_existing(self, paths: Iterable[str | None]) -> list[TablePartition]:
        """The existing ones of the partitions with these paths, sorted by path.

        None, which the rows of a damaged file may have, is left out.
        """
        wanted = sorted({path for path in paths if path is not None})
        self._list_together(wanted)
        partitions = (self.existing(path) for path in wanted)
        return [partition for partition in partitions if partition is not None]

    def is_known(self, path: str) -> bool:
        """True if the partition exists, as far as the store was asked."""
        return path in self._existing

    def add(self, partition: TablePartition) -> None:
        """Add a partition of the table."""
        self._existing[partition.path] = partition
        self._known[unique_values(partition.values)] = partition.path
        self._take(partition.path)

    def path(self, values: Values) -> str:
        """The path of the partition with these values: of the existing partition, or a new path.

        Raises WriteRefusedError for values that a directory of the table cannot have.
        """
        path, texts = self._named_path(values)
        if texts is None:
            self.refuse_nested([path])
            return path
        self._refuse_default_partition(texts)
        refuse_fractions(self.names, values, self._table)
        if not self._reads_as(path, texts) or not self._stands_apart(path):
            listed = ", ".join(f"{name} = '{text}'" for name, text in zip(self.names, texts, strict=True))
            raise WriteRefusedError(
                f"{listed} cannot be a partition of the Hudi table at {self._table.base_path}: readers would "
                f"not find these values in the directory '{path}'; nothing was written",
                hint=f"change the value, or make a table with {URL_ENCODE_PARTITIONING} = 'true'",
            )
        self._known[unique_values(values)] = path
        self._take(path)
        return path

    def paths_of(self, values: Iterable[Values]) -> dict[Values, str]:
        """`path` of each; directories that are asked for are listed in parallel."""
        wanted = list(values)
        if self._generator is None:
            names = {name for each in wanted for name in self._other_names(each)}
            list_table_directories(self._table, sorted(names))
        self._list_together(self._named_path(each)[0] for each in wanted)
        return {each: self.path(each) for each in wanted}

    def _named_path(self, values: Values) -> tuple[str, list[str | None] | None]:
        """The directory for the values, and the texts of the values if it is a new name."""
        if self._generator is not None:
            return str(values[0]), None
        key = unique_values(values)
        if key not in self._known:
            for partition in partitions_at(self._table, self._other_names(values)):
                self.add(partition)
        known = self._known.get(key)
        if known is not None:
            return known, None
        texts = self._texts(values)
        path = self._render(texts)
        return path, None if path in self._directories.get(key, ()) else texts

    def _other_names(self, values: Values) -> list[str]:
        """Directories of these values that a new partition would not have; they may lack the marker."""
        key = unique_values(values)
        if key in self._known:
            return []
        texts = self._texts(values)
        path = self._render(texts)
        names = list(self._directories.get(key, ()))
        if self._asks_for_paths and "/" in path:
            is_hive_style = self._table.properties.hive_style_partitioning
            other = self._render(texts, hive_style=not is_hive_style)
            if other.partition("/")[0] in self._listed:
                names.append(other)
        return [name for name in names if name != path]

    def _texts(self, values: Values) -> list[str | None]:
        escapes_all = self._table.properties.url_encode_partitioning
        texts = []
        for value, value_type in zip(values, self._types, strict=True):
            text = render_directory_value(value, value_type)
            is_time = text is not None and pa.types.is_timestamp(value_type)
            texts.append(escape_partition_value(text) if text and is_time and not escapes_all else text)
        return texts

    def _render(self, texts: Sequence[str | None], *, hive_style: bool | None = None) -> str:
        properties = self._table.properties
        return partition_path(
            self.names,
            texts,
            hive_style=properties.hive_style_partitioning if hive_style is None else hive_style,
            url_encode=properties.url_encode_partitioning,
        )

    def _refuse_default_partition(self, texts: Sequence[str | None]) -> None:
        """Raise WriteRefusedError for the text of the NULL partition, which every reader reads as NULL."""
        for name, text in zip(self.names, texts, strict=True):
            if text == HIVE_DEFAULT_PARTITION:
                raise WriteRefusedError(
                    f"{name} = '{HIVE_DEFAULT_PARTITION}' cannot be a partition of the Hudi table at "
                    f"{self._table.base_path}: every reader takes that directory for NULL; nothing was "
                    "written",
                    hint=f"write NULL, or another text (such as nullif({name}, '{HIVE_DEFAULT_PARTITION}'))",
                )

    def refuse_nested(self, paths: Collection[str]) -> None:
        """Raise WriteRefusedError if a partition lies in the directory of another, or has an invalid path.

        Tasks only know the partitions of their own rows, so the driver checks all of them.
        """
        unknown = sorted(set(paths) - self._paths)
        self._list_together(unknown)
        for path in unknown:
            self._ask(path)
            if path in self._paths:
                continue
            if not _is_directory(path):
                raise WriteRefusedError(
                    f"'{path}' cannot be the directory of a partition of the Hudi table at "
                    f"{self._table.base_path}; nothing was written",
                    hint="change the values of the partition columns",
                )
            if not self._stands_apart(path):
                raise WriteRefusedError(
                    f"the partition '{path}' of the Hudi table at {self._table.base_path} and another would "
                    "lie in one directory, where no reader finds both; nothing was written",
                    hint="change the values of the partition column",
                )
            self._take(path)

    def _ask(self, path: str) -> None:
        """Add the partitions at, above and below the path, if the names of directories do not tell them."""
        if not self._must_ask(path):
            return
        self._asked.add(path)
        for partition in partitions_along(self._table, path):
            if partition.path not in self._existing:
                self.add(partition)

    def _must_ask(self, path: str) -> bool:
        return self._asks_for_paths and path not in self._asked and _is_directory(path)

    def _list_together(self, paths: Iterable[str]) -> None:
        list_table_directories(self._table, sorted({path for path in paths if self._must_ask(path)}))

    def _stands_apart(self, path: str) -> bool:
        """True if the directory lies in no other partition's directory and contains none."""
        self._ask(path)
        return path not in self._above and self._paths.isdisjoint(_directories_above(path))

    def _take(self, path: str) -> None:
        self._paths.add(path)
        self._above.update(_directories_above(path))

    def _reads_as(self, path: str, texts: list[str | None]) -> bool:
        """True if readers get these values from the path, and the path is below the table's directory."""
        if not _is_directory(path):
            return False
        try:
            read = split_partition_path(path, self.names, url_encode=self._is_read_escaped)
        except CorruptTableError:
            return False
        return read == tuple(text or None for text in texts)

    def named(self, values: Values) -> dict[str, object]:
        """The values of the partition columns in directory names, by column."""
        return {} if self._generator is not None else dict(zip(self.names, values, strict=True))

    def of(self, batch: pa.RecordBatch) -> pa.Array:
        """The partition path of each row."""
        if self._generator is not None:
            return self._generator.paths(batch)
        values, number = self._combinations(batch)
        path_of = self.paths_of(values)
        return pa.array([path_of[value] for value in values], pa.string()).take(pa.array(number))

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[Values, pa.RecordBatch]]:
        """The rows of each partition with its values, in order of first occurrence."""
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
        """The distinct combinations of values, and for each row the number of its combination."""
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


def _is_directory(path: str) -> bool:
    """True if the path is that of a data directory below the table's directory."""
    directories = path.split("/") if path else []
    return directories[:1] != [METADATA_DIRECTORY] and not any(
        directory in ("", ".", "..") for directory in directories
    )


def _directories_above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]
