"""What is not written in version 9 touches no table of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import NoSuchInstantError, UnsupportedTableError, WriteConflictError
from hudisql.format.timeline.instant import CLEAN, COMMIT, ROLLBACK, Instant, InstantState
from hudisql.procedures.services.rollback_to_instant import rollback_details
from hudisql.services.archive.archive_action import archive_table
from hudisql.services.clean.clean_action import run_pending_cleans
from hudisql.services.planned_run import begin_run, put_plan
from hudisql.services.rollback.restore import restore_to_savepoint
from hudisql.services.rollback.rollback_action import roll_back_commit, undo_service
from hudisql.services.rollback.savepoint import create_savepoint, delete_savepoint
from hudisql.table.hudi_table import HudiTable
from hudisql.table.properties import written_versions
from hudisql.table.properties.written_versions import ARCHIVE, COMMITS, SERVICES
from hudisql.write.transaction.commit import begin_commit
from hudisql.write.transaction.concurrency import SINGLE_WRITER
from hudisql.write.transaction.instant_request import request_instant
from hudisql.write.transaction.instant_rollback import roll_back_instant
from tests.opened import open_at
from tests.sources import fingerprint

PENDING = Instant("20261121213235303", "compaction", InstantState.REQUESTED)
CHANGES: dict[str, Callable[[HudiTable], object]] = {
    "commit": lambda table: begin_commit(table, "UPSERT"),
    "instant": lambda table: request_instant(table, COMMIT, b""),
    "plan": lambda table: put_plan(table, COMMIT, b""),
    "planned run": lambda table: begin_run(table, PENDING, SINGLE_WRITER),
    "rollback of a write": lambda table: roll_back_instant(table, PENDING),
    "rollback": lambda table: roll_back_commit(table, "20261121213235744"),
    "restore": restore_to_savepoint,
    "savepoint": create_savepoint,
    "end of a savepoint": delete_savepoint,
    "cleans": lambda table: run_pending_cleans(table, SINGLE_WRITER),
    "archive": lambda table: archive_table(table, None, SINGLE_WRITER),  # type: ignore[arg-type]
    "unscheduling": lambda table: undo_service(table, PENDING.timestamp, SINGLE_WRITER),
}


@pytest.fixture(scope="module")
def copied(golden: Callable[[str], Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(
        shutil.copytree(golden("v9_mor_pending_compaction").table, tmp_path_factory.mktemp("v9") / "table")
    )


# What is written.
WRITTEN = {
    *("commit", "rollback of a write", "planned run", "rollback", "unscheduling", "cleans"),
    *("savepoint", "end of a savepoint", "restore", "archive"),
}


@pytest.mark.parametrize("change", [each for each in CHANGES if each not in WRITTEN])
def test_a_change_is_refused_and_changes_nothing(copied: Path, change: str) -> None:
    table = open_at(copied)
    before = fingerprint(copied)
    with pytest.raises(UnsupportedTableError, match="has table version 9"):
        CHANGES[change](table)
    assert fingerprint(copied) == before


@pytest.mark.parametrize("change", ["commit", "savepoint", "restore", "archive"])
def test_a_table_that_is_upgraded_after_it_was_opened_is_refused(
    golden: Callable[[str], Any], tmp_path: Path, change: str
) -> None:
    path = shutil.copytree(golden("mor_compaction_scheduled").table, tmp_path / "table")
    opened = open_at(path)
    # As an upgrade leaves it: the properties say so, and the timeline lies elsewhere.
    properties = Path(path, ".hoodie/hoodie.properties")
    text = properties.read_text().replace("hoodie.table.version=6", "hoodie.table.version=9")
    properties.write_text(text.replace("layout.version=1", "layout.version=2"))
    Path(path, ".hoodie/timeline").mkdir()
    before = fingerprint(Path(path))
    with pytest.raises(WriteConflictError, match="has table version 9 now"):
        CHANGES[change](opened)
    assert fingerprint(Path(path)) == before


def test_a_savepoint_is_made_after_a_completed_clean(golden: Callable[[str], Any], tmp_path: Path) -> None:
    path = shutil.copytree(golden("v9_cow_savepoint_clean").table, tmp_path / "table")
    table = open_at(path)
    assert [each.action for each in table.timeline.completed][-1] == CLEAN
    made = create_savepoint(table)
    assert made in open_at(path).timeline.savepoints


def test_the_files_of_a_rollback_are_shown(golden: Callable[[str], Any]) -> None:
    table = open_at(golden("v9_mor_rollback").table)
    (rollback,) = [each for each in table.timeline.completed if each.action == ROLLBACK]
    rows = list(rollback_details(table, rollback.timestamp))
    assert {each.instant for each in rows} == {rollback.timestamp}
    with pytest.raises(NoSuchInstantError, match="is not a completed rollback"):
        rollback_details(table, table.timeline.commits[0].timestamp)


def test_the_end_of_a_savepoint_archives_only_what_archiving_does(
    golden: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(shutil.copytree(golden("v9_mor_archived_lsm").table, tmp_path / "table"))
    first, older = open_at(path).timeline.commits[0], "20261101000000000"
    timeline = path / ".hoodie/timeline"
    for file in timeline.glob(f"{first.timestamp}*"):
        shutil.copy(file, timeline / file.name.replace(first.timestamp, older))
    table = open_at(path)
    create_savepoint(table, older)
    before = fingerprint(path)
    monkeypatch.setattr(written_versions, "_TESTED", (COMMITS | SERVICES) - {ARCHIVE})
    with pytest.raises(UnsupportedTableError, match="does not write archive"):
        delete_savepoint(table)
    assert fingerprint(path) == before
