"""Assigns the columns of an INSERT's query to those of the table: by a list, by name, or by position.

Follows `InsertIntoHoodieTableCommand.coerceQueryOutputColumns` of Hudi 0.15 and 1.2: without a list of
columns a query is matched by name if it has all names of the table, else by position. Knows names and types,
not rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hudisql.errors import UnknownColumnError, WriteRefusedError
from hudisql.read.scan.arrow_scan import spark_struct
from hudisql.sql.text import clauses as cl
from hudisql.table.hudi_table import HudiTable

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class QueryColumns:
    """`names` are the table's columns for the query's columns, in the query's order.

    With `members_by_name` the members of structs are matched by name, too. `moved` are the columns and
    members that a match by position would assign differently, if the statement does not say which is meant.
    """

    names: tuple[str, ...]
    members_by_name: bool
    moved: tuple[str, ...] = ()


def assign_query_columns(
    table: HudiTable,
    clauses: cl.InsertClauses,
    static: Collection[str],
    query_schema: StructType,
    table_label: str,
    *,
    case_sensitive: bool,
) -> QueryColumns:
    """Assign the query's columns to columns of the table.

    `static` are the partition columns (in lower case) with a value in the PARTITION clause, `query_schema` is
    without meta columns, `table_label` names the table in errors. Raises UnknownColumnError for columns that
    the table lacks, WriteRefusedError for repeated or missing ones and for a PARTITION clause of other
    columns.
    """
    columns = _columns(table, clauses, static, query_schema, table_label, case_sensitive)
    _check_names(table, clauses, (*columns.names, *static), table_label)
    if len(columns.names) != len(query_schema):
        raise WriteRefusedError(
            f"INSERT INTO {table_label} takes {len(columns.names)} columns ({', '.join(columns.names)}), "
            f"but the query gives {len(query_schema)}",
        )
    return columns


def _columns(
    table: HudiTable,
    clauses: cl.InsertClauses,
    static: Collection[str],
    query_schema: StructType,
    table_label: str,
    case_sensitive: bool,
) -> QueryColumns:
    if clauses.by_name:
        return QueryColumns(tuple(query_schema.names), members_by_name=True)
    if clauses.columns is not None:
        return QueryColumns(clauses.columns, members_by_name=False)
    wanted = [field for field in table.schema if field.name.lower() not in static]
    by_position = tuple(field.name for field in wanted)
    expected = spark_struct(pa.schema(wanted))
    if len(expected) != len(query_schema) or not _has_all_names(
        query_schema, expected, table_label, case_sensitive
    ):
        return QueryColumns(by_position, members_by_name=False)
    moved = tuple(_moved(query_schema, expected))
    return QueryColumns(tuple(query_schema.names), members_by_name=True, moved=moved)


def _check_names(table: HudiTable, clauses: cl.InsertClauses, named: Sequence[str], table_label: str) -> None:
    known = {name.lower() for name in table.schema.names}
    for name in named:
        if name.lower() not in known:
            raise UnknownColumnError(
                f"{table_label} has no column '{name}'",
                hint=f"the columns are {', '.join(table.schema.names)}",
            )
    partition = table.properties.partition_fields
    for name, _ in clauses.partition:
        if name.lower() not in {field.lower() for field in partition}:
            raise WriteRefusedError(
                f"{name} is not a partition column of {table_label}",
                hint=f"these are: {', '.join(partition) or 'none'}",
            )
    lower = [name.lower() for name in named]
    repeated = {name for name in named if lower.count(name.lower()) > 1}
    if repeated:
        raise WriteRefusedError(f"INSERT INTO {table_label} names the column '{min(repeated)}' twice")


def _has_all_names(given: Any, wanted: Any, table_label: str, case_sensitive: bool) -> bool:
    """True if the type `given` has a column or member for each one of `wanted`."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        return _has_all_names(given.elementType, wanted.elementType, table_label, case_sensitive)
    if isinstance(given, MapType) and isinstance(wanted, MapType):
        return _has_all_names(given.keyType, wanted.keyType, table_label, case_sensitive) and _has_all_names(
            given.valueType, wanted.valueType, table_label, case_sensitive
        )
    if not isinstance(given, StructType) or not isinstance(wanted, StructType):
        return True
    for field in wanted:
        same = [
            each
            for each in given
            if each.name == field.name or (not case_sensitive and each.name.lower() == field.name.lower())
        ]
        if not same:
            return False
        if len(same) > 1:
            raise WriteRefusedError(
                f"the query of an INSERT INTO {table_label} names the column '{field.name}' twice",
                hint="give each of its columns the name of the table's column that it is for",
            )
        if not _has_all_names(same[0].dataType, field.dataType, table_label, case_sensitive):
            return False
    return True


def _moved(given: Any, wanted: Any, prefix: str = "") -> Iterator[str]:
    """The paths of the columns and members of `given` whose position differs from `wanted`."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        yield from _moved(given.elementType, wanted.elementType, f"{prefix}element.")
    elif isinstance(given, MapType) and isinstance(wanted, MapType):
        yield from _moved(given.keyType, wanted.keyType, f"{prefix}key.")
        yield from _moved(given.valueType, wanted.valueType, f"{prefix}value.")
    elif isinstance(given, StructType) and isinstance(wanted, StructType):
        in_wanted = {field.name.lower(): field for field in wanted}
        for number, field in enumerate(given):
            other = in_wanted.get(field.name.lower())
            if other is None:
                continue
            if number >= len(wanted) or wanted[number].name.lower() != field.name.lower():
                yield f"{prefix}{field.name}"
            yield from _moved(field.dataType, other.dataType, f"{prefix}{field.name}.")
