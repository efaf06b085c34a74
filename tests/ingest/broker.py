"""A Kafka broker for tests: on free ports, and it can be stopped for a while."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts.local_kafka import LocalKafka, running
from scripts.setup_oracles import install_kafka
from tests.free_port import find_free_port


@dataclass
class KafkaBroker(LocalKafka):
    """A broker that takes signals."""

    def signal(self, number: signal.Signals) -> None:
        """Send the broker a signal, such as SIGSTOP."""
        assert self.process is not None
        os.killpg(self.process.pid, number)


@contextmanager
def kafka_broker(directory: Path) -> Iterator[KafkaBroker]:
    """A broker that runs."""
    with running(KafkaBroker(install_kafka(), directory, find_free_port(), find_free_port())) as broker:
        yield broker
