"""Checks CALL bootstrap_table: whether repeating it does the same, and which table it creates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from hudisql.bootstrap.run.already_bootstrapped import describe_existing_bootstrap
from hudisql.errors import HudisqlError, TableExistsError, UnknownColumnError
from hudisql.procedures.registry import Procedure
from hudisql.sql.schema.table_definition import TableDefinition

if TYPE_CHECKING:
    import pyarrow as pa

    from hudisql.check.shadow_metastore import ShadowContext
    from hudisql.context import Context

_CHANGING: Final = re.compile(r"\b(current_date|current_timestamp|now|curdate|rand|uuid)\b", re.IGNORECASE)


def idempotence_problems(arguments: Any) -> Iterator[tuple[str, str]]:
    """Why repeating the call may have another effect: the problem and the advice."""
    for name in ("source", "target_path"):
        path = getattr(arguments, name, None)
        if path and not path.startswith("/") and ":" not in path.split("/", 1)[0]:
            yield (
                f"{name} '{path}' is relative: another working directory is another {name}",
                "write the whole path, or ${variable}/…",
            )
    condition = getattr(arguments, "partition_filter", None)
    if condition and (found := _CHANGING.search(condition)):
        yield (
            f"partition_filter asks for {found[1]}: the next call selects other partitions, which a "
            "bootstrap does not add to a table that exists",
            "bootstrap all partitions once, then CALL resync_bootstrap takes new ones",
        )


def existing_table_problem(real: Context, arguments: Any) -> HudisqlError | None:
    """The error of a call whose table exists and differs from the one that it would create."""
    from hudisql.procedures.bootstrap.bootstrap_table import request_of

    try:
        describe_existing_bootstrap(real, request_of(real, arguments))
    except TableExistsError as error:
        return error
    except HudisqlError:
        return None  # the plan reports all other errors
    return None


def dry_run(real: Context, declared: Procedure, arguments: Any) -> None:
    """Plan the bootstrap on the existing source. Raises BootstrapBlockedError and others."""
    checked = declared.call(real, replace(arguments, dry_run=True))
    if checked.error is not None:
        raise checked.error


def define_bootstrapped(context: ShadowContext, arguments: Any) -> None:
    """Create an empty copy of the future table; if its source cannot be read, its columns are unknown."""
    key = context.qualify_table_name(arguments.table)
    columns = _source_columns(context, arguments)
    shadows = context.shadows
    shadows.databases.add(key[0])
    if columns is None:
        shadows.opaque.add(key)
        shadows.made.add(key)
        return
    record_key = ",".join(arguments.record_key or ())
    properties = {
        "type": "mor" if arguments.table_type.lower() in ("mor", "merge_on_read") else "cow",
        **({"primaryKey": record_key} if record_key else {}),
        **({"preCombineField": arguments.precombine} if arguments.precombine else {}),
    }
    shadows.define(key, columns, TableDefinition(columns, (), properties))
    shadows.plain.discard(key)


def check_columns(arguments: Any, columns: pa.Schema) -> None:
    """Raise InvalidArgumentError for a key or an ordering column that the source lacks."""
    known = {name.lower() for name in columns.names}
    wanted = [*(arguments.record_key or ()), *([arguments.precombine] if arguments.precombine else [])]
    for name in wanted:
        if name.split(".")[0].lower() not in known:
            raise UnknownColumnError(
                f"the source has no column '{name}'", hint=f"the columns are {', '.join(columns.names)}"
            )


def _source_columns(context: ShadowContext, arguments: Any) -> pa.Schema | None:
    """The columns of the source table; None if the source is a directory or unknown."""
    if arguments.source_table is None:
        return None
    key = context.qualify_table_name(arguments.source_table)
    entry = context.metastore.get_table(*key)
    if entry is None or entry.is_view:
        return None
    from hudisql.options.table_call import location_of, open_session_table

    columns = open_session_table(context, context.storage.qualify(location_of(entry))).schema
    check_columns(arguments, columns)
    return columns
