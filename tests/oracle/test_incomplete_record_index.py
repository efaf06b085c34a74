"""Record indexes of which Apache Hudi leaves keys out: hudisql finds their rows, and adds the keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.format.metadata_table.metadata_records import RECORD_INDEX
from hudisql.table.metadata_table.incomplete_groups import incomplete_groups
from tests.opened import open_at, open_kept
from tests.oracle.client import BY_LISTING, BY_METADATA
from tests.oracle.indexed_table import IndexedTable
from tests.sql.changed_tables import setting

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

PARTITIONS = 9
KEYS = 5 * PARTITIONS
INDEX = {
    "0.15.0": {"hoodie.metadata.record.index.enable": "true"},
    "1.2.0": {"hoodie.metadata.global.record.level.index.enable": "true"},
}


@dataclass
class TableOfBothIndexes(IndexedTable):
    """A table that Apache Hudi writes by an index of its own, and hudisql by the record index if it can."""

    table_type: str
    version: str
    index: str

    def theirs(
        self, numbers: Iterable[int], note: str, operation: str = "upsert", *, is_late_delete: bool = False
    ) -> None:
        """Hudi writes the rows with these numbers, or deletes that are older than the rows."""
        numbers = list(numbers)
        rows = pa.table(
            {
                "id": [f"k{number}" for number in numbers],
                "seq": pa.array(
                    [-1 if is_late_delete else number + 1000 * (note == "again") for number in numbers],
                    pa.int64(),
                ),
                "_hoodie_is_deleted": [is_late_delete] * len(numbers),
                "note": [note] * len(numbers),
                "dt": [f"p{number % PARTITIONS}" for number in numbers],
            }
        )
        options = {
            "hoodie.table.name": self.name.rpartition(".")[2],
            "hoodie.datasource.write.table.type": self.table_type,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "seq",
            "hoodie.datasource.write.partitionpath.field": "dt",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.datasource.write.operation": operation,
            "hoodie.index.type": self.index,
            "hoodie.bucket.index.num.buckets": "1",
            "hoodie.metadata.enable": "true",
            "hoodie.compact.inline": "false",
            **INDEX[self.hudi.version],
            **({} if self.hudi.version == "0.15.0" else {"hoodie.write.table.version": self.version}),
        }
        self.hudi.write(rows, self.path, options)

    def check_index(self) -> None:
        """The index has all keys, and no key has two rows."""
        assert self.left_out() == []
        assert incomplete_groups(open_at(self.path)) == frozenset()

    def stored(self) -> list[str]:
        """The keys of all rows, as Hudi finds them without the metadata table; no key has two rows."""
        keys = self.hudi.read(self.path, options=BY_LISTING)["id"].to_pylist()
        assert {*Counter(keys).values()} == {1}
        return sorted(keys)

    def left_out(self) -> list[str]:
        """The keys of rows that the index lacks."""
        indexed = {*open_kept(self.path).read_records(RECORD_INDEX).keys.to_pylist()}
        return [key for key in self.stored() if key not in indexed]

    def check_finds(self, keys: Collection[str], note: str) -> None:
        """hudisql finds each of the keys by filters on it, alone and with others."""
        for key in keys:
            found = self.session.sql(f"SELECT note FROM {self.name} WHERE id = '{key}'").rows
            assert [tuple(row) for row in found] == [(note,)], key
        listed = ", ".join(f"'{key}'" for key in ("k0", "k5", "none", *keys))
        found = self.session.sql(f"SELECT id FROM {self.name} WHERE id IN ({listed})").rows
        assert sorted(row[0] for row in found) == sorted({"k0", "k5", *keys})

    def check_hudi_finds(self, keys: Collection[str], note: str) -> None:
        """So does Hudi by the index."""
        for key in keys:
            found = self.hudi.read(self.path, where=f"id = '{key}'", options=BY_METADATA)
            assert found["note"].to_pylist() == [note], key


CASES = [
    ("1.2.0", "9", "MERGE_ON_READ", "SIMPLE"),
    ("0.15.0", "6", "MERGE_ON_READ", "BLOOM"),
    ("1.2.0", "8", "MERGE_ON_READ", "BUCKET"),
    ("0.15.0", "6", "COPY_ON_WRITE", "BUCKET"),
    ("1.2.0", "9", "COPY_ON_WRITE", "BUCKET"),
]


@pytest.mark.soak
@pytest.mark.parametrize(("hudi", "version", "table_type", "index"), CASES)
def test_rows_whose_keys_hudi_leaves_out_are_found_and_indexed(
    session: Any,
    request: pytest.FixtureRequest,
    hudi: str,
    version: str,
    table_type: str,
    index: str,
    tmp_path: Path,
) -> None:
    oracle = request.getfixturevalue("oracle_120" if hudi == "1.2.0" else "oracle_015")
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    name = f"oracle.left_out_{version}_{table_type[:4].lower()}_{index.lower()}"
    table = TableOfBothIndexes(oracle, session, name, str(tmp_path / "t"), table_type, version, index)
    table.theirs(range(KEYS), "first")
    session.sql(f"CALL hive_sync(table => '{name}', path => '{table.path}')")
    statements = (
        "MERGE INTO {t} t USING (SELECT id, seq, dt FROM {t} WHERE id IN ({keys}) UNION ALL "
        "SELECT 'new', 1, 'p0') s ON t.id = s.id WHEN MATCHED THEN UPDATE SET note = 'ours' "
        "WHEN NOT MATCHED THEN INSERT (id, seq, note, dt) VALUES (s.id, s.seq, 'ours', s.dt)",
        "INSERT INTO {t} SELECT id, seq + 1, false, 'ours', dt FROM {t} WHERE id IN ({keys}) UNION ALL "
        "SELECT 'newer', 1, false, 'ours', 'p1'",
        "UPDATE {t} SET note = 'ours' WHERE id IN ({keys})",
        "DELETE FROM {t} WHERE id IN ({keys})",
    )
    own = "BUCKET" if index == "BUCKET" else "RECORD_INDEX"
    with (
        setting(session, "hoodie.index.type", own),
        setting(session, "hoodie.bucket.index.num.buckets", "1"),
    ):
        for number, statement in enumerate(statements):
            again = range(10 * number + 1, 10 * number + 4)
            table.theirs(again, "gone", "delete")
            table.theirs(again, "again")
            table.theirs([100 + number], "again", "insert")
            left_out = table.left_out()
            assert left_out
            table.check_finds(left_out, "again")
            if (hudi, table_type) == ("1.2.0", "MERGE_ON_READ"):
                # The rows stay, and the index loses their keys.
                table.theirs([5, 6], "late", is_late_delete=True)
                assert {"k5", "k6"} <= {*table.left_out()}
                table.check_finds(["k5", "k6"], "first")
            table.ours(statement.replace("{keys}", ", ".join(f"'{key}'" for key in left_out)))
            if number < 3:
                table.check_hudi_finds(left_out, "ours")
                table.check_finds(left_out, "ours")
            else:
                assert not {*left_out} & {*table.stored()}
