"""The partitions that a PARTITION clause selects: in SHOW PARTITIONS, DROP PARTITION and TRUNCATE TABLE.

Values are compared by the types of the partition columns, not as text; a clause without some of the columns
selects all partitions with the given values. INSERT parses its own clause.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from hudisql.errors import InvalidArgumentError
from hudisql.format.paths.partition_path import HIVE_DEFAULT_PARTITION, parse_partition_value, same_value
from hudisql.read.files.predicates import And, Comparison, Or, bind_predicate
from hudisql.read.scan.partition_pruning import DirectoryPruning
from hudisql.sql.schema.alterations import DropPartitions
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import (
    TablePartition,
    directory_columns,
    directory_values,
    list_partitions,
)
from hudisql.table.partitions.registered_partitions import registered_partitions, with_registered


def partitions_to_drop(
    table: HudiTable, dropped: DropPartitions, table_label: str
) -> tuple[TablePartition, ...]:
    """The partitions with the given values, all of them without any; `table_label` names the table in errors.

    Raises InvalidArgumentError for columns that are not partition columns, values of another type, and
    partitions that do not exist (unless IF EXISTS is given).
    """
    filters = [partition_filter(table, each, table_label) for each in dropped.specifications]
    registered = registered_partitions(table)
    leads_to = _directories_of(table, [_typed(table, each, table_label) for each in dropped.specifications])
    chosen = [
        partition
        for partition in with_registered(table, list_partitions(table, leads_to), registered)
        if not filters or any(selects(directory_values(table, partition)) for selects in filters)
    ]
    # The commit needs the same slices: a table with a listing lists them once.
    filled_paths = {
        each.partition_path for each in load_file_slices(table, chosen)
    } | registered.by_path.keys()
    filled = [each for each in chosen if each.path in filled_paths]
    for specification, selects in zip(dropped.specifications, filters, strict=True):
        if not dropped.if_exists and not any(selects(directory_values(table, each)) for each in filled):
            listed = ", ".join(f"{name} = {value}" for name, value in specification.items())
            raise InvalidArgumentError(
                f"{table_label} has no partition with {listed}",
                hint=f"SHOW PARTITIONS {table_label} lists them",
            )
    return tuple(filled)


def _directories_of(
    table: HudiTable, specifications: Sequence[Mapping[int, object]]
) -> DirectoryPruning | None:
    """The directories that may lead to partitions with the values; None if all directories may."""
    columns = table.partition_columns
    if not columns or not specifications or not all(specifications):
        return None
    wanted = Or(
        tuple(
            And(tuple(Comparison((columns[at].name,), "<=>", value) for at, value in each.items()))
            for each in specifications
        )
    )
    bound = bind_predicate(wanted, pa.schema(columns))
    return None if bound is None else DirectoryPruning(table, bound)


def partition_filter(
    table: HudiTable, specification: Mapping[str, str | None], table_label: str
) -> Callable[[Sequence[object]], bool]:
    """Whether `directory_values` match the specification (value by column; None is NULL).

    Raises InvalidArgumentError for columns that are not partition columns and values of another type.
    """
    wanted = _typed(table, specification, table_label)
    return lambda values: all(same_value(values[at], value) for at, value in wanted.items())


def _typed(table: HudiTable, specification: Mapping[str, str | None], table_label: str) -> dict[int, object]:
    """The values in the types of the partition columns, by the columns' positions."""
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
        value = None if text == HIVE_DEFAULT_PARTITION else text
        try:
            wanted[number] = parse_partition_value(value, columns[number].type)
        except (ValueError, OverflowError) as error:
            raise InvalidArgumentError(
                f"'{text}' is not a value of the partition column {name} of {table_label} "
                f"({columns[number].type})"
            ) from error
    return wanted
