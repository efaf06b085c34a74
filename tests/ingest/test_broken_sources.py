"""What workers make of brokers that die or stop, and of topics that lose events, end or grow."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from hudisql.catalog.client import MetastoreClient
from hudisql.console import PlainConsole
from hudisql.errors import MetastoreError
from hudisql.ingest.fed_table import IngestTable
from hudisql.ingest.ownership import OwnsAll
from hudisql.ingest.worker import IngestWorker
from tests.ingest.broker import kafka_broker
from tests.ingest.fed_tables import FedTable, FedTables, fed_tables
from tests.ingest.test_worker_group import SOON, is_taken, wait_until_taken
from tests.ingest.worker_processes import WorkerProcess, WorkerServer
from tests.processes import wait_for

pytestmark = [pytest.mark.hms, pytest.mark.kafka]


def end(worker: WorkerProcess) -> None:
    worker.signal(signal.SIGTERM)
    assert worker.end() == 0, worker.said()


def delete_events(table: FedTable, before: int) -> None:
    """As retention does."""
    admin = AdminClient({"bootstrap.servers": table.broker.servers})
    for future in admin.delete_records([TopicPartition(table.name, 0, before)]).values():
        future.result()


def test_a_metastore_that_does_not_answer_for_a_time_ends_no_worker() -> None:
    stop = threading.Event()
    calls = 0
    said = StringIO()

    def look_up() -> list[IngestTable]:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise MetastoreError("no answer")
        if calls == 3:
            stop.set()
        return []

    worker = IngestWorker(look_up, OwnsAll(), PlainConsole(said), stop, "me", refresh_seconds=0.01)
    assert worker.run()
    assert calls == 3
    assert "declarations cannot be looked up, and stay as they are: no answer" in said.getvalue()


@pytest.fixture
def mortal(
    tmp_path_factory: pytest.TempPathFactory, metastore_uri: str, tmp_path: Path
) -> Iterator[FedTables]:
    """Tables of a broker that the test may kill."""
    client = MetastoreClient(metastore_uri)
    with kafka_broker(tmp_path_factory.mktemp("mortal")) as broker:
        yield from fed_tables(broker, client, tmp_path)
    client.close()


@pytest.mark.soak
def test_a_worker_goes_on_when_the_broker_is_there_again(mortal: FedTables, workers: WorkerServer) -> None:
    table = mortal.make("outlived", flush_seconds=SOON)
    worker = workers.start(group="outlives")
    table.produce(range(50))
    wait_until_taken([table], [worker])
    mortal.broker.signal(signal.SIGSTOP)
    time.sleep(3)
    mortal.broker.signal(signal.SIGCONT)
    table.produce(range(30, 80))
    wait_until_taken([table], [worker])
    mortal.broker.kill()
    time.sleep(1)
    mortal.broker.start()
    table.produce(range(60, 90), deleted=range(10))
    wait_until_taken([table], [worker])
    end(worker)
    table.check()


@pytest.mark.soak
def test_events_that_retention_deleted_are_an_error_or_a_warning(
    tables: FedTables, workers: WorkerServer
) -> None:
    table = tables.make("retained", partitions=1, flush_seconds=SOON)
    table.produce(range(20))
    workers.catch_up()
    table.produce(range(20, 40))
    delete_events(table, 30)
    worker = workers.start(until_caught_up=True)
    assert worker.end() == 1
    assert "no longer has the offsets 20 to 29 of partition 0, which the table has not taken" in worker.said()
    assert table.offsets().offsets == {("retained", 0): 20}
    table.declare(fail_on_data_loss=False)
    worker = workers.start(until_caught_up=True)
    assert worker.end() == 0
    assert "going on at 30" in worker.said()
    for lost in range(20, 30):
        del table.model[lost]
    table.check()


def test_partitions_that_are_added_are_read_from_their_first_event(
    tables: FedTables, workers: WorkerServer
) -> None:
    table = tables.make("grown", partitions=1, flush_seconds=SOON, start="latest")
    worker = workers.start()
    wait_for(lambda: table.offsets().offsets, "the start is committed")
    table.produce(range(10))
    wait_until_taken([table], [worker])
    admin = AdminClient({"bootstrap.servers": table.broker.servers})
    for future in admin.create_partitions([NewPartitions("grown", 3)]).values():
        future.result()
    table.partitions = 3
    wait_for(lambda: len(table.client_partitions()) == 3, "three partitions")
    table.produce(range(10, 40))
    wait_until_taken([table], [worker])
    end(worker)
    table.check()


@pytest.mark.soak
def test_a_topic_that_is_deleted_and_made_again_is_an_error(tables: FedTables, workers: WorkerServer) -> None:
    table = tables.make("deleted", partitions=1, flush_seconds=SOON)
    other = tables.make("stays", partitions=1, flush_seconds=SOON)
    worker = workers.start()
    table.produce(range(20))
    other.produce(range(10))
    wait_until_taken([table, other], [worker])
    admin = AdminClient({"bootstrap.servers": table.broker.servers})
    for future in admin.delete_topics(["deleted"]).values():
        future.result()
    wait_for(lambda: "the topic deleted" in worker.said() and "cannot be read" in worker.said(), "an error")
    other.produce(range(5, 20))
    wait_until_taken([other], [worker])
    worker.signal(signal.SIGTERM)
    assert worker.end() == 1
    table.broker.create_topic("deleted", 1)
    other.produce(range(20, 25))
    worker = workers.start(until_caught_up=True)
    assert worker.end() == 1
    assert "ends at the offset 0, and the table has taken the events before 20" in worker.said()
    other.check()
    assert is_taken(other)
