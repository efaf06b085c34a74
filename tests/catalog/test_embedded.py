"""The embedded metastore: shared among processes, ended with its last user, whatever dies how."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.embedded import (
    DIRECTORY_NAME,
    acquire_embedded_metastore,
    embedded_metastore_status,
    start_embedded_metastore,
    stop_embedded_metastore,
)
from hudisql.errors import MetastoreUnavailableError, SettingsError
from tests.processes import wait_for

pytestmark = pytest.mark.hms

FAST = ("-Dderby.system.durability=test",)
USER = textwrap.dedent(
    """
    import sys, time
    from hudisql.catalog.embedded import acquire_embedded_metastore
    with acquire_embedded_metastore(sys.argv[1]) as metastore:
        print(metastore.uri, flush=True)
        sys.stdin.read()
    """
)


def _is_alive(pid: int | None) -> bool:
    assert pid is not None
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"


def _listening_addresses(port: int) -> set[str]:
    """The local addresses (hexadecimal, as the kernel prints them) that listen on a port."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            local, state = line.split()[1], line.split()[3]
            if local.endswith(f":{port:04X}") and state == "0A":
                found.add(local.split(":")[0])
    return found


def _start_user(warehouse: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", USER, str(warehouse)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )


def _end_user(user: subprocess.Popen[str]) -> None:
    user.kill()
    user.communicate()


@pytest.mark.soak
def test_processes_that_start_at_once_share_one_server_and_a_killed_last_user_ends_it(tmp_path: Path) -> None:
    users = [_start_user(tmp_path) for _ in range(3)]
    try:
        uris = {user.stdout.readline().strip() for user in users if user.stdout}
        assert len(uris) == 1
        status = embedded_metastore_status(tmp_path)
        assert status.running
        assert {status.uri} == uris
        assert _listening_addresses(int(uris.pop().rsplit(":", 1)[1])) <= {
            "0100007F",
            "0000000000000000FFFF00000100007F",
        }
        _end_user(users[0])
        _end_user(users[1])
        time.sleep(0.5)
        assert embedded_metastore_status(tmp_path).running
        _end_user(users[2])
        wait_for(lambda: not _is_alive(status.server_pid) and not _is_alive(status.watcher_pid), seconds=120)
        assert not embedded_metastore_status(tmp_path).running
    finally:
        for user in users:
            _end_user(user)


@pytest.mark.soak
def test_a_killed_watcher_takes_its_server_along_and_the_next_user_starts_anew_with_all_data(
    tmp_path: Path,
) -> None:
    with acquire_embedded_metastore(tmp_path) as metastore:
        with MetastoreClient(metastore.uri) as client:
            assert client.create_database("kept_data")
        status = embedded_metastore_status(tmp_path)
        assert status.watcher_pid is not None
        os.kill(status.watcher_pid, signal.SIGKILL)
        wait_for(lambda: not _is_alive(status.server_pid), seconds=120)
        assert not embedded_metastore_status(tmp_path).running
        with acquire_embedded_metastore(tmp_path) as second, MetastoreClient(second.uri) as client:
            assert client.list_databases() == ["default", "kept_data"]


@pytest.mark.soak
def test_a_server_that_dies_is_started_again_for_the_next_user(tmp_path: Path) -> None:
    with acquire_embedded_metastore(tmp_path, java_options=FAST):
        status = embedded_metastore_status(tmp_path)
        assert status.server_pid is not None
        os.kill(status.server_pid, signal.SIGKILL)
        wait_for(lambda: not _is_alive(status.watcher_pid), seconds=120)
        with acquire_embedded_metastore(tmp_path, java_options=FAST):
            assert embedded_metastore_status(tmp_path).server_pid != status.server_pid


@pytest.mark.soak
def test_a_kept_server_outlives_its_users_until_it_is_stopped(tmp_path: Path) -> None:
    status = start_embedded_metastore(tmp_path, java_options=FAST)
    try:
        assert status.running
        assert status.kept
        time.sleep(0.5)
        with acquire_embedded_metastore(tmp_path) as user:
            assert user.uri == status.uri
            # Others still use it: it goes on, and ends with them.
            assert stop_embedded_metastore(tmp_path).running
        wait_for(lambda: not _is_alive(status.server_pid), seconds=120)
        assert not stop_embedded_metastore(tmp_path).running
    finally:
        stop_embedded_metastore(tmp_path, force=True)


@pytest.mark.soak
def test_stopping_by_force_ends_the_server_under_its_users(tmp_path: Path) -> None:
    with acquire_embedded_metastore(tmp_path, java_options=FAST):
        server = embedded_metastore_status(tmp_path).server_pid
        assert not stop_embedded_metastore(tmp_path, force=True).running
        assert not _is_alive(server)


def test_a_server_that_cannot_start_is_one_error_with_the_end_of_its_log(tmp_path: Path) -> None:
    with pytest.raises(MetastoreUnavailableError) as raised:
        acquire_embedded_metastore(tmp_path, java_options=["-XX:+NoSuchOption"])
    assert "exit code 1" in str(raised.value)
    assert "NoSuchOption" in str(raised.value)
    assert str(tmp_path / DIRECTORY_NAME / "metastore.log") in str(raised.value)
    # The failure leaves nothing behind that would hinder the next start.
    with acquire_embedded_metastore(tmp_path, java_options=FAST):
        assert embedded_metastore_status(tmp_path).running


def test_a_server_that_the_last_user_left_does_not_run_and_stopping_waits_for_its_end(tmp_path: Path) -> None:
    with acquire_embedded_metastore(tmp_path, java_options=FAST):
        server = embedded_metastore_status(tmp_path).server_pid
        os.kill(server or 0, signal.SIGSTOP)
    assert not embedded_metastore_status(tmp_path).running
    os.kill(server or 0, signal.SIGCONT)
    stop_embedded_metastore(tmp_path)
    assert not _is_alive(server)


def test_those_that_ask_at_once_do_not_take_each_other_for_users(tmp_path: Path) -> None:
    watcher = subprocess.Popen(["sleep", "60"])
    directory = tmp_path / DIRECTORY_NAME
    directory.mkdir()
    (directory / "users.lock").touch()
    state = {"status": "ready", "port": 1, "watcher_pid": watcher.pid, "server_pid": 1, "kept": False}
    (directory / "state.json").write_text(json.dumps(state))

    def ask(_number: int) -> bool:
        return any(embedded_metastore_status(tmp_path).running for _ in range(2000))

    try:
        with (directory / "watcher.lock").open("ab") as lock, ThreadPoolExecutor(4) as threads:
            fcntl.flock(lock, fcntl.LOCK_EX)
            assert not any(threads.map(ask, range(4)))
        # Nobody holds the watcher's lock: what the state says is of a process that is gone.
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda _: stop_embedded_metastore(tmp_path, force=True), range(200)))
        assert watcher.poll() is None
    finally:
        watcher.kill()
        watcher.wait()


def test_a_server_that_never_opens_its_port_is_one_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(MetastoreUnavailableError, match=r"opened no port within 0 s"):
        acquire_embedded_metastore(tmp_path, start_timeout=0.2)


@pytest.mark.parametrize("act", [acquire_embedded_metastore, embedded_metastore_status])
def test_a_warehouse_that_is_no_local_directory_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Path | str], object]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="file is a file, not a directory"):
        act(tmp_path / "file")
    with pytest.raises(SettingsError, match=r"s3a://bucket/w is not a local directory") as caught:
        act("s3a://bucket/w")
    assert "--metastore thrift://" in (caught.value.hint or "")
    if act is acquire_embedded_metastore:
        with pytest.raises(MetastoreUnavailableError, match="cannot keep a metastore"):
            act(tmp_path / "file" / "below")
    else:
        assert not embedded_metastore_status(tmp_path / "file" / "below").running
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_threads_of_one_process_share_the_server(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        held = list(pool.map(lambda _: acquire_embedded_metastore(tmp_path, java_options=FAST), range(4)))
    try:
        assert len({metastore.uri for metastore in held}) == 1
    finally:
        for metastore in held:
            metastore.release()
