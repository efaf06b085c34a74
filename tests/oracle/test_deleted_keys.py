"""Keys that log files deleted and hudisql inserts again: Apache Hudi's next upserts make no second rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.format.schema.meta_columns import RECORD_KEY
from hudisql.table.files.snapshot import load_file_slices
from tests.opened import open_at
from tests.oracle.client import BY_LISTING, HudiOracle
from tests.oracle.indexed_table import COMPACTION
from tests.soak import parameters
from tests.sql.changed_tables import setting

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

PARTITIONS = 2
FIRST = range(20)
CASES = [
    ("1.2.0", "9", "SIMPLE", "seq", ""),
    ("0.15.0", "6", "BLOOM", "seq", "0"),
    ("1.2.0", "8", "SIMPLE", "", "0"),
    ("1.2.0", "9", "BLOOM", "seq", "0"),
    ("0.15.0", "6", "SIMPLE", "seq", ""),
    ("1.2.0", "6", "BLOOM", "", ""),
]


@dataclass
class TableOfBoth:
    """A merge-on-read table that Apache Hudi and hudisql write."""

    oracle: HudiOracle
    session: Any
    name: str
    path: str
    options: dict[str, str]

    def theirs(self, numbers: Iterable[int], note: str, seq: int) -> None:
        """Apache Hudi upserts the rows of these numbers."""
        numbers = list(numbers)
        rows = pa.table(
            {
                "id": [f"k{number}" for number in numbers],
                "seq": pa.array([seq] * len(numbers), pa.int64()),
                "note": [note] * len(numbers),
                "dt": [f"p{number % PARTITIONS}" for number in numbers],
            }
        )
        self.oracle.write(rows, self.path, self.options)

    def ours(self, statement: str) -> dict[str, Any]:
        """The row counts of hudisql's statement."""
        row: dict[str, Any] = self.session.sql(statement.replace("{t}", self.name)).rows[0].asDict()
        return {name: count for name, count in row.items() if name.startswith("rows_") and count}

    def check(self, notes: dict[str, str]) -> None:
        """Both read these notes, and each key once."""
        rows = self.oracle.read(self.path, columns=["id", "note"], options=BY_LISTING)
        assert sorted(zip(*rows.to_pydict().values(), strict=True)) == sorted(notes.items())
        own = self.session.sql(f"SELECT id, note FROM {self.name}").rows
        assert sorted(tuple(row) for row in own) == sorted(notes.items())

    def check_groups(self) -> None:
        """The latest base files of two file groups never have the same key, deleted or not."""
        keys = [
            (key, each.partition_path)
            for each in load_file_slices(open_at(self.path))
            if each.base_file is not None
            for key in pq.read_table(each.base_file.path, columns=[RECORD_KEY]).column(0).to_pylist()
        ]
        assert [key for key, count in Counter(keys).items() if count > 1] == []


@pytest.mark.parametrize(
    ("hudi", "version", "index", "ordering", "driver_bytes"), parameters(CASES, in_ci=CASES[:1])
)
def test_inserts_of_deleted_keys_keep_their_file_group(
    session: Any,
    request: pytest.FixtureRequest,
    hudi: str,
    version: str,
    index: str,
    ordering: str,
    driver_bytes: str,
    tmp_path: Path,
) -> None:
    oracle = request.getfixturevalue("oracle_120" if hudi == "1.2.0" else "oracle_015")
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    name = f"oracle.deleted_keys_{version}_{index}_{driver_bytes}".lower()
    options = {
        "hoodie.table.name": name.rpartition(".")[2],
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "dt",
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.index.type": index,
        "hoodie.compact.inline": "false",
        **({"hoodie.datasource.write.precombine.field": ordering} if ordering else {}),
        **({} if hudi == "0.15.0" else {"hoodie.write.table.version": version}),
    }
    table = TableOfBoth(oracle, session, name, str(tmp_path / "t"), options)
    table.theirs(FIRST, "first", 1)
    session.sql(f"CALL hive_sync(table => '{name}', path => '{table.path}')")
    notes = {f"k{number}": "first" for number in FIRST}
    with ExitStack() as stack:
        stack.enter_context(setting(session, "hoodie.spark.sql.insert.into.operation", "upsert"))
        if driver_bytes:
            stack.enter_context(setting(session, "hudisql.driver.max.bytes", driver_bytes))
        table.ours("DELETE FROM {t} WHERE id IN ('k0', 'k1', 'k2', 'k3', 'k4', 'k5')")
        merged = table.ours(
            "MERGE INTO {t} t USING (SELECT 'k' || n AS id, n + 1L AS seq, 'ours' AS note, "
            "'p' || (n % 2) AS dt FROM (SELECT explode(array(0, 2, 19, 20)) AS n)) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        assert merged == {"rows_inserted": 3, "rows_updated": 1}
        upserted = table.ours(
            "INSERT INTO {t} VALUES ('k4', 0, 'ours', 'p0'), ('k3', 3, 'ours', 'p1'), "
            "('k21', 1, 'ours', 'p1')"
        )
        assert upserted == {"rows_inserted": 3}
        for day in ("p1", "p0"):
            assert table.ours(f"UPDATE {{t}} SET dt = '{day}', seq = 5, note = 'ours' WHERE id = 'k18'")
        # A statement that deletes a key and inserts it again, and deletes a row twice.
        table.ours("UPDATE {t} SET note = 'only', seq = 2 WHERE id = 'k6'")
        merged = table.ours(
            "MERGE INTO {t} t USING (VALUES ('k6', 9L, 'ours', 'p0', 'only'), "
            "('k6', 9L, 'ours', 'p0', 'no'), ('k8', 9L, '', 'p0', 'first'), ('k8', 8L, '', 'p0', 'first') "
            "AS s (id, seq, note, dt, old)) s "
            "ON t.note = s.old AND t.id = s.id WHEN MATCHED THEN DELETE "
            "WHEN NOT MATCHED THEN INSERT (id, seq, note, dt) VALUES (s.id, s.seq, s.note, s.dt)"
        )
        assert merged == {"rows_inserted": 1, "rows_deleted": 2, "rows_combined": 1}
        swapped = "UPDATE {t} SET id = CASE id WHEN 'k0' THEN 'k20' ELSE 'k0' END WHERE id IN ('k0', 'k20')"
        table.ours(swapped)
    mine = {f"k{number}": "ours" for number in (0, 2, 3, 4, 6, 18, 19, 20, 21)}
    left = {key: note for key, note in notes.items() if key not in ("k1", "k5", "k8")} | mine
    table.check(left)
    table.check_groups()
    table.theirs([0, 2, 3, 4, 6, 18, 19, 20, 21], "again", 100)
    again = left | dict.fromkeys(mine, "again")
    table.check(again)
    oracle.sql(COMPACTION.replace("{t}", name))
    table.check(again)
    table.theirs(range(22), "last", 101)
    table.check({f"k{number}": "last" for number in range(22)})
