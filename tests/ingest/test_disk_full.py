"""Workers whose disk is full at any step of a flush: with space again each event is there once."""

from __future__ import annotations

from itertools import count

import pytest

from tests.ingest.fed_tables import FedTables
from tests.ingest.test_worker_kills import produce_round
from tests.ingest.worker_processes import WorkerServer
from tests.soak import parameters

pytestmark = [pytest.mark.hms, pytest.mark.kafka]


@pytest.mark.parametrize("kind", parameters(["cow", "mor"], in_ci=[]))
@pytest.mark.parametrize("every", parameters([1, 30], in_ci=[30]))
def test_a_worker_whose_disk_is_full_at_any_step_loses_and_repeats_nothing(
    tables: FedTables, workers: WorkerServer, kind: str, every: int
) -> None:
    table = tables.make(f"full_{kind}_{every}", kind)
    for number, step in enumerate(count(0, every)):
        produce_round(table, number)
        worker = workers.start(until_caught_up=True, step=step, fault="disk_full")
        code = worker.end()
        assert code in (0, 1), worker.said()
        table.forget_dead()
        workers.catch_up()
        try:
            table.check()
        except AssertionError as error:
            raise AssertionError(f"step {step}: {error}\n{worker.said()}") from error
        if code == 0:
            break
    assert number * every > 20
