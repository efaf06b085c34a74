"""A real Kafka broker (KRaft, one node) for tests; its jars are fetched into the user's cache."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from hudisql.java_runtime import find_java_home
from scripts.setup_oracles import install_kafka
from tests.certificates import make_certificate
from tests.free_port import find_free_port

_JAVA = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{sasl},TLS://127.0.0.1:{tls},\
  CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{sasl},TLS://127.0.0.1:{tls}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SASL_SSL
controller.listener.names=CONTROLLER
listener.name.sasl.sasl.enabled.mechanisms=PLAIN
listener.name.sasl.plain.sasl.jaas.config={plain} required user_{user}="{password}";
listener.name.tls.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
listener.name.tls.plain.sasl.jaas.config={plain} required user_{user}="{password}";
listener.name.tls.scram-sha-256.sasl.jaas.config={scram} required;
listener.name.tls.ssl.keystore.type=PEM
listener.name.tls.ssl.keystore.location={directory}/keystore.pem
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
_MODULES = {
    "plain": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "scram": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
USER, PASSWORD = "worker", "let-me-in"


@dataclass
class KafkaBroker:
    """A broker in a directory of its own; it can be killed, stopped for a while and started again.

    `sasl` is the port of a listener that asks for USER and PASSWORD, `tls` that of one with TLS besides.
    """

    jars: Path
    directory: Path
    port: int
    controller: int
    sasl: int
    tls: int
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def servers(self) -> str:
        """What clients call `bootstrap.servers`."""
        return f"127.0.0.1:{self.port}"

    @property
    def sasl_servers(self) -> str:
        """The listener with a password."""
        return f"127.0.0.1:{self.sasl}"

    @property
    def tls_servers(self) -> str:
        """The listener with a password and TLS."""
        return f"127.0.0.1:{self.tls}"

    @property
    def certificate(self) -> Path:
        """What clients of `tls_servers` have to trust."""
        return self.directory / "certificate.pem"

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
        certificate, key = make_certificate(self.directory)
        (self.directory / "keystore.pem").write_text(key.read_text() + certificate.read_text())
        ports = {"port": self.port, "controller": self.controller, "sasl": self.sasl, "tls": self.tls}
        given = {**ports, **_MODULES, "user": USER, "password": PASSWORD, "directory": self.directory}
        properties = _PROPERTIES.format(**given)
        (self.directory / "server.properties").write_text(properties)
        cluster = str(uuid.uuid4())
        scram = f"SCRAM-SHA-256=[name={USER},password={PASSWORD}]"
        file = str(self.directory / "server.properties")
        arguments = ("format", "-t", cluster, "-c", file, "--add-scram", scram)
        subprocess.run(self._java("kafka.tools.StorageTool", *arguments), check=True, capture_output=True)

    def signal(self, number: signal.Signals) -> None:
        """Send the broker a signal, such as SIGSTOP."""
        assert self.process is not None
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        """Kill the broker; `start` starts it again with what it had."""
        if self.process is not None:
            self.signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> str:
        """Create a topic; its name."""
        admin = AdminClient({"bootstrap.servers": self.servers})  # it must outlive its futures
        new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config))
        for future in admin.create_topics([new]).values():
            future.result()
        return name

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
            *_JAVA,
            "-cp",
            f"{self.jars}/*",
            main,
            *arguments,
        ]


@contextmanager
def kafka_broker(directory: Path) -> Iterator[KafkaBroker]:
    """A broker that runs."""
    broker = KafkaBroker(
        install_kafka(), directory, find_free_port(), find_free_port(), find_free_port(), find_free_port()
    )
    broker.format()
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()
