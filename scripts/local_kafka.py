"""A Kafka broker on this machine (KRaft, one node), for the demo and for tests.

`python -m scripts.local_kafka DIRECTORY` runs one until Control-C. Its jars are fetched from Maven Central
into the user's cache.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from hudisql.java_runtime import find_java_home
from scripts.setup_oracles import install_kafka

DEFAULT_PORT = 9092
_JAVA = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs={directory}/logs
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.retention.check.interval.ms=1000
log.segment.delete.delay.ms=100
"""
_LISTENERS = """\
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
"""


@dataclass
class LocalKafka:
    """A broker in a directory of its own; it can be killed and started again.

    A thousand topics need a larger `heap`, the JVM's `-Xmx`.
    """

    jars: Path
    directory: Path
    port: int
    controller: int
    heap: str = field(default="256m", kw_only=True)
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def servers(self) -> str:
        """What clients call `bootstrap.servers`."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the broker, and wait until it takes connections."""
        with (self.directory / "broker.log").open("ab") as log:
            self.process = subprocess.Popen(
                self._java("kafka.Kafka", str(self.directory / "server.properties")),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError((self.directory / "broker.log").read_text()[-4000:])
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise TimeoutError("the Kafka broker does not listen")

    def format(self) -> None:
        """Write the broker's configuration, and format its directory."""
        self.directory.mkdir(parents=True, exist_ok=True)
        properties = _PROPERTIES.format(port=self.port, controller=self.controller, directory=self.directory)
        file = self.directory / "server.properties"
        file.write_text(properties + self.listeners())
        arguments = ("format", "-t", str(uuid.uuid4()), "-c", str(file), *self.format_options())
        done = subprocess.run(
            self._java("kafka.tools.StorageTool", *arguments), check=False, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(
                f"Kafka cannot format {self.directory}: {(done.stderr or done.stdout)[-4000:]}"
            )

    def listeners(self) -> str:
        """Lines of the configuration that say where the broker listens."""
        return _LISTENERS.format(port=self.port, controller=self.controller)

    def format_options(self) -> Sequence[str]:
        """More arguments of Kafka's `format`."""
        return ()

    def kill(self) -> None:
        """Kill the broker; `start` starts it again with what it had."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> str:
        """Create a topic; its name."""
        self.create_topics([name], partitions, **config)
        return name

    def create_topics(self, names: Iterable[str], partitions: int = 1, **config: str) -> None:
        """Create topics, and wait until the broker's clients see them."""
        admin = AdminClient({"bootstrap.servers": self.servers})  # it must outlive its futures
        new = [
            NewTopic(each, num_partitions=partitions, replication_factor=1, config=config) for each in names
        ]
        for future in admin.create_topics(new).values():
            future.result()
        missing = {each.topic for each in new}
        deadline = time.monotonic() + 60
        while missing := missing - admin.list_topics(timeout=10).topics.keys():
            if time.monotonic() > deadline:
                raise TimeoutError(f"topics that the broker does not show: {sorted(missing)}")
            time.sleep(0.05)

    def produce(
        self,
        topic: str,
        values: Iterable[bytes | None],
        keys: Sequence[bytes | None] | None = None,
        partition: int | None = None,
    ) -> None:
        """Write values, and wait until the broker has them."""
        producer = Producer({"bootstrap.servers": self.servers, "queue.buffering.max.messages": 1_000_000})
        more: dict[str, Any] = {} if partition is None else {"partition": partition}
        for number, value in enumerate(values):
            producer.produce(topic, value=value, key=None if keys is None else keys[number], **more)
        assert producer.flush(60) == 0

    def _java(self, main: str, *arguments: str) -> list[str]:
        return [
            str(Path(find_java_home()) / "bin" / "java"),
            f"-Xmx{self.heap}",
            *_JAVA,
            "-cp",
            f"{self.jars}/*",
            main,
            *arguments,
        ]


Broker = TypeVar("Broker", bound=LocalKafka)


@contextmanager
def running(broker: Broker) -> Iterator[Broker]:
    """The broker, formatted and started; it is killed at the end. Raises RuntimeError if a port is taken."""
    broker.format()
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


def new_local_kafka(directory: Path, port: int = DEFAULT_PORT) -> LocalKafka:
    """A broker that does not run yet, on `port`, with its controller on the next one."""
    return LocalKafka(install_kafka(), directory, port, port + 1)


def main() -> None:
    """Run a broker until Control-C or SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path, help="what the broker keeps; must be new or empty")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="its controller takes the next one")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with running(new_local_kafka(options.directory.resolve(), options.port)) as broker:
        print(f"bootstrap_servers: {broker.servers}; Control-C ends it", file=sys.stderr)
        with suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
