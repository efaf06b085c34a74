"""Workers of one group share tables: when one dies, ends, joins or sleeps, tables move."""

from __future__ import annotations

import signal
import time

import pytest

from tests.ingest.fed_tables import FedTable, FedTables
from tests.ingest.worker_processes import WorkerProcess, WorkerServer
from tests.processes import wait_for

pytestmark = [pytest.mark.hms, pytest.mark.kafka]

SOON = 0.3
NEVER = 3600.0


def owner(table: FedTable) -> int:
    """The process that made the table's last commit."""
    return int(table.offsets().owner.rpartition(":")[2] or 0)


def is_taken(table: FedTable) -> bool:
    return table.offsets().offsets == table.ends()


def wait_until_taken(made: list[FedTable], workers: list[WorkerProcess]) -> float:
    """Wait until commits have all events; the seconds that it took."""
    said = "".join(each.said() for each in workers)
    return wait_for(lambda: all(map(is_taken, made)), said)


def produce_everywhere(made: list[FedTable], number: int) -> None:
    for table in made:
        table.produce(range(number * 5, number * 5 + 20), deleted=range(number * 5 - 5, number * 5))


@pytest.mark.soak
def test_tables_move_to_the_workers_that_are_there(tables: FedTables, workers: WorkerServer) -> None:
    made = [
        tables.make(f"shared{n}", "cow" if n % 2 else "mor", partitions=1, flush_seconds=SOON)
        for n in range(6)
    ]
    running = [workers.start(group="moving") for _ in range(2)]
    rounds = iter(range(100))

    def spread(pids: set[int]) -> bool:
        produce_everywhere(made, next(rounds))
        wait_until_taken(made, running)
        return {owner(each) for each in made} == pids

    wait_for(lambda: spread({each.pid for each in running}), "both own tables")
    killed = running.pop(0)
    killed.signal(signal.SIGKILL)
    assert killed.end() == -signal.SIGKILL
    for table in made:
        table.forget_dead()
    produce_everywhere(made, next(rounds))
    assert wait_until_taken(made, running) < 30
    running.append(workers.start(group="moving"))
    wait_for(lambda: spread({each.pid for each in running}), "the third one has tables")

    for table in made:
        table.declare(flush_seconds=NEVER)
    time.sleep(2)
    produce_everywhere(made, next(rounds))
    time.sleep(1)
    ended = running.pop(0)
    # A busy machine may not have read all declarations anew.
    its_tables = [each for each in made if owner(each) == ended.pid and not is_taken(each)]
    ended.signal(signal.SIGTERM)
    assert ended.end() == 0, ended.said()
    assert its_tables
    assert all(map(is_taken, its_tables))
    for table in made:
        table.declare(flush_seconds=SOON)
    produce_everywhere(its_tables, next(rounds))
    assert wait_until_taken(made, running) < 30
    assert {owner(each) for each in its_tables} == {running[0].pid}
    running[0].signal(signal.SIGTERM)
    assert running[0].end() == 0, running[0].said()
    for table in made:
        table.check()


@pytest.mark.soak
@pytest.mark.parametrize("place", [pytest.param("memory", marks=pytest.mark.soak), "commit"])
def test_a_worker_that_slept_longer_than_its_session_has_lost_its_tables(
    tables: FedTables, workers: WorkerServer, place: str
) -> None:
    table = tables.make(f"slept_{place}", "mor", flush_seconds=NEVER if place == "memory" else SOON)
    table.produce(range(50), bad=1)
    sleeper = workers.start(group=f"sleep_{place}", fault="stop", step=None if place == "memory" else 20)
    if place == "memory":
        wait_for(lambda: "1 table" in sleeper.said(), "a start")
        time.sleep(2)
        sleeper.signal(signal.SIGSTOP)
        table.declare(flush_seconds=SOON)
    wait_for(lambda: sleeper.is_stopped, "a stop")
    other = workers.start(group=f"sleep_{place}")
    table.forget_dead()
    wait_until_taken([table], [sleeper, other])
    assert owner(table) == other.pid
    sleeper.signal(signal.SIGCONT)
    table.produce(range(40, 60), deleted=range(5))
    wait_until_taken([table], [sleeper, other])
    table.check()
    for each in (sleeper, other):
        each.signal(signal.SIGTERM)
        assert each.end() in (0, 1), each.said()
    table.check()
    assert ("has lost it, and nothing was written" in sleeper.said()) == (place == "commit")
