"""The embedded default: a real Hive Metastore 2.3.10 on Derby, shared by the processes of one machine.

Its jars are the ones pyspark ships, its database lies in `<warehouse>/.metastore/derby`. Every user holds a
shared `flock` on `<warehouse>/.metastore/users.lock`; a watcher process (`metastore_watcher.py`) holds the
server and stops it once nobody holds that lock, which is also released by `kill -9`. Knows nothing of tables
or of the Thrift protocol.
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import IO

from hudisql.errors import HudisqlError, MetastoreUnavailableError, SettingsError
from hudisql.java_runtime import find_java_home
from hudisql.storage import scheme_of

DIRECTORY_NAME = ".metastore"
START_TIMEOUT_SECONDS = 180.0
_JAVA_OPTIONS = ("-Xmx512m", "-Xss8m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_LOG_TAIL_LINES = 15


@dataclass(frozen=True, slots=True)
class MetastoreStatus:
    """The status of a warehouse's embedded metastore. `kept`: runs on without users until stopped."""

    directory: Path
    running: bool
    uri: str | None = None
    watcher_pid: int | None = None
    server_pid: int | None = None
    kept: bool = False


class EmbeddedMetastore:
    """One user's claim on a running embedded metastore at `uri`, until `release()` (or the end of `with`)."""

    def __init__(self, uri: str, directory: Path, users_lock: IO[bytes]) -> None:
        self.uri = uri
        self.directory = directory
        self._users_lock = users_lock

    def release(self) -> None:
        """Release the server; the last user's release stops it. May be called twice."""
        self._users_lock.close()

    def __enter__(self) -> EmbeddedMetastore:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.release()


def acquire_embedded_metastore(
    warehouse: str | Path,
    *,
    java_options: Sequence[str] = (),
    start_timeout: float = START_TIMEOUT_SECONDS,
) -> EmbeddedMetastore:
    """Become a user of the warehouse's metastore: find the running one, or start it.

    `java_options` (`-Xmx2g`, `-Dx=y`) are used only by the process that starts the server. Of several
    concurrent processes one starts it, the others wait for it (`start_timeout` in seconds). Raises
    MetastoreUnavailableError with the end of the server's log if it does not come up, and SettingsError if
    there is no Java, no metastore among Spark's jars, or the warehouse is not a local directory.
    """
    directory, users_lock = _opened_directory(warehouse)
    try:
        # Waits only while a watcher is stopping the server of the last user before us.
        fcntl.flock(users_lock, fcntl.LOCK_SH)
        with _exclusive(directory / "start.lock"):
            port = _running_port(directory, start_timeout)
            if port is None:
                _launch_watcher(directory, java_options, start_timeout)
                port = _running_port(directory, start_timeout)
        if port is None:
            raise _start_failure(directory, "the server ended while it was starting")
    except BaseException:
        users_lock.close()
        raise
    return EmbeddedMetastore(f"thrift://127.0.0.1:{port}", directory, users_lock)


def start_embedded_metastore(warehouse: str | Path, *, java_options: Sequence[str] = ()) -> MetastoreStatus:
    """Start the warehouse's metastore (or find it) and keep it running without users until it is stopped.

    Raises MetastoreUnavailableError, SettingsError.
    """
    with acquire_embedded_metastore(warehouse, java_options=java_options):
        deadline = time.monotonic() + 10
        while not (status := embedded_metastore_status(warehouse)).kept and time.monotonic() < deadline:
            # Repeated, because a watcher that is just starting may not listen yet.
            _signal_watcher(warehouse, signal.SIGUSR1)
            time.sleep(0.05)
    return status


def stop_embedded_metastore(warehouse: str | Path, *, force: bool = False) -> MetastoreStatus:
    """Stop a kept metastore: at once if nobody uses it, else after its last user.

    `force` waits for no users, and also ends one that is starting. Returns once the server has ended, or with
    a status that says that it still runs. Does nothing if no server runs.
    """
    directory = _directory_of(warehouse)
    _signal_watcher(warehouse, signal.SIGTERM if force else signal.SIGUSR2)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if not _is_watched(directory):
            break
        released = not force and not _read_state(directory).get("kept")
        if released and _has_users(directory):
            break
        time.sleep(0.05)
    return embedded_metastore_status(warehouse)


def embedded_metastore_status(warehouse: str | Path) -> MetastoreStatus:
    """Whether the warehouse's metastore runs, and where. Starts and stops nothing.

    A server that is about to stop after its last user counts as stopped.
    """
    directory = _directory_of(warehouse)
    state = _read_state(directory)
    serves = _is_watched(directory) and state.get("status") == "ready"
    if not serves or not (state.get("kept") or _has_users(directory)):
        return MetastoreStatus(directory, running=False)
    return MetastoreStatus(
        directory,
        running=True,
        uri=f"thrift://127.0.0.1:{state['port']}",
        watcher_pid=_integer(state.get("watcher_pid")),
        server_pid=_integer(state.get("server_pid")),
        kept=bool(state.get("kept")),
    )


def check_embedded_warehouse(warehouse: str | Path) -> None:
    """Raise SettingsError if the warehouse cannot hold an embedded metastore. Starts nothing."""
    _directory_of(warehouse)


def check_writable_warehouse(warehouse: str | Path) -> None:
    """Make the directory of the warehouse's metastore; raises MetastoreUnavailableError if that fails."""
    _opened_directory(warehouse)[1].close()


def _opened_directory(warehouse: str | Path) -> tuple[Path, IO[bytes]]:
    """The directory of the warehouse's metastore, which is made, and its users' lock file."""
    directory = _directory_of(warehouse)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return directory, (directory / "users.lock").open("ab")
    except OSError as error:
        raise MetastoreUnavailableError(
            f"cannot keep a metastore under the warehouse: {error.filename}: {error.strerror}",
            hint="choose a writable directory with --warehouse, or a running metastore with --metastore",
        ) from error


def _directory_of(warehouse: str | Path) -> Path:
    """The directory of the warehouse's metastore."""
    scheme = scheme_of(str(warehouse))
    if scheme:
        raise SettingsError(
            f"the warehouse {warehouse} is not a local directory, which the embedded metastore needs",
            hint="give a local --warehouse, and tables a LOCATION on the store; or --metastore thrift://…, "
            f"whose warehouse may be on {scheme}:",
        )
    root = Path(warehouse).absolute()
    if root.exists() and not root.is_dir():
        raise SettingsError(
            f"the warehouse {root} is a file, not a directory", hint="give a directory with --warehouse"
        )
    return root / DIRECTORY_NAME


def find_spark_jars() -> Path:
    """The `jars` directory of the installed pyspark package (or of SPARK_HOME), found without importing it.

    Raises SettingsError if there is none with a Hive Metastore.
    """
    spec = importlib.util.find_spec("pyspark")
    directories = list(spec.submodule_search_locations or []) if spec else []
    if spark_home := os.environ.get("SPARK_HOME"):
        directories.append(spark_home)
    for directory in directories:
        if any((Path(directory) / "jars").glob("hive-metastore-*.jar")):
            return Path(directory) / "jars"
    raise SettingsError(
        f"no Hive Metastore among Spark's jars (looked in: {', '.join(directories) or 'no pyspark package'})",
        hint="`pip install pyspark` brings it; `pyspark-client` and `pyspark-connect` do not",
    )


def render_hive_site(properties: Mapping[str, str]) -> str:
    """A Hadoop configuration file with these properties."""
    lines = ['<?xml version="1.0"?>', "<configuration>"]
    for name, value in properties.items():
        lines.append(f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>")
    return "\n".join([*lines, "</configuration>", ""])


def embedded_hive_site(warehouse: str | Path) -> dict[str, str]:
    """The settings of the embedded server; `catalog/README.md` gives the reason for each."""
    root = Path(warehouse).absolute()
    derby = root / DIRECTORY_NAME / "derby"
    return {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={derby};create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "datanucleus.schema.autoCreateAll": "true",
        "datanucleus.connectionPoolingType": "HikariCP",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": root.as_uri(),
        "hive.async.log.enabled": "false",
        "hive.support.concurrency": "false",
        "hive.stats.autogather": "false",
    }


def _running_port(directory: Path, timeout: float) -> int | None:
    """The port of the running server, waiting while it starts or stops. None: there is none."""
    # The watcher has its own timeout and reports the reason; the additional time is for stopping a hanging
    # server.
    deadline = time.monotonic() + timeout + 25
    while _is_watched(directory):
        state = _read_state(directory)
        if state.get("status") == "failed":
            raise _start_failure(directory, str(state.get("reason")))
        if state.get("status") == "ready":
            port = _integer(state.get("port")) or 0
            if _answers(port):
                return port
        if time.monotonic() > deadline:
            raise _start_failure(directory, f"it did not answer within {timeout:.0f} s")
        time.sleep(0.05)
    if _read_state(directory).get("status") == "failed":
        raise _start_failure(directory, str(_read_state(directory).get("reason")))
    return None


def _launch_watcher(directory: Path, java_options: Sequence[str], start_timeout: float) -> None:
    java, jars = Path(find_java_home()) / "bin" / "java", find_spark_jars()
    configuration = directory / "conf"
    configuration.mkdir(exist_ok=True)
    (configuration / "hive-site.xml").write_text(render_hive_site(embedded_hive_site(directory.parent)))
    for name in ("LoopbackMetastore.java", "metastore-log4j2.properties"):
        (configuration / name).write_text(resources.files("hudisql.catalog").joinpath(name).read_text())
    command = [
        str(java),
        *_JAVA_OPTIONS,
        f"-Dderby.stream.error.file={directory / 'derby.log'}",
        f"-Dlog4j2.configurationFile={configuration / 'metastore-log4j2.properties'}",
        *java_options,
        "-cp",
        f"{configuration}:{jars}/*",
        "org.codehaus.janino.SimpleCompiler",
        str(configuration / "LoopbackMetastore.java"),
        "LoopbackMetastore",
    ]
    command_file = directory / "command.json"
    command_file.write_text(json.dumps({"command": command, "start_timeout": start_timeout}))
    (directory / "state.json").unlink(missing_ok=True)
    watcher = Path(__file__).with_name("metastore_watcher.py")
    launched = subprocess.run(
        [sys.executable, "-I", str(watcher), str(directory), str(command_file)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if launched.returncode:
        raise MetastoreUnavailableError(
            f"the embedded metastore's watcher did not start (exit code {launched.returncode}): "
            f"{launched.stderr.strip()[-500:]}"
        )


def _start_failure(directory: Path, reason: str) -> HudisqlError:
    log = directory / "metastore.log"
    tail = log.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:] if log.exists() else []
    shown = "\n".join(f"    {line}" for line in tail) or "    (the log is empty)"
    (directory / "state.json").unlink(missing_ok=True)
    return MetastoreUnavailableError(
        f"the embedded metastore of {directory.parent} did not start: {reason}\n{shown}",
        hint=f"the whole log is {log} (Derby's own: {directory / 'derby.log'}); "
        "--metastore thrift://host:port uses another metastore",
    )


def _signal_watcher(warehouse: str | Path, number: signal.Signals) -> None:
    directory = _directory_of(warehouse)
    state = _read_state(directory)
    pid = _integer(state.get("watcher_pid"))
    if pid is not None and state.get("status") in {"starting", "ready"} and _is_watched(directory):
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _read_state(directory: Path) -> dict[str, object]:
    try:
        state: dict[str, object] = json.loads((directory / "state.json").read_text())
    except (OSError, ValueError):
        return {}
    return state


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            return True
    except OSError:
        return False


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which is made if it is missing, or of a directory."""
    if not path.is_dir():
        path.touch()
    lock = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _is_watched(directory: Path) -> bool:
    """True if a watcher runs: only a watcher locks this file exclusively; this check shares it briefly."""
    return not _can_lock(directory / "watcher.lock", fcntl.LOCK_SH)


def _has_users(directory: Path) -> bool:
    """True if another process shares the users' lock, which the watcher takes exclusively to stop.

    The check takes the lock for a moment, too; the lock on the directory separates concurrent checks.
    """
    users = directory / "users.lock"
    with _exclusive(directory):
        shared = _can_lock(users, fcntl.LOCK_SH) and not _can_lock(users, fcntl.LOCK_EX)
        # Checked again: the watcher may have taken it in between.
        return shared and _can_lock(users, fcntl.LOCK_SH)


def _can_lock(path: Path, kind: int) -> bool:
    try:
        with path.open("rb") as lock:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except BlockingIOError:
        return False
    return True
