"""Tables that ingest workers write: Apache Hudi reads them, goes on writing, and the workers after it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.catalog.client import MetastoreClient
from tests.ingest.broker import KafkaBroker
from tests.ingest.fed_tables import SCHEMA, TYPES, FedTable, FedTables, fed_tables
from tests.ingest.pushed_tables import PushedTable, pushed_tables
from tests.ingest.test_pushed_rows import end, take
from tests.ingest.worker_processes import WorkerServer
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms, pytest.mark.kafka]


@pytest.fixture
def tables(broker: KafkaBroker, metastore_uri: str, tmp_path: Path) -> Iterator[FedTables]:
    with closing(MetastoreClient(metastore_uri)) as client:
        yield from fed_tables(broker, client, tmp_path)


def options_of(table: FedTable, kind: str) -> dict[str, str]:
    return {
        "hoodie.table.name": table.name,
        "hoodie.datasource.write.table.type": TYPES[kind],
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.partitionpath.field": "dt",
        "hoodie.datasource.write.hive_style_partitioning": "true",
    }


def read_by_all(table: FedTable | PushedTable, session: Any, *oracles: HudiOracle) -> None:
    """All read the same rows and meta columns, which are the model's."""
    ours = session.sql(f"SELECT * FROM {table.full_name}").arrow()
    assert dict(zip(ours["id"].to_pylist(), ours["ts"].to_pylist(), strict=True)) == table.model
    assert ours.num_rows == len(table.model)
    for oracle in oracles:
        assert_same_rows(ours, oracle.read(str(table.path)), sort_by=["id"])


def upsert_by_hudi(oracle: HudiOracle, table: FedTable, kind: str, numbers: range) -> None:
    """States that are later than those of all events until now."""
    table.clock += 1
    rows = [
        {"id": each, "name": f"n{table.clock}", "ts": table.clock, "dt": f"2024-01-0{each % 3 + 1}"}
        for each in numbers
    ]
    oracle.upsert(pa.Table.from_pylist(rows, SCHEMA), str(table.path), options_of(table, kind))
    table.model.update(dict.fromkeys(numbers, table.clock))


@pytest.mark.parametrize("kind", parameters(["cow", "mor"], in_ci=["mor"]))
def test_hudi_reads_what_workers_write_and_both_go_on(
    tables: FedTables,
    workers: WorkerServer,
    session: Any,
    oracle_015: HudiOracle,
    oracle_120: HudiOracle,
    kind: str,
) -> None:
    table = tables.make(f"ingested_{kind}", kind)
    table.produce(range(60))
    workers.catch_up()
    table.produce(range(40, 80), deleted=range(5))
    workers.catch_up()
    table.produce(range(3, 20), deleted=range(70, 75))
    workers.catch_up()
    read_by_all(table, session, oracle_015, oracle_120)
    upsert_by_hudi(oracle_015, table, kind, range(10, 90, 4))
    table.produce(range(12, 30), deleted=range(30, 34))
    workers.catch_up()
    read_by_all(table, session, oracle_015)
    # A statement changes rows that no event changes, at the same time as a worker.
    table.produce(range(100, 130))
    with ThreadPoolExecutor(1) as pool:
        merged = pool.submit(
            session.sql,
            f"MERGE INTO {table.full_name} t USING (SELECT 200 AS id, 'merged' AS name, 1 AS ts, "
            "'2024-01-09' AS dt) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
        )
        workers.catch_up()
        merged.result()
    table.model[200] = 1
    read_by_all(table, session, oracle_015, oracle_120)
    table.check()


def test_hudi_reads_what_clients_push(
    metastore_uri: str, workers: WorkerServer, tmp_path: Path, session: Any, oracle_015: HudiOracle
) -> None:
    with (
        closing(MetastoreClient(metastore_uri)) as client,
        pushed_tables(client, workers, tmp_path) as tables,
    ):
        table = tables.make("pushed_to_hudi")
        worker = tables.start()
        take(table, worker, range(40))
        assert table.push(worker, range(20, 50), deleted=range(3)).status == 200
        table.push_batch(worker, range(45, 60))
        end(worker)
        read_by_all(table, session, oracle_015)
