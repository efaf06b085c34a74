"""Services of tables of versions 8 and 9 that are killed at each of their steps, and then run again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import NoSuchInstantError
from hudisql.services.archive.archive_action import archive_table
from hudisql.services.archive.archive_plan import ArchiveOptions
from hudisql.services.clean.clean_action import clean_table
from hudisql.services.clean.clean_plan import CleanOptions, CleanPolicy
from hudisql.services.compaction.compaction_action import (
    CompactionOptions,
    run_compaction,
    schedule_compaction,
)
from hudisql.services.rollback.restore import restore_to_savepoint
from hudisql.services.rollback.rollback_action import roll_back_commit
from hudisql.services.rollback.savepoint import create_savepoint
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.transaction.concurrency import SINGLE_WRITER
from tests.fault_injection import run_and_kill
from tests.opened import open_at
from tests.oracle.comparison import our_rows
from tests.soak import parameters

MOST_STEPS = 60


def _compact(table: HudiTable) -> object:
    pending = sorted(table.timeline.pending_compactions)
    if not pending:
        options = CompactionOptions(max_delta_commits=1)
        scheduled = schedule_compaction(table, options, SINGLE_WRITER)
        pending = [] if scheduled is None else [scheduled.timestamp]
    return [run_compaction(None, table.reopened(), each, WriteOptions()) for each in pending]


def _clean(table: HudiTable) -> object:
    options = CleanOptions(CleanPolicy.KEEP_LATEST_FILE_VERSIONS, versions_retained=1)
    return clean_table(table, options, SINGLE_WRITER)


def _archive(table: HudiTable) -> object:
    counted = CompactionOptions(max_delta_commits=2)
    options = ArchiveOptions(2, 3, clean=CleanOptions(commits_retained=1), compaction=counted)
    return archive_table(table, options, SINGLE_WRITER)


def _savepoint(table: HudiTable) -> object:
    return None if table.timeline.savepoints else create_savepoint(table)


def _roll_back(table: HudiTable) -> object:
    # The second run finds the commit gone if the first one was killed late.
    with suppress(NoSuchInstantError):
        roll_back_commit(table, "20261121211220991")
    return None


SERVICES: dict[str, tuple[str, Callable[[HudiTable], object]]] = {
    "compaction": ("v9_mor_avro_logs_deletes", _compact),
    "compaction of version 8": ("v8_mor_avro_logs_deletes", _compact),
    "clean": ("v9_cow_upsert_delete", _clean),
    "archive": ("v9_mor_archived_lsm", _archive),
    "savepoint": ("v9_mor_avro_logs_deletes", _savepoint),
    "restore": ("v9_cow_savepoint_clean", restore_to_savepoint),
    "rollback": ("v9_mor_avro_logs_deletes", _roll_back),
}


@pytest.mark.parametrize("service", parameters(list(SERVICES), in_ci=["clean", "archive", "savepoint"]))
def test_a_killed_service_leaves_the_table_as_before_or_after_and_is_run_again(
    golden: Callable[[str], Any], tmp_path: Path, service: str
) -> None:
    name, run = SERVICES[service]

    def copied(step: int) -> str:
        return str(shutil.copytree(golden(name).table, tmp_path / str(step)))

    path = copied(-1)
    before = _rows(path)
    run(open_at(path))
    after = _rows(path)
    assert (before == after) == (service not in ("restore", "rollback"))
    assert open_at(path).timeline != open_at(golden(name).table).timeline
    for step in range(MOST_STEPS):
        path = copied(step)
        is_killed = _run_and_kill(path, run, step)
        # A restore goes from commit to commit.
        assert service == "restore" or _rows(path) in (before, after)
        run(open_at(path))
        assert _rows(path) == after
        table = open_at(path)
        assert table.timeline.pending == ()
        shutil.rmtree(path)
        if not is_killed:
            assert step > 1
            return
    raise AssertionError("the service never came to its end")


@pytest.mark.parametrize(
    "name",
    parameters(
        [
            *("v9_mor_avro_logs_deletes", "v8_mor_avro_logs_deletes", "v9_mor_commit_time"),
            *("v9_mor_parquet_log", "v9_mor_partial_merge", "v9_mor_bootstrap_upsert_delete"),
            *("v9_mor_pending_compaction", "v9_mor_mdt_files", "v9_mor_archived_lsm", "v9_mor_rollback"),
        ],
        in_ci=["v9_mor_partial_merge", "v9_mor_pending_compaction"],
    ),
)
def test_a_compaction_and_a_clean_keep_all_rows(
    golden: Callable[[str], Any], tmp_path: Path, name: str
) -> None:
    path = str(shutil.copytree(golden(name).table, tmp_path / "table"))
    before = _rows(path)
    for _ in range(2):
        _compact(open_at(path))
    table = open_at(path)
    assert not any(each.has_log_files for each in load_file_slices(table))
    assert _rows(path) == before
    _clean(table)
    assert not list(Path(path).glob("[!.]*/.*.log.*")) + list(Path(path).glob(".*.log.*"))
    assert _rows(path) == before


def _rows(path: str) -> list[dict[str, Any]]:
    rows = our_rows(open_at(path)).drop_columns(["_hoodie_file_name"])
    found: list[dict[str, Any]] = rows.sort_by("_hoodie_record_key").to_pylist()
    return found


def _run_and_kill(path: str, run: Callable[[HudiTable], object], step: int) -> bool:
    is_killed = run_and_kill(path, lambda storage: run(open_table(storage, path)), step)
    # As if it had expired.
    shutil.rmtree(Path(path, ".hoodie/.heartbeat"), ignore_errors=True)
    return is_killed
