"""REFRESH INCREMENTAL TABLE: plans the changes since the last refresh and writes them as one commit.

The commit stores the instant of each source up to which it went (`refresh_checkpoint`), so that a killed
refresh is neither lost nor repeated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from hudisql.errors import NoSuchStateError, RepeatedKeysError, UnsupportedTableError
from hudisql.format.schema.spark_schema import quote_name
from hudisql.read.changes.change_capture import GroupChange, plan_capture
from hudisql.read.scan.arrow_scan import spark_struct
from hudisql.spark.task_errors import raising_expression
from hudisql.sql.dml.dml_execution import execute
from hudisql.sql.dml.dml_plan import DmlPlan, RowChanges, plan_merge
from hudisql.sql.dml.statement_scope import StatementScope
from hudisql.sql.incremental_tables import catalyst_plans as cat
from hudisql.sql.incremental_tables.affected_values import AffectedValues, NotTraceableError
from hudisql.sql.incremental_tables.changed_rows import (
    DELETED,
    NEW,
    changed_rows,
    refresh_driver_bytes,
    rows_of_table,
    rows_of_values,
)
from hudisql.sql.incremental_tables.definition import IncrementalDefinition
from hudisql.sql.incremental_tables.driver_changes import DriverChanges, changes_on_driver
from hudisql.sql.incremental_tables.maintained_columns import MaintainedValues, affected_values
from hudisql.sql.incremental_tables.refresh_checkpoint import RefreshCheckpoint, RefreshPlace, find_place
from hudisql.sql.incremental_tables.rewritten_rows import column_of_rewritten_rows
from hudisql.sql.incremental_tables.sources import QuerySources, check_ordering, in_database, read_sources
from hudisql.sql.query import query_plan
from hudisql.sql.text.clauses import Assignment, MergeAction, MergeClauses, SourceSpan, TargetClause
from hudisql.sql.text.spark_errors import SourceText
from hudisql.sql.text.statements import Statement
from hudisql.sql_literals import quote_string
from hudisql.table.history.taken_changes import check_not_undone, place_at
from hudisql.table.history.timeline_window import timeline_window
from hudisql.write.execution.commit_files import WriteResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NOTHING: Final = "nothing"
WHOLE: Final = "whole"
# Offsets beyond the statement's empty text, so that errors show no place. The target is found by its own.
_TARGET_AT: Final = 1
_OTHERS_AT: Final = 2
_OF_THE_MOMENT: Final = re.compile(
    r"\b(current_date|current_time|current_timestamp|current_timezone|localtimestamp|now|current_user|user"
    r"|session_user|current_database|current_catalog|current_schema)\("
)


@dataclass(frozen=True)
class RefreshPlan:
    """The plan of a refresh: `way` is `nothing`, `whole` (for `reason`), or by which rows are recomputed.

    `changes` are the file groups that commits of each source (by name) changed. `rows` are to be written or,
    where `DELETED` is true, deleted; or they are the commit's changes, found on the driver. The resources of
    the scope must be open while it is used.
    """

    scope: StatementScope
    checkpoint: RefreshCheckpoint
    way: str
    reason: str = ""
    changes: Mapping[str, Sequence[GroupChange]] | None = None
    values: MaintainedValues | None = None
    rows: DataFrame | DriverChanges | None = None


def plan_refresh(
    scope: StatementScope, definition: IncrementalDefinition, *, full: bool = False, until: str | None = None
) -> RefreshPlan:
    """Find the changes since the last refresh, and the rows of the table that they can affect.

    Raises QueryError, UnsupportedStatementError, HollowCommitError, CorruptTableError, StorageError.
    """
    check_ordering(definition.ordering)
    with in_database(scope.context, definition.database):
        sources = read_sources(scope.context, definition.text, until)
        sources.check_permanent((scope.entry.database, scope.entry.name))
        previous = find_place(scope.table)
        places = {path: place_at(sources.tables[path], end) for path, end in sources.ends.items()}
        checkpoint = RefreshCheckpoint(definition, places, previous, views=sources.views)
        reason = "FULL" if full else _reason_for_whole(definition, sources, previous)
        is_settled = reason is None and previous is not None and not previous.always
        ends = None if previous is None else {path: source.until for path, source in previous.sources.items()}
        if is_settled and ends == sources.ends:
            return RefreshPlan(scope, checkpoint, NOTHING)
        return _plan_changes(scope, definition, sources, checkpoint, reason)


def _reason_for_whole(
    definition: IncrementalDefinition, sources: QuerySources, previous: RefreshPlace | None
) -> str | None:
    if previous is None:
        return "there was no refresh before"
    if previous.definition != definition.document:
        return "the table's definition has changed"
    if previous.sources.keys() != sources.ends.keys():
        return "the query reads other tables than before"
    if previous.views != sources.views:
        return "a view that the query reads has changed"
    try:
        for path, place in previous.sources.items():
            check_not_undone(sources.tables[path], place)
            columns = sources.tables[path].file_columns
            if columns is not None and str(columns.current.version_id) > place.until:
                return f"columns of {path} were changed by schema-on-read"
    except NoSuchStateError as error:
        return error.message
    return None


def _plan_changes(
    scope: StatementScope,
    definition: IncrementalDefinition,
    sources: QuerySources,
    checkpoint: RefreshCheckpoint,
    reason: str | None,
) -> RefreshPlan:
    empty = query_plan.analyzed_query(scope.context, sources.binder, sources.bound)
    root = cat.analyzed_plan(empty)
    checkpoint = replace(checkpoint, always=_changes_by_itself(scope, root, sources))
    reason = reason or checkpoint.always or None
    values, changes = None, None
    if reason is None:
        assert checkpoint.previous is not None
        try:
            partitions = [partition_column.name for partition_column in scope.table.partition_columns]
            changes = _changes_of_sources(sources, checkpoint.previous)
            if column := column_of_rewritten_rows(
                root, sources, changes, ordered=definition.ordering is not None
            ):
                raise NotTraceableError(
                    f"the query reads {column}, which changes where a row is only written again"
                )
            values = affected_values(
                scope.context.spark,
                (root, sources),
                lambda: _over_rows(scope, sources),
                {path: change for path, change in changes.items() if change},
                definition.key,
                [
                    partition
                    for partition in partitions
                    if _reason_of_types(scope, empty, [partition]) is None
                ],
                refresh_driver_bytes(scope),
                scope.resources,
            )
            reason = _reason_of_types(scope, empty, values.columns)
        except NotTraceableError as error:
            reason = str(error)
        except (NoSuchStateError, UnsupportedTableError) as error:
            reason = error.message
    if reason is not None:
        values = None
    columns = ", ".join(map(quote_name, scope.table.schema.names))
    stored = f"SELECT {columns} FROM {quote_name(scope.entry.database)}.{quote_name(scope.entry.name)}"
    new = rows_of_table(scope, rows_of_values(scope, sources.text, sources.binder, values))
    rows: DataFrame | DriverChanges | None = None
    if values is not None:
        with query_plan.bound_errors(sources.bound):
            rows = changes_on_driver(scope, new, definition.key, values)
    if rows is None:
        old = rows_of_values(scope, stored, scope.binder, values)
        rows = changed_rows(scope, new, old, definition.key)
    named = {sources.names[path]: change for path, change in (changes or {}).items()}
    way = WHOLE if values is None else values.way
    return RefreshPlan(scope, checkpoint, way, reason or "", named, values, rows)


def _over_rows(scope: StatementScope, sources: QuerySources) -> tuple[Any, QuerySources]:
    """The query's analyzed plan over the rows of its sources, and the sources by their names in it."""
    prepared = query_plan.prepare_query(scope.context, Statement(sources.text), binder=sources.binder)
    frame = query_plan.run_prepared(scope.context, prepared)
    return cat.analyzed_plan(frame), replace(sources, bound=prepared.bound)


def _reason_of_types(scope: StatementScope, frame: DataFrame, columns: Sequence[str]) -> str | None:
    """Why stored values of these columns cannot be compared with the query's; None if they can.

    A cast to the table's type may change a value, except for integers.
    """
    from pyspark.sql.types import IntegralType

    given = {field.name.lower(): field.dataType for field in frame.schema}
    stored = {field.name.lower(): field.dataType for field in spark_struct(scope.table.schema)}
    for name in map(str.lower, columns):
        types = (given[name], stored[name])
        if types[0] != types[1] and not all(isinstance(data_type, IntegralType) for data_type in types):
            given_type, stored_type = (data_type.simpleString() for data_type in types)
            return f"the query gives {name} as {given_type}, the table has {stored_type}"
    return None


def _changes_by_itself(scope: StatementScope, root: Any, sources: QuerySources) -> str:
    """Why the query's result can change without a commit of a source; empty if it cannot."""
    names = frozenset(reference.view_name for reference in sources.references) | sources.constant
    try:
        AffectedValues(scope.context.spark, {}, names).changes(root)
    except NotTraceableError as error:
        return str(error)
    if not bool(root.deterministic()):
        return "the query is not deterministic"
    if moving := sources.moving:
        return f"{moving} is not yet past, or depends on when it is asked"
    if not cat.calls_moment(scope.context.spark, root):
        return ""
    found = _OF_THE_MOMENT.search(str(root.toString()))
    called = f"{found[1]}()" if found else "a function of the current time, zone, user or database"
    return f"the query calls {called}"


def _changes_of_sources(sources: QuerySources, previous: RefreshPlace) -> dict[str, list[GroupChange]]:
    """The file groups that commits since the last refresh changed, by base path."""
    found = {}
    for path, end in sources.ends.items():
        begin = previous.sources[path].until
        if begin == end:
            continue
        table = sources.tables[path]
        if end < begin:
            raise NotTraceableError(f"{sources.names[path]} was refreshed beyond {end} before")
        found[path] = plan_capture(table, timeline_window(table, begin, end, sources.policy))
    return found


def run_refresh(plan: RefreshPlan, *, syncs: bool | None = None) -> WriteResult:
    """Write the plan's rows as one commit that stores the position in the sources.

    Raises WriteConflictError if another refresh has moved the position since, RepeatedKeysError.
    """
    if plan.rows is None:
        return WriteResult(None)
    scope = replace(plan.scope, context=plan.scope.context.with_checkpoint(plan.checkpoint))
    if isinstance(plan.rows, DriverChanges):
        changes = RowChanges(plan.rows.rows, "UPSERT", unique_new_keys=True)
        options = replace(scope.write_options(scope.table), driver_max_bytes=refresh_driver_bytes(scope))
        return execute(DmlPlan(scope, scope.table, options, changes), syncs=syncs)
    spark = scope.context.spark
    view = f"__hudisql_refresh_{uuid4().hex[:8]}"
    plan.rows.createOrReplaceTempView(view)
    scope.resources.callback(spark.catalog.dropTempView, view)
    clauses = _merge_clauses(scope, plan.checkpoint.definition, view, plan.values)
    return execute(plan_merge(scope, clauses, SourceText("")), syncs=syncs)


def _merge_clauses(
    scope: StatementScope, definition: IncrementalDefinition, view: str, values: MaintainedValues | None
) -> MergeClauses:
    """MERGE INTO the table AS t USING the view AS s; no clause has a place in a user's text."""
    columns = [(name, f"s.{quote_name(name)}") for name in scope.table.schema.names]
    label = f"{quote_name(scope.entry.database)}.{quote_name(scope.entry.name)}"
    equal = " AND ".join(f"t.{quote_name(name)} <=> s.{quote_name(name)}" for name in definition.key)
    is_deleted = f"s.{quote_name(DELETED)}"
    actions = [
        _action("matched", is_deleted, "DELETE", ()),
        _action("matched", None, "UPDATE", columns),
        _action("not_matched", f"NOT {is_deleted}", "INSERT", columns),
    ]
    if values is not None and not {*map(str.lower, values.columns)} <= {*map(str.lower, definition.key)}:
        # The compared stored rows may not be all with that key.
        fails = _stored_key_error(scope, definition)
        actions.insert(0, _action("matched", f"s.{quote_name(NEW)}", "UPDATE", [(columns[0][0], fails)]))
    return MergeClauses(
        None,
        TargetClause(SourceSpan(label, _TARGET_AT), "t"),
        _span(view),
        "s",
        None,
        _span(equal),
        tuple(actions),
    )


def _stored_key_error(scope: StatementScope, definition: IncrementalDefinition) -> str:
    key = ", ".join(f"{quote_string(name)}, s.{quote_name(name)}" for name in definition.key)
    before = quote_string(f"the query of {scope.entry.full_name} has the key ")
    behind = quote_string(" for a new row and for one that did not change; nothing was written")
    return raising_expression(
        RepeatedKeysError,
        f"concat({before}, CAST(named_struct({key}) AS STRING), {behind})",
        hint="name a KEY that is unique in the result of the query, or ORDERING to keep one row of each key",
    )


def _action(matched: str, condition: str | None, verb: str, values: Sequence[tuple[str, str]]) -> MergeAction:
    assignments = tuple(Assignment((name,), _span(value), _OTHERS_AT) for name, value in values)
    return MergeAction(
        matched, None if condition is None else _span(condition), verb, assignments or None, _OTHERS_AT
    )


def _span(text: str) -> SourceSpan:
    return SourceSpan(text, _OTHERS_AT)
