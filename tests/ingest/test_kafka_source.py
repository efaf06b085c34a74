"""The consumer of a cluster beside a real broker."""

from __future__ import annotations

from contextlib import closing

import pytest

from hudisql.ingest.declaration import IngestDeclaration
from hudisql.ingest.kafka.kafka_source import KafkaSource
from tests.ingest.broker import KafkaBroker


@pytest.mark.kafka
def test_a_table_begins_while_a_fetch_of_another_one_waits(broker: KafkaBroker) -> None:
    idle, other = (broker.create_topic(f"beginning-{name}", 1) for name in ("idle", "other"))
    # A question that waited for the fetch would end by its own timeout.
    fetch = {"fetch.wait.max.ms": "60000", "socket.timeout.ms": "90000"}
    with closing(KafkaSource(broker.servers, fetch)) as source:
        source.assign({(idle, 0): 0})
        assert not source.poll(2.0).ended  # the broker waits for events
        declaration = IngestDeclaration(topic=other, bootstrap_servers=broker.servers)
        assert source.start("d.other", declaration, {}).offsets == {(other, 0): 0}
        assert other in source.all_partitions()
