"""Striking a statement at a chosen step, by real means: SIGKILL, or a kernel that refuses to write.

A run is driven by a process of its own, which uses the suite's warm JVM, so that a strike costs seconds and
not a Spark start. The JVM goes on with the dead driver's tasks: late tasks are tested by the way.
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
from collections.abc import Iterator
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
    "make_directories",
    "delete_directory",
)
ROOT = Path(__file__).parents[1]
_steps = 0


@dataclass(frozen=True)
class StrikingStorage(Storage):
    """Strikes before the driver's or (place "worker") a task's own `step`-th change.

    With the place "task" it is the task that begins the `step`-th skeleton.

    Struck is the process that is at work there, or the `victim`; with the means "meet" it only waits until
    another one has come to the same step, who wrote its name into the directory `meeting`, too.
    """

    target: str = ""
    place: str = "driver"
    means: str = "kill"
    step: int = 0
    victim: int = 0
    meeting: str = ""
    driver: int = field(default_factory=os.getpid)

    def strike_if_due(self, method: str) -> None:
        is_driver = os.getpid() == self.driver
        if self.place == ("driver" if is_driver else "worker"):
            global _steps
            if _steps == self.step:
                self._strike()
            _steps += 1
        elif not is_driver and self.place == "task" and method in self._task_methods():
            begun = len(list(Path(self.target).rglob("*_*.parquet")))
            if begun >= self.step:
                self._strike()

    def _task_methods(self) -> tuple[str, ...]:
        # A task that appends to a slice opens no file: others are met at its marker.
        return ("open_output", "write") if self.means == "meet" else ("open_output",)

    def _strike(self) -> None:
        if self.means == "kill":
            os.kill(self.victim or os.getpid(), signal.SIGKILL)
            return
        if self.means == "meet":
            meeting = Path(self.meeting)
            (meeting / str(os.getpid())).touch()
            while len(list(meeting.iterdir())) < 2:
                time.sleep(0.001)
            return
        if os.getpid() != self.driver:
            # Spark uses its workers again: they have room once `_give_room` takes the sign away.
            sign = Path(self.meeting, str(os.getpid()))
            sign.touch()
            Thread(target=_wait_for_room, args=(sign,), daemon=True).start()
        # From here on the kernel lets this process write no byte to any file.
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


def _wait_for_room(sign: Path) -> None:
    while sign.exists():
        time.sleep(0.01)
    resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
    sign.with_suffix(".room").touch()


def _give_room(meeting: Path) -> None:
    """Let the workers that were struck by a full disk write again."""
    for sign in list(meeting.iterdir()):
        room = sign.with_suffix(".room")
        sign.unlink()
        while Path("/proc", sign.name).exists() and not room.exists():
            time.sleep(0.01)


def _struck(method: str) -> Any:
    original = getattr(Storage, method)

    def call(self: StrikingStorage, path: Any, *arguments: Any) -> Any:
        self.strike_if_due(method)
        return original(self, path, *arguments)

    return call


for _method in CALLS:
    setattr(StrikingStorage, _method, _struck(_method))


def run_struck(spark: Any, metastore_uri: str, **told: object) -> subprocess.CompletedProcess[str]:
    """Run a statement in a process of its own: `told` are the strike's fields and `arguments` of the call."""
    gateway = spark.sparkContext._gateway.gateway_parameters
    environment = {
        **os.environ,
        "PYSPARK_GATEWAY_PORT": str(gateway.port),
        "PYSPARK_GATEWAY_SECRET": gateway.auth_token,
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    with TemporaryDirectory() as directory:
        ended = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.fault_injection",
                metastore_uri,
                json.dumps({"meeting": directory, **told}),
            ],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        if told.get("means") == "full":
            wait_for_late_tasks(spark)
            _give_room(Path(directory))
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


def _main(metastore_uri: str, told: dict[str, Any]) -> None:
    from pyspark import cloudpickle

    import tests.fault_injection as this
    from hudisql.catalog.client import MetastoreClient
    from hudisql.context import Context
    from hudisql.procedures.registry import load_procedures
    from hudisql.sql.dispatch import execute

    cloudpickle.register_pickle_by_value(this)
    statement = told.pop("statement")
    storage = this.StrikingStorage(**told)
    for method in ("create_table", "add_partitions", "alter_table"):
        original = getattr(MetastoreClient, method)

        def call(self: Any, *arguments: Any, _original: Any = original, **named: Any) -> Any:
            storage.strike_if_due("metastore")
            return _original(self, *arguments, **named)

        setattr(MetastoreClient, method, call)
    load_procedures()
    context = Context(_attach(), MetastoreClient(metastore_uri), storage)
    execute(context, statement)


if __name__ == "__main__":
    if sys.argv[1] == "relay":
        _relay(int(sys.argv[2]))
    _main(sys.argv[1], json.loads(sys.argv[2]))
    # The JVM belongs to the suite: nothing is stopped.
    sys.stdout.flush()
    os._exit(0)
