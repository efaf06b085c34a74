"""The plan of an INSERT, UPDATE, DELETE, MERGE or DataFrame write on a Hudi table.

text → clauses → one SELECT (`dml_rewrite`) → changes with the table's types. `dml_execution` runs the plan,
`explain` shows it. Casts follow Spark's ANSI store assignment; the statements follow standard SQL where
Hudi's own differ from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa

from hudisql.config.hudi_config import DRIVER_MAX_BYTES
from hudisql.errors import UnsupportedStatementError
from hudisql.format.schema.internal_columns import refuse_internal_names
from hudisql.format.schema.spark_schema import quote_name
from hudisql.options.insert_options import evolves_schema, insert_dup_policy, merges_inserts
from hudisql.options.unserved_settings import refuse_unserved_inserts
from hudisql.read.files.predicates import Predicate, conjunction, split_conjuncts
from hudisql.read.scan.arrow_scan import spark_struct
from hudisql.read.scan.partition_pruning import of_partitions
from hudisql.spark.few_rows import local_frame
from hudisql.spark.jvm import spark_sql
from hudisql.sql.dml.cached_merge_source import (
    VIEW_PREFIX,
    CachedMergeSource,
    cache_merge_source,
    leaves_other_targets,
    target_alias,
)
from hudisql.sql.dml.dml_rewrite import (
    ACTION,
    OLD_VALUE,
    SOURCE_ROW,
    ChangeQuery,
    delete_query,
    deleted_rows_query,
    insert_query,
    matching_partitions_query,
    merge_query,
    source_alias,
    source_query,
    update_query,
)
from hudisql.sql.dml.insert_columns import qualify_insert_columns
from hudisql.sql.dml.insert_rows import RowsToInsert, rows_to_insert
from hudisql.sql.dml.inserted_keys import equalities_that_miss_nulls, inserts_rows
from hudisql.sql.dml.runtime_filter import runtime_filter
from hudisql.sql.dml.schema_evolution import evolved_schema, evolved_table
from hudisql.sql.dml.statement_scope import StatementScope
from hudisql.sql.dml.whole_partitions import FileGroupsToDrop, groups_to_drop, may_drop_partitions
from hudisql.sql.query import query_plan as query
from hudisql.sql.query.references import has_quoted_names
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
    RowOperation,
    change_schema,
)
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.keygen.key_generator import generates_paths
from hudisql.write.keygen.partition_paths import PartitionPaths

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from hudisql.context import Context

_CACHED_SOURCE: Final = re.compile(rf"{VIEW_PREFIX}[0-9a-f]+")
CACHED_SOURCE_LABEL: Final = "cached_source"
"""Replaces in a plan's text the name of the cached source of a MERGE, whose view has another name each time.
"""

Clauses = cl.InsertClauses | cl.UpdateClauses | cl.DeleteClauses | cl.MergeClauses


@dataclass(frozen=True)
class RowChanges:
    """Changes of stored rows (columns of `change_schema`), and Hudi's operation type of their commit.

    Rows of the driver are an Arrow table. With `unique_new_keys` new rows must differ in record key or
    partition, with `looks_up_new_keys` also from the stored rows that stay: all new rows, or those that are
    NULL in one of the columns `looked_up_if_null`.
    """

    rows: DataFrame | pa.Table
    operation_type: Literal["UPSERT", "DELETE"]
    unique_new_keys: bool = False
    looks_up_new_keys: bool = False
    looked_up_if_null: tuple[str, ...] = ()


@dataclass(frozen=True)
class KeysToDelete:
    """Rows of the table's columns whose record keys are deleted."""

    rows: DataFrame


@dataclass(frozen=True)
class MatchingPartitions:
    """The query for the partitions whose rows a statement may change, with the table at `target_at`.

    `predicate` holds for all rows of the table that are needed; `origin` maps offsets of the text to the
    script.
    """

    text: str
    origin: SourceText
    target_at: int
    predicate: Predicate | None


@dataclass(frozen=True)
class PlannedQuery:
    """The query behind a statement's rows.

    `prepared` is the query that Spark runs, in whose text the changed table is at `target_at` (not for
    INSERT); `origin` maps offsets of that text to the script. A change of one of `relocation_columns` moves a
    row to another partition or file group. `matching` is None if the statement may change all rows.
    """

    clauses: Clauses
    prepared: query.PreparedQuery
    origin: SourceText
    relocation_columns: tuple[str, ...] = ()
    target_at: int | None = None
    matching: MatchingPartitions | None = None

    @property
    def target_scan(self) -> query.PlannedRelation | None:
        """The scan of the changed table that finds the rows."""
        planned_relations = (scan for scan in self.prepared.scans if scan.relation.at == self.target_at)
        return None if self.target_at is None else next(planned_relations, None)

    @property
    def text(self) -> str:
        """The query's text with the user's names."""
        return _CACHED_SOURCE.sub(CACHED_SOURCE_LABEL, self.prepared.bound.original)


@dataclass(frozen=True)
class DmlPlan:
    """The plan of an INSERT, UPDATE, DELETE, MERGE or DataFrame write: EXPLAIN shows it, `execute` runs it.

    `table` has the schema after the commit, `options` say how files are written. `query` is None for a
    DataFrame. The scope's resources must be open while the plan is used.
    """

    scope: StatementScope
    table: HudiTable
    options: WriteOptions
    write: RowsToInsert | RowChanges | KeysToDelete | FileGroupsToDrop
    query: PlannedQuery | None = None

    @property
    def frame(self) -> DataFrame:
        """The rows as Spark computes them."""
        rows = self.write.rows
        if isinstance(rows, pa.Table):
            return local_frame(self.scope.context.spark, rows, spark_struct(rows.schema))
        return rows


def plan_dml(
    scope: StatementScope, statement: st.ChangeStatement, source: SourceText, *, count_all: bool = False
) -> DmlPlan:
    """Read and analyze the statement; `count_all` also counts what scans leave out, for EXPLAIN.

    The source of a MERGE is computed and cached: the query that is planned depends on its size and values.
    Small file slices are read; nothing else is run. Raises SqlSyntaxError, QueryError, WriteRefusedError,
    SettingsError, UnsupportedStatementError, UnsupportedTableError.
    """
    planner = _Planner(scope, source, count_all)
    quoted_names = has_quoted_names(scope.context.spark, statement.text)
    where: Any = {"line": source.line, "column": source.column, "quoted_names": quoted_names}
    if isinstance(statement, st.DeleteStatement):
        return planner.delete(cl.read_delete(statement, **where))
    if isinstance(statement, st.UpdateStatement):
        return planner.update(cl.read_update(statement, **where))
    if isinstance(statement, st.MergeStatement):
        return planner.merge(cl.read_merge(statement, **where))
    if isinstance(statement, st.InsertStatement):
        return planner.insert(cl.read_insert(statement, **where))
    raise UnsupportedStatementError(
        f"{statement.verb} is not supported on the Hudi table {scope.table_label}"
    )


def plan_merge(scope: StatementScope, clauses: cl.MergeClauses, source: SourceText) -> DmlPlan:
    """`plan_dml` of a MERGE by its clauses. Raises what `plan_dml` raises."""
    return _Planner(scope, source, count_all=False).merge(clauses)


def touched_register_only(plan: DmlPlan) -> list[str]:
    """The register-only partitions (paths) with rows that the statement changes; runs a query to find them.

    Raises QueryError.
    """
    planned, scope = plan.query, plan.scope
    scan = None if planned is None else planned.target_scan
    if planned is None or scan is None or scan.plan is None:
        return []
    candidates = {each.partition_path: values for each, values in scan.plan.slices if each.is_register_only}
    matching = planned.matching
    if not candidates or matching is None:
        return sorted(candidates)
    names = [partition_column.name for partition_column in scan.plan.partition_columns]
    chosen = of_partitions(names, [[values[name] for name in names] for values in candidates.values()])
    predicate = conjunction([*split_conjuncts(matching.predicate), chosen])
    assert predicate is not None
    prepared = query.prepare_query(
        scope.context,
        st.Statement(matching.text),
        matching.origin,
        binder=scope.binder,
        filters={matching.target_at: predicate},
    )
    with query.bound_errors(prepared.bound, matching.origin):
        rows = query.run_prepared(scope.context, prepared, matching.origin).collect()
    paths = PartitionPaths(scan.table)
    return sorted({paths.path(tuple(row)) for row in rows} & candidates.keys())


def plan_insert(
    scope: StatementScope,
    table: HudiTable,
    options: WriteOptions,
    write: RowsToInsert,
    query: PlannedQuery | None = None,
) -> DmlPlan:
    """The plan of new rows. Raises SettingsError for a treatment of stored keys that cannot be followed."""
    if write.overwrite is None:
        refuse_unserved_inserts(scope.settings, write.operation)
        policy = insert_dup_policy(scope.settings, table, write.operation, is_sql=query is not None)
        write = replace(write, dup_policy=policy)
        merges = merges_inserts(scope.settings, table, write.operation)
        options = replace(options, merges_inserts=merges)
    return DmlPlan(scope, table, options, write, query)


@dataclass(frozen=True)
class _MergeSource:
    """A MERGE's source: the clauses that name it, its columns, and its conditions on the target's rows.

    `semi_join_alias` and `predicate` are set for small cached sources: see `merge_query` and
    `runtime_filter`.
    """

    clauses: cl.MergeClauses
    schema: StructType
    cached: CachedMergeSource | None = None
    semi_join_alias: str | None = None
    predicate: Predicate | None = None


@dataclass(frozen=True)
class _Planner:
    """Plans one statement on the scope's table."""

    scope: StatementScope
    source: SourceText
    count_all: bool

    @cached_property
    def relocation_columns(self) -> tuple[str, ...]:
        """The columns of the record key and the partition."""
        table = self.scope.table
        fields = [*table.properties.record_key_fields, *table.properties.partition_fields]
        in_case = {name.lower(): name for name in table.schema.names}
        found = [in_case.get(name.split(".")[0].lower()) for name in fields]
        return tuple(dict.fromkeys(name for name in found if name))

    def insert(self, clauses: cl.InsertClauses) -> DmlPlan:
        scope, text = self.scope, insert_query(clauses)
        prepared, frame = self._analyze(text)
        table = scope.table
        if clauses.by_name and evolves_schema(scope.settings):
            table = evolved_table(scope.settings, table, frame.schema, scope.table_label)
        options = scope.write_options(table)
        rows = rows_to_insert(
            scope.context, table, clauses, frame, scope.table_label, scope.settings, options, self.source
        )
        planned = PlannedQuery(clauses, prepared, text.source(self.source))
        return plan_insert(scope, table, options, rows, planned)

    def delete(self, clauses: cl.DeleteClauses) -> DmlPlan:
        dropping = self._drop(clauses)
        if dropping is not None:
            return dropping
        return self._change(clauses, delete_query(clauses, self.scope.table.schema), self.scope.table)

    def _drop(self, clauses: cl.DeleteClauses) -> DmlPlan | None:
        """The plan of a DELETE of whole partitions; None for others."""
        scope, text = self.scope, deleted_rows_query(clauses)
        if not may_drop_partitions(clauses, scope.table):
            return None
        options = scope.write_options(scope.table)
        if options.index.has_rings:
            # A dropped file group of a ring takes no rows any more.
            return None
        prepared, counted = self._analyze(text)
        target_at = text.composed_offset(clauses.target.name.start)
        planned = PlannedQuery(clauses, prepared, text.source(self.source), target_at=target_at)
        if planned.target_scan is None:
            return None
        groups = groups_to_drop(
            scope.context, planned.target_scan, counted, has_condition=clauses.condition is not None
        )
        if groups is None:
            return None
        write = FileGroupsToDrop(counted, groups)
        return DmlPlan(scope, scope.table, options, write, planned)

    def update(self, clauses: cl.UpdateClauses) -> DmlPlan:
        table = self.scope.table
        change_query = update_query(clauses, table.schema, self.relocation_columns, self.scope.table_label)
        return self._change(clauses, change_query, table)

    def merge(self, clauses: cl.MergeClauses) -> DmlPlan:
        scope, source = self.scope, self._merge_source(clauses)
        columns = source.schema.fieldNames()
        refuse_internal_names(columns, "the source of the MERGE", (ACTION, SOURCE_ROW))
        qualified = qualify_insert_columns(
            scope.context.spark, source.clauses, columns, source_alias(clauses)
        )
        table, stored = scope.table, None
        if clauses.has_star and (clauses.evolves or evolves_schema(scope.settings)):
            schema = evolved_schema(table, source.schema, scope.table_label, into_structs=False)
            table, stored = table.with_schema(schema), table.schema.names
        change_query = merge_query(
            qualified,
            table.schema,
            columns,
            self.relocation_columns,
            table.ordering_fields,
            scope.table_label,
            stored_columns=stored,
            semi_join_alias=source.semi_join_alias,
        )
        plan = self._change(clauses, change_query, table, source.predicate, source.clauses)
        assert isinstance(plan.write, RowChanges)
        return replace(plan, write=self._with_look_up(qualified, source, plan, plan.write))

    def _with_look_up(
        self, clauses: cl.MergeClauses, source: _MergeSource, plan: DmlPlan, changes: RowChanges
    ) -> RowChanges:
        """The changes with the new rows that must be looked up: a stored row may have their record key."""
        table = plan.table
        if not inserts_rows(clauses) or table.properties.generates_record_keys:
            return changes
        is_unique_in_table = plan.options.index.is_global or generates_paths(table)
        missing = equalities_that_miss_nulls(
            clauses,
            table.schema,
            source.schema,
            source_alias(clauses),
            table.properties.record_key_fields,
            () if is_unique_in_table else table.properties.partition_fields,
        )
        if missing is None:
            return replace(changes, looks_up_new_keys=True)
        cached = source.cached
        if not missing or (
            cached is not None
            and not cached.has_null([column_equality.source.name for column_equality in missing])
        ):
            return changes
        names = tuple(column_equality.target.name for column_equality in missing)
        return replace(changes, looks_up_new_keys=True, looked_up_if_null=names)

    def _merge_source(self, clauses: cl.MergeClauses) -> _MergeSource:
        scope, text = self.scope, source_query(clauses)
        if not leaves_other_targets(clauses):
            return _MergeSource(clauses, self._schema_of(text))
        prepared, frame = self._analyze(text)
        with query.bound_errors(prepared.bound, text.source(self.source)):
            cached = cache_merge_source(frame, scope.resources)
        alias = source_alias(clauses)
        view = cl.SourceSpan(cached.view_name, clauses.source.start)
        taken = replace(clauses, source=view, source_alias=alias, column_names=None)
        semi_join_alias = target_alias(clauses, self.source.text) if cached.is_small else None
        if semi_join_alias is None or "${" in self.source.text:
            return _MergeSource(taken, frame.schema, cached, semi_join_alias)
        condition = clauses.condition.text
        predicate = runtime_filter(
            cached.rows, alias, semi_join_alias, scope.table.schema, condition, few=cached.few
        )
        return _MergeSource(taken, frame.schema, cached, semi_join_alias, predicate)

    def _change(
        self,
        clauses: cl.UpdateClauses | cl.DeleteClauses | cl.MergeClauses,
        made: ChangeQuery,
        table: HudiTable,
        predicate: Predicate | None = None,
        named: cl.MergeClauses | None = None,
    ) -> DmlPlan:
        """`predicate` holds for all rows of the target that are needed, `named` are the clauses of a MERGE
        with its cached source.
        """
        scope = self.scope
        target_at = made.text.composed_offset(clauses.target.name.start)
        filters = {target_at: predicate} if predicate is not None and target_at is not None else {}
        prepared, frame = self._analyze(made.text, filters)
        if ACTION in frame.columns:
            frame = frame.filter(f"{quote_name(ACTION)} IS NOT NULL").drop(ACTION)
        moved = _with_moves(scope.context, frame, made, table)
        is_merge, is_delete = isinstance(clauses, cl.MergeClauses), isinstance(clauses, cl.DeleteClauses)
        lengths = {} if is_delete else table.properties.column_lengths
        schema = change_schema(table.schema)
        rows = with_types(scope.context, moved, schema, scope.table_label, lengths=lengths)
        changes = RowChanges(rows, "DELETE" if is_delete else "UPSERT", unique_new_keys=is_merge)
        origin = made.text.source(self.source)
        matching = self._matching(named or clauses, predicate)
        planned = PlannedQuery(clauses, prepared, origin, made.relocation_columns, target_at, matching)
        return DmlPlan(scope, table, scope.write_options(table), changes, planned)

    def _matching(
        self, clauses: cl.UpdateClauses | cl.DeleteClauses | cl.MergeClauses, predicate: Predicate | None
    ) -> MatchingPartitions | None:
        text = matching_partitions_query(clauses, self.scope.table.properties.partition_fields)
        at = None if text is None else text.composed_offset(clauses.target.name.start)
        if text is None or at is None:
            return None
        return MatchingPartitions(text.text, text.source(self.source), at, predicate)

    def _analyze(
        self, text: MappedSql, filters: Mapping[int, Predicate] | None = None
    ) -> tuple[query.PreparedQuery, DataFrame]:
        """The query over planned scans, and its rows, which are not computed yet."""
        context, source = self.scope.context, text.source(self.source)
        prepared = query.prepare_query(
            context,
            st.Statement(text.text),
            source,
            binder=self.scope.binder,
            count_all=self.count_all,
            filters=filters,
            driver_bytes=self.scope.settings.get(DRIVER_MAX_BYTES),
        )
        return prepared, query.run_prepared(context, prepared, source)

    def _schema_of(self, text: MappedSql) -> StructType:
        """The columns of a query, which is analyzed and not run."""
        context, source = self.scope.context, text.source(self.source)
        bound = self.scope.binder.bind(st.Statement(text.text), source)
        with query.placeholders(context, self.scope.binder, bound), query.bound_errors(bound, source):
            return spark_sql(context.spark, bound.text).schema


def _with_moves(context: Context, frame: DataFrame, made: ChangeQuery, table: HudiTable) -> DataFrame:
    """Split rows whose key or partition changes: the stored one is deleted, the new one inserted."""
    from pyspark.sql import functions as sf

    if not made.relocation_columns:
        return frame
    types = {field.name: field.dataType for field in spark_struct(table.schema)}
    moves = sf.lit(False)
    for name in made.relocation_columns:
        data_type = frame.schema[name].dataType
        new = store_cast(context, sf.col(quote_name(name)), data_type, types[name], name)
        moves = moves | ~new.eqNullSafe(sf.col(quote_name(OLD_VALUE + name)))
    moves = moves & (sf.col(OPERATION) == int(RowOperation.UPDATE))
    both = sf.array(
        *[sf.lit(int(each)).cast("tinyint") for each in (RowOperation.MOVE_OUT, RowOperation.MOVE_IN)]
    )
    operations = sf.when(moves, both).otherwise(sf.array(sf.col(OPERATION)))
    rest = [
        quote_name(name) for name in frame.columns if name != OPERATION and not name.startswith(OLD_VALUE)
    ]
    exploded = frame.select(sf.explode(operations).alias(OPERATION), *rest)
    is_new = sf.col(OPERATION) == int(RowOperation.MOVE_IN)
    # A generated key stays with its row; others are derived from the new values.
    keeps_key = table.properties.generates_record_keys
    for name in LOCATION_COLUMNS:
        if name == RECORD_KEY and keeps_key:
            continue
        exploded = exploded.withColumn(name, sf.when(~is_new, sf.col(name)))
    return exploded
