"""Rewrites INSERT, UPDATE, DELETE and MERGE as the query whose rows are written.

Each statement becomes one SELECT over its target and source, composed of the user's own expressions. Its
rows have the operation (`write.changes.RowOperation`), the identity of the stored row, and the values of all
columns. This module only produces text; `dml_plan` casts the rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hudisql.errors import UnknownColumnError, UnsupportedStatementError, WriteRefusedError
from hudisql.format.schema import meta_columns
from hudisql.format.schema.internal_columns import internal_column, internal_prefix
from hudisql.format.schema.spark_schema import quote_name
from hudisql.read.files.conform import find_field
from hudisql.sql.text.clauses import (
    Assignment,
    DeleteClauses,
    InsertClauses,
    MergeAction,
    MergeClauses,
    SourceSpan,
    TargetClause,
    UpdateClauses,
)
from hudisql.sql.text.mapped_sql import MappedSql
from hudisql.write.changes import FILE_GROUP, OPERATION, PARTITION, RECORD_KEY, SEQUENCE_NUMBER, RowOperation

ACTION = internal_column("action")
SOURCE_ROW = internal_column("source_row")
_IS_SOURCE_ROW = quote_name(SOURCE_ROW)
OLD_VALUE = internal_prefix("old")
"""Prefix of the columns with the stored values of assigned key and partition columns."""


@dataclass(frozen=True)
class ChangeQuery:
    """The SELECT and the handling of its rows: `relocation_columns` are columns whose change moves a row."""

    text: MappedSql
    relocation_columns: tuple[str, ...] = ()


def delete_query(clauses: DeleteClauses, schema: pa.Schema) -> ChangeQuery:
    """`DELETE`: the stored rows for which the condition holds."""
    text = MappedSql().add("SELECT ", _operation(RowOperation.DELETE), ", ", _identity(""))
    text.add(*(f", NULL AS {quote_name(name)}" for name in schema.names))
    _from_target(text, clauses.target)
    if clauses.condition is not None:
        text.add(" WHERE ", clauses.condition)
    return ChangeQuery(text)


def deleted_rows_query(clauses: DeleteClauses) -> MappedSql:
    """The number of stored rows for which the condition of a DELETE holds."""
    text = MappedSql().add("SELECT count(*)")
    _from_target(text, clauses.target)
    return text if clauses.condition is None else text.add(" WHERE ", clauses.condition)


def update_query(
    clauses: UpdateClauses, schema: pa.Schema, relocated_columns: Sequence[str], table_label: str
) -> ChangeQuery:
    """`UPDATE`: the stored rows for which the condition holds, with the assigned values.

    A change of one of `relocated_columns` (record key, partition) moves the row. `table_label` names the
    table in errors. Raises WriteRefusedError for an unknown column or one that is assigned twice.
    """
    assigned = _by_column(clauses.assignments, schema, table_label)
    relocation_columns = tuple(name for name in relocated_columns if name in assigned)
    text = MappedSql().add("SELECT ", _operation(RowOperation.UPDATE), ", ", _identity(""))
    text.add(*(f", {quote_name(name)} AS {quote_name(OLD_VALUE + name)}" for name in relocation_columns))
    for field in schema:
        text.add(", ")
        _add_value(text, field, assigned.get(field.name, ()), quote_name(field.name))
        text.add(f" AS {quote_name(field.name)}")
    _from_target(text, clauses.target)
    if clauses.condition is not None:
        text.add(" WHERE ", clauses.condition)
    return ChangeQuery(text, relocation_columns)


def insert_query(clauses: InsertClauses) -> MappedSql:
    """`INSERT`: the query's own rows, with the preceding common table expressions."""
    text = MappedSql()
    if clauses.prefix is not None:
        text.add(clauses.prefix, " ")
    return text.add(clauses.query)


def source_query(clauses: MergeClauses) -> MappedSql:
    """The query for the columns of a MERGE's source."""
    text = MappedSql()
    if clauses.prefix is not None:
        text.add(clauses.prefix, " ")
    text.add("SELECT * FROM ")
    _add_source(text, clauses)
    return text


def source_alias(clauses: MergeClauses) -> str:
    """The name of the source in the statement. Raises UnsupportedStatementError if it has none."""
    if clauses.source_alias is not None:
        return clauses.source_alias
    text = clauses.source.text
    if text.startswith("(") or text.endswith(")"):
        raise UnsupportedStatementError(
            "the source of a MERGE has no name", hint="write USING (SELECT …) AS source ON …"
        )
    return text.rsplit(".", 1)[-1]


def merge_query(
    clauses: MergeClauses,
    schema: pa.Schema,
    source_columns: Sequence[str],
    relocated_columns: Sequence[str],
    ordering_fields: Sequence[str],
    table_label: str,
    *,
    stored_columns: Collection[str] | None = None,
    semi_join_alias: str | None = None,
) -> ChangeQuery:
    """`MERGE`: target and source joined, each pair (or single row) with the first matching action.

    If the statement may change the table's schema, `schema` is the new one and `stored_columns` those of the
    table; `*` then leaves out what the source lacks. With `semi_join_alias`, the target's name in the
    clauses, an outer join reads only the target rows that match, and must not keep others: for sources that
    can be sent to all tasks. Raises WriteRefusedError for unknown columns, UnsupportedStatementError for a
    source without a name.
    """
    kinds = {action.matched for action in clauses.actions}
    reduced_alias = semi_join_alias if "not_matched" in kinds else None
    target = reduced_alias or clauses.target.alias or clauses.target.name.text
    source = source_alias(clauses)
    actions = [
        _MergeValues(action, schema, source_columns, source, table_label, stored_columns)
        for action in clauses.actions
    ]
    relocation_columns = tuple(
        name
        for name in relocated_columns
        if any(action.action.verb == "UPDATE" and name in action.assigned for action in actions)
    )
    text = MappedSql()
    if clauses.prefix is not None:
        text.add(clauses.prefix, " ")
    # An inner join only needs the small source in all tasks, not the reduced target.
    hint = f"/*+ BROADCAST({source}) */ " if semi_join_alias and reduced_alias is None else ""
    text.add(f"SELECT {hint}")
    _add_action(text, actions, target, source)
    action = quote_name(ACTION)
    text.add(f" AS {action}, CAST(CASE {action}")
    text.add(*(f" WHEN {number} THEN {action.operation}" for number, action in enumerate(actions)))
    text.add(f" END AS TINYINT) AS {quote_name(OPERATION)}, ", _identity(target))
    text.add(
        *(f", {target}.{quote_name(name)} AS {quote_name(OLD_VALUE + name)}" for name in relocation_columns)
    )
    for field in schema:
        text.add(f", CASE {action}")
        for number, each in enumerate(actions):
            text.add(f" WHEN {number} THEN ")
            each.add_value(text, field, target, ordering_fields)
        text.add(f" END AS {quote_name(field.name)}")
    text.add(" FROM ")
    if reduced_alias is None:
        _add_target(text, clauses.target)
    else:
        # With names, since `*` may leave out the meta columns.
        stored = [*meta_columns.META_COLUMNS, *(stored_columns or schema.names)]
        text.add(f"(SELECT /*+ BROADCAST({source}) */ {', '.join(map(quote_name, stored))} FROM ")
        _add_target(text, clauses.target)
        text.add(" LEFT SEMI JOIN (SELECT * FROM ")
        _add_source(text, clauses)
        text.add(f") AS {source} ON ", clauses.condition, f") AS {reduced_alias}")
    text.add(f" {_join(kinds)} JOIN (SELECT *, true AS {_IS_SOURCE_ROW} FROM ")
    _add_source(text, clauses)
    text.add(f") AS {source}")
    text.add(" ON ", clauses.condition)
    return ChangeQuery(text, relocation_columns)


def matching_partitions_query(
    clauses: UpdateClauses | DeleteClauses | MergeClauses, columns: Sequence[str]
) -> MappedSql | None:
    """The partitions (`columns`) of the stored rows that a statement may change; None for all rows."""
    text = MappedSql()
    if isinstance(clauses, MergeClauses):
        if any(action.matched == "not_matched_by_source" for action in clauses.actions):
            return None
        if clauses.prefix is not None:
            text.add(clauses.prefix, " ")
    text.add(f"SELECT DISTINCT {', '.join(map(quote_name, columns))}")
    _from_target(text, clauses.target)
    if isinstance(clauses, MergeClauses):
        text.add(" LEFT SEMI JOIN (SELECT * FROM ")
        _add_source(text, clauses)
        return text.add(f") AS {source_alias(clauses)} ON ", clauses.condition)
    return None if clauses.condition is None else text.add(" WHERE ", clauses.condition)


class _MergeValues:
    """One action with its assignments by column."""

    def __init__(
        self,
        action: MergeAction,
        schema: pa.Schema,
        source_columns: Sequence[str],
        source: str,
        table_label: str,
        stored_columns: Collection[str] | None,
    ) -> None:
        self.action = action
        self._stored_columns = stored_columns
        self._source = source
        self._source_columns = source_columns
        if action.verb == "DELETE":
            self.assigned: Mapping[str, tuple[Assignment, ...]] = {}
        elif action.assignments is None:
            may_lack = stored_columns is not None
            self.assigned = _by_name(action, schema, source_columns, source, table_label, may_lack=may_lack)
        else:
            self.assigned = _by_column(action.assignments, schema, table_label)

    @property
    def operation(self) -> int:
        """The operation on the rows."""
        return int(RowOperation[self.action.verb])

    def add_value(
        self, text: MappedSql, field: pa.Field, target: str, ordering_fields: Sequence[str]
    ) -> None:
        """Add the SQL of the column's value under the action."""
        is_stored = self._stored_columns is None or field.name in self._stored_columns
        own = f"{target}.{quote_name(field.name)}" if is_stored else None
        if self.action.verb == "DELETE":
            # Of several source rows that delete one row and others that change it, the newest decides.
            is_ordering = field.name in ordering_fields
            from_source = _named(self._source_columns, field.name) if is_ordering else None
            is_matched = self.action.matched == "matched"
            text.add(f"{self._source}.{quote_name(from_source)}" if from_source and is_matched else "NULL")
        elif self.action.verb == "INSERT":
            _add_value(text, field, self.assigned.get(field.name, ()), None)
        else:
            _add_value(text, field, self.assigned.get(field.name, ()), own)


def _add_action(text: MappedSql, actions: Sequence[_MergeValues], target: str, source: str) -> None:
    """The number of the first action that matches a row, as SQL."""
    kinds = {action.action.matched for action in actions}
    is_target = f"{target}.{meta_columns.RECORD_KEY} IS NOT NULL"
    is_source = f"{source}.{_IS_SOURCE_ROW} IS NOT NULL"
    of_kind = {
        "matched": [is_target] * ("not_matched" in kinds) + [is_source] * ("not_matched_by_source" in kinds),
        "not_matched": [f"{target}.{meta_columns.RECORD_KEY} IS NULL"],
        "not_matched_by_source": [f"{source}.{_IS_SOURCE_ROW} IS NULL"],
    }
    text.add("CASE")
    for number, each in enumerate(actions):
        conditions = of_kind[each.action.matched]
        text.add(" WHEN ", " AND ".join(conditions) or "true")
        if each.action.condition is not None:
            text.add(" AND (", each.action.condition, ")")
        text.add(f" THEN {number}")
    text.add(" END")


def _join(kinds: set[str]) -> str:
    if "not_matched_by_source" in kinds:
        return "FULL OUTER" if "not_matched" in kinds else "LEFT OUTER"
    return "RIGHT OUTER" if "not_matched" in kinds else "INNER"


def _add_source(text: MappedSql, clauses: MergeClauses) -> None:
    text.add(clauses.source)
    if clauses.column_names is not None:
        text.add(f" AS {clauses.source_alias}", clauses.column_names)


def _operation(operation: RowOperation) -> str:
    return f"CAST({int(operation)} AS TINYINT) AS {quote_name(OPERATION)}"


def _identity(qualifier: str) -> str:
    """The identity of the stored row: partition path, file group, record key, commit sequence number."""
    prefix = f"{qualifier}." if qualifier else ""
    return (
        f"{prefix}{meta_columns.PARTITION_PATH} AS {quote_name(PARTITION)}, "
        f"substring_index({prefix}{meta_columns.FILE_NAME}, '_', 1) AS {quote_name(FILE_GROUP)}, "
        f"{prefix}{meta_columns.RECORD_KEY} AS {quote_name(RECORD_KEY)}, "
        f"coalesce({prefix}{meta_columns.COMMIT_SEQNO}, '') AS {quote_name(SEQUENCE_NUMBER)}"
    )


def _from_target(text: MappedSql, target: TargetClause) -> None:
    text.add(" FROM ")
    _add_target(text, target)


def _add_target(text: MappedSql, target: TargetClause) -> None:
    text.add(target.name)
    if target.alias is not None:
        text.add(f" AS {target.alias}")


def _by_column(
    assignments: Sequence[Assignment], schema: pa.Schema, table_label: str
) -> dict[str, tuple[Assignment, ...]]:
    """The assignments by the table's column (their paths in the table's case)."""
    found: dict[str, tuple[Assignment, ...]] = {}
    for assignment in assignments:
        path = _resolve(assignment.column, schema, table_label)
        others = found.get(path[0], ())
        if any(_overlap(path, other.column) for other in others):
            raise WriteRefusedError(f"{table_label}: column '{'.'.join(path)}' is assigned twice")
        found[path[0]] = (*others, Assignment(path, assignment.value, assignment.start))
    return found


def _overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def _resolve(path: tuple[str, ...], schema: pa.Schema, table_label: str) -> tuple[str, ...]:
    """The path in the table's case, without a leading qualifier."""
    position = find_field(schema, path[0])
    if position < 0 and len(path) > 1:
        return _resolve(path[1:], schema, table_label)
    if position < 0:
        raise UnknownColumnError(
            f"{table_label} has no column '{path[0]}'", hint=f"the columns are {', '.join(schema.names)}"
        )
    field = schema.field(position)
    resolved = [field.name]
    for step in path[1:]:
        position = find_field(field.type, step) if pa.types.is_struct(field.type) else -1
        if position < 0:
            raise WriteRefusedError(f"{table_label}: column '{'.'.join(resolved)}' has no field '{step}'")
        field = field.type.field(position)
        resolved.append(field.name)
    return tuple(resolved)


def _by_name(
    action: MergeAction,
    schema: pa.Schema,
    source_columns: Sequence[str],
    source: str,
    table_label: str,
    *,
    may_lack: bool,
) -> dict[str, tuple[Assignment, ...]]:
    """`*`: every column of the table gets the source's column of its name."""
    found: dict[str, tuple[Assignment, ...]] = {}
    for name in schema.names:
        from_source = _named(source_columns, name)
        if from_source is None and may_lack:
            continue
        if from_source is None:
            raise UnknownColumnError(
                f"{action.verb} * of {table_label}: the source has no column '{name}'",
                hint=f"name the columns one by one; the source has {', '.join(source_columns)}",
            )
        value = SourceSpan(f"{source}.{quote_name(from_source)}", action.start)
        found[name] = (Assignment((name,), value, action.start),)
    return found


def _named(columns: Sequence[str], name: str) -> str | None:
    """The source's column of that name."""
    if name in columns:
        return name
    folded = [column for column in columns if column.lower() == name.lower()]
    if len(folded) > 1:
        raise WriteRefusedError(
            f"the source has {len(folded)} columns for '{name}': {', '.join(folded)}",
            hint="the names of a Hudi table's columns differ by more than case: name the columns one by one",
        )
    return folded[0] if folded else None


def _add_value(
    text: MappedSql, field: pa.Field, assigned: Sequence[Assignment], own: str | None, depth: int = 1
) -> None:
    """Add the column's new value; fields of a struct (`own`) that are not assigned keep their values."""
    if not assigned:
        text.add("NULL" if own is None else own)
        return
    whole = [assignment for assignment in assigned if len(assignment.column) == depth]
    if whole:
        text.add("(", whole[0].value, ")")
        return
    text.add("struct(")
    for number, inner in enumerate(field.type):
        inside = [assignment for assignment in assigned if assignment.column[depth] == inner.name]
        text.add("" if number == 0 else ", ")
        inner_own = None if own is None else f"{own}.{quote_name(inner.name)}"
        _add_value(text, inner, inside, inner_own, depth + 1)
        # As an alias: the meaning of a text literal depends on the session.
        text.add(f" AS {quote_name(inner.name)}")
    text.add(")")
