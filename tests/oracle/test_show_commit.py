"""The procedures that show a commit give what those of Hudi 0.15 give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.oracle.client import HudiOracle
from tests.oracle.shapes import SHAPES, bootstrap_shape

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

SHAPE = next(shape for shape in SHAPES if shape.table_type == "MERGE_ON_READ")
PROCEDURES = (
    "show_commit_files",
    "show_commit_partitions",
    "show_commit_write_stats",
    "show_commit_extra_metadata",
)


@pytest.mark.soak
def test_commits_are_shown_as_hudi_shows_them(session: Any, oracle_015: HudiOracle, tmp_path: Path) -> None:
    bootstrap_shape(session, SHAPE, tmp_path)
    name = f"oracle.{SHAPE.name}"
    session.sql(f"UPDATE {name} SET note = 'updated' WHERE seq % 5 = 0")
    session.sql(f"INSERT OVERWRITE {name} SELECT * FROM {name} WHERE seq % 3 = 1")
    commits = [row["commit_time"] for row in session.sql(f"CALL show_commits(table => '{name}')").rows]
    assert len(commits) == 3
    calls = [
        f"{each}(table => '{name}', instant_time => '{time}')" for each in PROCEDURES for time in commits
    ]
    calls.append(f"show_commits_metadata(table => '{name}', limit => 100)")
    for call in calls:
        ours = [tuple(row) for row in session.sql(f"CALL {call}").rows]
        theirs = [tuple(row.values()) for row in oracle_015.sql(f"CALL {call}").to_pylist()]
        assert sorted(map(_comparable, ours)) == sorted(map(_comparable, theirs)), call


def _comparable(row: tuple[Any, ...]) -> list[str]:
    return [str(value) for value in row]
