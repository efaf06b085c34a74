"""Hudi's locks: who has one, for how long others wait, and what becomes of one that its writer left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hudisql.errors import SettingsError, TableLockedError, UnsupportedTableError, WriteConflictError
from hudisql.hudi_config import HudiConfig
from hudisql.storage import Storage
from hudisql.write.transaction import concurrency as co
from hudisql.write.transaction.lock import FileSystemLock, InProcessLock, LockRetryPolicy, hold_lock

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
        assert set(said) == {"lockCreateTime", "lockThreadName", "lockStacksInfo"}
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
    assert _read() == co.SINGLE_WRITER
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


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("hoodie.write.lock.provider", f"{PACKAGE}.lock.ZookeeperBasedLockProvider", "Zookeeper"),
        ("hoodie.write.lock.provider", "org.apache.hudi.aws.DynamoDBBasedLockProvider", "DynamoDB"),
        ("hoodie.write.concurrency.mode", "non_blocking_concurrency_control", "NON_BLOCKING"),
        ("hoodie.write.concurrency.mode", "optimistic_concurrency_control", "needs a lock"),
        ("hoodie.write.lock.conflict.resolution.strategy", "org.example.Own", "org.example.Own"),
    ],
)  # fmt: skip
def test_what_hudisql_lacks_is_refused_by_name(key: str, value: str, said: str) -> None:
    with pytest.raises(UnsupportedTableError, match=said):
        _read(**{key: value})


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
