"""Apache Hudi 0.15 reads a table that a worker fed, gave a column to, and compacted without Spark."""

from __future__ import annotations

import json

import pytest

from hudisql.context import Context
from hudisql.format.timeline.instant import COMMIT
from hudisql.service_process.ingest.compact_table import compact_if_due
from tests.ingest.conftest import tables  # noqa: F401
from tests.ingest.fed_tables import STORAGE, FedTables
from tests.ingest.worker_processes import WorkerServer
from tests.oracle.client import HudiOracle

pytestmark = [pytest.mark.oracle, pytest.mark.hms, pytest.mark.kafka]


@pytest.mark.soak
def test_hudi_reads_what_was_compacted_without_spark(
    tables: FedTables,  # noqa: F811
    workers: WorkerServer,
    oracle_015: HudiOracle,
) -> None:
    table = tables.make("compacted_alone", partitions=1, new_columns="add")
    for number in range(5):
        table.produce(range(number * 5, number * 5 + 10), deleted=range(number * 5 - 3, number * 5))
        workers.catch_up()
    row = {"id": 1000, "name": "n", "ts": 9, "dt": "2024-01-01", "price": 1.5}
    table.broker.produce(table.name, [json.dumps(row).encode()], partition=0)
    workers.catch_up()
    # Changes alone: they are in log files.
    table.produce(range(20, 28))
    workers.catch_up()
    context = Context(None, table.client, STORAGE)  # type: ignore[arg-type]
    assert "file slices" in str(compact_if_due(context, table.full_name))
    assert compact_if_due(context, table.full_name) is None
    assert any(each.action == COMMIT for each in table.table.timeline.completed)
    table.produce(range(20, 40))
    workers.catch_up()
    expected = {**table.model, 1000: 9}
    ours = table.rows()
    theirs = oracle_015.read(str(table.path))
    for rows in (ours, theirs):
        assert dict(zip(rows["id"].to_pylist(), rows["ts"].to_pylist(), strict=True)) == expected
        prices = dict(zip(rows["id"].to_pylist(), rows["price"].to_pylist(), strict=True))
        assert {key: price for key, price in prices.items() if price is not None} == {1000: 1.5}
