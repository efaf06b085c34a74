"""Rows that clients push are rows of their tables, each once, whatever becomes of the worker."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPException
from pathlib import Path

import pytest

from hudisql.catalog.client import MetastoreClient
from tests.ingest.push.servers import Answer
from tests.ingest.pushed_tables import (
    PushedTable,
    PushedTables,
    PushingWorker,
    pushed_tables,
)
from tests.ingest.test_two_workers import wait_for
from tests.ingest.worker_processes import WorkerServer

pytestmark = pytest.mark.hms


@pytest.fixture
def tables(metastore_uri: str, workers: WorkerServer, tmp_path: Path) -> Iterator[PushedTables]:
    with closing(MetastoreClient(metastore_uri)) as client, pushed_tables(client, workers, tmp_path) as made:
        yield made


def until_answered(push: Callable[[], Answer], seconds: float = 60) -> Answer:
    """The first answer that is no refusal of a worker that begins, or that is not there yet."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            answer = push()
        except (OSError, HTTPException):
            answer = None
        if answer is not None and answer.status not in (404, 503):
            return answer
        assert time.monotonic() < deadline, answer
        time.sleep(0.02)


def wait_until_committed(table: PushedTable, worker: PushingWorker) -> None:
    wait_for(lambda: table.states() == table.model, worker.process.said())


def end(worker: PushingWorker) -> None:
    worker.process.signal(signal.SIGTERM)
    assert worker.process.end() == 0, worker.process.said()


def test_rows_pushed_by_http_and_flight_are_committed(tables: PushedTables) -> None:
    table = tables.make("both", flush_seconds=3600.0)
    worker = tables.start()
    assert until_answered(lambda: table.push(worker, range(50))).status == 200
    assert table.push(worker, range(40, 60), deleted=range(5)).status == 200
    table.push_batch(worker, range(55, 80))
    end(worker)
    assert table.states() == table.model
    assert list(table.offsets().offsets.values()) != [0]
