"""`hudisql run plan`: what `apply` would do with each model. Nothing is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hudisql.errors import HudisqlError
from hudisql.format.schema.spark_schema import quote_path
from hudisql.layers.model_state import ALTER, CREATE, ModelState, state_before
from hudisql.layers.project import Project
from hudisql.sql.incremental_tables.refresh import NOTHING, WHOLE
from hudisql.sql.text.script import ScriptStatement

if TYPE_CHECKING:
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
    reasons = [each for each in (said, facts.get("reason")) if each]
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
