"""The slices that a commit hands on are those that a listing finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.options.table_call import TableCall
from hudisql.table.files.committed_slices import FILE_SLICES
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable, open_table
from tests.sources import write_parquet

pytestmark = [pytest.mark.spark, pytest.mark.hms]

STATEMENTS = (
    "UPDATE {t} SET n = 1 WHERE id = 1",
    "DELETE FROM {t} WHERE id = 2",
    "UPDATE {t} SET n = 2 WHERE id < 8",
    "INSERT INTO {t} VALUES (90, 1, 'p1')",
    "INSERT OVERWRITE {t} PARTITION (p = 'p0') VALUES (40, 4)",
    "UPDATE {t} SET n = 3 WHERE id = 40",
)


@pytest.mark.parametrize(
    "table_type", [pytest.param("COPY_ON_WRITE", marks=pytest.mark.soak), "MERGE_ON_READ"]
)
def test_handed_slices_are_the_listed_ones(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_type: str
) -> None:
    for number in range(4):
        ids = pa.array(range(number, 24, 4), pa.int64())
        write_parquet(tmp_path / f"source/p=p{number % 2}/{number}.parquet", pa.table({"id": ids, "n": ids}))
    name = f"handed_{table_type[:3].lower()}"
    session.sql(
        f"CALL bootstrap_table(table => '{name}', source => '{tmp_path / 'source'}', record_key => 'id', "
        f"table_type => '{table_type}', target_path => '{tmp_path / 't'}')"
    )
    committed: list[HudiTable] = []
    monkeypatch.setattr(TableCall, "publish", lambda call, **_: committed.append(call.table))
    handed = 0
    for statement in STATEMENTS:
        session.sql(statement.format(t=name))
        [table] = committed
        by_path = (table.listing or {}).get(FILE_SLICES, {})
        fresh = load_file_slices(open_table(table.storage, table.base_path))
        for path, slices in by_path.items():
            assert slices == [each for each in fresh if each.partition_path == path], statement
        handed += len(by_path)
        committed.clear()
    assert handed == 7
    for suffix in ("", "_ro", "_rt"):
        session.sql(f"DROP TABLE IF EXISTS {name}{suffix}")
