"""How the table of a model differs from its file, and what `apply` would do with it. Nothing is written.

`plan_project` is `hudisql run plan`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.errors import HudisqlError, InvalidArgumentError, NoSuchTableError, QueryError
from hudisql.format.schema.spark_schema import quote_path
from hudisql.layers.model_files import Model
from hudisql.layers.project import Project
from hudisql.sql.incremental_tables.definition import definition_of
from hudisql.sql.incremental_tables.definition_change import DefinitionChange, definition_change
from hudisql.sql.incremental_tables.refresh import NOTHING, WHOLE
from hudisql.sql.text.script import ScriptStatement
from hudisql.sql.text.spark_errors import SourceText

if TYPE_CHECKING:
    from hudisql.context import Context
    from hudisql.session import Session

BLOCKED: Final = "blocked"
PLAN_COLUMNS: Final = (
    ("model", "string"),
    ("action", "string"),
    ("way", "string"),
    ("reason", "string"),
    ("rows_to_write", "bigint"),
    ("rows_to_delete", "bigint"),
)
CREATE = "create"
ALTER = "alter"
REFRESH = "refresh"


@dataclass(frozen=True)
class ModelPlan:
    """The plan of a model: `action` is create, alter, refresh, nothing or blocked.

    `way` is how its rows are found (EXPLAIN REFRESH); it and the rows are None if they depend on the refresh
    of a dependency.
    """

    model: str
    action: str
    way: str | None = None
    reason: str | None = None
    rows_to_write: int | None = None
    rows_to_delete: int | None = None

    @property
    def changes_rows(self) -> bool:
        """False if the table's rows stay the same."""
        return self.action != NOTHING and self.way != NOTHING

    @property
    def row(self) -> tuple[object, ...]:
        """The values of PLAN_COLUMNS."""
        return tuple(getattr(self, name) for name, _ in PLAN_COLUMNS)


def plan_project(session: Session, project: Project, chosen: Sequence[str]) -> list[ModelPlan]:
    """The plan of each chosen model, in their order; one whose query is wrong is blocked."""
    plans: dict[str, ModelPlan] = {}
    for name in chosen:
        parents = project.lineage.parents(name)
        changing = [plan for plan in plans if plan in parents and plans[plan].changes_rows]
        try:
            state = state_before(session.context, project.models[name], follows_changes=bool(changing))
            plans[name] = _plan_of(session, name, state, changing)
        except HudisqlError as error:
            plans[name] = ModelPlan(name, BLOCKED, reason=error.message)
    return list(plans.values())


def blocked_models(session: Session, project: Project, chosen: Sequence[str]) -> list[ModelPlan]:
    """The chosen models whose tables cannot become what the files say; query errors appear in the run."""
    states = {
        name: state_before(session.context, project.models[name], follows_changes=True) for name in chosen
    }
    return [_blocked(name, state) for name, state in states.items() if state.refused]


def _plan_of(session: Session, name: str, state: ModelState, changing: Sequence[str]) -> ModelPlan:
    if state.refused:
        return _blocked(name, state)
    if state.action == CREATE:
        return ModelPlan(name, CREATE, reason="there is no such table")
    said = _said_of(state)
    if state.alters_query:
        return ModelPlan(name, ALTER, WHOLE, said)
    if changing:
        reasons = [*([said] if said else []), f"follows {', '.join(changing)}"]
        return ModelPlan(name, state.action, reason="; ".join(reasons))
    with session.isolated() as isolated:
        rows = isolated.execute(ScriptStatement(f"EXPLAIN REFRESH INCREMENTAL TABLE {quote_path(name)}")).rows
    facts = {row["fact"]: row["value"] for row in rows}
    if facts["way"] == NOTHING:
        return ModelPlan(name, ALTER, NOTHING, said) if said else ModelPlan(name, NOTHING)
    counts = [int(facts.get(f"rows to {verb}", "0").replace(",", "")) for verb in ("write", "delete")]
    reasons = [reason for reason in (said, facts.get("reason")) if reason]
    return ModelPlan(name, state.action, facts["way"], "; ".join(reasons) or None, *counts)


def _blocked(name: str, state: ModelState) -> ModelPlan:
    hint = f"DROP TABLE {name} PURGE; the next run creates it again"
    return ModelPlan(name, BLOCKED, reason=f"{state.refused}: {hint}")


def _said_of(state: ModelState) -> str:
    """A description of the alteration; empty for a refresh."""
    change = state.change
    said = []
    if state.alters_query:
        added = () if change is None else change.added
        more = f", with the new columns {', '.join(name for name, _ in added)}" if added else ""
        said.append(f"the query has changed{more}")
    if change is not None and change.properties:
        said.append(f"properties changed: {', '.join(change.properties)}")
    return "; ".join(said)


@dataclass(frozen=True)
class ModelState:
    """`action` is create, alter or refresh; `change` is that of an alter, None if it is not known yet.

    `refused` says why the table cannot become what its file says; empty if it can.
    """

    action: str
    entry: MetastoreTable | None = None
    change: DefinitionChange | None = None
    refused: str = ""

    @property
    def alters_query(self) -> bool:
        """True if the query differs from the table's: then the whole query is run."""
        return self.action == ALTER and (self.change is None or self.change.query)


def state_of(context: Context, model: Model) -> ModelState:
    """Compare a model with its table.

    Raises QueryError and others if its changed query cannot be analyzed, CorruptTableError, MetastoreError.
    """
    entry = context.metastore.get_table(*model.name.split("."))
    if entry is None:
        return ModelState(CREATE)
    stored = definition_of(entry)
    if stored is None:
        return ModelState(CREATE, entry, refused="the table exists, but no query defines it")
    source = SourceText(model.statement.text, model.statement.line, model.statement.column)
    change = definition_change(context, model.definition, entry, stored, source)
    action = ALTER if change.query or change.properties else REFRESH
    return ModelState(action, entry, change, change.refused)


def state_before(context: Context, model: Model, *, follows_changes: bool) -> ModelState:
    """`state_of` before anything runs; a query that cannot be analyzed yet counts as changed.

    That is the case if a dependency is going to change (`follows_changes`).
    """
    try:
        return state_of(context, model)
    except (QueryError, NoSuchTableError, InvalidArgumentError):
        if not follows_changes:
            raise
        return ModelState(ALTER)
