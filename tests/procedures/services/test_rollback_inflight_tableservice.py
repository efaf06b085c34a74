"""CALL run_rollback_inflight_tableservice on compactions and clusterings that are planned, or were killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import NoSuchInstantError, RollbackRefusedError, WriteConflictError
from hudisql.format.log_file.log_block import LOG_WITHOUT_ROWS
from hudisql.storage import Storage
from hudisql.write.transaction.heartbeat import heartbeat_path
from hudisql.write.transaction.markers import Marker, MarkerKind, create_marker
from tests.sql.changed_tables import ChangedTable

pytestmark = [pytest.mark.spark, pytest.mark.hms]

AT_ONCE = "hoodie.compact.inline.max.delta.commits=1"


@pytest.fixture
def table(merge_on_read_table: ChangedTable) -> ChangedTable:
    merge_on_read_table.run("DELETE FROM {t} WHERE seq % 10 = 0")
    return merge_on_read_table


def _planned(table: ChangedTable, service: str = "compaction") -> str:
    more = f", options => '{AT_ONCE}'" if service == "compaction" else ""
    text = f"CALL run_{service}(op => 'schedule', table => '{table.name}'{more})"
    ((instant_time, *_),) = table.session.sql(text).rows
    return str(instant_time)


def _undo(table: ChangedTable, instant_time: str, more: str = "") -> list[Any]:
    arguments = f"'{table.name}', pending_instant => '{instant_time}'{more}"
    return list(table.session.sql(f"CALL run_rollback_inflight_tableservice({arguments})").rows)


WITH_PLAN = ", delete_request_instant_file => true"


def _timeline_files(table: ChangedTable, instant_time: str) -> list[str]:
    return [path.name for path in (Path(table.path) / ".hoodie").glob(f"{instant_time}*")]


@pytest.mark.parametrize("service", ["compaction", "clustering"])
def test_a_plan_is_deleted_and_made_again(table: ChangedTable, service: str) -> None:
    before = table.rows("*")
    planned = _planned(table, service)
    with pytest.raises(NoSuchInstantError, match="has no run to undo"):
        _undo(table, planned)
    ((instant, time_cost),) = _undo(table, planned, WITH_PLAN)
    assert (instant, int(time_cost) >= 0) == (planned, True)
    assert _timeline_files(table, planned) == []
    with pytest.raises(NoSuchInstantError, match=f"no compaction or clustering {planned} is pending"):
        _undo(table, planned, WITH_PLAN)
    assert table.rows("*") == before
    table.run("DELETE FROM {t} WHERE seq % 10 = 1")
    assert _planned(table, service) > planned


def test_what_a_killed_run_has_written_is_deleted_and_its_plan_stays(table: ChangedTable) -> None:
    planned = _planned(table)
    left = next(Path(table.path).rglob("*.parquet")).parent / f"left_0-0-0_{planned}.parquet"
    left.write_bytes(b"half")
    marker = Marker(left.parent.name, left.name, MarkerKind.CREATE)
    create_marker(Storage(), table.path, planned, marker)
    (Path(table.path) / ".hoodie" / f"{planned}.compaction.inflight").touch()
    _undo(table, planned)
    assert not left.exists()
    assert _timeline_files(table, planned) == [f"{planned}.compaction.requested"]
    rows = table.session.sql(f"CALL run_compaction(op => 'run', table => '{table.name}')").rows
    assert [row[0] for row in rows] == [planned]


def _log_on_top(table: ChangedTable, planned: str, content: bytes | None = None) -> Path:
    """A log file of a slice that the planned compaction starts, by default with the rows of another one."""
    (log, *_) = Path(table.path).rglob(".*.log.*")
    begun = log.with_name(log.name.replace(log.name.split("_")[1].split(".")[0], planned))
    begun.write_bytes(log.read_bytes() if content is None else content)
    return begun


@pytest.mark.parametrize("content", [b"", LOG_WITHOUT_ROWS])
def test_log_files_that_were_rolled_back_go_with_the_plan(table: ChangedTable, content: bytes) -> None:
    before = table.rows("*")
    planned = _planned(table)
    rolled_back = _log_on_top(table, planned, content)
    _undo(table, planned, WITH_PLAN)
    # Hudi would read it as the latest slice once the plan's instant is older than the timeline.
    assert not rolled_back.exists()
    assert _timeline_files(table, planned) == []
    assert table.rows("*") == before


def test_a_compaction_whose_slices_were_begun_keeps_its_plan(table: ChangedTable) -> None:
    planned = _planned(table)
    begun = _log_on_top(table, planned)
    with pytest.raises(RollbackRefusedError, match="1 file groups have log files in the slices"):
        _undo(table, planned, WITH_PLAN)
    assert _timeline_files(table, planned) == [f"{planned}.compaction.requested"]
    assert begun.exists()


def test_a_run_with_a_fresh_heartbeat_is_left_alone(table: ChangedTable) -> None:
    planned = _planned(table)
    Storage().write(heartbeat_path(table.path, planned), b"")
    with pytest.raises(WriteConflictError, match=f"another process runs the compaction {planned}"):
        _undo(table, planned, WITH_PLAN)
