"""The partitions that a scan needs, chosen by predicates on partition columns and on partition paths.

Directories are ruled out by their names before they are listed, at every level of a table with several
partition columns. The names never rule out a directory that may lead to a partition with matching rows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pyarrow as pa

from hudisql.errors import CorruptTableError
from hudisql.format.schema.meta_columns import META_SCHEMA, PARTITION_PATH
from hudisql.read.files.predicates import (
    And,
    Comparison,
    Or,
    Predicate,
    bind_predicate,
    columns_of,
    conjunction,
    literals_of,
    matching_rows,
    restrict_predicate,
)
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import (
    TablePartition,
    is_whole_time,
    leading_values,
    list_partitions,
)

_PATH_SCHEMA: Final = pa.schema([META_SCHEMA.field(PARTITION_PATH)])


def of_partitions(names: Sequence[str], values: Iterable[Sequence[object]]) -> Predicate:
    """A predicate for the partitions with these values of the columns `names`."""
    return Or(
        tuple(
            And(tuple(Comparison((name,), "<=>", value) for name, value in zip(names, some, strict=True)))
            for some in values
        )
    )


def candidate_partitions(table: HudiTable, predicate: Predicate) -> list[TablePartition]:
    """The partitions for which the predicate is TRUE, and perhaps others; `predicate` need not be bound.

    Raises CorruptTableError, StorageError.
    """
    bound = bind_predicate(predicate, pa.schema(table.partition_columns))
    return list_partitions(table, None if bound is None else DirectoryPruning(table, bound))


def prune_partitions(
    partitions: Sequence[TablePartition],
    partition_columns: Sequence[pa.Field],
    predicate: Predicate | None,
) -> list[TablePartition]:
    """The partitions whose typed values make the predicate TRUE; all partitions without a predicate."""
    columns = [
        pa.array([partition.values[position] for partition in partitions], column.type)
        for position, column in enumerate(partition_columns)
    ]
    return _matching(partitions, predicate, columns, pa.schema(partition_columns))


def prune_by_path(
    partitions: Sequence[TablePartition], row_predicates: Sequence[Predicate]
) -> list[TablePartition]:
    """The partitions whose rows can match: every writer gives each row the path of its partition.

    For tables whose key generator computes directory names, which are not column values.
    """
    paths = pa.array([partition.path for partition in partitions], pa.string())
    return _matching(partitions, predicate_of_paths(row_predicates), [paths], _PATH_SCHEMA)


def predicate_of_paths(row_predicates: Sequence[Predicate]) -> Predicate | None:
    """The conjunction of the predicates on `_hoodie_partition_path` alone."""
    return conjunction(
        predicate for predicate in row_predicates if columns_of(predicate) == {(PARTITION_PATH,)}
    )


def is_below(path: str, prefix: str) -> bool:
    """True if the partition path is the prefix or lies below it; every path lies below ""."""
    return not prefix or path == prefix or path.startswith(prefix + "/")


@dataclass(frozen=True)
class DirectoryPruning:
    """A DirectoryFilter: the directories that may lead to partitions for which both predicates are TRUE.

    `of_values` is over partition columns, `of_path` over `_hoodie_partition_path`; None keeps all. `below`
    is a partition path that bounds the scan.
    """

    table: HudiTable
    of_values: Predicate | None
    of_path: Predicate | None = None
    below: str = ""

    @property
    def rules_out_any(self) -> bool:
        """False if it keeps all directories."""
        return self.of_values is not None or self.of_path is not None or bool(self.below)

    def __call__(self, paths: Sequence[str]) -> list[bool]:
        """True for the directories (of one depth) to look into."""
        kept = [is_below(path, self.below) or self.below.startswith(path + "/") for path in paths]
        for is_possible in (self._by_values(paths), self._by_path(paths)):
            kept = [one and other for one, other in zip(kept, is_possible, strict=True)]
        return kept

    def _by_values(self, paths: Sequence[str]) -> list[bool]:
        depth = paths[0].count("/") + 1 if paths else 0
        columns = self.table.partition_columns
        leading = columns if len(columns) == 1 else columns[:depth]
        predicate = restrict_predicate(self.of_values, [column.name for column in leading])
        if predicate is None or (len(columns) > 1 and depth > len(columns)):
            return [True] * len(paths)
        values = [self._values_of(path, leading) for path in paths]
        decided = [number for number, value in enumerate(values) if value is not None]
        known = [value for value in values if value is not None]
        arrays = [
            pa.array([each[position] for each in known], column.type)
            for position, column in enumerate(leading)
        ]
        kept = [True] * len(paths)
        for number, is_match in zip(decided, _is_true(predicate, arrays, pa.schema(leading)), strict=True):
            kept[number] = is_match
        return kept

    def _values_of(self, path: str, columns: Sequence[pa.Field]) -> tuple[object | None, ...] | None:
        """The values of the directories; None if they do not decide about the partitions below."""
        try:
            values = leading_values(self.table, path, columns)
        except CorruptTableError:
            return None
        if len(self.table.partition_columns) > 1:
            return values
        (value,) = values
        kind = columns[0].type
        if pa.types.is_temporal(kind):
            return values if value is not None and is_whole_time(path) else None
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return values if isinstance(value, str) and not self._value_prefixes.begin(value) else None
        is_number = pa.types.is_integer(kind) or pa.types.is_boolean(kind)
        return values if is_number and value is not None else None

    def _by_path(self, paths: Sequence[str]) -> list[bool]:
        if self.of_path is None:
            return [True] * len(paths)
        texts = pa.array(paths, pa.string())
        is_match = _is_true(self.of_path, [texts], _PATH_SCHEMA)
        return [kept or self._path_prefixes.begin(path) for kept, path in zip(is_match, paths, strict=True)]

    @cached_property
    def _value_prefixes(self) -> _Texts:
        return _Texts.of(self.of_values)

    @cached_property
    def _path_prefixes(self) -> _Texts:
        return _Texts.of(self.of_path)


@dataclass(frozen=True)
class _Texts:
    """The texts that a predicate compares with.

    A text and a longer one that begins with it and a slash compare equally with every text that does not
    begin with the first.
    """

    ordered: Sequence[str]

    @staticmethod
    def of(predicate: Predicate | None) -> _Texts:
        literals = () if predicate is None else literals_of(predicate)
        return _Texts(sorted({literal for literal in literals if isinstance(literal, str)}))

    def begin(self, text: str) -> bool:
        """True if one of the texts begins with this text."""
        position = bisect_left(self.ordered, text)
        return position < len(self.ordered) and self.ordered[position].startswith(text)


def _matching(
    partitions: Sequence[TablePartition],
    predicate: Predicate | None,
    columns: list[pa.Array],
    schema: pa.Schema,
) -> list[TablePartition]:
    if predicate is None or not partitions:
        return list(partitions)
    return [
        partition
        for partition, keep in zip(partitions, _is_true(predicate, columns, schema), strict=True)
        if keep
    ]


def _is_true(predicate: Predicate, columns: list[pa.Array], schema: pa.Schema) -> Iterator[bool]:
    if not len(columns[0]):
        return iter(())
    rows = pa.RecordBatch.from_arrays(columns, schema=schema)
    return (bool(row) for row in matching_rows(predicate, rows).to_pylist())
