"""Upgrades and downgrades without Spark: rows stay, a run that is killed at any step is completed."""

from __future__ import annotations

import os
import shutil
import signal
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from hudisql.errors import (
    NoSuchStateError,
    RegisterOnlyError,
    RollbackRefusedError,
    UnsupportedTableError,
    WriteConflictError,
)
from hudisql.format.table_properties import REGISTER_ONLY, TIMELINE_DIRECTORY, WRITE_VERSION
from hudisql.format.timeline.commit_metadata import read_commit_metadata
from hudisql.services.rollback.rollback_action import roll_back_commit
from hudisql.services.rollback.savepoint import create_savepoint, delete_savepoint
from hudisql.services.version.version_change import plan_version_change, run_version_change
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.history.past_state import check_past_state
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.table.partitions.registered_partitions import RegisteredPartition, write_registered_partitions
from hudisql.table.properties.table_configuration import update_table_properties
from hudisql.table.timeline.completion_times import completion_times
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.transaction.commit import begin_commit
from tests.fault_injection import FaultyStorage
from tests.services.copied_tables import STORAGE, Copy, again
from tests.services.copied_tables import rows_of as rows_with_files_of
from tests.soak import parameters

OPTIONS = WriteOptions()


def rows_of(table: HudiTable) -> pa.Table:
    """The rows, wherever they lie: compactions move them."""
    return rows_with_files_of(table).drop_columns(["_hoodie_file_name"])


def _change(table: HudiTable, version: int) -> HudiTable:
    run_version_change(plan_version_change(table, version), OPTIONS, lambda: None)
    return again(table)


def _instants(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir() if each.name[0].isdigit())


@pytest.mark.parametrize(
    "name",
    [
        "cow_insert_overwrite",
        "cow_savepoint_clean",
        "cow_bootstrap_then_upsert_delete",
        "cow_bootstrap_mixed",
        "mor_upsert_only_updates",
    ],
)
def test_rows_and_commits_stay_when_the_version_changes(copy: Copy, name: str) -> None:
    table = copy(name)
    before = rows_of(table)
    times = [each.timestamp for each in table.timeline.instants]
    upgraded = _change(table, 9)
    assert upgraded.version == 9
    assert rows_of(upgraded).equals(before)
    assert _instants(Path(table.base_path, ".hoodie")) == []
    assert [each.timestamp for each in upgraded.timeline.instants][: len(times)] == times
    times = [each.timestamp for each in upgraded.timeline.instants]
    assert all(each.timestamp <= each.completion_time for each in upgraded.timeline.commits)
    commit = begin_commit(upgraded, "UPSERT")
    assert commit.instant_time > upgraded.timeline.commits[-1].completion_time
    downgraded = _change(again(table), 6)
    assert downgraded.version == 6
    assert rows_of(downgraded).equals(before)
    assert commit.instant_time not in {each.timestamp for each in downgraded.timeline.commits}
    known = set(times)
    assert {each.timestamp for each in downgraded.timeline.commits} <= known
    for each in downgraded.timeline.commits:
        (new,) = [commit for commit in upgraded.timeline.commits if commit.timestamp == each.timestamp]
        assert completion_times(downgraded, [each])[each] == new.completion_time


@pytest.mark.parametrize(
    "name", ["v9_mor_avro_logs_deletes", "v9_mor_commit_time", "v8_cow_bootstrap_upsert"]
)
def test_tables_of_hudi_12_are_downgraded_with_their_rows(copy: Copy, name: str) -> None:
    table = copy(name)
    before = rows_of(table)
    downgraded = _change(table, 6)
    assert downgraded.version == 6
    assert rows_of(downgraded).equals(before)
    assert _instants(Path(table.base_path, ".hoodie/timeline")) == []
    upgraded = _change(downgraded, 9)
    assert upgraded.properties.record_merge_mode == table.properties.record_merge_mode
    assert rows_of(upgraded).equals(before)


def test_what_commits_say_stays(copy: Copy) -> None:
    table = copy("cow_insert_overwrite")
    before = [read_commit_metadata(STORAGE, table.instant_path(each)) for each in table.timeline.commits]
    upgraded = _change(table, 9)
    after = [read_commit_metadata(STORAGE, upgraded.instant_path(each)) for each in upgraded.timeline.commits]
    assert after == before


def _killed_at(table: HudiTable, step: int, version: int) -> int:
    """Change the version in a process that is killed before its `step`-th change; gives its exit code."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            storage = FaultyStorage(target=table.base_path, step=step)
            _change(open_table(storage, table.base_path), version)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


@pytest.mark.parametrize(
    ("version", "stride"), parameters([(9, 6), (6, 6), (9, 1), (6, 1)], in_ci=[(9, 6), (6, 6)])
)
def test_a_run_that_was_killed_at_any_step_is_completed_by_the_next(
    copy: Copy, tmp_path: Path, version: int, stride: int
) -> None:
    table = copy("cow_insert_overwrite")
    if version == 6:
        table = _change(table, 9)
    before = rows_of(table)
    whole = shutil.copytree(table.base_path, tmp_path / "whole")
    seen = set()
    for step in range(stride // 2, 200, stride):
        shutil.rmtree(table.base_path)
        shutil.copytree(whole, table.base_path)
        code = _killed_at(again(table), step, version)
        assert code in (0, -signal.SIGKILL)
        seen.add(again(table).version)
        assert rows_of(table).equals(before)
        changed = _change(again(table), version)
        assert changed.version == version
        assert rows_of(changed).equals(before)
        assert _instants(Path(table.base_path, ".hoodie")) == [] or version == 6
        assert version == 9 or _instants(Path(table.base_path, ".hoodie/timeline")) == []
        if code == 0:
            break
    else:
        pytest.fail("the run has no end")
    assert seen == {6, 9}


def test_files_that_were_copied_seem_completed_before_the_next_request(copy: Copy) -> None:
    table = copy("mor_two_log_generations")
    before = rows_of(table)
    for path in Path(table.base_path, ".hoodie").iterdir():
        os.utime(path)
    upgraded = _change(again(table), 9)
    times = sorted({each.timestamp for each in upgraded.timeline.instants})
    for each in upgraded.timeline.completed[:-1]:
        following = [time for time in times if time > each.timestamp]
        assert not following or each.completion_time < following[0]
    assert rows_of(upgraded).equals(before)


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        ("cow_archived_bootstrap", UnsupportedTableError, "archived"),
        ("cow_clustering_scheduled", WriteConflictError, "not complete"),
    ],
)
def test_what_is_not_upgraded_is_refused_and_stays(
    copy: Copy, name: str, error: type[Exception], text: str
) -> None:
    table = copy(name)
    with pytest.raises(error, match=text):
        plan_version_change(table, 9)
    assert again(table) == table


def test_a_complex_key_generator_with_one_key_column_is_refused_as_by_hudi(copy: Copy) -> None:
    table = copy("cow_insert_overwrite")
    name = "org.apache.hudi.keygen.ComplexKeyGenerator"
    update_table_properties(STORAGE, table.base_path, {"hoodie.table.keygenerator.class": name})
    with pytest.raises(UnsupportedTableError, match="two forms"):
        plan_version_change(again(table), 9)


def test_a_plan_says_what_it_does_and_who_wins_from_then_on(copy: Copy) -> None:
    table = copy("mor_upsert_only_updates")
    steps = " / ".join(plan_version_change(table, 9).steps())
    assert "compact file slices" in steps
    assert "from version 6 to 9" in steps
    assert "ordered by event time" in steps
    assert again(table) == table
    assert list(plan_version_change(table, 6).steps()) == []


def test_what_version_6_would_misread_after_a_downgrade_is_refused(copy: Copy) -> None:
    table = copy("v9_mor_avro_logs_deletes")
    savepoint = create_savepoint(table)
    with pytest.raises(UnsupportedTableError, match=f"has savepoints .{savepoint}"):
        plan_version_change(again(table), 6)
    delete_savepoint(again(table))
    downgraded = _change(again(table), 6)
    before = rows_of(downgraded)
    compaction = downgraded.timeline.commits[-1].timestamp
    with pytest.raises(RollbackRefusedError, match="names of table version 9"):
        roll_back_commit(downgraded, compaction)
    slices = load_file_slices(downgraded, as_of=savepoint)
    with pytest.raises(NoSuchStateError, match=f"earliest remaining state is that of {compaction}"):
        check_past_state(downgraded, savepoint, None, slices)
    check_past_state(downgraded, compaction, None, load_file_slices(downgraded, as_of=compaction))
    assert rows_of(downgraded).equals(before)


def test_commits_before_an_upgrade_are_rolled_back_without_the_log_files_of_others(copy: Copy) -> None:
    table = copy("mor_upsert_only_updates")
    bootstrap, first, second = (each.timestamp for each in table.timeline.commits)
    upgraded = _change(table, 9)
    roll_back_commit(upgraded, upgraded.timeline.commits[-1].timestamp)
    roll_back_commit(again(table), second)
    found = Counter(rows_of(table)["_hoodie_commit_time"].to_pylist())
    assert found == {bootstrap: 580, first: 20}
    roll_back_commit(again(table), first)
    assert set(rows_of(table)["_hoodie_commit_time"].to_pylist()) == {bootstrap}


def test_a_log_file_of_two_commits_before_an_upgrade_is_not_rolled_back(copy: Copy) -> None:
    table = copy("mor_upsert_only_updates")
    first, second = sorted(Path(table.base_path).rglob(".*.log.*-???"))
    second.write_bytes(first.read_bytes() + second.read_bytes())
    upgraded = _change(table, 9)
    roll_back_commit(upgraded, upgraded.timeline.commits[-1].timestamp)
    before = rows_of(table)
    with pytest.raises(RollbackRefusedError, match="of other commits, written before"):
        roll_back_commit(again(table), table.timeline.commits[-1].timestamp)
    assert rows_of(table).equals(before)


def test_a_table_with_register_only_partitions_is_not_upgraded(copy: Copy, tmp_path: Path) -> None:
    table = copy("cow_insert_overwrite")
    directory = tmp_path / "source"
    directory.mkdir()
    (directory / "a.parquet").write_bytes(b"rows")
    update_table_properties(STORAGE, table.base_path, {REGISTER_ONLY: "true"})
    write_registered_partitions(STORAGE, table.base_path, [RegisteredPartition("dt=9", str(directory))])
    with pytest.raises(RegisterOnlyError, match=r"register-only partitions .1, such as 'dt=9'") as caught:
        plan_version_change(again(table), 9)
    assert "lift => 'true'" in (caught.value.hint or "")
    (directory / "a.parquet").unlink()
    assert plan_version_change(again(table), 9).changes


def test_an_upgrade_from_version_8_leaves_the_timeline_where_it_is(copy: Copy) -> None:
    table = copy("v8_cow_bootstrap_upsert")
    before = rows_of(table)
    shutil.move(Path(table.base_path, ".hoodie/timeline"), Path(table.base_path, ".hoodie/elsewhere"))
    kept_by_hudi = {TIMELINE_DIRECTORY: "elsewhere", WRITE_VERSION: "8"}
    update_table_properties(STORAGE, table.base_path, kept_by_hudi)
    upgraded = _change(again(table), 9)
    assert upgraded.properties.get(WRITE_VERSION) is None
    assert upgraded.timeline == again(table).timeline
    assert len(upgraded.timeline.commits) == len(table.timeline.commits)
    assert rows_of(upgraded).equals(before)
