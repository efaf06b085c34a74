"""A Kafka broker for the tests of this directory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ingest.broker import KafkaBroker, kafka_broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with kafka_broker(tmp_path_factory.mktemp("kafka")) as started:
        yield started
