"""Hudi's locks: who has one, for how long others wait, and what becomes of one that its writer left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hudisql.config.config_key import HudiConfig
from hudisql.errors import (
    SettingsError,
    StorageError,
    TableLockedError,
    UnsupportedTableError,
    WriteConflictError,
)
from hudisql.storage import Storage
from hudisql.write.transaction import concurrency as co
from hudisql.write.transaction.lock import (
    FileSystemLock,
    InProcessLock,
    LockRetryPolicy,
    hold_lock,
)
from hudisql.write.transaction.lock_file import (
    HOLDER_TIMEOUT_MS,
    new_content,
    read_lock_file,
    remove_lock_file,
)
from hudisql.write.transaction.process_identity import (
    ProcessIdentity,
    parse_identity,
    process_space,
    process_start,
    this_process,
)

STORAGE = Storage()
PACKAGE = "org.apache.hudi.client.transaction"
PATIENTLY = LockRetryPolicy(retries=60_000, wait_ms=5)
"""As long as a machine that has much else to do may need."""
BRIEFLY = LockRetryPolicy(retries=2, wait_ms=20, attempt_ms=20)


def _lock(directory: Path, expire_minutes: int = 0) -> FileSystemLock:
    return FileSystemLock(STORAGE, str(directory), expire_minutes)


def test_the_lock_is_a_file_while_it_is_held(tmp_path: Path) -> None:
    with hold_lock(_lock(tmp_path), BRIEFLY) as held:
        held.check()
        said = json.loads((tmp_path / "lock").read_text())
        assert set(said) == {"lockCreateTime", "lockThreadName", "lockStacksInfo", "hudisql"}
        assert f"process {os.getpid()}" in said["lockThreadName"]
    assert list(tmp_path.iterdir()) == []


def test_who_waits_too_long_is_told_who_has_the_lock(tmp_path: Path) -> None:
    with (
        hold_lock(_lock(tmp_path), BRIEFLY),
        pytest.raises(TableLockedError, match=f"process {os.getpid()}"),
        hold_lock(_lock(tmp_path), BRIEFLY),
    ):
        pass
    (tmp_path / "lock").touch()  # as Apache Hudi 0.15 leaves it: empty
    with pytest.raises(TableLockedError, match="since 20"), hold_lock(_lock(tmp_path), BRIEFLY):
        pass
    assert (tmp_path / "lock").exists()


def test_who_waits_goes_on_when_the_lock_is_given_back(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    threading.Timer(0.2, (tmp_path / "lock").unlink).start()
    with hold_lock(_lock(tmp_path), PATIENTLY) as held:
        held.check()
        # The other's was empty.
        assert (tmp_path / "lock").read_bytes()


def test_a_lock_expires_only_if_that_is_asked_for(tmp_path: Path) -> None:
    for name in ("lock", ".lock.crc"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - 61, time.time() - 61))
    for minutes in (0, 2):
        assert not _lock(tmp_path, minutes).try_lock(0)
    with hold_lock(_lock(tmp_path, 1), BRIEFLY) as held:
        held.check()
        assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_a_lock_that_was_taken_away_is_noticed_and_not_given_back(tmp_path: Path) -> None:
    with hold_lock(_lock(tmp_path), BRIEFLY) as held:
        (tmp_path / "lock").unlink()
        with pytest.raises(WriteConflictError, match="was removed while"):
            held.check()
        (tmp_path / "lock").write_text("another's")
        with pytest.raises(WriteConflictError, match="was removed while"):
            held.check()
    assert (tmp_path / "lock").read_text() == "another's"


class _UnreleasedLock(InProcessLock):
    """One whose store fails when it is released."""

    def unlock(self) -> None:
        InProcessLock.unlock(self)
        raise StorageError("the store is away")


def test_an_error_of_the_release_alone_does_not_fail_what_was_done_under_the_lock() -> None:
    done = False
    with hold_lock(_UnreleasedLock("/unreleased"), BRIEFLY):
        done = True
    assert done
    with (
        pytest.raises(WriteConflictError, match="of the block"),
        hold_lock(_UnreleasedLock("/unreleased"), BRIEFLY),
    ):
        raise WriteConflictError("of the block")


def test_of_many_processes_one_at_a_time_has_the_lock(tmp_path: Path) -> None:
    program = """
import sys, time
from pathlib import Path
from hudisql.storage import Storage
from hudisql.write.transaction.lock import FileSystemLock, LockRetryPolicy, hold_lock
counter = Path(sys.argv[1], "counter")
for _ in range(20):
    with hold_lock(FileSystemLock(Storage(), sys.argv[1]), LockRetryPolicy(retries=60_000, wait_ms=5)):
        count = int(counter.read_text())
        time.sleep(0.002)
        counter.write_text(str(count + 1))
"""
    (tmp_path / "counter").write_text("0")
    running = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path)]) for _ in range(3)]
    assert [each.wait(timeout=300) for each in running] == [0, 0, 0]
    assert (tmp_path / "counter").read_text() == "60"


def _default(directory: Path) -> FileSystemLock:
    return FileSystemLock(STORAGE, str(directory), is_default=True)


def _forked(run: Callable[[], object]) -> int:
    """The number of a child that has run this and then stopped itself."""
    child = os.fork()
    if not child:
        try:
            run()
            os.kill(os.getpid(), signal.SIGSTOP)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    return child


def _write_lock(directory: Path, holder: ProcessIdentity, *, age_ms: int = 0) -> None:
    values = json.loads(new_content()) | {"hudisql": holder.to_json()}
    (directory / "lock").write_text(json.dumps(values))
    _age(directory / "lock", age_ms)


def _age(path: Path, age_ms: int) -> None:
    os.utime(path, (time.time() - age_ms / 1000, time.time() - age_ms / 1000))


def test_the_default_lock_of_a_stopped_process_is_respected_and_of_a_killed_one_removed(
    tmp_path: Path,
) -> None:
    holder = _forked(lambda: _default(tmp_path).try_lock(0))
    _age(tmp_path / "lock", 10 * HOLDER_TIMEOUT_MS)
    with (
        pytest.raises(TableLockedError, match=f"process {holder} .*is stopped on this host"),
        hold_lock(_default(tmp_path), BRIEFLY),
    ):
        pass
    os.kill(holder, signal.SIGKILL)
    # It is a zombie until its parent has asked.
    with hold_lock(_default(tmp_path), PATIENTLY) as held:
        held.check()
        assert [path.name for path in tmp_path.iterdir()] == ["lock"]
    os.waitpid(holder, 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "is_removed"),
    [
        ({"start": "1"}, True),  # the number is another process's by now
        ({"process": 2**22 + 1}, True),  # there is no such number
        ({}, True),  # a thread of this process that could not release it
        ({"host": "elsewhere"}, False),
        ({"space": "another boot/pid:[1]"}, False),
    ],
)
def test_the_default_lock_of_a_process_that_has_ended_is_removed(
    tmp_path: Path, change: dict[str, Any], is_removed: bool
) -> None:
    _write_lock(tmp_path, replace(this_process(), **change))
    assert _default(tmp_path).try_lock(0) is is_removed
    # A named provider keeps Hudi's rules.
    _write_lock(tmp_path, replace(this_process(), **change))
    assert not _lock(tmp_path).try_lock(0)


def test_a_thread_of_the_same_process_waits_for_the_default_lock(tmp_path: Path) -> None:
    with hold_lock(_default(tmp_path), BRIEFLY):
        assert not _default(tmp_path).try_lock(0)
    assert _default(tmp_path).try_lock(0)


def test_the_default_lock_of_another_host_expires_without_a_heartbeat(tmp_path: Path) -> None:
    _write_lock(tmp_path, replace(this_process(), host="elsewhere"), age_ms=HOLDER_TIMEOUT_MS + 1000)
    lock = read_lock_file(STORAGE, str(tmp_path / "lock"))
    assert lock is not None
    Path(lock.heartbeat_path).touch()
    assert not _default(tmp_path).try_lock(0)
    _age(Path(lock.heartbeat_path), HOLDER_TIMEOUT_MS + 1000)
    assert _default(tmp_path).try_lock(0)
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_the_default_lock_that_a_running_process_has_forgotten_expires(tmp_path: Path) -> None:
    sleeper = subprocess.Popen(["sleep", "600"])
    try:
        start = process_start(sleeper.pid)
        holder = replace(this_process(), process=sleeper.pid, start=start)
        _write_lock(tmp_path, holder, age_ms=HOLDER_TIMEOUT_MS + 1000)
        lock = read_lock_file(STORAGE, str(tmp_path / "lock"))
        assert lock is not None
        Path(lock.heartbeat_path).touch()
        assert not _default(tmp_path).try_lock(0)
        _age(Path(lock.heartbeat_path), HOLDER_TIMEOUT_MS + 1000)
        assert _default(tmp_path).try_lock(0)
    finally:
        sleeper.kill()
        sleeper.wait()


def test_a_lock_whose_renewal_cannot_start_is_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            _default(tmp_path).try_lock(0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_a_release_that_fails_is_tried_again_and_what_is_left_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    calls: list[str] = []
    delete_file = Storage.delete_file

    def fail(self: Storage, path: str) -> None:
        if path.endswith("/lock") and len(calls) < failures:
            calls.append(path)
            raise StorageError("the store is away")
        delete_file(self, path)

    monkeypatch.setattr(Storage, "delete_file", fail)
    monkeypatch.setattr("hudisql.write.transaction.lock._RELEASE_PAUSES_SECONDS", (0.0, 0.0))
    lock = _default(tmp_path)
    with hold_lock(lock, BRIEFLY):
        pass
    assert (tmp_path / "lock").exists() is (failures > 2)
    # Another thread of the process, and the same lock again.
    for each in (_default(tmp_path), lock):
        with hold_lock(each, BRIEFLY) as held:
            held.check()
    assert list(tmp_path.iterdir()) == []


def test_a_release_that_is_interrupted_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, calls = Storage.read, iter([KeyboardInterrupt])

    def interrupt(self: Storage, path: str) -> bytes:
        for error in calls:
            raise error
        return read(self, path)

    monkeypatch.setattr(Storage, "read", interrupt)
    with pytest.raises(KeyboardInterrupt), hold_lock(_default(tmp_path), BRIEFLY):
        pass
    assert list(tmp_path.iterdir()) == []


def test_the_default_lock_is_renewed_while_it_is_held_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hudisql.write.transaction.lock._RENEWAL_MS", 1)
    with hold_lock(_default(tmp_path), BRIEFLY):
        lock = read_lock_file(STORAGE, str(tmp_path / "lock"))
        assert lock is not None
        while not Path(lock.heartbeat_path).exists():
            time.sleep(0.001)
    assert list(tmp_path.iterdir()) == []


def test_a_lock_without_a_name_is_never_removed_unless_it_may_expire(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    _age(tmp_path / "lock", 10 * HOLDER_TIMEOUT_MS)
    assert not _default(tmp_path).try_lock(0)
    assert replace(_default(tmp_path), expire_minutes=1).try_lock(0)


def test_of_two_waiters_that_find_a_dead_holder_none_removes_the_lock_of_the_next(tmp_path: Path) -> None:
    _write_lock(tmp_path, replace(this_process(), start="1"))
    slow = read_lock_file(STORAGE, str(tmp_path / "lock"))
    assert slow is not None
    with hold_lock(_default(tmp_path), BRIEFLY) as held:
        remove_lock_file(STORAGE, slow)
        held.check()
        assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_while_a_waiter_removes_a_dead_lock_others_leave_it_alone_unless_the_waiter_dies(
    tmp_path: Path,
) -> None:
    _write_lock(tmp_path, replace(this_process(), start="1"))
    dead = read_lock_file(STORAGE, str(tmp_path / "lock"))
    assert dead is not None
    remover = _forked(lambda: Path(dead.claim_path(0)).write_bytes(new_content()))
    assert not _default(tmp_path).try_lock(0)
    os.kill(remover, signal.SIGKILL)
    os.waitpid(remover, 0)
    assert _default(tmp_path).try_lock(0)
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_who_polls_does_not_wait_for_the_next_attempt(tmp_path: Path) -> None:
    holder = _forked(lambda: _default(tmp_path).try_lock(0))
    threading.Timer(0.1, os.kill, (holder, signal.SIGKILL)).start()
    # Without polling the second attempt would come in an hour.
    with hold_lock(_default(tmp_path), LockRetryPolicy(1, 3_600_000, poll_ms=5)) as held:
        held.check()
    os.waitpid(holder, 0)


def test_who_waits_asks_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    clock = SimpleNamespace(sleep=pauses.append, monotonic=lambda: sum(pauses))
    monkeypatch.setattr("hudisql.write.transaction.lock.time", clock)
    monkeypatch.setattr("hudisql.write.transaction.lock.random.uniform", lambda *_bounds: 1.0)
    lock = InProcessLock("/polled")
    monkeypatch.setattr(InProcessLock, "try_lock", lambda *_: False)
    with pytest.raises(TableLockedError), hold_lock(lock, LockRetryPolicy(2, 20_000, poll_ms=20)):
        pass
    assert sum(pauses) == pytest.approx(40)
    assert pauses[:3] == pytest.approx([0.02, 0.03, 0.045])
    assert max(pauses) == 1
    # Also after the second attempt.
    assert len(pauses) < 60


def test_a_poll_of_a_lock_that_is_held_creates_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hold_lock(_default(tmp_path), BRIEFLY):
        created: list[str] = []
        monkeypatch.setattr(Storage, "create", lambda _self, path, _content: created.append(path))
        assert not _default(tmp_path).try_lock(0)
        assert created == []


def test_without_proc_machines_of_one_host_name_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: Path, *_arguments: Any) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", refuse)
    spaces = []
    for card in (1, 2, 2):
        monkeypatch.setattr("hudisql.write.transaction.process_identity.uuid.getnode", lambda card=card: card)
        spaces.append(process_space.__wrapped__())
    assert spaces[0] != spaces[1] == spaces[2]


def test_conflicts_are_retried_without_a_lock_too() -> None:
    retries = {"hoodie.write.num.retries.on.conflict.failures": "3"}
    assert _read(**retries).conflict_retries == 3
    assert _read(**retries, hudisql__write__lock="none").conflict_retries == 3


def test_what_is_no_identity_names_no_process() -> None:
    nothing: tuple[Any, ...] = (None, [], {}, {"host": 1, "processes": "", "process": 1})
    for values in nothing:
        assert parse_identity(values) is None
    assert parse_identity(this_process().to_json()) == this_process()
    assert this_process().has_ended is False


def test_the_lock_within_a_process_is_one_for_each_table() -> None:
    with hold_lock(InProcessLock("/one"), BRIEFLY) as held:
        held.check()
        assert not InProcessLock("/one").try_lock(10)
        with hold_lock(InProcessLock("/two"), BRIEFLY):
            pass
        with pytest.raises(TableLockedError, match="/one"), hold_lock(InProcessLock("/one"), BRIEFLY):
            pass
    with hold_lock(InProcessLock("/one"), BRIEFLY):
        pass


def _read(**settings: str) -> co.Concurrency:
    given = {key.replace("__", "."): value for key, value in settings.items()}
    return co.read_concurrency(HudiConfig(given.get), STORAGE, "/data/t")


def test_settings_mean_what_they_mean_to_hudi() -> None:
    assert _read(hudisql__write__lock="none") == co.SINGLE_WRITER
    default = _read()
    assert default.lock == FileSystemLock(STORAGE, "/data/t/.hoodie", is_default=True)
    assert (default.optimistic, default.failed_writes) == (False, co.FailedWrites.EAGER)
    assert default.lock_retry_policy.poll_ms > 0
    shared = _read(hoodie__write__concurrency__mode="optimistic_concurrency_control")
    assert shared.lock == default.lock
    provider = {"hoodie__write__lock__provider": co.FILE_SYSTEM_PROVIDER}
    found = _read(
        **provider,
        hoodie__write__concurrency__mode="optimistic_concurrency_control",
        hoodie__cleaner__policy__failed__writes="EAGER",
        hoodie__write__lock__filesystem__expire="7",
        hoodie__write__lock__client__num_retries="3",
        hoodie__write__lock__client__wait_time_ms_between_retry="250",
    )
    assert found.optimistic
    assert found.failed_writes is co.FailedWrites.LAZY
    assert found.lock == FileSystemLock(STORAGE, "/data/t/.hoodie", 7)
    assert found.lock_retry_policy == LockRetryPolicy(3, 250, 60_000)
    assert found.heartbeat_tolerance_ms == 120_000
    elsewhere = _read(**provider, hoodie__write__lock__filesystem__path="file:///locks/t")
    assert elsewhere.lock == FileSystemLock(STORAGE, "/locks/t", 0)
    assert elsewhere.failed_writes is co.FailedWrites.EAGER


def test_the_default_lock_is_in_the_directory_that_is_set_for_lock_files() -> None:
    elsewhere = _read(hoodie__write__lock__filesystem__path="file:///locks/t")
    assert elsewhere.lock == FileSystemLock(STORAGE, "/locks/t", is_default=True)


@pytest.mark.parametrize("key", ["zookeeper.url", "dynamodb.table", "hivemetastore.database"])
def test_settings_of_a_lock_whose_provider_is_not_set_are_refused_by_name(key: str) -> None:
    settings = {f"hoodie.write.lock.{key}": "x", "hoodie.write.concurrency.mode": co._OPTIMISTIC}
    with pytest.raises(UnsupportedTableError, match=f"{key} and without hoodie.write.lock.provider"):
        _read(**settings)
    _read(**settings, hoodie__write__lock__provider=co.FILE_SYSTEM_PROVIDER)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("hoodie.write.lock.provider", f"{PACKAGE}.lock.ZookeeperBasedLockProvider", "Zookeeper"),
        ("hoodie.write.lock.provider", "org.apache.hudi.aws.DynamoDBBasedLockProvider", "DynamoDB"),
        ("hoodie.write.concurrency.mode", "non_blocking_concurrency_control", "NON_BLOCKING"),
        ("hoodie.write.lock.conflict.resolution.strategy", "org.example.Own", "org.example.Own"),
    ],
)  # fmt: skip
def test_what_hudisql_lacks_is_refused_by_name(key: str, value: str, said: str) -> None:
    with pytest.raises(UnsupportedTableError, match=said):
        _read(**{key: value})


def test_several_writers_without_a_lock_are_refused() -> None:
    mode = {"hoodie__write__concurrency__mode": "optimistic_concurrency_control"}
    with pytest.raises(SettingsError, match="needs a lock"):
        _read(**mode, hudisql__write__lock="none")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.cleaner.policy.failed.writes", "SOMETIMES"),
        ("hoodie.client.heartbeat.interval_in_ms", "10"),
        ("hoodie.write.lock.client.num_retries", "-1"),
    ],
)
def test_values_that_are_none_are_refused(key: str, value: str) -> None:
    with pytest.raises(SettingsError, match=key):
        _read(**{key: value})
