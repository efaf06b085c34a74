"""Which services are due on a table beside its writers, and why."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from hudisql.config.config_key import HudiConfig
from hudisql.services.schedule.due_services import Service, ServiceState, service_states
from hudisql.write.transaction.concurrency import read_concurrency
from tests.opened import open_at
from tests.table.conftest import TableDirectory

_FILE_LOCK = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
_SHARED = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": _FILE_LOCK,
}
_HOUR = 3600


def _time(number: int) -> str:
    return f"202403010000{number:02d}000"


def _states(table: TableDirectory, settings: Mapping[str, str] | None = None) -> dict[Service, ServiceState]:
    config = HudiConfig(lambda name, default: (settings or {}).get(name, default))
    opened = open_at(table.path)
    found = service_states(opened, config, lambda: read_concurrency(config, opened.storage, opened.base_path))
    assert [each.service for each in found] == [each for each in Service if each is not Service.PUBLICATION]
    return {each.service: each for each in found}


def _merge_on_read(make_table: Callable[..., TableDirectory], deltas: int) -> TableDirectory:
    table = make_table(hoodie__table__type="MERGE_ON_READ")
    for number in range(deltas):
        table.commit(_time(number), "deltacommit")
    return table


def _age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    for each in (path, *(path.rglob("*") if path.is_dir() else ())):
        os.utime(each, (then, then))


def test_a_new_table_needs_nothing(make_table: Callable[..., TableDirectory]) -> None:
    table = make_table()
    table.commit(_time(1))
    states = _states(table)
    assert not any(each.is_due or each.pending or each.changes_with_time for each in states.values())
    assert states[Service.COMPACTION].reason == "the table is copy-on-write"
    assert states[Service.CLEAN].reason == "1 commit, 10 of them to be retained"
    assert states[Service.ARCHIVE].reason == "1 commit, up to 30 stay"


@pytest.mark.parametrize(
    ("settings", "is_due", "reason"),
    [
        ({}, True, "5 of 5 delta commits since the last compaction"),
        (
            {"hoodie.compact.inline.max.delta.commits": "6"},
            False,
            "5 of 6 delta commits since the last compaction",
        ),
        (
            {"hoodie.datasource.compaction.async.enable": "false"},
            False,
            "hoodie.datasource.compaction.async.enable is false",
        ),
        (
            {"hoodie.compact.inline.trigger.strategy": "TIME_ELAPSED"},
            True,
            "3600 s since the last compaction, and delta commits",
        ),
        ({"hoodie.table.services.enabled": "false"}, False, "hoodie.table.services.enabled is false"),
    ],
)
def test_a_compaction_is_due_by_hudis_triggers(
    make_table: Callable[..., TableDirectory], settings: Mapping[str, str], is_due: bool, reason: str
) -> None:
    state = _states(_merge_on_read(make_table, 5), settings)[Service.COMPACTION]
    assert (state.is_due, state.reason) == (is_due, reason)
    assert state.changes_with_time == ("TIME" in str(settings))


def test_nothing_is_planned_beside_a_write_that_knows_of_no_lock(
    make_table: Callable[..., TableDirectory],
) -> None:
    table = _merge_on_read(make_table, 5)
    table.instant(f"{_time(9)}.deltacommit.requested")
    table.instant(f"{_time(9)}.deltacommit.inflight")
    alone, shared = _states(table), _states(table, _SHARED)
    assert not alone[Service.COMPACTION].is_due
    assert alone[Service.COMPACTION].reason.endswith(f"waits for the write {_time(9)}, which may be running")
    assert shared[Service.COMPACTION].is_due


def test_a_write_without_heartbeats_has_failed_when_nothing_of_it_has_changed_for_a_day(
    make_table: Callable[..., TableDirectory],
) -> None:
    table = make_table()
    table.commit(_time(1))
    table.instant(f"{_time(2)}.commit.requested")
    table.instant(f"{_time(2)}.inflight")
    table.file(f".hoodie/.temp/{_time(2)}/dt=1/f_0-0-0_{_time(2)}.parquet.marker.CREATE")
    hoodie = table.path / ".hoodie"

    def state(**settings: str) -> ServiceState:
        return _states(table, settings)[Service.ROLLBACK]

    for aged in (hoodie, hoodie / ".temp"):
        assert not state().is_due
        assert state().reason == f"{_time(2)} may be running"
        _age(aged, 25 * _HOUR)
        if aged == hoodie:
            _age(hoodie / ".temp", _HOUR)
    assert state().is_due
    assert (state().reason, state().pending) == (f"1 failed write: {_time(2)}", (_time(2),))
    assert not state(**{"hudisql.services.writer.timeout.hours": "30"}).is_due
    assert not state(**{"hoodie.cleaner.policy.failed.writes": "NEVER"}).is_due
    # A second write that has just begun would be rolled back along with it.
    table.instant(f"{_time(3)}.commit.requested")
    assert not state().is_due


def test_a_write_with_heartbeats_has_failed_when_they_end(make_table: Callable[..., TableDirectory]) -> None:
    table = make_table()
    table.instant(f"{_time(2)}.commit.requested")
    assert "no commits" in _states(table)[Service.ROLLBACK].reason
    table.commit(_time(1))
    beat = Path(table.file(f".hoodie/.heartbeat/{_time(2)}"))
    assert not _states(table, _SHARED)[Service.ROLLBACK].is_due
    _age(beat, 121)
    assert _states(table, _SHARED)[Service.ROLLBACK].is_due
    beat.unlink()
    assert _states(table, _SHARED)[Service.ROLLBACK].is_due


def test_a_plan_that_another_process_may_be_running_is_left_to_it(
    make_table: Callable[..., TableDirectory],
) -> None:
    table = _merge_on_read(make_table, 1)
    table.instant(f"{_time(5)}.compaction.requested")
    requested = _states(table)[Service.COMPACTION]
    assert (requested.is_due, requested.reason, requested.pending) == (True, "1 pending plan", (_time(5),))
    table.instant(f"{_time(5)}.compaction.inflight")
    assert _states(table)[Service.COMPACTION].reason == f"{_time(5)} may be running"
    beat = Path(table.file(f".hoodie/.heartbeat/{_time(5)}"))
    assert not _states(table)[Service.COMPACTION].is_due
    _age(beat, 121)
    assert _states(table)[Service.COMPACTION].is_due


def test_cleans_archiving_and_clusterings_are_due_by_their_settings(
    make_table: Callable[..., TableDirectory],
) -> None:
    table = make_table()
    for number in range(12):
        table.commit(_time(number))
    states = _states(table, {"hoodie.keep.min.commits": "10", "hoodie.keep.max.commits": "11"})
    assert states[Service.CLEAN].is_due
    assert states[Service.CLEAN].reason == "12 commits since the last clean, due at 1"
    assert not states[Service.ARCHIVE].is_due, "a clean still has to look at the commits"
    assert "need the oldest" in states[Service.ARCHIVE].reason or "up to" in states[Service.ARCHIVE].reason
    assert not states[Service.CLUSTERING].is_due
    clustered = _states(table, {"hoodie.clustering.async.enabled": "true"})[Service.CLUSTERING]
    assert (clustered.is_due, clustered.reason) == (True, "12 of 4 commits since the last clustering")
    off = _states(table, {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"})
    assert off[Service.CLEAN].reason == "hoodie.clean.automatic is false"
    assert off[Service.ARCHIVE].reason == "hoodie.archive.automatic is false"
    kept = {
        "hoodie.cleaner.commits.retained": "1",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
    }
    archived = _states(table, kept)[Service.ARCHIVE]
    assert archived.is_due
    assert "instants to archive of 12 commits" in archived.reason


def test_what_cannot_be_told_is_said_with_its_reason(make_table: Callable[..., TableDirectory]) -> None:
    table = make_table()
    table.commit(_time(1))
    states = _states(table, {"hoodie.write.lock.provider": "org.example.Lock"})
    assert "org.example.Lock" in states[Service.ROLLBACK].reason
    assert states[Service.ROLLBACK].error is not None
    (table.path / ".hoodie" / "metadata").mkdir()
    assert {each.error for each in _states(table).values()} == {None}
    assert all("metadata table" in each.reason for each in _states(table).values())
