"""Columns that events have and a table lacks: ignored, or added to the table and its metastore entries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from hudisql.context import Context
from hudisql.errors import InvalidArgumentError
from hudisql.ingest.dead_letters import SUFFIX
from hudisql.options.table_call import open_registered
from hudisql.service_process.ingest import declared_table
from hudisql.table.hudi_table import open_table
from tests.ingest.fed_tables import DATABASE, STORAGE, FedTable, FedTables
from tests.ingest.worker_processes import WorkerServer
from tests.oracle.comparison import our_rows

pytestmark = [pytest.mark.hms, pytest.mark.kafka]


def send(table: FedTable, *rows: Mapping[str, Any]) -> None:
    of_all = {"name": "n", "ts": 1, "dt": "2024-01-01"}
    table.broker.produce(table.name, [json.dumps({**of_all, **row}).encode() for row in rows], partition=0)


def columns_of(table: FedTable, name: str) -> dict[str, str]:
    entry = table.client.get_table(DATABASE, name)
    assert entry is not None
    return {each.name: each.type for each in entry.columns if not each.name.startswith("_")}


@pytest.mark.soak
def test_new_columns_are_added_while_a_worker_runs(tables: FedTables, workers: WorkerServer) -> None:
    table = tables.make("growing", partitions=1, new_columns="add", flush_bytes=1 << 16)
    other = tables.make("not_growing", partitions=1)
    send(table, {"id": 1})
    send(other, {"id": 1, "clicks": 5})
    workers.catch_up()
    send(
        table,
        {"id": 2, "clicks": 5, "price": 1, "nothing": None},
        {"id": 3, "price": 0.5, "is_paid": True, "note": "x", "Name": "differs by its case alone"},
        {"id": 4, "nested": {"a": 1}},
        {"id": 5, "_hoodie_file_name": "x"},
    )
    workers.catch_up()
    # The columns are there now: what does not fit is no row.
    send(table, {"id": 6, "clicks": "many"}, {"id": 1, "clicks": 7, "ts": 2})
    workers.catch_up()
    names = ["id", "clicks", "price", "is_paid", "note"]
    rows = our_rows(table.table).sort_by("id").select(names).to_pylist()
    assert rows == [
        dict(zip(names, row, strict=True))
        for row in [
            (1, 7, None, None, None),
            (2, 5, 1.0, None, None),
            (3, None, 0.5, True, "x"),
            (5, None, None, None, None),
        ]
    ]
    assert table.table.schema.names == ["id", "name", "ts", *names[1:], "dt"]
    for name in ("growing", "growing_ro", "growing_rt"):
        assert list(columns_of(table, name).items())[3:] == [
            ("clicks", "bigint"),
            ("price", "double"),
            ("is_paid", "boolean"),
            ("note", "string"),
        ]
    kept = our_rows(open_table(STORAGE, f"{table.path}{SUFFIX}"))["reason"].to_pylist()
    assert sorted("nested" in each or "object" in each for each in kept) == [False, True]
    assert any("column clicks" in each for each in kept)
    assert other.table.schema.names == ["id", "name", "ts", "dt"]
    assert len(other.rows()) == 1
    assert table.offsets().offsets == table.ends()


def test_a_table_gets_no_columns_without_end(tables: FedTables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declared_table, "MOST_COLUMNS", 6)
    table = tables.make("crowded", partitions=1)
    context = Context(None, table.client, STORAGE)  # type: ignore[arg-type]
    entry = table.client.get_table(DATABASE, table.name)
    assert entry is not None
    call = open_registered(context, entry, STORAGE)
    found = pa.schema([(name, pa.int64()) for name in ("a", "A", "b", "c", "dt", "_hoodie_x")])
    left = declared_table.add_new_columns(call, found, call.concurrency())
    assert left == ["A", "c", "_hoodie_x"]
    assert table.table.schema.names == ["id", "name", "ts", "a", "b", "dt"]
    with pytest.raises(InvalidArgumentError, match="new_columns is 'all'"):
        table.declare(new_columns="all")
