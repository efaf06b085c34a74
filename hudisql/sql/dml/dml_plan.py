"""What INSERT, UPDATE, DELETE or MERGE would do to a Hudi table: read and analyzed, and nothing run.

text → clauses → one SELECT (`change_queries`) → changes with the table's types. `change_rows` commits the
plan, `explain_changes` shows it. Casts follow Spark's ANSI store assignment, and the statements mean what
standard SQL says where Hudi's own differ from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hudisql.catalog.metastore_table import READ_OPTIMIZED_SUFFIX, MetastoreTable, is_read_optimized
from hudisql.errors import UnsupportedStatementError
from hudisql.format.spark_schema import quote_name
from hudisql.read.arrow_scan import spark_struct
from hudisql.read.predicates import Predicate
from hudisql.sql.config.insert_options import evolves_schema
from hudisql.sql.config.table_settings import settings_of
from hudisql.sql.dml.cached_merge_source import cache_merge_source, leaves_other_targets, target_alias
from hudisql.sql.dml.dml_rewrite import (
    ACTION,
    OLD_VALUE,
    ChangeQuery,
    delete_query,
    insert_query,
    merge_query,
    source_alias,
    source_query,
    update_query,
)
from hudisql.sql.dml.insert_columns import qualify_insert_columns
from hudisql.sql.dml.insert_rows import RowsToInsert, rows_to_insert
from hudisql.sql.dml.runtime_filter import runtime_filter
from hudisql.sql.dml.schema_evolution import evolved_schema, evolved_table
from hudisql.sql.query import query_plan as query
from hudisql.sql.query.references import has_quoted_names
from hudisql.sql.query.relations import TableBinder
from hudisql.sql.schema.store_assignment import store_cast, with_types
from hudisql.sql.text import clauses as cl
from hudisql.sql.text import statements as st
from hudisql.sql.text.mapped_sql import MappedSql
from hudisql.sql.text.spark_errors import SourceText
from hudisql.table.hudi_table import HudiTable
from hudisql.write.changes import (
    LOCATION_COLUMNS,
    OPERATION,
    RECORD_KEY,
    Operation,
    change_schema,
)
from hudisql.write.setting_lookup import Lookup

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from hudisql.context import Context

Clauses = cl.InsertClauses | cl.UpdateClauses | cl.DeleteClauses | cl.MergeClauses


@dataclass(frozen=True)
class PlannedChange:
    """A statement's rows, which nobody has computed yet.

    `table` has the schema that the commit makes its; `rows` are changes, for INSERT the new rows. `prepared`
    is the query behind them, in whose text the table that is changed stands at `target_at` (not for INSERT),
    and `origin` places that text in the script; a change of one of `relocation_columns` moves a row.
    """

    table: HudiTable
    clauses: Clauses
    rows: DataFrame | RowsToInsert
    prepared: query.PreparedQuery
    origin: SourceText
    relocation_columns: tuple[str, ...] = ()
    target_at: int | None = None

    @property
    def frame(self) -> DataFrame:
        """The rows as Spark computes them."""
        return self.rows.rows if isinstance(self.rows, RowsToInsert) else self.rows


def check_changeable(entry: MetastoreTable, verb: str) -> None:
    """Raise UnsupportedStatementError if the entry shows only a part of its table; `verb` was asked for."""
    if is_read_optimized(entry):
        raise UnsupportedStatementError(
            f"{verb} is not possible on {entry.full_name}, which shows base files only",
            hint=f"name the table itself: {entry.database}.{entry.name.removesuffix(READ_OPTIMIZED_SUFFIX)}",
        )


def plan_change(
    context: Context,
    entry: MetastoreTable,
    table: HudiTable,
    statement: st.ChangeStatement,
    source: SourceText,
    *,
    count_all: bool = False,
    held: ExitStack | None = None,
) -> PlannedChange:
    """Read and analyze the statement on `table`; `count_all` also counts what scans leave out, for EXPLAIN.

    With `held` the source of a MERGE is computed first, and is there until that is closed. Raises
    SqlSyntaxError, QueryError, WriteRefusedError, UnsupportedStatementError, UnsupportedTableError.
    """
    settings = settings_of(context, table, entry.parameters)
    planner = _Planner(context, table, entry.full_name, settings, source, count_all, held)
    quoted_names = has_quoted_names(context.spark, statement.text)
    where: Any = {"line": source.line, "column": source.column, "quoted_names": quoted_names}
    if isinstance(statement, st.DeleteStatement):
        return planner.delete(cl.read_delete(statement.text, **where))
    if isinstance(statement, st.UpdateStatement):
        return planner.update(cl.read_update(statement.text, **where))
    if isinstance(statement, st.MergeStatement):
        return planner.merge(cl.read_merge(statement.text, **where))
    if isinstance(statement, st.InsertStatement):
        return planner.insert(cl.read_insert(statement.text, **where))
    raise UnsupportedStatementError(f"{statement.verb} is not supported on the Hudi table {entry.full_name}")


@dataclass(frozen=True)
class _MergeSource:
    """A MERGE's source: the clauses that name it, its columns, and what it says of the target's rows.

    `semi_join_alias` and `predicate` are there for small held sources: see `merge_query` and
    `runtime_filter`.
    """

    clauses: cl.MergeClauses
    schema: StructType
    semi_join_alias: str | None = None
    predicate: Predicate | None = None


@dataclass(frozen=True)
class _Planner:
    """Plans one statement; `table_label` names the table in errors, `settings` are those of writes to it."""

    context: Context
    table: HudiTable
    table_label: str
    settings: Lookup
    source: SourceText
    count_all: bool
    held: ExitStack | None
    moving: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        properties = self.table.properties
        fields = [*properties.record_key_fields, *properties.partition_fields]
        in_case = {name.lower(): name for name in self.table.schema.names}
        found = [in_case.get(name.split(".")[0].lower()) for name in fields]
        object.__setattr__(self, "moving", tuple(dict.fromkeys(name for name in found if name)))

    def insert(self, clauses: cl.InsertClauses) -> PlannedChange:
        text = insert_query(clauses)
        prepared, frame = self._run(text)
        table = self.table
        if clauses.by_name and evolves_schema(self.settings):
            table = evolved_table(self.settings, table, frame.schema, self.table_label)
        rows = rows_to_insert(
            self.context, table, clauses, frame, self.table_label, self.settings, self.source
        )
        return PlannedChange(table, clauses, rows, prepared, text.source(self.source))

    def delete(self, clauses: cl.DeleteClauses) -> PlannedChange:
        return self._change(clauses, delete_query(clauses, self.table.schema), self.table)

    def update(self, clauses: cl.UpdateClauses) -> PlannedChange:
        made = update_query(clauses, self.table.schema, self.moving, self.table_label)
        return self._change(clauses, made, self.table)

    def merge(self, clauses: cl.MergeClauses) -> PlannedChange:
        given = self._merge_source(clauses)
        source, columns = given.schema, given.schema.fieldNames()
        qualified = qualify_insert_columns(self.context.spark, given.clauses, columns, source_alias(clauses))
        table, stored = self.table, None
        if clauses.has_star and (clauses.evolves or evolves_schema(self.settings)):
            table = table.with_schema(evolved_schema(table, source, self.table_label, into_structs=False))
            stored = self.table.schema.names
        ordering = table.properties.precombine_field
        made = merge_query(
            qualified,
            table.schema,
            columns,
            self.moving,
            ordering,
            self.table_label,
            stored_columns=stored,
            semi_join_alias=given.semi_join_alias,
        )
        return self._change(clauses, made, table, given.predicate)

    def _merge_source(self, clauses: cl.MergeClauses) -> _MergeSource:
        if self.held is None or not leaves_other_targets(clauses):
            return _MergeSource(clauses, _schema_of(self.context, source_query(clauses), self.source))
        text = source_query(clauses)
        prepared, frame = self._run(text)
        with query.bound_errors(prepared.bound, text.source(self.source)):
            rows = cache_merge_source(frame, self.held)
        alias = source_alias(clauses)
        view = cl.SourceSpan(rows.view_name, clauses.source.start)
        taken = replace(clauses, source=view, source_alias=alias, column_names=None)
        semi_join_alias = target_alias(clauses, self.source.text) if rows.is_small else None
        if semi_join_alias is None or "${" in self.source.text:
            return _MergeSource(taken, frame.schema, semi_join_alias)
        condition = clauses.condition.text
        predicate = runtime_filter(rows.rows, alias, semi_join_alias, self.table.schema, condition)
        return _MergeSource(taken, frame.schema, semi_join_alias, predicate)

    def _change(
        self,
        clauses: cl.UpdateClauses | cl.DeleteClauses | cl.MergeClauses,
        made: ChangeQuery,
        table: HudiTable,
        predicate: Predicate | None = None,
    ) -> PlannedChange:
        """`predicate` is what must hold for the rows of the target that are needed."""
        target_at = made.text.composed_offset(clauses.target.name.start)
        filters = {target_at: predicate} if predicate is not None and target_at is not None else {}
        prepared, frame = self._run(made.text, filters)
        if ACTION in frame.columns:
            frame = frame.filter(f"{ACTION} IS NOT NULL").drop(ACTION)
        moved = _with_moves(self.context, frame, made, table)
        rows = with_types(self.context, moved, change_schema(table.schema), self.table_label)
        origin = made.text.source(self.source)
        return PlannedChange(table, clauses, rows, prepared, origin, made.relocation_columns, target_at)

    def _run(
        self, text: MappedSql, filters: Mapping[int, Predicate] | None = None
    ) -> tuple[query.PreparedQuery, DataFrame]:
        source = text.source(self.source)
        prepared = query.prepare_query(
            self.context, text.text, source, count_all=self.count_all, filters=filters
        )
        return prepared, query.run_prepared(self.context, prepared, source)


def _schema_of(context: Context, text: MappedSql, source: SourceText) -> StructType:
    """The columns of a query, which is analyzed and not run."""
    binder = TableBinder(context)
    bound = binder.bind(text.text, text.source(source))
    with (
        query.placeholders(context, binder, bound),
        query.bound_errors(bound, text.source(source)),
    ):
        return context.spark.sql(bound.text).schema


def _with_moves(context: Context, frame: DataFrame, made: ChangeQuery, table: HudiTable) -> DataFrame:
    """Rows whose key or partition changes become two: the stored one goes, the new one is inserted."""
    from pyspark.sql import functions as sf

    if not made.relocation_columns:
        return frame
    types = {field.name: field.dataType for field in spark_struct(table.schema)}
    moves = sf.lit(False)
    for name in made.relocation_columns:
        given = frame.schema[name].dataType
        new = store_cast(context, sf.col(quote_name(name)), given, types[name], name)
        moves = moves | ~new.eqNullSafe(sf.col(quote_name(OLD_VALUE + name)))
    moves = moves & (sf.col(OPERATION) == int(Operation.UPDATE))
    both = sf.array(*[sf.lit(int(each)).cast("tinyint") for each in (Operation.MOVE_OUT, Operation.MOVE_IN)])
    operations = sf.when(moves, both).otherwise(sf.array(sf.col(OPERATION)))
    rest = [
        quote_name(name) for name in frame.columns if name != OPERATION and not name.startswith(OLD_VALUE)
    ]
    exploded = frame.select(sf.explode(operations).alias(OPERATION), *rest)
    is_new = sf.col(OPERATION) == int(Operation.MOVE_IN)
    # A generated key stays with its row; others are made of the new values.
    keeps_key = table.properties.generates_record_keys
    for name in LOCATION_COLUMNS:
        if name == RECORD_KEY and keeps_key:
            continue
        exploded = exploded.withColumn(name, sf.when(~is_new, sf.col(name)))
    return exploded
