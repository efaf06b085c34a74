"""The quick look at small batches refuses what the slow one does."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from hudisql.format import table_properties as keys
from hudisql.format.schema.avro_schema import avro_from_arrow
from hudisql.ingest.flush import IngestTarget
from hudisql.ingest.parse.json_records import JsonParser
from hudisql.ingest.row_keys import RefusedRows, keyed_rows
from hudisql.storage import Storage
from hudisql.table.properties.new_table import NewTable, publish_new_table
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.keygen.partition_paths import PartitionPaths
from tests.opened import open_at

SCHEMA = pa.schema([("id", pa.string()), ("dt", pa.string())])
ROWS: list[list[dict[str, object]]] = [
    [{"id": "a", "dt": "1"}, {"id": "b", "dt": "2"}],
    [{"id": "c", "dt": "1"}],
    [{"id": "c", "dt": "1"}, {"id": None, "dt": "1"}, {"id": "", "dt": "2"}],
    [{"id": "d", "dt": ".."}],
    [{"id": "d"}],
    [{"id": "e", "_hoodie_is_deleted": True}],
    [{"id": "f", "dt": "1"}] * 70,
]


def test_small_batches_are_refused_as_others(tmp_path: Path) -> None:
    others = {keys.CREATE_SCHEMA: avro_from_arrow(SCHEMA, "t")}
    new = NewTable("t", "d", keys.MERGE_ON_READ, ("id",), ("dt",), others=others)
    publish_new_table(Storage(), str(tmp_path / "t"), new, datetime.now(UTC))
    target = IngestTarget(open_at(tmp_path / "t"), WriteOptions(), lambda: None)
    paths = PartitionPaths(target.table)
    refused_rows, parser = RefusedRows(target, paths), JsonParser(target.table.schema)
    found = []
    for rows in [*ROWS, *ROWS]:
        parsed = parser.parse([json.dumps(row).encode() for row in rows])
        refused = list(refused_rows(parsed))
        assert refused == keyed_rows(parsed, target, paths)[2]
        found.append([each.position for each in refused])
    assert found[: len(ROWS)] == found[len(ROWS) :]
    assert found[2] == [1, 2]
    assert found[5] == [0]
