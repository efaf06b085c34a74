"""Two workers that write to one table at once, each sure that it owns it: each event is there once."""

from __future__ import annotations

import signal

import pytest

from tests.ingest.fed_tables import FedTables
from tests.ingest.test_worker_kills import produce_round
from tests.ingest.worker_processes import WorkerServer
from tests.processes import wait_for
from tests.soak import parameters

pytestmark = [pytest.mark.hms, pytest.mark.kafka]


@pytest.mark.soak
@pytest.mark.parametrize("kind", parameters(["cow", "mor"], in_ci=["cow"]))
@pytest.mark.parametrize("every", parameters([1, 20], in_ci=[20]))
def test_a_worker_that_was_stopped_at_any_step_does_not_repeat_what_another_one_did(
    tables: FedTables, workers: WorkerServer, kind: str, every: int
) -> None:
    table = tables.make(f"stopped_{kind}_{every}", kind)
    number = step = 0
    while True:
        produce_round(table, number)
        stopped = workers.start(until_caught_up=True, step=step, fault="stop")
        wait_for(lambda: stopped.is_over or stopped.is_stopped, "a stop")  # noqa: B023
        if stopped.is_over:
            break
        table.forget_dead()
        workers.catch_up()
        stopped.signal(signal.SIGCONT)
        assert stopped.end() in (0, 1), stopped.said()
        table.forget_dead()
        workers.catch_up()
        try:
            table.check()
        except AssertionError as error:
            raise AssertionError(f"step {step}: {error}\n{stopped.said()}") from error
        number, step = number + 1, step + every
    assert step > 20
