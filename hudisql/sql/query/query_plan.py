"""Runs statements that read Hudi tables: queries, and INSERT, CREATE TABLE AS and CREATE VIEW from queries.

The user's text is bound (`relations`), Spark finds what it needs of each table (`catalyst`), scans of just
that are planned (`read.scan`) and replace the tables, and Spark runs the text. The temporary views are
dropped when a function returns; DataFrames work without them.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hudisql.config.config_key import HudiConfig
from hudisql.config.hudi_config import SECONDARY_SKIPPING
from hudisql.context import Context
from hudisql.errors import HudisqlError
from hudisql.format.schema.internal_columns import internal_column
from hudisql.format.schema.spark_schema import quote_name, spark_json_from_arrow
from hudisql.options.unserved_settings import refuse_unserved_queries
from hudisql.read.files.predicates import (
    In,
    Predicate,
    conjunction,
    restrict_predicate,
    split_conjuncts,
)
from hudisql.read.scan.arrow_scan import spark_struct
from hudisql.read.scan.data_skipping import skips_by_statistics
from hudisql.read.scan.partition_pruning import of_partitions
from hudisql.read.scan.record_skipping import ANY_GROUP
from hudisql.read.scan.scan_dataframe import scan_to_dataframe
from hudisql.read.scan.scan_plan import ScanPlan, ScanRequest
from hudisql.read.scan.table_scan import plan_scan
from hudisql.read.scan.table_state import TableState
from hudisql.spark.few_rows import local_frame
from hudisql.spark.jvm import analyzed_plan, class_name, items_of, session_state, spark_sql
from hudisql.sql.query.bound_text import BoundText, HudiRelation, ViewRelation
from hudisql.sql.query.catalyst import (
    PartitionCondition,
    ScanNeeds,
    find_scan_needs,
    plan_without_running,
    print_analyzed_plan,
    prune_schema,
    read_placeholder,
    rows_that_meet,
)
from hudisql.sql.query.char_columns import with_chars
from hudisql.sql.query.first_rows import limit_of, partitions_with_rows
from hudisql.sql.query.references import parse_plan
from hudisql.sql.query.relations import TableBinder
from hudisql.sql.query.small_tables import plan_whole_table
from hudisql.sql.query.table_functions import function_rows, function_schema
from hudisql.sql.query.views import active_session, in_session, query_text_of, shape_view, store_view
from hudisql.sql.text import statements as st
from hudisql.sql.text.spark_errors import SourceText, translated_spark_errors
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import possible_partitions
from hudisql.table.partitions.registered_partitions import registered_partitions, with_registered
from hudisql.write.index.file_pruning import prune_by_key_lookup

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class PlannedRelation:
    """One reference to a Hudi table with its scan; None if the query does not depend on its rows."""

    relation: HudiRelation
    table: HudiTable
    plan: ScanPlan | None


@dataclass(frozen=True)
class PreparedQuery:
    """A statement bound and planned: Spark runs `bound.text` over the scans and calls.

    `called` are the tables of calls of table functions that do not scan them, by the calls' view names.
    `unchecked_by` still has to search the analyzed plan for Hudi tables that are read without their scans.
    """

    bound: BoundText
    scans: tuple[PlannedRelation, ...]
    called: Mapping[str, HudiTable] = field(default_factory=dict)
    unchecked_by: TableBinder | None = None


def references_hudi(context: Context, text: str) -> bool:
    """True if the statement reads a Hudi table, itself or through a view. Raises SqlSyntaxError."""
    return bool(TableBinder(context).bind(st.Statement(text)).relations)


def prepare_query(
    context: Context,
    statement: st.Statement,
    source: SourceText | None = None,
    *,
    plan: Any = None,
    binder: TableBinder | None = None,
    count_all: bool = False,
    filters: Mapping[int, Predicate] | None = None,
    driver_bytes: int = 0,
    is_query: bool = False,
) -> PreparedQuery:
    """Bind the statement and plan a scan for each Hudi table that it reads; nothing is run.

    `source` places it in its script, for error messages; `plan` is its unresolved plan if it is parsed
    already, `binder` that of the whole statement; `count_all` also counts what the scans leave out, for
    EXPLAIN. `filters` restrict the needed rows of the tables named at their offsets. With `driver_bytes`
    small scans are read when the query is run, before its rows are requested. A query (`is_query`) over small
    tables reads them whole, without asking Spark here. Raises SqlSyntaxError, QueryError (Spark cannot
    analyze it), UnsupportedStatementError, UnsupportedTableError, SettingsError, SourceChangedError.
    """
    binder = binder or TableBinder(context)
    bound = binder.bind(statement, source, plan)
    if not bound.relations:
        with bound_errors(bound, source):
            analyzed = print_analyzed_plan(context.spark, bound.plan)
        binder.refuse_hidden_tables(analyzed)
        return PreparedQuery(bound, ())
    refuse_unserved_queries(lambda key: context.spark.conf.get(key, None))
    scanned = [hudi_relation for hudi_relation in bound.hudi_relations if hudi_relation.is_scan]
    states = {relation.view_name: binder.state_of(relation) for relation in scanned}
    if is_query and (whole := _plan_whole_tables(context, bound, states)) is not None:
        return PreparedQuery(bound, whole, unchecked_by=binder)
    partition_columns: dict[str, list[str]] = {relation.view_name: [] for relation in bound.hudi_relations}
    for name, state in states.items():
        partition_columns[name] = [column.name for column in state.table.partition_columns]
    with placeholders(context, binder, bound), bound_errors(bound, source):
        executions = plan_without_running(context.spark, parse_plan(context.spark, bound.text))
        needs = find_scan_needs(context.spark, executions, partition_columns)
    for execution in executions:
        binder.refuse_hidden_tables(str(execution.analyzed().toString()))
    by_name = {
        relation.view_name: filters[relation.at]
        for relation in bound.relations
        if filters and isinstance(relation, HudiRelation) and relation.at in filters
    }
    scans = tuple(
        _plan_relation(
            context,
            relation,
            states[relation.view_name],
            needs[relation.view_name],
            count_all,
            by_name.get(relation.view_name),
            driver_bytes,
            limit_of(executions) if len(bound.hudi_relations) == 1 else None,
        )
        for relation in scanned
    )
    called = {
        relation.view_name: binder.open(relation.entry)
        for relation in bound.hudi_relations
        if not relation.is_scan
    }
    return PreparedQuery(bound, scans, called)


def analyzed_query(
    context: Context, binder: TableBinder, bound: BoundText, source: SourceText | None = None
) -> DataFrame:
    """The query over empty tables, for its columns and analyzed plan: no scan is planned, nothing is read.

    Raises QueryError, UnsupportedStatementError for tables that it reads without naming them.
    """
    with placeholders(context, binder, bound), bound_errors(bound, source):
        frame = spark_sql(context.spark, bound.text)
        analyzed = analyzed_plan(frame)
    binder.refuse_hidden_tables(str(analyzed.toString()))
    return frame


def run_query(context: Context, text: str, source: SourceText | None = None) -> DataFrame:
    """Run a statement over Hudi and other tables; a query returns a lazily evaluated DataFrame.

    Also INSERT, CREATE TABLE AS and other commands that contain a query, which Spark runs at once: the caller
    checks whether their target may be changed. Raises QueryError.
    """
    return run_prepared(context, prepare_query(context, st.Statement(text), source), source)


def run_prepared(context: Context, prepared: PreparedQuery, source: SourceText | None = None) -> DataFrame:
    """`run_query` for a statement that is bound and planned already. Raises QueryError."""
    with planned_scans(context, prepared), bound_errors(prepared.bound, source):
        if prepared.bound.relations:
            statement = prepared.bound.plan
            if class_name(statement) == "CacheTableAsSelect":
                return _cache_query(context, statement, source)
        frame = spark_sql(context.spark, prepared.bound.text)
        if prepared.unchecked_by is not None:
            analyzed = analyzed_plan(frame)
            prepared.unchecked_by.refuse_hidden_tables(str(analyzed.toString()))
        return frame


def _cache_query(context: Context, statement: Any, source: SourceText | None) -> DataFrame:
    """CACHE TABLE name AS query: the cached view must outlive the temporary views of Hudi tables."""
    from pyspark.sql.types import StructType

    name = quote_name(str(statement.tempViewName()))
    run_query(context, query_text_of(statement), source).createOrReplaceTempView(name)
    context.spark.catalog.cacheTable(name)
    if not statement.isLazy():
        spark_sql(context.spark, f"TABLE {name}").count()
    return context.spark.createDataFrame([], StructType())


def create_view(context: Context, text: str, source: SourceText | None = None) -> None:
    """Run CREATE [TEMPORARY] VIEW or ALTER VIEW … AS; Spark stores the user's own text.

    A view over Hudi tables is analyzed over their schemas and not run.
    """
    binder = TableBinder(context)
    bound = binder.bind(st.Statement(text))
    if not bound.relations:
        with bound_errors(bound, source):
            spark_sql(context.spark, text)
        return
    statement = bound.plan
    query = binder.bind(st.Statement(query_text_of(statement)))
    if class_name(statement) == "CreateView":
        parts = [str(part) for part in items_of(statement.children().apply(0).nameParts())]
        binder.check_permanent_view(parts, query)
    with placeholders(context, binder, query), bound_errors(query):
        schema = spark_sql(context.spark, query.text).schema
    with bound_errors(bound, source):
        store_view(context.spark, statement, schema)


def _plan_whole_tables(
    context: Context, bound: BoundText, states: Mapping[str, TableState]
) -> tuple[PlannedRelation, ...] | None:
    """A scan of the whole table for each reference; None if one does not scan a small table."""
    planned = []
    for relation in bound.hudi_relations:
        state = states.get(relation.view_name)
        plan = None
        if state is not None:
            schema = relation.schema_of(state.table)
            plan = plan_whole_table(
                context.spark, state, schema, read_optimized=relation.entry.read_optimized
            )
        if state is None or plan is None:
            return None
        planned.append(PlannedRelation(relation, state.table, plan))
    return tuple(planned)


def _plan_relation(
    context: Context,
    relation: HudiRelation,
    state: TableState,
    needs: ScanNeeds,
    count_all: bool,
    keys: Predicate | None,
    driver_bytes: int,
    limit: int | None,
) -> PlannedRelation:
    """`keys` is a predicate of the needed rows, which is also checked against footers of files. With `limit`
    any so many rows are needed.
    """
    table = state.table
    if not needs.is_read:
        return PlannedRelation(relation, table, None)
    if keys is not None:
        needs = replace(needs, predicate=conjunction([*split_conjuncts(needs.predicate), keys]))
    configuration, settings = session_state(context.spark).conf(), HudiConfig(context.setting)
    partition_names = [column.name for column in table.partition_columns]
    predicates = [needs.predicate] if needs.predicate is not None else []
    partition_predicates = [
        predicate
        for predicate in (
            restrict_predicate(needs.predicate, partition_names),
            *(
                _decide_by_spark(context, table, partition_condition, state.as_of)
                for partition_condition in needs.partition_conditions
            ),
        )
        if predicate is not None
    ]
    request = ScanRequest(
        table,
        prune_schema(relation.schema_of(table), needs.fields),
        predicates,
        partition_predicates,
        as_of=state.as_of,
        changes=state.changes,
        read_optimized=relation.entry.read_optimized,
        parallelism=context.spark.sparkContext.defaultParallelism,
        max_split_bytes=configuration.filesMaxPartitionBytes(),
        open_cost_bytes=configuration.filesOpenCostInBytes(),
        count_all=count_all,
        looked_up=ANY_GROUP if keys is None else prune_by_key_lookup(context.spark, table, keys),
        driver_bytes=driver_bytes,
        skips_by_statistics=skips_by_statistics(settings),
        asks_secondary_indexes=settings.get(SECONDARY_SKIPPING),
    )
    plan = None if limit is None or request.all_predicates else _plan_first_rows(request, limit)
    return PlannedRelation(relation, table, plan_scan(request) if plan is None else plan)


def _plan_first_rows(request: ScanRequest, rows: int) -> ScanPlan | None:
    """The scan of some partitions with at least so many rows; None if the whole table has to be planned."""
    if request.state_instant is not None:
        return None
    partitions = partitions_with_rows(request.table, rows)
    if partitions is None:
        return None
    names = [column.name for column in request.table.partition_columns]
    chosen = of_partitions(names, [partition.values for partition in partitions])
    plan = plan_scan(replace(request, partition_predicates=[chosen]))
    # A value that is not equal to itself, as NaN, chooses nothing.
    return plan if plan.partitions_read == len(partitions) else None


def _decide_by_spark(
    context: Context, table: HudiTable, condition: PartitionCondition, as_of: str | None
) -> Predicate | None:
    """The partitions for which a filter that only Spark understands holds, as a predicate on their values.

    None if Spark cannot evaluate it beforehand; running the query then reports any error.
    """
    columns = table.partition_columns
    partitions = with_registered(table, possible_partitions(table), registered_partitions(table, as_of))
    kept = partitions_that_meet(context, columns, [partition.values for partition in partitions], condition)
    if kept is None:
        return None
    names = [column.name for column in columns]
    if not kept:
        # No partition at all: a condition that is always false.
        return In((names[0],), ())
    return of_partitions(names, [partitions[position].values for position in kept])


def partitions_that_meet(
    context: Context,
    columns: Sequence[pa.Field],
    partitions: Sequence[Sequence[object]],
    condition: PartitionCondition,
) -> list[int] | None:
    """The positions of the partitions (values of `columns`) for which the condition holds.

    None if Spark cannot evaluate it on their values.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    position = internal_column("position")
    values = pa.Table.from_arrays(
        [
            pa.array([partition[at] for partition in partitions], column.type)
            for at, column in enumerate(columns)
        ]
        + [pa.array(range(len(partitions)), pa.int64())],
        names=[*(column.name for column in columns), position],
    )
    try:
        frame = local_frame(context.spark, values, spark_struct(values.schema))
        return [row[0] for row in rows_that_meet(frame, condition).select(position).collect()]
    except (PySparkException, Py4JError):
        return None


@contextmanager
def placeholders(context: Context, binder: TableBinder, bound: BoundText) -> Iterator[None]:
    """Register the bound text's names as views over empty relations while the context is open."""

    def empty_relation(relation: HudiRelation) -> DataFrame:
        if relation.call is not None and not relation.is_scan:
            schema = function_schema(relation.call).json()
        else:
            table = binder.state_of(relation).table
            schema = spark_json_from_arrow(relation.schema_of(table))
            return with_chars(read_placeholder(context.spark, relation.view_name, schema, directory), table)
        return read_placeholder(context.spark, relation.view_name, schema, directory)

    with tempfile.TemporaryDirectory(prefix="hudisql-") as directory, ExitStack() as stack:
        _register(context.spark, bound, empty_relation, stack)
        yield


@contextmanager
def planned_scans(context: Context, prepared: PreparedQuery, *, runs_jobs: bool = True) -> Iterator[None]:
    """Register the bound text's names as views over the planned scans while the context is open.

    `runs_jobs` is that of `scan_to_dataframe`.
    """
    by_name = {scan.relation.view_name: scan for scan in prepared.scans}

    def scan_relation(relation: HudiRelation) -> DataFrame:
        if relation.call is not None and not relation.is_scan:
            return function_rows(relation.session, prepared.called[relation.view_name], relation.call)
        scan = by_name[relation.view_name]
        if scan.plan is not None:
            rows = scan_to_dataframe(context.spark, scan.plan, runs_jobs=runs_jobs)
            frame = with_chars(rows, scan.table)
            names = relation.schema_of(scan.table).names
            return frame if relation.shows_meta_columns else frame.select(*map(quote_name, names))
        from pyspark.sql.types import StructType

        schema = StructType.fromJson(json.loads(spark_json_from_arrow(relation.schema_of(scan.table))))
        return with_chars(context.spark.createDataFrame([], schema), scan.table)

    with ExitStack() as stack:
        _register(context.spark, prepared.bound, scan_relation, stack)
        yield


def _register(
    spark: SparkSession, bound: BoundText, frame_of: Callable[[HudiRelation], DataFrame], stack: ExitStack
) -> None:
    """Register a view in `spark` for each relation, innermost first; the stack drops them."""
    for relation in bound.relations:
        if isinstance(relation, ViewRelation):
            with active_session(relation.session, spark), bound_errors(relation.body):
                _register(relation.session, relation.body, frame_of, stack)
                frame = shape_view(spark_sql(relation.session, relation.body.text), relation.definition)
        else:
            frame = frame_of(relation)
        in_session(frame, spark).createOrReplaceTempView(relation.view_name)
        stack.callback(spark.catalog.dropTempView, relation.view_name)


@contextmanager
def bound_errors(bound: BoundText, source: SourceText | None = None) -> Iterator[None]:
    """Translate Spark's errors to hudisql's, with the user's names and positions."""
    at = source or SourceText(bound.original)
    source_text = at.rewritten(bound.original, bound.text, bound.original_offset)
    try:
        with translated_spark_errors(source_text):
            yield
    except HudisqlError as error:
        error.message = bound.restore_names(error.message)
        error.args = (error.message, *error.args[1:])
        raise
