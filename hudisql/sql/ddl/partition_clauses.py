"""The partitions that a PARTITION clause selects: in SHOW PARTITIONS, DROP PARTITION and TRUNCATE TABLE.

Values are compared by the types of the partition columns, not as text; a clause without some of the columns
selects all partitions with the given values. INSERT parses its own clause. The procedures `drop_partition`
and `truncate_table` select partitions by their paths.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from hudisql.errors import InvalidArgumentError
from hudisql.format.paths.partition_path import (
    HIVE_DEFAULT_PARTITION,
    parse_partition_value,
    render_partition_value,
    same_value,
)
from hudisql.read.files.predicates import Or
from hudisql.read.scan.partition_pruning import candidate_partitions, of_partitions
from hudisql.sql.schema.alterations import DropPartitions
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import (
    TablePartition,
    directory_columns,
    directory_values,
    list_partitions,
)
from hudisql.table.partitions.registered_partitions import (
    RegisteredPartitions,
    registered_partitions,
    with_registered,
)

AddedPartitions: TypeAlias = Callable[[Sequence[TablePartition]], Collection[str]]
"""For partitions without rows: the paths of those that ADD PARTITION has made."""


@dataclass(frozen=True, slots=True)
class Wildcard:
    """A text in which `*` stands for any characters, as in Hudi's DROP PARTITION."""

    text: str

    def matches(self, value: object, column: pa.Field) -> bool:
        """True if the text of the typed value, as the metastore has it, matches."""
        rendered = render_partition_value(value, column.type) or HIVE_DEFAULT_PARTITION
        return _pattern(self.text).fullmatch(rendered) is not None


def partitions_to_drop(
    table: HudiTable, dropped: DropPartitions, table_label: str, added: AddedPartitions
) -> tuple[TablePartition, ...]:
    """The partitions with the given values, all of them without any; `table_label` names the table in errors.

    `added` gives the paths of those without rows that ADD PARTITION has made.

    Raises InvalidArgumentError for columns that are not partition columns, values of another type, and
    partitions that do not exist (unless IF EXISTS is given).
    """
    typed = [
        _typed(table, specification, table_label, wildcards=dropped.wildcards)
        for specification in dropped.specifications
    ]
    filters = [_selects(table, wanted) for wanted in typed]
    registered = registered_partitions(table)
    chosen = [
        partition
        for partition in with_registered(table, _candidates(table, typed), registered)
        if not filters or any(selects(directory_values(table, partition)) for selects in filters)
    ]
    filled = _filled(table, chosen, registered, added)
    for specification, selects in zip(dropped.specifications, filters, strict=True):
        if not dropped.if_exists and not any(
            selects(directory_values(table, partition)) for partition in filled
        ):
            listed = ", ".join(f"{name} = {value}" for name, value in specification.items())
            raise InvalidArgumentError(
                f"{table_label} has no partition with {listed}",
                hint=f"SHOW PARTITIONS {table_label} lists them",
            )
    return tuple(filled)


def partitions_of_paths(
    table: HudiTable, paths: Sequence[str], added: AddedPartitions
) -> tuple[tuple[TablePartition, ...], tuple[str, ...]]:
    """The partitions with these paths, and those of the paths that no partition with rows has.

    `added` is as in `partitions_to_drop`. `*` in a path stands for any characters, also for slashes, as in
    `resolvePartitionWildcards` of Hudi 1.2's `HoodieSparkSqlWriter`.
    """
    registered = registered_partitions(table)
    listed = with_registered(table, list_partitions(table), registered)
    patterns = [_pattern(path) for path in paths]
    chosen = [
        partition for partition in listed if any(pattern.fullmatch(partition.path) for pattern in patterns)
    ]
    filled = _filled(table, chosen, registered, added)
    missing = [
        path
        for path, pattern in zip(paths, patterns, strict=True)
        if not any(pattern.fullmatch(partition.path) for partition in filled)
    ]
    return tuple(filled), tuple(missing)


def _pattern(text: str) -> re.Pattern[str]:
    """A pattern for the text, in which `*` stands for any characters."""
    return re.compile(".*".join(map(re.escape, text.split("*"))), re.DOTALL)


def _filled(
    table: HudiTable,
    chosen: Sequence[TablePartition],
    registered: RegisteredPartitions,
    added: AddedPartitions,
) -> list[TablePartition]:
    """Those of the partitions that have rows, or were added."""
    # The commit needs the same slices: a table with a listing lists them once.
    filled_paths = {file_slice.partition_path for file_slice in load_file_slices(table, chosen)}
    filled_paths |= registered.by_path.keys()
    filled_paths |= set(added([partition for partition in chosen if partition.path not in filled_paths]))
    return [partition for partition in chosen if partition.path in filled_paths]


def partition_filter(
    table: HudiTable, specification: Mapping[str, str | None], table_label: str
) -> Callable[[Sequence[object]], bool]:
    """Whether `directory_values` match the specification (value by column; None is NULL).

    Raises InvalidArgumentError for columns that are not partition columns and values of another type.
    """
    return _selects(table, _typed(table, specification, table_label))


def partition_values(
    table: HudiTable, specification: Mapping[str, str | None], table_label: str
) -> tuple[object, ...]:
    """The values of all partition columns that ADD PARTITION gives, in the columns' types and order.

    Raises InvalidArgumentError as `partition_filter`, and for a column without a value.
    """
    wanted = _typed(table, specification, table_label)
    columns = table.partition_columns
    missing = [column.name for number, column in enumerate(columns) if number not in wanted]
    if missing:
        raise InvalidArgumentError(
            f"ADD PARTITION gives no value for {', '.join(missing)} of {table_label}",
            hint=f"PARTITION ({', '.join(f'{column.name} = …' for column in columns)}) names a partition",
        )
    return tuple(wanted[number] for number in range(len(columns)))


def _selects(table: HudiTable, wanted: Mapping[int, object]) -> Callable[[Sequence[object]], bool]:
    columns = directory_columns(table)

    def selects(value: object, at: int) -> bool:
        wish = wanted[at]
        return wish.matches(value, columns[at]) if isinstance(wish, Wildcard) else same_value(value, wish)

    return lambda values: all(selects(values[at], at) for at in wanted)


def _candidates(table: HudiTable, specifications: Sequence[Mapping[int, object]]) -> list[TablePartition]:
    """The partitions among which those with the values are."""
    columns = table.partition_columns
    exact = [
        {at: value for at, value in specification.items() if not isinstance(value, Wildcard)}
        for specification in specifications
    ]
    if not columns or not exact or not all(exact):
        return list_partitions(table)
    with_values = (of_partitions([columns[at].name for at in each], [list(each.values())]) for each in exact)
    return candidate_partitions(table, Or(tuple(with_values)))


def _typed(
    table: HudiTable, specification: Mapping[str, str | None], table_label: str, *, wildcards: bool = False
) -> dict[int, object]:
    """The values in the types of the partition columns, or `Wildcard`s, by the columns' positions."""
    columns = directory_columns(table)
    places = {column.name.lower(): number for number, column in enumerate(columns)}
    wanted: dict[int, object] = {}
    for name, text in specification.items():
        number = places.get(name.lower())
        if number is None:
            names = ", ".join(column.name for column in columns)
            raise InvalidArgumentError(
                f"{name} is not a partition column of {table_label}",
                hint=f"these are: {names}" if names else "the table is not partitioned",
            )
        if wildcards and text is not None and "*" in text:
            wanted[number] = Wildcard(text)
            continue
        value = None if text == HIVE_DEFAULT_PARTITION else text
        try:
            wanted[number] = parse_partition_value(value, columns[number].type)
        except (ValueError, OverflowError) as error:
            raise InvalidArgumentError(
                f"'{text}' is not a value of the partition column {name} of {table_label} "
                f"({columns[number].type})"
            ) from error
    return wanted
