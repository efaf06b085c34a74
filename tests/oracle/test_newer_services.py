"""Table services on tables of versions 8 and 9: hudisql and Apache Hudi 1.2, on its defaults, run them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from hudisql.format.table_properties import MERGE_ON_READ
from hudisql.services.clean.clean_action import schedule_clean
from hudisql.services.clean.clean_plan import CleanOptions
from hudisql.services.planned_run import begin_run
from hudisql.services.rollback.rollback_action import roll_back_commit
from hudisql.table.hudi_table import open_table
from hudisql.table.timeline.archived_timeline import commits_in_archive
from hudisql.write.transaction.concurrency import SINGLE_WRITER
from tests.fault_injection import run_and_kill
from tests.oracle.client import HudiOracle, OracleError
from tests.oracle.newer_tables import NewerTable, new_table
from tests.oracle.shapes import SHAPES, Shape
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark]

SHAPE = SHAPES[0]
MERGE_ON_READ_SHAPE = next(each for each in SHAPES if each.table_type == MERGE_ON_READ)
BOTH_SHAPES = pytest.mark.parametrize(
    "shape", parameters([SHAPE, MERGE_ON_READ_SHAPE], in_ci=[]), ids=lambda shape: shape.name
)
AT_ONCE = {"hoodie.compact.inline.max.delta.commits": "1"}
SINGLE_GROUPS = {"hoodie.clustering.plan.strategy.single.group.clustering.enabled": "true"}
COMPACTS = {"hoodie.compact.inline": "true", **AT_ONCE}


@pytest.mark.soak
def test_hudi_12_goes_on_with_a_table_after_each_service(
    oracle_120: HudiOracle, session: Any, tmp_path: Path
) -> None:
    made = new_table(oracle_120, session, tmp_path, MERGE_ON_READ_SHAPE, "newer_services")
    made.ours("ours", range(5))
    made.call_ours("run_compaction", f"op => 'scheduleandexecute', options => '{_text(AT_ONCE)}'")
    made.theirs(3, 8, "theirs")
    made.call_ours("create_savepoint")
    saved = dict(made.notes)
    made.call_ours("run_clustering", f"options => '{_text(SINGLE_GROUPS)}'")
    made.check()
    made.ours("again", range(8))
    made.call_ours("rollback_to_savepoint")
    made.notes = dict(saved)
    made.check()
    made.theirs(0, 4, "theirs")
    saved = dict(made.notes)
    made.ours_deleted(45)
    latest = made.opened().timeline.commits[-1].timestamp
    made.call_ours("rollback_to_instant", f"instant_time => '{latest}'")
    made.notes = saved
    made.call_ours("delete_savepoint")
    made.call_ours("run_clean", "retain_commits => 1")
    made.call_ours("run_compaction", f"op => 'scheduleandexecute', options => '{_text(AT_ONCE)}'")
    assert made.completed("clean")
    made.check()
    made.theirs(8, 9, "last")
    made.check()


@pytest.mark.parametrize("version", parameters([8, 9], in_ci=[]))
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
    made.ours("beside", range(5))
    made.check()
    made.call_ours("run_compaction", "op => 'run'")
    assert made.completed("commit")[-1].timestamp == planned.timestamp
    made.check()
    made.theirs(3, 8, "theirs")
    made.check()
    made.ours_deleted(3, 45)
    made.call_ours(
        "run_compaction", "op => 'schedule', options => 'hoodie.compact.inline.max.delta.commits=1'"
    )
    (planned,) = made.pending()
    made.check()
    # As a run that was killed leaves it. A write of 1.2 to a merge-on-read table runs what is pending.
    begin_run(made.opened(), planned, SINGLE_WRITER)[1].stop()
    made.theirs(7, 9, "beside theirs")
    assert made.completed("commit")[-1].timestamp == planned.timestamp
    made.check()
    made.theirs(20, 22, "inline", COMPACTS)
    made.check()


@pytest.mark.soak
@pytest.mark.parametrize(
    "shape",
    parameters([SHAPE, MERGE_ON_READ_SHAPE], in_ci=[SHAPE.name]),
    ids=lambda shape: shape.name,
)
def test_either_cleans_what_either_has_written(
    oracle_120: HudiOracle, session: Any, tmp_path: Path, shape: Shape
) -> None:
    made = new_table(oracle_120, session, tmp_path, shape, f"newer_clean_{shape.name}")
    compacts = COMPACTS if shape.table_type == MERGE_ON_READ else {}
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
    session.sql("SET hoodie.clean.commits.retained = 1")
    made.ours("ours", range(3, 6))
    session.sql("RESET hoodie.clean.commits.retained")
    if not compacts:
        assert len(made.completed("clean")) == 3
    made.theirs(0, 30, "last", compacts)
    assert schedule_clean(made.opened(), CleanOptions(commits_retained=1), SINGLE_WRITER) is not None
    made.theirs(30, 34, "cleans ours", {"hoodie.clean.commits.retained": "1", **compacts})
    assert not made.pending()
    made.check()


def _data_files(made: NewerTable) -> set[str]:
    return {
        each.name for each in Path(made.path).rglob("*") if each.is_file() and ".hoodie/" not in str(each)
    }


@BOTH_SHAPES
def test_either_rolls_back_what_the_other_has_left_or_committed(
    oracle_120: HudiOracle, session: Any, tmp_path: Path, shape: Shape
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
    last = made.opened().timeline.commits[-1].timestamp
    # Killed when the commit is no longer complete, but its files are there.
    assert run_and_kill(
        made.path,
        lambda store: roll_back_commit(open_table(store, made.path), last),
        0,
        counted="delete_files",
    )
    assert last not in {each.timestamp for each in made.opened().timeline.commits}
    (rollback,) = [each for each in made.pending() if each.action == "rollback"]
    made.notes = expected
    made.check()
    made.theirs(0, 4, "theirs")
    assert rollback in [each.in_state(rollback.state) for each in made.completed("rollback")]
    assert not made.pending()
    made.check()


@pytest.mark.parametrize(
    ("shape", "restorer"),
    parameters(product((SHAPE, MERGE_ON_READ_SHAPE), ("hudisql", "hudi")), in_ci=[]),
    ids=lambda value: getattr(value, "name", value),
)
def test_a_savepoint_of_one_is_restored_by_the_other(
    oracle_120: HudiOracle, session: Any, tmp_path: Path, shape: Shape, restorer: str
) -> None:
    made = new_table(oracle_120, session, tmp_path, shape, f"newer_restore_{shape.name}_{restorer}")
    made.ours("ours", range(5))
    saver = "hudi" if restorer == "hudisql" else "hudisql"
    made.call_by(saver, "create_savepoint")
    made.check()
    saved = dict(made.notes)
    made.theirs(3, 30, "theirs", COMPACTS if shape.table_type == MERGE_ON_READ else None)
    made.ours("again", range(8))
    made.ours_deleted(40, 41)
    if shape.table_type == MERGE_ON_READ and restorer == "hudisql":
        # Hudi 1.2 rolls the compaction back before the commit beside it, and fails.
        made.call_theirs("run_compaction", "op => 'schedule'", AT_ONCE)
        made.theirs(8, 12, "beside")
    made.call_by(restorer, "rollback_to_savepoint")
    made.notes = dict(saved)
    assert not made.pending()
    assert made.completed("restore")
    assert not made.completed("rollback")
    made.check()
    made.theirs(0, 4, "theirs")
    made.ours("ours", range(3, 6))
    made.check()
    made.call_by(saver, "rollback_to_savepoint")
    made.notes = dict(saved)
    made.check()
    made.call_by(restorer, "delete_savepoint")
    assert not made.completed("savepoint")
    made.theirs(0, 4, "theirs")
    made.ours("ours", range(3, 6))
    made.check()


@BOTH_SHAPES
def test_both_archive_into_one_history(
    oracle_120: HudiOracle, session: Any, tmp_path: Path, shape: Shape
) -> None:
    made = new_table(oracle_120, session, tmp_path, shape, f"newer_archive_{shape.name}")
    at_most = {"hoodie.clean.commits.retained": "1", "hoodie.keep.min.commits": "2"}
    theirs = {**at_most, "hoodie.keep.max.commits": "3", "hoodie.metadata.enable": "false"}
    written = []
    for number in range(6):
        made.ours(f"ours {number}", range(number, number + 4))
        made.theirs(20, 24 + number, f"theirs {number}", {"hoodie.archive.automatic": "false"})
        written += [each.timestamp for each in made.opened().timeline.commits[-2:]]
    if shape.table_type == MERGE_ON_READ:
        made.call_ours("run_compaction", f"op => 'scheduleandexecute', options => '{_text(AT_ONCE)}'")
    made.call_ours("run_clean", "retain_commits => 1")
    made.call_ours("archive_commits", "min_commits => 2, max_commits => 3, retain_commits => 1")
    kept = [each.timestamp for each in made.opened().timeline.commits]
    assert len(kept) < 6
    assert commits_in_archive(made.opened()) >= set(written) - set(kept)
    made.check()
    call = f"call show_archived_commits(table => '{made.name}', start_ts => '0', end_ts => '3', limit => 50)"
    shown = {row["commit_time"] for row in oracle_120.sql(call).to_pylist()}
    assert shown == commits_in_archive(made.opened())
    for start in (0, 4, 8):
        made.theirs(start, start + 4, "archived by 1.2", theirs)
    by_theirs = commits_in_archive(made.opened())
    assert by_theirs > shown
    made.check()
    for start in (2, 5, 8):
        made.ours("last", range(start, start + 3))
    made.call_ours("run_clean", "retain_commits => 1")
    made.call_ours("archive_commits", "min_commits => 2, max_commits => 3, retain_commits => 1")
    assert commits_in_archive(made.opened()) > by_theirs
    made.check()
    made.theirs(0, 2, "last")
    made.check()


@BOTH_SHAPES
def test_either_runs_the_clusterings_that_either_has_planned(
    oracle_120: HudiOracle, session: Any, tmp_path: Path, shape: Shape
) -> None:
    made = new_table(oracle_120, session, tmp_path, shape, f"newer_clustering_{shape.name}")
    made.ours("ours", range(5))
    made.call_ours("run_clustering", f"op => 'schedule', order => 'seq', options => '{_text(SINGLE_GROUPS)}'")
    (planned,) = made.pending()
    assert planned.action == "clustering"
    made.check()
    made.call_theirs("run_clustering", "op => 'execute'")
    assert made.completed("replacecommit")[-1].timestamp == planned.timestamp
    made.check()
    made.theirs(60, 70, "theirs")
    made.call_theirs("run_clustering", "op => 'schedule', order => 'note'", SINGLE_GROUPS)
    (planned,) = made.pending()
    made.call_ours("run_clustering", "op => 'execute'")
    assert made.completed("replacecommit")[-1].timestamp == planned.timestamp
    made.check()
    made.theirs(0, 4, "theirs")
    made.ours("ours", range(3, 6))
    made.check()
    made.call_ours("run_clustering", f"options => '{_text(SINGLE_GROUPS)}'")
    made.check()
    (latest,) = made.opened().timeline.commits[-1:]
    made.call_ours("rollback_to_instant", f"instant_time => '{latest.timestamp}'")
    made.check()
    made.theirs(0, 4, "last")
    made.check()


def _text(options: Mapping[str, str]) -> str:
    return ",".join(f"{key}={text}" for key, text in options.items())
