"""Workers of tables that are declared to be split: events of a topic, each in the table once."""

from __future__ import annotations

import signal
from itertools import count

import pytest

from hudisql.ingest.split.partition_split import find_split
from hudisql.table.files.snapshot import list_file_slices
from hudisql.table.partitions.listed_partitions import list_partitions
from tests.ingest.fed_tables import FedTable, FedTables
from tests.ingest.test_worker_kills import produce_round
from tests.ingest.worker_processes import WorkerServer
from tests.soak import parameters

pytestmark = [pytest.mark.hms, pytest.mark.kafka]


def is_split(table: FedTable) -> list[bool]:
    """Whether each partition is."""
    paths = [each.path for each in list_partitions(table.table)]
    return [find_split(each, list_file_slices(table.table, [each], None)) is not None for each in paths]


def test_a_table_that_is_declared_again_is_split_and_goes_on(
    tables: FedTables, workers: WorkerServer
) -> None:
    table = tables.make("split_later", "mor")
    table.produce(range(60))
    workers.catch_up()
    assert is_split(table) == [False] * 3
    table.declare(split="now")
    workers.catch_up()
    assert is_split(table) == [True] * 3
    table.produce(range(40, 80), deleted=range(5))
    workers.catch_up()
    table.check()
    assert is_split(table) == [True] * 3


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("every", parameters([1, 15], in_ci=[]))
def test_a_worker_that_is_killed_at_any_step_of_flush_and_split_loses_nothing(
    tables: FedTables, workers: WorkerServer, kind: str, every: int
) -> None:
    for number, step in enumerate(count(0, every)):
        table = tables.make(f"split_killed_{kind}_{every}_{number}", kind, split="now")
        produce_round(table, 1)
        worker = workers.start(until_caught_up=True, step=step)
        code = worker.end()
        assert code in (0, -signal.SIGKILL), worker.said()
        table.forget_dead()
        workers.catch_up()
        table.check()
        assert all(is_split(table))
        produce_round(table, 2)
        workers.catch_up()
        table.check()
        if code == 0:
            break
        tables.drop()
    assert number * every > 40
