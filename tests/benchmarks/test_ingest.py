"""The benchmark of the ingest worker runs, and finds each key once."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.ingest import make_events, measure, produce
from hudisql.format import table_properties as keys
from tests.ingest.broker import KafkaBroker

pytestmark = [pytest.mark.kafka]


def test_a_worker_is_measured(broker: KafkaBroker, tmp_path: Path) -> None:
    broker.create_topic("warm_up")
    broker.produce("warm_up", (value for _, value in make_events(10, 0.3)))
    broker.create_topic("measured", 2)
    sent = produce(broker, "measured", 500, 0.3)
    found = measure(broker, tmp_path, "measured", sent, keys.MERGE_ON_READ, 1)
    assert found.rows == found.keys < 500
    assert found.cpu > 0
