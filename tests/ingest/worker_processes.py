"""Ingest workers as processes that may be killed or stopped before any of their changes of the store.

Run as a program this forks a worker for every line of JSON that it reads, so that a start costs milliseconds.
A worker is that of `hudisql ingest worker`, with the same signals; without a `group` it owns all tables.
What a flush needs is compiled before the first worker starts: that takes up to a minute on a busy machine, in
which a worker would come to no step.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hudisql.catalog.client import MetastoreClient
from hudisql.cli.command_end import stop_on_signals
from hudisql.config.settings import Settings
from hudisql.console import PlainConsole
from hudisql.context import Context
from hudisql.format import table_properties as keys
from hudisql.ingest.ownership import OwnsAll
from hudisql.ingest.push.push_limits import PushLimits
from hudisql.ingest.push.push_service import PushOptions
from hudisql.service_process.ingest import run_ingest
from hudisql.storage import Storage
from tests.fault_injection import ROOT, FaultyStorage
from tests.oracle.line_process import LineProcess, start_line_process


@dataclass
class WorkerProcess:
    """A worker that runs, or has ended."""

    pid: int
    log: Path
    server: LineProcess
    has_ended: bool = False

    def end(self, seconds: float = 60) -> int:
        """Wait for the end; the exit code, negative for a signal's number."""
        code: int = self.server.request({"pid": self.pid, "seconds": seconds}, seconds=seconds + 10)["code"]
        self.has_ended = True
        return code

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    @property
    def is_stopped(self) -> bool:
        """True between SIGSTOP and SIGCONT."""
        return self._state == "T"

    @property
    def is_over(self) -> bool:
        """True once it has ended; `end` may still ask how."""
        return self._state == "Z"

    @property
    def _state(self) -> str:
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]

    def said(self) -> str:
        """What it wrote on its console."""
        return self.log.read_text()


@dataclass
class WorkerServer:
    """Starts workers on one metastore."""

    child: LineProcess
    metastore_uri: str
    started: list[WorkerProcess] = field(default_factory=list)

    def start(self, **told: Any) -> WorkerProcess:
        """Start a worker with the arguments of `_work`."""
        log = self.child.directory / f"worker{time.monotonic_ns()}.log"
        log.touch()
        given = {"metastore_uri": self.metastore_uri, "log": str(log), **told}
        worker = WorkerProcess(self.child.request(given, seconds=30)["pid"], log, self.child)
        self.started.append(worker)
        return worker

    def catch_up(self, **told: Any) -> None:
        """A worker takes all that there is, and ends well."""
        worker = self.start(until_caught_up=True, **told)
        assert worker.end() == 0, worker.said()

    def kill_all(self) -> None:
        """Kill what still runs: a worker that a failed test has left would take other tests' events."""
        for worker in self.started:
            if not worker.has_ended:
                worker.signal(signal.SIGKILL)
                worker.end()
        self.started.clear()


@contextmanager
def worker_server(directory: Path, metastore_uri: str) -> Iterator[WorkerServer]:
    """A server that runs; workers that still run at the end are killed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    child = start_line_process("workers", [sys.executable, "-m", __name__], directory, environment)
    try:
        child.request({"compile": True}, seconds=600)
        yield WorkerServer(child, metastore_uri)
    finally:
        child.close()


def _work(
    metastore_uri: str,
    log: str,
    *,
    group: str = "",
    step: int | None = None,
    fault: str = "kill",
    until_caught_up: bool = False,
    refresh_seconds: float = 0.5,
    kafka_config: str = "",
    push: dict[str, Any] | None = None,
    limit_file_bytes: int = -1,
) -> int:
    """A worker, with a fault before its `step`-th change of the store; gives its exit code."""
    if limit_file_bytes > 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit_file_bytes, -1))
    storage = Storage() if step is None else FaultyStorage(step=step, fault=fault)
    replaced: dict[str, Any] = {"storage_without_spark": lambda _context: storage}
    if not group:
        replaced["GroupOwnership"] = lambda *_, **__: OwnsAll()
    vars(run_ingest).update(replaced)
    succeeded = False
    # A log on a full disk cannot be closed.
    with suppress(OSError), Path(log).open("w", buffering=1) as stream, stop_on_signals() as stop:
        console, settings = PlainConsole(stream), Settings(kafka_config=kafka_config)
        context = Context(None, MetastoreClient(metastore_uri), storage, console=console, settings=settings)  # type: ignore[arg-type]
        try:
            succeeded = run_ingest.run_worker(
                context,
                stop,
                run_ingest.WorkerOptions(
                    group=group or "alone",
                    until_caught_up=until_caught_up,
                    refresh_seconds=refresh_seconds,
                    push=None if push is None else push_options(**push),
                ),
            )
        except Exception as error:
            console.warning(f"{type(error).__name__}: {error}")
            return 2
    return 0 if succeeded else 1


def push_options(
    *, log: str, tokens: str | None = None, limits: dict[str, Any] | None = None, **more: Any
) -> PushOptions:
    """The options from JSON."""
    given = PushLimits(**(limits or {}))
    return PushOptions(log=Path(log), tokens=Path(tokens) if tokens else None, limits=given, **more)


def _compile_kernels() -> int:
    """Flush to tables of both types, and read them: numba keeps what it compiles on disk."""
    from tests.ingest.test_table_feed import Fed, events

    with TemporaryDirectory() as directory:
        for kind in (keys.COPY_ON_WRITE, keys.MERGE_ON_READ):
            fed = Fed(Path(directory, kind), kind)
            fed.flush(*events(range(20), 1))
            fed.flush(*events(range(10, 30), 2), {**events([5], 2)[0], "_hoodie_is_deleted": True})
            assert fed.rows()
    return 0


def _fork(run: Callable[[], int]) -> int:
    child = os.fork()
    if not child:
        code = 3
        try:
            sys.stdin.close()
            code = run()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return child


def _end(pid: int, seconds: float) -> int:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    raise subprocess.TimeoutExpired("worker", seconds)


def _answer(told: dict[str, Any], running: set[int]) -> dict[str, Any]:
    if "compile" in told:
        code = _end(_fork(_compile_kernels), 600)
        return {"ok": code == 0, "error": f"compiling ended with {code}", "trace": ""}
    if "pid" not in told:
        pid = _fork(partial(_work, **told))
        running.add(pid)
        return {"ok": True, "pid": pid}
    try:
        code = _end(**told)
    except subprocess.TimeoutExpired as error:
        return {"ok": False, "error": str(error), "trace": ""}
    running.discard(told["pid"])
    return {"ok": True, "code": code}


if __name__ == "__main__":
    workers: set[int] = set()
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line), workers)), flush=True)
    for left in workers:
        os.kill(left, signal.SIGKILL)
        os.waitpid(left, 0)
