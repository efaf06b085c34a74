"""The values of partition columns that are also columns inside of the files.

Spark and Hive use the directory's value, whatever the file says. The values come from statistics in the
footer if possible; else the column is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudisql.format.paths.partition_path import parse_partition_value, render_partition_value, same_value

_MOST_VALUES: Final = 3


@dataclass(frozen=True, slots=True)
class InsideValues:
    """Some of the distinct values (all, if there are few) of a partition column inside a file."""

    column: str
    type: pa.DataType
    values: tuple[object, ...]

    def differ_from(self, text: str | None) -> bool:
        """True if a value differs from the directory's, whose text this is (None: NULL)."""
        try:
            directory = parse_partition_value(text, self.type)
        except (ValueError, ArithmeticError):
            return bool(self.values)
        return not all(same_value(value, directory) for value in self.values)

    def __str__(self) -> str:
        texts = [render_partition_value(value, self.type) for value in self.values]
        return ", ".join("NULL" if text is None else text for text in texts)


def inside_values(stream: Any, metadata: Any, names: Collection[str]) -> Iterator[InsideValues]:
    """The values of each column of `names` (lower case) that the open parquet file holds at its top level.

    Raises pa.ArrowException and OSError if the column has to be read and cannot be.
    """
    if not any(name.lower() in names for name in metadata.schema.names):
        return  # the usual case, which must cost next to nothing
    for field in metadata.schema.to_arrow_schema():
        if field.name.lower() not in names or pa.types.is_nested(field.type):
            continue
        of_statistics = _of_statistics(metadata, field)
        values = of_statistics if of_statistics is not None else _of_rows(stream, field.name)
        yield InsideValues(field.name, field.type, tuple(values))


def _of_statistics(metadata: Any, field: pa.Field) -> list[object] | None:
    """The values, if the statistics of each row group show a single one; None if they don't."""
    leaf = next(
        index for index in range(len(metadata.schema)) if metadata.schema.column(index).path == field.name
    )
    found: list[object] = []
    for number in range(metadata.num_row_groups):
        chunk = metadata.row_group(number).column(leaf)
        statistics = chunk.statistics if chunk.is_stats_set else None
        if statistics is None or not statistics.has_null_count:
            return None
        own: list[object] = [None] if statistics.null_count else []
        if statistics.null_count < chunk.num_values:
            if not statistics.has_min_max or statistics.min != statistics.max:
                return None
            own.append(pa.scalar(statistics.min).cast(field.type).as_py())
        found += [value for value in own if not any(same_value(value, known_value) for known_value in found)]
    return found[:_MOST_VALUES]


def _of_rows(stream: Any, name: str) -> Sequence[object]:
    distinct: pa.Array | None = None
    stream.seek(0)
    for batch in pq.ParquetFile(stream).iter_batches(columns=[name], use_threads=False):
        column = batch.column(0)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        distinct = pc.unique(column if distinct is None else pa.concat_arrays([distinct, column]))
        if len(distinct) >= _MOST_VALUES:
            break
    values: list[object] = [] if distinct is None else distinct.slice(0, _MOST_VALUES).to_pylist()
    return values
