"""The lease of a bootstrap: its heartbeat, and what a takeover does to it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hudisql.bootstrap.lease import target_lease as lease_module
from hudisql.bootstrap.lease.target_lease import (
    LateAttemptFence,
    Lease,
    acquire_lease,
    fence_of_process,
    heartbeats,
    trust_seconds,
)
from hudisql.bootstrap.lease.target_state import HEARTBEAT_FILE, read_lease
from hudisql.errors import StorageError, TableExistsError
from hudisql.storage import Storage


def test_a_heartbeat_is_written_at_once_and_renewed_until_another_run_takes_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_module, "_HEARTBEAT_MS", 10)
    storage, heartbeat = Storage(), tmp_path / HEARTBEAT_FILE
    lease = acquire_lease(storage, str(tmp_path), "db.t", takes_over=False)
    with heartbeats(storage, lease):
        assert heartbeat.exists()
        first = heartbeat.stat().st_mtime_ns
        while heartbeat.stat().st_mtime_ns == first:
            time.sleep(0.01)
        held = read_lease(storage, str(tmp_path))
        assert held is not None
        assert held.heartbeat_ms >= first // 1_000_000
        lease.release(storage)  # as another run does that takes over
        time.sleep(0.1)
        heartbeat.unlink(missing_ok=True)
        time.sleep(0.1)
        assert not heartbeat.exists()


def test_a_heartbeat_of_the_next_run_outlives_the_end_of_the_one_before(tmp_path: Path) -> None:
    storage, heartbeat = Storage(), tmp_path / HEARTBEAT_FILE
    lease = acquire_lease(storage, str(tmp_path), "db.t", takes_over=False)
    with heartbeats(storage, lease):
        pass
    assert heartbeat.exists()
    lease.release(storage)
    assert not heartbeat.exists()


def test_a_second_run_cannot_acquire_a_lease_that_is_held(tmp_path: Path) -> None:
    acquire_lease(Storage(), str(tmp_path), "db.t", takes_over=False)
    with pytest.raises(TableExistsError, match="another bootstrap is writing to"):
        acquire_lease(Storage(), str(tmp_path), "db.t", takes_over=False)
    with pytest.raises(TableExistsError, match="may still be running"):
        acquire_lease(Storage(), str(tmp_path), "db.t", takes_over=True)


@pytest.mark.parametrize(("age", "trusted"), [(0, 0.0), (5, 0.5), (1000, 2.0)])
def test_an_attempt_that_outlives_its_run_is_stopped_once_its_last_look_is_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age: float, trusted: float
) -> None:
    now, looks = 100.0, []

    class Counting(Storage):
        def list_file_names(self, path: str) -> list[str]:
            looks.append(path)
            return super().list_file_names(path)

    monkeypatch.setattr(time, "monotonic", lambda: now)
    lease = acquire_lease(Storage(), str(tmp_path), "db.t", takes_over=False)
    fence = fence_of_process(lease)
    now += age
    fence.check(Counting())
    assert trust_seconds(age) == trusted
    lease.close(Storage())
    if trusted:
        now += trusted - 0.01
        fence.check(Counting())
        now += 0.02
    assert len(looks) == 1
    assert fence_of_process(lease) is fence
    for _ in range(2):
        with pytest.raises(StorageError, match="has ended: a task outlived its run"):
            fence.check(Counting())
    lease.release(Storage())
    with pytest.raises(StorageError, match="has ended: a task outlived its run"):
        LateAttemptFence(lease).check(Storage())


def test_few_of_many_files_cost_a_look_at_the_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, looks, files = 0.0, 0, 1_000
    lease = acquire_lease(Storage(), str(tmp_path), "db.t", takes_over=False)

    def look(*_arguments: object) -> None:
        nonlocal looks
        looks += 1

    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(Lease, "fence_late_attempt", look)
    for _ in range(files):
        fence_of_process(lease).check(Storage())
        now += 0.1
    assert looks < files / 10


def test_another_run_of_the_same_target_has_another_fence(tmp_path: Path) -> None:
    first = acquire_lease(Storage(), str(tmp_path), "db.t", takes_over=False)
    first.release(Storage())
    second = acquire_lease(Storage(), str(tmp_path), "db.t", takes_over=False)
    assert fence_of_process(first) is not fence_of_process(second)
