"""Rows that clients push are rows of their tables, each once, whatever becomes of the worker."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from functools import partial
from http.client import HTTPException
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight

from hudisql.catalog.client import MetastoreClient
from hudisql.errors import HudisqlError, InvalidArgumentError
from tests.ingest.fed_tables import SCHEMA
from tests.ingest.push.servers import Answer
from tests.ingest.pushed_tables import (
    TOKEN,
    PushedTable,
    PushedTables,
    PushingWorker,
    as_ndjson,
    pause,
    pushed_tables,
    rows_of,
)
from tests.ingest.worker_processes import WorkerServer
from tests.processes import wait_for

pytestmark = pytest.mark.hms

NEVER = 3600.0


@pytest.fixture
def tables(metastore_uri: str, workers: WorkerServer, tmp_path: Path) -> Iterator[PushedTables]:
    with closing(MetastoreClient(metastore_uri)) as client, pushed_tables(client, workers, tmp_path) as made:
        yield made


def until_answered(push: Callable[[], Answer], worker: PushingWorker, seconds: float = 60) -> Answer | None:
    """The first answer that is no refusal of a worker that begins; None if the worker has died."""
    deadline = time.monotonic() + seconds
    answer = None
    while not worker.process.is_over:
        with suppress(OSError, HTTPException):
            answer = push()
            if answer.status not in (404, 503):
                return answer
        assert time.monotonic() < deadline, (answer, worker.process.said())
        time.sleep(0.02)
    return None


def take(
    table: PushedTable, worker: PushingWorker, numbers: Iterable[int], deleted: Iterable[int] = ()
) -> None:
    """Push until the worker takes it."""
    states, gone = list(numbers), list(deleted)
    answer = until_answered(lambda: table.push(worker, states, gone), worker)
    assert answer is not None, worker.process.said()
    assert answer.status == 200, answer.text


def wait_until_committed(table: PushedTable, *workers: PushingWorker) -> None:
    said = "".join(each.process.said() for each in workers)
    wait_for(lambda: table.states() == table.model, said)


def kill(worker: PushingWorker, table: PushedTable) -> None:
    worker.process.signal(signal.SIGKILL)
    assert worker.process.end() == -signal.SIGKILL
    table.forget_dead()


def end(worker: PushingWorker) -> None:
    worker.process.signal(signal.SIGTERM)
    assert worker.process.end() == 0, worker.process.said()


def test_rows_pushed_by_http_and_flight_are_committed_once_after_a_kill(tables: PushedTables) -> None:
    table = tables.make("both", flush_seconds=NEVER)
    worker = tables.start()
    take(table, worker, range(50))
    assert table.push(worker, range(40, 60), deleted=range(5)).status == 200
    kill(worker, table)
    assert table.states() == {}
    worker = tables.start()
    take(table, worker, range(50, 70))
    table.push_batch(worker, range(55, 80))
    end(worker)
    assert table.states() == table.model
    (topic, _), offset = max(table.offsets().offsets.items())
    assert topic.startswith("push/")
    assert topic.endswith("/pushed.both")
    assert offset > 1
    tables.catch_up()
    assert table.offsets().offsets == {(topic, 0): offset}


@pytest.mark.soak
@pytest.mark.parametrize("every", [1, 12])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_worker_that_is_killed_at_any_step_loses_and_repeats_no_push(
    tables: PushedTables, kind: str, every: int
) -> None:
    table = tables.make(f"killed_{kind}_{every}", kind)
    for number, step in enumerate(count(0, every)):
        first = number * 10
        rows, deleted = range(max(0, first - 25), first + 10), range(max(0, first - 28), first - 25)
        worker = tables.start(step=step)
        answer = until_answered(partial(table.push, worker, rows, deleted), worker)
        is_taken = answer is not None and answer.status == 200
        if is_taken:
            wait_for(partial(_is_over_or_committed, table, worker), worker.process.said())
        if not worker.process.is_over:
            worker.process.signal(signal.SIGTERM)
        # It may come to the step after its rows are committed: it deletes the lock and the heartbeat.
        code = worker.process.end()
        assert code in (0, -signal.SIGKILL), worker.process.said()
        is_last = code == 0
        table.forget_dead()
        if not is_taken:
            worker = tables.start()
            take(table, worker, rows, deleted)
            end(worker)
        tables.catch_up()
        assert table.states() == table.model, f"step {step}"
        if is_last:
            break
    assert step > 20


def _is_over_or_committed(table: PushedTable, worker: PushingWorker) -> bool:
    return worker.process.is_over or table.states() == table.model


def test_tables_of_a_worker_that_died_are_taken_by_another_and_its_rows_come_later(
    tables: PushedTables,
) -> None:
    table = tables.make("moved")
    first = tables.start("first", push={"lease_seconds": 1.0})
    take(table, first, range(20))
    second = tables.start("second", push={"lease_seconds": 1.0})
    answer = until_other_owner(table, second)
    assert (
        answer.headers["location"] == f"http://127.0.0.1:{first.http_port}/v1/tables/{table.full_name}/rows"
    )
    assert answer.error["owner"]["flight"] == f"grpc+tcp://127.0.0.1:{first.flight_port}"
    wait_until_committed(table, first)
    table.declare(flush_seconds=NEVER)
    wait_for(lambda: table.push(first, range(20, 30)).status == 200, first.process.said())
    kill(first, table)
    wait_for(lambda: table.push(second, range(25, 40)).status == 200, second.process.said())
    assert len(table.states()) == 20
    # The rows that only the first one's log has come when there is a worker of that log again.
    table.declare()
    said = tables.catch_up("first", push={"lease_seconds": 1.0})
    wait_for(lambda: table.states() == table.model, said + second.process.said(), 10)
    end(second)
    assert table.states() == table.model
    assert len(table.offsets().offsets) == 2


def until_other_owner(table: PushedTable, worker: PushingWorker) -> Answer:
    body = as_ndjson(rows_of([0], 0))
    answer = until_answered(lambda: worker.push(table.full_name, body), worker)
    assert answer is not None
    assert answer.status == 307, answer.text
    with pytest.raises(flight.FlightUnavailableError, match="another worker"):
        worker.push_batch(table.full_name, pa.RecordBatch.from_pylist(rows_of([0], 0), SCHEMA))
    return answer


def test_what_is_refused_and_why(tables: PushedTables) -> None:
    table = tables.make("refused", flush_seconds=NEVER)
    kept = tables.make("kept_bad", on_bad_record="dead_letter")
    dropped = tables.make("dropped", flush_seconds=NEVER)
    worker = tables.start(push={"limits": {"body_bytes": 4000, "unflushed_table_bytes": 8000}})
    good = as_ndjson(rows_of([1], 1))
    for each in (table, kept, dropped):
        take(each, worker, [1])
    assert worker.push(table.full_name, good, token="guess").status == 401
    bad = good + b'{"id": null, "dt": "2024-01-01"}\n{"id": 2, "ts": "x", "dt": "d"}\n{"id": 3, "other": 1}\n'
    answer = worker.push(table.full_name, bad)
    assert (answer.status, answer.error["code"]) == (400, "bad_rows")
    assert [each["line"] for each in answer.error["lines"]] == [2, 3, 4]
    assert worker.push(kept.full_name, bad).json["rows"] == 4
    wait_for(kept_bad_rows_are_there(kept), worker.process.said())
    null_key = pa.RecordBatch.from_pylist([{"id": None, "dt": "2024-01-01"}], SCHEMA)
    with pytest.raises(flight.FlightServerError, match=r"its key .id. is null"):
        worker.push_batch(table.full_name, null_key)

    tables.client.drop_table("pushed", "dropped")
    wait_for(lambda: "pushed.dropped was dropped, and with it 1 rows" in worker.process.said(), "dropped")
    assert worker.push(dropped.full_name, good).error["code"] == "unknown_table"

    statuses = [table.push(worker, range(n, n + 40)) for n in range(10, 17)]
    assert [each.status for each in statuses[-1:]] == [429]
    assert statuses[-1].error["code"] == "table_log_full"
    assert statuses[-1].headers["retry-after"] == "2"
    pause(table)
    many = as_ndjson(rows_of(range(10, 50), 0))
    wait_for(lambda: worker.push(table.full_name, many).error["code"] == "paused", worker.process.said())
    wait_until_committed(table, worker)
    end(worker)


def kept_bad_rows_are_there(table: PushedTable) -> Callable[[], bool]:
    def look() -> bool:
        with suppress(HudisqlError):
            letters = table.dead_letters()
            return len(letters) == 2 and len({each["event"] for each in letters}) == 2
        return False

    return look


@pytest.mark.soak
def test_a_full_disk_is_told_to_clients_and_passes(tables: PushedTables) -> None:
    table = tables.make("disk_full")
    worker = tables.start(limit_file_bytes=1 << 20)
    body = as_ndjson(rows_of(range(5000), 1, name="x" * 500))
    codes = set()

    def is_told() -> bool:
        with suppress(OSError, HTTPException):
            codes.add(worker.push(table.full_name, body).error["code"])
        return "log_failed" in codes

    wait_for(is_told, worker.process.said())
    end(worker)


@pytest.mark.soak
def test_a_client_that_keeps_its_stream_open_holds_no_worker_back(tables: PushedTables) -> None:
    table = tables.make("open_stream", flush_seconds=NEVER)
    worker = tables.start()
    take(table, worker, range(5))
    options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {TOKEN}".encode())])
    with flight.connect(f"grpc+tcp://127.0.0.1:{worker.flight_port}") as client:
        descriptor = flight.FlightDescriptor.for_path(table.full_name)
        writer, reader = client.do_put(descriptor, SCHEMA, options)
        writer.write_batch(pa.RecordBatch.from_pylist(rows_of(range(5, 9), 1), SCHEMA))
        assert reader.read() is not None
        end(worker)
    table.model.update(dict.fromkeys(range(5, 9), 1))
    assert table.states() == table.model


def test_a_table_has_a_topic_or_pushes(tables: PushedTables) -> None:
    with pytest.raises(InvalidArgumentError, match="topic is a parameter of Kafka"):
        tables.make("two_sources", topic="t", bootstrap_servers="h:1")
    with pytest.raises(
        InvalidArgumentError, match="on_bad_record is 'stop'; it is 'refuse' or 'dead_letter'"
    ):
        tables.make("stops", on_bad_record="stop")
