"""A Kafka broker for tests: on free ports, with a password and TLS too, and it can be stopped for a while."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts.local_kafka import LocalKafka, running
from scripts.setup_oracles import install_kafka
from tests.certificates import make_certificate
from tests.free_port import find_free_port

_LISTENERS = """\
listeners=PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{sasl},TLS://127.0.0.1:{tls},\
  CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{sasl},TLS://127.0.0.1:{tls}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SASL_SSL
listener.name.sasl.sasl.enabled.mechanisms=PLAIN
listener.name.sasl.plain.sasl.jaas.config={plain} required user_{user}="{password}";
listener.name.tls.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
listener.name.tls.plain.sasl.jaas.config={plain} required user_{user}="{password}";
listener.name.tls.scram-sha-256.sasl.jaas.config={scram} required;
listener.name.tls.ssl.keystore.type=PEM
listener.name.tls.ssl.keystore.location={directory}/keystore.pem
"""
_MODULES = {
    "plain": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "scram": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
USER, PASSWORD = "worker", "let-me-in"


@dataclass
class KafkaBroker(LocalKafka):
    """A broker with more listeners, which takes signals.

    `sasl` is the port of a listener that asks for USER and PASSWORD, `tls` that of one with TLS besides.
    """

    sasl: int = 0
    tls: int = 0

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

    def format(self) -> None:
        """Write the broker's configuration and certificate, and format its directory."""
        self.directory.mkdir(parents=True, exist_ok=True)
        certificate, key = make_certificate(self.directory)
        (self.directory / "keystore.pem").write_text(key.read_text() + certificate.read_text())
        super().format()

    def listeners(self) -> str:
        """The listeners without and with a password, and the one with TLS."""
        ports = {"port": self.port, "controller": self.controller, "sasl": self.sasl, "tls": self.tls}
        given = {**ports, **_MODULES, "user": USER, "password": PASSWORD, "directory": self.directory}
        return _LISTENERS.format(**given)

    def format_options(self) -> Sequence[str]:
        """The password of SCRAM, which Kafka keeps itself."""
        return ("--add-scram", f"SCRAM-SHA-256=[name={USER},password={PASSWORD}]")

    def signal(self, number: signal.Signals) -> None:
        """Send the broker a signal, such as SIGSTOP."""
        assert self.process is not None
        os.killpg(self.process.pid, number)


@contextmanager
def kafka_broker(directory: Path, heap: str = "256m") -> Iterator[KafkaBroker]:
    """A broker that runs; `heap` is the most memory of its JVM's objects."""
    broker = KafkaBroker(
        install_kafka(),
        directory,
        find_free_port(),
        find_free_port(),
        sasl=find_free_port(),
        tls=find_free_port(),
        heap=heap,
    )
    with running(broker):
        yield broker
