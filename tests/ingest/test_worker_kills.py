"""Workers that are killed at any step of a flush: what comes after has each event once."""

from __future__ import annotations

import signal
from itertools import count
from pathlib import Path

import pytest

from tests.ingest.fed_tables import FedTable, FedTables
from tests.ingest.worker_processes import WorkerServer, worker_server
from tests.soak import parameters

pytestmark = [pytest.mark.hms, pytest.mark.kafka]


def produce_round(table: FedTable, number: int) -> None:
    """New rows, new states of old ones, deletes, and an event that is no row."""
    first = number * 10
    table.produce(range(max(0, first - 25), first + 10), deleted=range(max(0, first - 28), first - 25), bad=1)


@pytest.mark.parametrize("kind", parameters(["cow", "mor"], in_ci=["mor"]))
@pytest.mark.parametrize("every", parameters([1, 15], in_ci=[15]))
def test_a_worker_that_is_killed_at_any_step_loses_and_repeats_nothing(
    tables: FedTables, workers: WorkerServer, kind: str, every: int
) -> None:
    table = tables.make(f"killed_{kind}_{every}", kind)
    for number, step in enumerate(count(0, every)):
        produce_round(table, number)
        worker = workers.start(until_caught_up=True, step=step)
        code = worker.end()
        assert code in (0, -signal.SIGKILL), worker.said()
        table.forget_dead()
        workers.catch_up()
        table.check()
        if code == 0:
            break
    assert number * every > 20


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_worker_finds_what_a_flush_needs_compiled(
    tables: FedTables, metastore_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    compiled = tmp_path / "compiled"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(compiled))
    table = tables.make(f"compiled_{kind}", kind)
    with worker_server(tmp_path / "workers", metastore_uri) as workers:
        before = sorted(compiled.rglob("*.nbc"))
        for number in range(3):
            produce_round(table, number)
            workers.catch_up()
        assert before
        assert sorted(compiled.rglob("*.nbc")) == before
    table.check()
