"""What a worker on a real topic tells: metrics, health, lines of JSON, the rate of its commits."""

from __future__ import annotations

import io
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from hudisql.catalog.client import MetastoreClient
from hudisql.console import JsonConsole, SilentConsole
from hudisql.context import Context
from hudisql.errors import InvalidArgumentError
from hudisql.ingest.push.push_service import PushOptions
from hudisql.ingest.watch.metrics import WorkerMetrics
from hudisql.ingest.watch.observer import WorkerView
from hudisql.ingest.watch.watch_server import LIVE_SECONDS, WorkerHealth, watch_server
from hudisql.procedures.ingest.show_ingest import ShowIngestArguments, show_ingest
from hudisql.service_process.ingest.run_ingest import WorkerOptions, run_worker
from tests.free_port import find_free_port
from tests.ingest.fed_tables import STORAGE, FedTable, FedTables
from tests.processes import wait_for


def get(address: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def context_of(table: FedTable, stream: io.StringIO) -> Context:
    return Context(None, table.client, STORAGE, console=JsonConsole(stream))  # type: ignore[arg-type]


@contextmanager
def running_worker(context: Context, **options: Any) -> Iterator[None]:
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        worker = pool.submit(run_worker, context, stop, WorkerOptions(refresh_seconds=0.2, **options))
        try:
            yield
        finally:
            stop.set()
        worker.result(60)


@pytest.mark.hms
@pytest.mark.kafka
def test_a_worker_tells_of_its_commits_and_failures(tables: FedTables) -> None:
    table = tables.make("watched", flush_seconds=0.2, index_days=36_500)
    failing = tables.make("failing", flush_seconds=0.2, on_bad_record="stop")
    failing.produce(range(3), bad=1)
    stream, address = io.StringIO(), f"127.0.0.1:{find_free_port()}"
    with running_worker(context_of(table, stream), group="watched", metrics=address):
        for number in range(3):
            table.produce(range(number * 10, number * 10 + 20), bad=number)
            wait_for(lambda: table.offsets().offsets == table.ends())
            time.sleep(0.05)
        failed = 'hudisql_ingest_state{state="failed",table="fed.failing"} 1.0'
        indexed = 'hudisql_ingest_index_bytes{table="fed.watched"} 0.0'
        wait_for(lambda: failed in (page := get(address, "/metrics")[1]) and indexed not in page)
        taken = f'hudisql_ingest_events_total{{table="fed.watched"}} {sum(table.ends().values()):.1f}'
        wait_for(lambda: taken in get(address, "/metrics")[1])
        page = get(address, "/metrics")[1]
        ready = get(address, "/readyz")
        assert get(address, "/nothing")[0] == 404
    metrics = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    of = '{table="fed.watched"}'
    assert float(metrics[f"hudisql_ingest_lag_events{of}"]) == 0
    assert float(metrics[f"hudisql_ingest_bad_records_total{of}"]) == 3
    assert float(metrics[f"hudisql_ingest_index_bytes{of}"]) > 0
    assert float(metrics[f"hudisql_ingest_events_total{of}"]) == sum(table.ends().values())
    assert float(metrics['hudisql_ingest_rows_total{kind="inserted",table="fed.watched"}']) == 40
    assert float(metrics[f"hudisql_ingest_last_commit_timestamp_seconds{of}"]) > time.time() - 60
    assert float(metrics['hudisql_ingest_failures_total{table="fed.failing"}']) >= 1
    assert float(metrics["process_resident_memory_bytes"]) > 0
    assert ready[0] == 200
    assert json.loads(ready[1])["failed"] == ["fed.failing"]

    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    commits = [each for each in lines if each["event"] == "commit"]
    assert len(commits) == float(metrics[f"hudisql_ingest_flushes_total{of}"])
    assert sum(each["inserted"] for each in commits) == 40
    assert sum(each["events"] for each in commits) == float(metrics[f"hudisql_ingest_events_total{of}"])
    ends = {str(number): end for (_, number), end in table.ends().items()}
    assert commits[-1]["offsets"] == {"watched": ends}
    assert commits[-1]["lag"] == 0
    assert any(each["level"] == "warning" and "fed.failing" in each["message"] for each in lines)

    rows: Any = show_ingest(context_of(table, stream), ShowIngestArguments())
    shown = {each.table: each for each in rows}
    assert shown["fed.watched"].lag == 0
    assert (shown["fed.watched"].rate or 0) > 0
    made = datetime.fromisoformat(str(shown["fed.watched"].last_commit))
    assert time.time() - made.timestamp() < 60
    assert (shown["fed.failing"].lag, shown["fed.failing"].rate) == (4, None)


@pytest.mark.hms
def test_the_server_of_pushes_has_the_same_metrics(metastore_uri: str, tmp_path: Path) -> None:
    addresses = [f"127.0.0.1:{find_free_port()}" for _ in range(2)]
    push = PushOptions(log=tmp_path / "log", http=addresses[0], sole_worker=True)

    def pages() -> list[str]:
        try:
            return [get(address, "/metrics")[1] for address in addresses]
        except OSError:
            return []

    with MetastoreClient(metastore_uri) as client:
        context = Context(None, client, STORAGE, console=SilentConsole())  # type: ignore[arg-type]
        with running_worker(context, metrics=addresses[1], push=push):
            wait_for(pages)
            assert all("hudisql_ingest_tables 0.0" in page for page in pages())


def test_a_worker_without_tables_lives_and_one_that_hangs_does_not() -> None:
    now = 0.0
    health = WorkerHealth(lambda: now)
    with watch_server("127.0.0.1:0", WorkerMetrics(), health) as address:
        assert (get(address, "/healthz")[0], get(address, "/readyz")[0]) == (200, 503)
        health.looked(WorkerView(is_settled=True))
        assert (get(address, "/healthz")[0], get(address, "/readyz")[0]) == (200, 200)
        now = LIVE_SECONDS + 1
        assert (get(address, "/healthz")[0], get(address, "/readyz")[0]) == (503, 503)


@pytest.mark.parametrize("address", ["9464", "localhost:x", "localhost:99999", "256.0.0.1:0"])
def test_an_address_that_is_none_is_a_named_error(address: str) -> None:
    server = watch_server(address, WorkerMetrics(), WorkerHealth())
    with pytest.raises(InvalidArgumentError, match=address):
        server.__enter__()
