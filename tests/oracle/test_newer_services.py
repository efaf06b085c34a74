"""Table services on tables of versions 8 and 9: hudisql and Apache Hudi 1.2, on its defaults, run them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hudisql.format.table_properties import MERGE_ON_READ
from hudisql.services.clean import schedule_clean
from hudisql.services.clean_plan import CleanOptions
from hudisql.write.transaction.concurrency import SINGLE_WRITER
from tests.oracle.client import HudiOracle, OracleError
from tests.oracle.newer_tables import NewerTable, new_table
from tests.oracle.shapes import SHAPES
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark]

SHAPE = SHAPES[0]
MERGE_ON_READ_SHAPE = next(each for each in SHAPES if each.table_type == MERGE_ON_READ)
AT_ONCE = {"hoodie.compact.inline.max.delta.commits": "1"}


@pytest.mark.parametrize("version", parameters([8, 9], in_ci=[8, 9]))
def test_either_runs_the_compactions_that_either_has_planned(
    oracle_120: HudiOracle, session: Any, tmp_path: Path, version: int
) -> None:
    made = new_table(
        oracle_120, session, tmp_path, MERGE_ON_READ_SHAPE, f"newer_compaction_{version}", version
    )
    made.theirs(0, 30, "second")
    made.call_theirs("run_compaction", "op => 'schedule'", AT_ONCE)
    (planned,) = made.pending()
    assert made.opened().properties.metadata_partitions
    if version == 9:
        made.ours("beside", range(5))
    made.check()
    made.call_ours("run_compaction", "op => 'run'")
    assert made.completed("commit")[-1].timestamp == planned.timestamp
    made.check()
    made.theirs(3, 8, "theirs")
    made.check()
    if version == 9:
        made.ours_deleted(3, 45)
    made.call_ours(
        "run_compaction", "op => 'schedule', options => 'hoodie.compact.inline.max.delta.commits=1'"
    )
    (planned,) = made.pending()
    made.theirs(7, 9, "beside theirs")
    made.check()
    made.call_theirs("run_compaction", "op => 'run'")
    assert made.completed("commit")[-1].timestamp == planned.timestamp
    made.check()
    made.theirs(20, 22, "inline", {"hoodie.compact.inline": "true", **AT_ONCE})
    made.check()


@pytest.mark.parametrize("shape", [SHAPE, MERGE_ON_READ_SHAPE], ids=lambda shape: shape.name)
def test_either_cleans_what_either_has_written(
    oracle_120: HudiOracle, session: Any, tmp_path: Path, shape: Any
) -> None:
    made = new_table(oracle_120, session, tmp_path, shape, f"newer_clean_{shape.name}")
    compacts = {"hoodie.compact.inline": "true", **AT_ONCE} if shape.table_type == MERGE_ON_READ else {}
    for number in range(3):
        made.theirs(0, 30, f"theirs {number}", compacts)
    made.ours("ours", range(5))
    before = _data_files(made)
    made.call_ours("run_clean", "retain_commits => 1")
    assert len(made.completed("clean")) == 1
    assert _data_files(made) < before
    made.check()
    made.ours("again", range(8))
    made.theirs(2, 10, "theirs", {"hoodie.clean.commits.retained": "1", **compacts})
    assert len(made.completed("clean")) == 2
    made.check()
    made.ours("ours", range(3, 6))
    made.theirs(0, 30, "last", compacts)
    assert schedule_clean(made.opened(), CleanOptions(commits_retained=1), SINGLE_WRITER) is not None
    made.theirs(30, 34, "cleans ours", {"hoodie.clean.commits.retained": "1", **compacts})
    assert not made.pending()
    made.check()


def _data_files(made: NewerTable) -> set[str]:
    return {
        each.name for each in Path(made.path).rglob("*") if each.is_file() and ".hoodie/" not in str(each)
    }


@pytest.mark.parametrize("shape", [SHAPE, MERGE_ON_READ_SHAPE], ids=lambda shape: shape.name)
def test_either_rolls_back_what_the_other_has_left_or_committed(
    oracle_120: HudiOracle, session: Any, tmp_path: Path, shape: Any
) -> None:
    made = new_table(oracle_120, session, tmp_path, shape, f"newer_rollback_{shape.name}")
    package, queries = (
        "org.apache.hudi.client.validator",
        "hoodie.precommit.validators.single.value.sql.queries",
    )
    fails = {
        "hoodie.precommit.validators": f"{package}.SqlQuerySingleResultPreCommitValidator",
        queries: "select count(*) from <TABLE_NAME>#-1",
    }
    expected = dict(made.notes)
    with pytest.raises(OracleError):
        made.theirs(0, 30, "failed", fails)
    made.notes = expected
    (failed,) = made.pending()
    made.check()
    made.ours("ours", range(5))
    assert failed.timestamp not in {each.timestamp for each in made.opened().timeline.instants}
    made.check()
    expected = dict(made.notes)
    made.theirs(0, 20, "rolled back")
    (latest,) = made.opened().timeline.commits[-1:]
    made.call_ours("rollback_to_instant", f"instant_time => '{latest.timestamp}'")
    made.notes = expected
    made.check()
    made.theirs(40, 50, "theirs")
    expected = dict(made.notes)
    made.ours("rolled back", range(30, 45))
    (latest,) = made.opened().timeline.commits[-1:]
    oracle_120.view("rolled", made.path)
    made.notes = expected
    made.call_ours("rollback_to_instant", f"instant_time => '{latest.timestamp}'")
    made.check()
    made.theirs(0, 4, "theirs")
    made.check()
