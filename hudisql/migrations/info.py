"""The rows of `migrate info`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hudisql.migrations.script_plan import MigrationPlan
from hudisql.migrations.scripts import identity_of

INFO_COLUMNS: Final = (
    ("version", "string"),
    ("description", "string"),
    ("type", "string"),
    ("state", "string"),
    ("statements", "int"),
    ("done", "int"),
    ("installed_on", "string"),
    ("installed_by", "string"),
    ("commits", "int"),
)


def info_rows(plan: MigrationPlan) -> Iterator[tuple[object, ...]]:
    """A row for each script, and for each applied one that is missing, in their order."""
    run = plan.open_run
    for status in plan.statuses:
        script, row = status.script, status.row
        statements = None if script is None else len(script.statements)
        done = 0 if row is None else row.statements
        if script is not None and run is not None and (run["type"], run["label"]) == identity_of(script):
            done = sum(statement["state"] == "done" for statement in run["statements"])
        yield (
            str(script.version) if script and script.version else (row.version if row else None),
            script.description if script is not None else (row.description if row else None),
            script.kind.value if script is not None else (row.type if row else None),
            status.state.value,
            statements,
            done,
            None if row is None else f"{row.installed_on:%Y-%m-%d %H:%M:%S}",
            None if row is None else row.installed_by,
            None if row is None else len(row.instants),
        )
