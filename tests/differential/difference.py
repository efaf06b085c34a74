"""What two outcomes of one script differ in, as sentences; none if they are the same.

Rows have no order, and a table's rows may be equal to each other. Types count by their kind, as between all
readers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.differential.engines import Outcome
from tests.differential.script import DifferentialScript
from tests.oracle.comparison import type_kind

COMMIT_TIME = "_hoodie_commit_time"


def find_differences(script: DifferentialScript, ours: Outcome, theirs: Outcome | None) -> list[str]:
    """How hudisql's outcome differs from the oracle's, or from the rows that the script itself gives."""
    found: list[str] = []
    for name, table in ours.rows.items():
        reference = theirs.rows[name] if theirs is not None else None
        if name in script.rows:
            found += _differences_from_script(script, name, table, reference)
        elif reference is None:
            found.append(f"{name}: there is no oracle, so the script must give its rows: {_literal(table)}")
        else:
            found += _table_differences(name, _chosen(script, table), _chosen(script, reference))
    for number, step in enumerate(script.steps):
        if step.fails in ("both", "hudisql") and step.said not in ours.refusals[number]:
            found.append(
                f"hudisql refuses '{step.text}' with '{ours.refusals[number]}', not with '{step.said}'"
            )
    return found


def _differences_from_script(
    script: DifferentialScript, name: str, ours: pa.Table, theirs: pa.Table | None
) -> list[str]:
    given = Counter(str(row) for row in script.rows[name])
    actual = Counter(str(row) for row in _json_rows(ours))
    if theirs is not None and Counter(str(row) for row in _json_rows(theirs)) == given:
        return [f"{name}: the oracle gives these rows too: take them out of the script"]
    if given == actual:
        return []
    return [f"{name}: the script says {script.rows[name]}, hudisql gives {_literal(ours)}"]


def _table_differences(name: str, ours: pa.Table, theirs: pa.Table) -> list[str]:
    if sorted(ours.column_names) != sorted(theirs.column_names):
        return [f"{name}: columns {ours.column_names}, the oracle has {theirs.column_names}"]
    theirs = theirs.select(ours.column_names)
    found = [
        f"{name}.{each.name}: {each.type}, the oracle has {theirs.schema.field(each.name).type}"
        for each in ours.schema
        if type_kind(each.type) != type_kind(theirs.schema.field(each.name).type)
    ]
    left, right = (
        Counter(repr(tuple(row.values())) for row in table.to_pylist()) for table in (ours, theirs)
    )
    if left != right:
        found.append(
            f"{name} {ours.column_names}:\n  only hudisql: {sorted((left - right).elements())}"
            f"\n  only the oracle: {sorted((right - left).elements())}"
        )
    return found


def _chosen(script: DifferentialScript, table: pa.Table) -> pa.Table:
    """The table without the meta columns that are not compared; `commit` is the rank of a row's commit."""
    kept = [name for name in table.column_names if not name.startswith("_hoodie_") or _is_data(name)]
    if COMMIT_TIME not in table.column_names:
        return table.select(kept)
    chosen = table.select([*(name for name in script.meta if name in table.column_names), *kept])
    if "commit" in script.meta:
        times = table[COMMIT_TIME].to_pylist()
        rank = {time: number for number, time in enumerate(sorted(set(times)))}
        chosen = chosen.append_column("commit", pa.array([rank[time] for time in times], pa.int64()))
    return chosen


def _is_data(name: str) -> bool:
    return name == "_hoodie_is_deleted"


def _json_rows(table: pa.Table) -> list[list[Any]]:
    kept = [name for name in table.column_names if not name.startswith("_hoodie_") or _is_data(name)]
    return [[_json_value(value) for value in row.values()] for row in table.select(kept).to_pylist()]


def _literal(table: pa.Table) -> str:
    import json

    return json.dumps(sorted(_json_rows(table), key=str))


def _json_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _json_value(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_json_value(item) for item in value]
    if isinstance(value, date | datetime | Decimal | bytes):
        return str(value)
    return value
