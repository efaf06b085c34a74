"""Tables of ingest workers by name in Hive: `_rt` has the rows as events left them, `_ro` the base files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hudisql.catalog.client import MetastoreClient
from tests.hive.engines import ask_beeline
from tests.hive.server import HiveServer
from tests.ingest.fed_tables import FedTables, fed_tables

if TYPE_CHECKING:
    from tests.ingest.broker import KafkaBroker
    from tests.ingest.worker_processes import WorkerServer

pytestmark = [pytest.mark.hive, pytest.mark.hms, pytest.mark.kafka]


@pytest.fixture
def tables(broker: KafkaBroker, metastore_uri: str, tmp_path: Path) -> Iterator[FedTables]:
    """Tables that are unregistered after the test."""
    with closing(MetastoreClient(metastore_uri)) as client:
        yield from fed_tables(broker, client, tmp_path)


def test_hive_reads_ingested_merge_on_read_tables_by_name(
    tables: FedTables, workers: WorkerServer, hive_server: HiveServer
) -> None:
    table = tables.make("ingested", "mor")
    table.produce(range(30))
    workers.catch_up()
    inserted = dict(table.model)
    table.produce(range(10, 20), deleted=range(5))
    workers.catch_up()
    assert list(table.path.rglob(".*.log.*"))
    for name, expected in (("ingested_rt", table.model), ("ingested_ro", inserted)):
        found = ask_beeline(hive_server)(f"SELECT id, ts FROM fed.{name}")
        assert len(found) == len(expected)
        assert {int(number): int(ts) for number, ts in found} == expected, name
