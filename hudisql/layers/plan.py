"""`hudisql run plan`: what `apply` would do with each model. Nothing is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hudisql.format.spark_schema import quote_path
from hudisql.layers.model_state import ALTER, CREATE, REFRESH, ModelState, state_before
from hudisql.layers.project import Project
from hudisql.sql.text.script import ScriptStatement

if TYPE_CHECKING:
    from hudisql.session import Session

BLOCKED: Final = "blocked"
NOTHING: Final = "nothing"
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
    """What is done with a model: `action` is create, alter, refresh, nothing or blocked.

    `way` is how its rows are found (EXPLAIN REFRESH); it and the rows are None where they depend on what is
    done below.
    """

    model: str
    action: str
    way: str | None = None
    reason: str | None = None
    rows_to_write: int | None = None
    rows_to_delete: int | None = None

    @property
    def row(self) -> tuple[object, ...]:
        """As PLAN_COLUMNS name it."""
        return tuple(getattr(self, name) for name, _ in PLAN_COLUMNS)


def plan_project(session: Session, project: Project, chosen: Sequence[str]) -> list[ModelPlan]:
    """The plan of each chosen model, in their order. Raises QueryError and what EXPLAIN REFRESH raises."""
    plans: dict[str, ModelPlan] = {}
    for name in chosen:
        parents = project.lineage.parents(name)
        changing = [each for each in plans if each in parents and plans[each].action != NOTHING]
        state = state_before(session.context, project.models[name], follows_changes=bool(changing))
        plans[name] = _plan_of(session, name, state, changing)
    return list(plans.values())


def blocked_models(session: Session, project: Project, chosen: Sequence[str]) -> list[ModelPlan]:
    """The chosen models whose tables cannot become what the files say. Raises QueryError and others."""
    changing: set[str] = set()
    found = []
    for name in chosen:
        follows = bool(changing & project.lineage.parents(name))
        state = state_before(session.context, project.models[name], follows_changes=follows)
        if state.action != REFRESH:
            changing.add(name)
        if state.refused:
            found.append(_blocked(name, state))
    return found


def _plan_of(session: Session, name: str, state: ModelState, changing: Sequence[str]) -> ModelPlan:
    if state.refused:
        return _blocked(name, state)
    if state.action == CREATE:
        return ModelPlan(name, CREATE, reason="there is no such table")
    if state.action == ALTER:
        return ModelPlan(name, ALTER, "whole", _said_of(state))
    if changing:
        return ModelPlan(name, REFRESH, reason=f"follows {', '.join(changing)}")
    with session.isolated() as isolated:
        rows = isolated.execute(ScriptStatement(f"EXPLAIN REFRESH INCREMENTAL TABLE {quote_path(name)}")).rows
    facts = {row["fact"]: row["value"] for row in rows}
    if facts["way"] == "nothing":
        return ModelPlan(name, NOTHING)
    counts = [int(facts.get(f"rows to {verb}", "0").replace(",", "")) for verb in ("write", "delete")]
    return ModelPlan(name, REFRESH, facts["way"], facts.get("reason"), *counts)


def _blocked(name: str, state: ModelState) -> ModelPlan:
    hint = f"DROP TABLE {name} PURGE, and it is made again"
    return ModelPlan(name, BLOCKED, reason=f"{state.refused}: {hint}")


def _said_of(state: ModelState) -> str:
    added = () if state.change is None else state.change.added
    more = f", with the new columns {', '.join(name for name, _ in added)}" if added else ""
    return f"the query has changed{more}"
