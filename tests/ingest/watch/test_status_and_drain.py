"""What operators ask of a group of workers: how its tables are, and to leave them."""

from __future__ import annotations

import io
import signal
import threading
import time
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError as ClientError
from confluent_kafka import KafkaException

from hudisql.console import PlainConsole
from hudisql.context import Context
from hudisql.errors import InvalidArgumentError, KafkaError
from hudisql.ingest.kafka.client_errors import Refusal
from hudisql.ingest.kafka.group_state import _answer, read_group, slot_text
from hudisql.procedures.ingest.ingest_table import pause_ingest, resume_ingest
from hudisql.procedures.registry import NamedTableArguments
from hudisql.service_process.ingest.drain_ingest import drain_tables, resume_tables
from hudisql.service_process.ingest.ingest_status import IngestStatus, StatusRow, find_status
from tests.ingest.fed_tables import STORAGE, FedTable, FedTables
from tests.ingest.worker_processes import WorkerServer
from tests.processes import wait_for

NEVER = 3600.0
pytestmark = [pytest.mark.hms, pytest.mark.kafka]


def context_of(table: FedTable, stream: io.StringIO | None = None) -> Context:
    console = PlainConsole(stream or io.StringIO())
    return Context(None, table.client, STORAGE, console=console)  # type: ignore[arg-type]


def status_of(table: FedTable, **more: Any) -> IngestStatus:
    return find_status(context_of(table), group="drained", **more)


def row_of(table: FedTable, **more: Any) -> StatusRow:
    (row,) = status_of(table, tables=[table.full_name], **more).rows
    return row


@pytest.mark.soak
def test_drained_tables_have_all_that_was_read_and_nobody_writes_to_them(
    tables: FedTables, workers: WorkerServer
) -> None:
    made = [tables.make(f"drained{number}", partitions=1, flush_seconds=NEVER) for number in range(2)]
    failing = tables.make("drain_failing", partitions=1, flush_seconds=0.2, on_bad_record="stop")
    failing.produce(range(2), bad=1)
    for each in made:
        each.produce(range(20))
    row = row_of(made[0])
    assert (row.state, row.lag, row.worker) == ("no worker", 20, None)
    assert not status_of(made[0]).is_well

    running = [workers.start(group="drained") for _ in range(2)]
    wait_for(lambda: row_of(failing).state == "failed", "a failure is told")
    assert "cannot become a row of the table" in str(row_of(failing).error)
    wait_for(lambda: all(row_of(each).state == "running" for each in made), "they run")
    assert row_of(made[0]).error is None
    assert str(row_of(made[0]).worker).rpartition(":")[2] in {str(each.pid) for each in running}
    names = [each.full_name for each in made]
    wait_for(lambda: len(status_of(made[0], tables=names).workers) == 2, "both are there")
    # What a worker had read of a table that went to the other one is written; this is not.
    for each in made:
        each.produce(range(20, 40))
    # A table that moves to the second worker has none for a moment.
    wait_for(lambda: status_of(made[0], tables=names).is_well, "both tables have a worker")
    waiting = row_of(made[0], max_lag=10).error
    assert waiting in ("20 events wait, more than 10", "40 events wait, more than 10")
    paused = NamedTableArguments(table=made[1].full_name)
    assert all(each.offsets().offsets != each.ends() for each in made)
    stream = io.StringIO()
    context = context_of(made[0], stream)
    # The few events are in memory long before.
    time.sleep(1)
    assert drain_tables(context, threading.Event(), group="drained", timeout=60) == []
    for each in made:
        each.check()
        assert row_of(each).state == "paused"
        assert row_of(each).worker is None
        assert f"{each.full_name}: drained" in stream.getvalue()
        each.produce(range(10, 30))

    pause_ingest(context, paused)
    assert resume_tables(context) == [failing.full_name, *(each.full_name for each in made)]
    made[0].declare(flush_seconds=0.2)
    wait_for(lambda: made[0].offsets().offsets == made[0].ends(), "it goes on")
    assert row_of(made[1]).state == "paused"
    assert made[1].offsets().offsets != made[1].ends()
    for worker in running:
        worker.signal(signal.SIGTERM)
        worker.end()
    made[0].check()
    resume_ingest(context, paused)
    assert row_of(made[1]).state == "no worker"


@pytest.mark.soak
def test_a_worker_that_hangs_keeps_a_table_from_being_drained(
    tables: FedTables, workers: WorkerServer
) -> None:
    table = tables.make("drain_hanging", partitions=1, flush_seconds=NEVER)
    worker = workers.start(group="drained")
    wait_for(lambda: row_of(table).state == "running", "it runs")
    worker.signal(signal.SIGSTOP)
    context = context_of(table)
    assert drain_tables(context, threading.Event(), group="drained", timeout=1) == [table.full_name]
    # Its session ends: nobody owns the table.
    assert drain_tables(context, threading.Event(), group="drained", timeout=60) == []
    with pytest.raises(InvalidArgumentError, match="timeout"):
        drain_tables(context, threading.Event(), timeout=-1)


def test_what_is_told_of_a_slot_fits_what_brokers_take() -> None:
    tables = {f"database.table{number}": "failed: " + "x" * 1000 for number in range(40)}
    assert '"failed: x' in slot_text("me", dict(list(tables.items())[:3]))
    text = slot_text("me", tables)
    assert len(text) <= 4_000
    assert text.count('"failed"') == 40


@pytest.mark.soak
def test_a_broker_that_is_away_is_a_named_error() -> None:
    with pytest.raises(KafkaError, match="cannot be read"):
        read_group("127.0.0.1:1", "drained", {"socket.timeout.ms": "500"})


def test_a_coordinator_that_moves_is_asked_again() -> None:
    def answered(value: object, error: Exception | None = None) -> dict[str, Future[object]]:
        future: Future[object] = Future()
        future.set_result(value) if error is None else future.set_exception(error)
        return {"group": future}

    moving = KafkaException(ClientError(ClientError.NOT_COORDINATOR))
    answers = [answered(None, moving), answered("state")]
    assert _answer(lambda: answers.pop(0), "b:1", Refusal()) == "state"
    refused = KafkaException(ClientError(ClientError.GROUP_AUTHORIZATION_FAILED))
    answers = [answered(None, refused), answered("state")]
    with pytest.raises(KafkaError, match="cannot be read"):
        _answer(lambda: answers.pop(0), "b:1", Refusal())
