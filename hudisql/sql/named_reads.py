"""The query that `spark.read.options(…).table(name)` means for a Hudi table: Hudi's options as SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from hudisql.context import split_identifier
from hudisql.errors import InvalidArgumentError
from hudisql.format.schema.spark_schema import quote_name
from hudisql.options.unserved_settings import (
    AS_OF_INSTANT,
    BEGIN_INSTANT,
    END_INSTANT,
    INCREMENTAL,
    INCREMENTAL_FORMAT,
    QUERY_TYPE,
    is_cdc_query,
    query_type_of_options,
)
from hudisql.sql.text.parameters import sql_literal

_READ_OPTIONS: Final = frozenset({QUERY_TYPE, AS_OF_INSTANT, BEGIN_INSTANT, END_INSTANT, INCREMENTAL_FORMAT})


def query_of_table(name: str, options: Mapping[str, str]) -> str:
    """`SELECT *` of a table or view with a dotted name, in the state that the options of a read name.

    Raises InvalidArgumentError for options that a named table does not take.
    """
    given = {key.lower(): value for key, value in options.items()}
    for key in sorted(set(given) - _READ_OPTIONS):
        raise InvalidArgumentError(
            f"spark.read…table('{name}') does not take the option {key} for a Hudi table",
            hint="spark.read.format('hudi').options(…).load('<location>') takes all options of a read",
        )
    query_type = query_type_of_options(given)
    table = ".".join(map(quote_name, split_identifier(name)))
    if query_type == INCREMENTAL:
        return _call("hudi_table_changes", [table, *_window(name, given)])
    if query_type == "read_optimized":
        return _call("hudi_query", [table, query_type])
    instant = given.get(AS_OF_INSTANT)
    travel = "" if instant is None else f" TIMESTAMP AS OF {sql_literal(instant)}"
    return f"SELECT * FROM {table}{travel}"


def _window(name: str, options: Mapping[str, str]) -> Sequence[str]:
    """The kind of rows, the begin and, if it is given, the end of an incremental read."""
    begin, end = options.get(BEGIN_INSTANT), options.get(END_INSTANT)
    if begin is None:
        raise InvalidArgumentError(
            f"an incremental read of {name} begins after an instant: {BEGIN_INSTANT} is not set",
            hint="earliest is before the first commit",
        )
    kind = "cdc" if is_cdc_query(options) else "latest_state"
    return [kind, begin, *([] if end is None else [end])]


def _call(function: str, arguments: Sequence[str]) -> str:
    return f"SELECT * FROM {function}({', '.join(map(sql_literal, arguments))})"
