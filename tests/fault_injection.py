"""Faults at a chosen step of a statement, by real means: SIGKILL, or a kernel that refuses to write.

A statement is run by a process of its own, which uses the suite's warm JVM, so that a crash costs seconds and
not a Spark start. The JVM goes on with the dead driver's tasks, so that late tasks are tested, too.
`FaultyStorage` alone serves tests without Spark (tests/write/crashed_commits.py).
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from hudisql.storage import Storage

CALLS = (
    "write",
    "create",
    "open_output",
    "delete_file",
    "delete_files",
    "write_files",
    "make_directories",
    "delete_directory",
)
ROOT = Path(__file__).parents[1]
# By driver and step: Spark uses a worker again for other statements.
_steps: dict[tuple[int, int], int] = {}


@dataclass(frozen=True)
class FaultyStorage(Storage):
    """A storage that injects a fault before the `step`-th change of a process.

    `process` is "driver", "worker" (a task's own steps) or "task" (the task that begins the `step`-th
    skeleton). `fault` is "kill" (SIGKILL to this process, or to `target_pid`), "kill_executor" (SIGKILL to
    the executor of this worker, once: it leaves a file in the directory `barrier`), "stop" (this process
    stops until SIGCONT), "disk_full" (the kernel lets this process write no byte from here on) or "barrier"
    (this process waits until a second one has reached its step; both create a file named after their process
    number in the directory `barrier`). With `counted` only changes of this kind are steps of the driver:
    "metastore" or one of `CALLS`.
    """

    target: str = ""
    process: str = "driver"
    fault: str = "kill"
    step: int = 0
    target_pid: int = 0
    barrier: str = ""
    counted: str = ""
    driver: int = field(default_factory=os.getpid)

    def inject_if_due(self, method: str) -> None:
        is_driver = os.getpid() == self.driver
        if is_driver and self.counted not in ("", method):
            return
        if self.process == ("driver" if is_driver else "worker"):
            step = _steps.get((self.driver, self.step), 0)
            _steps[self.driver, self.step] = step + 1
            if step == self.step:
                self._inject()
        elif not is_driver and self.process == "task" and method in self._task_methods():
            begun = len(list(Path(self.target).rglob("*_*.parquet")))
            if begun >= self.step:
                self._inject()

    def _task_methods(self) -> tuple[str, ...]:
        # A task that appends to a slice opens no file: others are met at its marker.
        return ("open_output", "write") if self.fault == "barrier" else ("open_output",)

    def _inject(self) -> None:
        if self.fault == "kill":
            os.kill(self.target_pid or os.getpid(), signal.SIGKILL)
            return
        if self.fault == "kill_executor":
            self._kill_executor()
            return
        if self.fault == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
            return
        if self.fault == "barrier":
            barrier = Path(self.barrier)
            (barrier / str(os.getpid())).touch()
            while len(list(barrier.iterdir())) < 2:
                time.sleep(0.001)
            return
        if os.getpid() != self.driver:
            # Spark uses its workers again: they have space once `_free_space` removes the mark.
            mark = Path(self.barrier, str(os.getpid()))
            mark.touch()
            Thread(target=_wait_for_space, args=(mark,), daemon=True).start()
        # From here on the kernel lets this process write no byte to any file.
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    def _kill_executor(self) -> None:
        with suppress(FileExistsError):
            Path(self.barrier, "killed").touch(exist_ok=False)
            # Between an executor and its workers stands Spark's daemon.
            executor = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1]
            os.kill(int(executor), signal.SIGKILL)


def _wait_for_space(mark: Path) -> None:
    while mark.exists():
        time.sleep(0.01)
    resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
    mark.with_suffix(".space").touch()


def _free_space(marks: Path) -> None:
    """Let the workers whose disk was full write again."""
    for mark in list(marks.iterdir()):
        space = mark.with_suffix(".space")
        mark.unlink()
        while Path("/proc", mark.name).exists() and not space.exists():
            time.sleep(0.01)


def _with_fault(method: str) -> Any:
    original = getattr(Storage, method)

    def call(self: FaultyStorage, path: Any, *arguments: Any) -> Any:
        self.inject_if_due(method)
        return original(self, path, *arguments)

    return call


for _method in CALLS:
    setattr(FaultyStorage, _method, _with_fault(_method))


_archivers: dict[str, list[str]] = {}


@dataclass(frozen=True)
class ArchivingStorage(Storage):
    """A storage behind which another process archives, without a lock, while `archives_meanwhile`.

    It does so once, before this process reads the first completed instant that it has listed: an empty commit
    follows, and all instants before it are archived, up to a replacecommit whose files are not cleaned yet.
    """

    base_path: str = ""

    @contextmanager
    def archives_meanwhile(self) -> Iterator[list[str]]:
        """Gives the instant times that were taken away, when they have been."""
        gone: list[str] = []
        _archivers[self.base_path] = gone
        try:
            yield gone
        finally:
            del _archivers[self.base_path]

    def read(self, path: str) -> bytes:
        self._archive_if_due([path])
        return super().read(path)

    def read_end(self, path: str, most: int) -> tuple[bytes, int]:
        self._archive_if_due([path])
        return super().read_end(path, most)

    def read_files(self, paths: Sequence[str]) -> list[bytes]:
        self._archive_if_due(paths)
        return super().read_files(paths)

    def _archive_if_due(self, paths: Sequence[str]) -> None:
        from hudisql.table.hudi_table import open_table

        gone = _archivers.get(self.base_path)
        if gone is None or gone:
            return
        table = open_table(Storage(), self.base_path)
        completed = [each for each in table.timeline.completed if each.action != "savepoint"]
        if {table.instant_path(each) for each in completed} & set(paths):
            gone.extend(each.timestamp for each in completed)
            _commit_and_archive(table, completed)


def _commit_and_archive(table: Any, instants: Sequence[Any]) -> None:
    from hudisql.format.schema.avro_schema import avro_from_arrow
    from hudisql.format.timeline.commit_metadata import CommitMetadata
    from hudisql.format.timeline.instant import Instant, InstantState, new_instant_time
    from hudisql.services.archive.archive_action import archive_instants
    from hudisql.services.archive.archive_plan import until_files_are_left
    from hudisql.table.properties.timeline_clock import now_on_timeline
    from hudisql.write.transaction.timeline_files import timeline_files

    files = timeline_files(table.timeline.layout)
    time = new_instant_time(table.timeline.latest_time, now_on_timeline(table))
    action = "deltacommit" if table.is_merge_on_read else "commit"
    for state in (InstantState.REQUESTED, InstantState.INFLIGHT):
        table.storage.create(table.instant_path(Instant(time, action, state)), b"")
    schema = {"schema": avro_from_arrow(table.schema, table.name)}
    metadata = CommitMetadata(partition_to_write_stats={}, extra_metadata=schema, operation_type="UPSERT")
    pending = Instant(time, action, InstantState.INFLIGHT)
    files.complete(table, pending, files.commit_content(metadata), awaits_clocks=False)
    archive_instants(table, until_files_are_left(table, list(instants)), lambda: None)


def run_and_kill(base_path: str, run: Callable[[Storage], object], step: int, *, counted: str = "") -> bool:
    """Run in a child that is killed before its `step`-th change of the store; False if it had fewer.

    With `counted` only changes of this kind, one of `CALLS`, are steps.
    """
    child = os.fork()
    if not child:
        code = 1
        try:
            run(FaultyStorage(target=base_path, step=step, counted=counted))
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, -signal.SIGKILL)
    return code == -signal.SIGKILL


def environment_of_jvm(spark: Any) -> dict[str, str]:
    """The environment of a process that works on the JVM of this Spark."""
    gateway = spark.sparkContext._gateway.gateway_parameters
    return {
        **os.environ,
        "PYSPARK_GATEWAY_PORT": str(gateway.port),
        "PYSPARK_GATEWAY_SECRET": gateway.auth_token,
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def run_with_fault(spark: Any, metastore_uri: str, **fields: object) -> subprocess.CompletedProcess[str]:
    """Run a `statement` in a process of its own; the other `fields` are those of `FaultyStorage`.

    With `pulled_from` it is that of a pull from this table `into` another, by names; with `layers` the models
    of this directory are applied instead.
    """
    with TemporaryDirectory() as directory:
        ended = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.fault_injection",
                metastore_uri,
                json.dumps({"barrier": directory, **fields}),
            ],
            env=environment_of_jvm(spark),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        if fields.get("fault") == "disk_full":
            wait_for_late_tasks(spark)
            _free_space(Path(directory))
    return ended


def wait_for_late_tasks(spark: Any) -> None:
    """Until the tasks that outlive a killed driver have ended, as far as they do by themselves."""
    tracker = spark.sparkContext.statusTracker()
    while tracker.getActiveJobsIds():
        time.sleep(0.02)


@contextmanager
def metastore_relay(metastore_uri: str) -> Iterator[tuple[str, int]]:
    """A way to the metastore through a process that can be killed: its URI and process number.

    To a client it is a server that died, at a thousandth of the time that a real one takes to start.
    """
    relay = subprocess.Popen(
        [sys.executable, "-m", "tests.fault_injection", "relay", metastore_uri.rpartition(":")[2]],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert relay.stdout is not None
    with relay.stdout:
        try:
            yield f"thrift://127.0.0.1:{int(relay.stdout.readline())}", relay.pid
        finally:
            relay.kill()
            relay.wait()


def _relay(port: int) -> None:
    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while content := await reader.read(65536):
                writer.write(content)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind_reader, behind_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(copy(reader, behind_writer), copy(behind_reader, writer))

    async def listen() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    asyncio.run(listen())


def _attach() -> Any:
    """A Spark session of this process on the JVM that the environment names."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway = launch_gateway()
    java = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    java_context = gateway.jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(java)
    conf = SparkConf(_jvm=gateway.jvm, _jconf=java_context.getConf())
    context = SparkContext(gateway=gateway, jsc=java_context, conf=conf)
    return SparkSession(context)


def _main(metastore_uri: str, fields: dict[str, Any]) -> None:
    from pyspark import cloudpickle

    import tests.fault_injection as this
    from hudisql.catalog.client import MetastoreClient
    from hudisql.context import Context
    from hudisql.procedures.registry import load_procedures
    from hudisql.sql.dispatch import execute

    cloudpickle.register_pickle_by_value(this)
    statement, pulled_from, into = (fields.pop(name, "") for name in ("statement", "pulled_from", "into"))
    layers = fields.pop("layers", "")
    storage = this.FaultyStorage(**fields)
    for method in ("create_table", "add_partitions", "alter_table", "drop_table"):
        original = getattr(MetastoreClient, method)

        def call(self: Any, *arguments: Any, _original: Any = original, **named: Any) -> Any:
            storage.inject_if_due("metastore")
            return _original(self, *arguments, **named)

        setattr(MetastoreClient, method, call)
    load_procedures()
    context = Context(_attach(), MetastoreClient(metastore_uri), storage)
    if layers:
        _apply_layers(context, Path(layers))
        return
    if not pulled_from:
        execute(context, statement)
        return
    from hudisql.sql.dataframe.target_pull import target_pull

    with target_pull(context, pulled_from, into) as pull:
        pull.df.createOrReplaceTempView("changes")
        pull.sql(statement)


def _apply_layers(context: Any, directory: Path) -> None:
    from hudisql.cli.layers import Terminal
    from hudisql.layers.model_run import ProjectRun
    from hudisql.layers.project import load_project
    from hudisql.session import Session

    session = Session(context, borrows=True)
    project = load_project(session, directory)
    run = ProjectRun(session, project, project.lineage.order, Terminal().ended, 2, lambda: False)
    assert run.apply(), "a model or a test failed"


if __name__ == "__main__":
    if sys.argv[1] == "relay":
        _relay(int(sys.argv[2]))
    _main(sys.argv[1], json.loads(sys.argv[2]))
    # The JVM belongs to the suite: nothing is stopped.
    sys.stdout.flush()
    os._exit(0)
