"""Tables that order rows by several columns: hudisql and Apache Hudi 1.2 change them in turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.errors import WriteRefusedError
from tests.opened import open_at
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.newer_tables import WITHOUT_SKIPPING
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

COMPACTS = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
Row = tuple[int, int, int, str]


@dataclass
class OrderedTable:
    """A table with the columns id, one, two and note, of which `one` and `two` order the rows."""

    oracle: HudiOracle
    session: Any
    path: str
    name: str
    options: dict[str, str]
    notes: dict[str, str] = field(default_factory=dict)

    def theirs(self, *rows: Row, **options: str) -> None:
        """1.2 upserts rows."""
        ids, ones, twos, notes = zip(*rows, strict=True)
        given = {
            "id": [f"k{each}" for each in ids],
            "one": pa.array(ones, pa.int64()),
            "two": pa.array(twos, pa.int64()),
            "note": list(notes),
        }
        self.oracle.upsert(pa.table(given), self.path, self.options | options)

    def ours(self, *rows: Row) -> None:
        """hudisql upserts rows."""
        self.session.sql(f"INSERT INTO {self.name} {_values(rows)}")

    def expect(self, **notes: str | None) -> None:
        """Both read the rows as they were, but for these notes; None for rows that are gone."""
        self.notes = {key: note for key, note in {**self.notes, **notes}.items() if note is not None}
        theirs = self.oracle.read(self.path, options=WITHOUT_SKIPPING)
        assert_same_rows(self.session.sql(f"SELECT * FROM {self.name}").arrow(), theirs, sort_by=["id"])
        assert dict(zip(theirs["id"].to_pylist(), theirs["note"].to_pylist(), strict=True)) == self.notes


def _values(rows: tuple[Row, ...]) -> str:
    listed = ", ".join(f"('k{id_}', {one}, {two}, '{note}')" for id_, one, two, note in rows)
    return f"SELECT * FROM (VALUES {listed}) AS v(id, one, two, note)"


def _new_table(
    oracle: HudiOracle, session: Any, directory: Path, name: str, table_type: str, version: int
) -> OrderedTable:
    """A table of ten rows that 1.2 makes."""
    options = {
        "hoodie.table.name": name,
        "hoodie.write.table.version": str(version),
        "hoodie.write.auto.upgrade": "false",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "one,two",
        "hoodie.datasource.write.partitionpath.field": "",
        "hoodie.metadata.enable": "true",
    }
    table = OrderedTable(oracle, session, str(directory / "table"), name, options)
    table.theirs(*((number, 10, 10, "base") for number in range(10)))
    session.sql(f"CREATE TABLE {name} USING hudi LOCATION '{table.path}'")
    assert open_at(table.path).ordering_fields == ("one", "two")
    table.notes = {f"k{number}": "base" for number in range(10)}
    return table


def test_late_rows_lose_by_the_second_column(oracle_120: HudiOracle, session: Any, tmp_path: Path) -> None:
    table = _new_table(oracle_120, session, tmp_path, "several_short", "MERGE_ON_READ", 9)
    table.ours((0, 10, 9, "late"), (1, 10, 11, "ours"), (2, 9, 99, "late"), (3, 11, 0, "ours"))
    session.sql(f"UPDATE {table.name} SET note = 'lowered', two = 1 WHERE id = 'k6'")
    session.sql(f"DELETE FROM {table.name} WHERE id = 'k7'")
    table.theirs((1, 10, 10, "late"), (3, 11, 1, "theirs"), (6, 10, 2, "theirs"))
    table.expect(k1="ours", k3="theirs", k6="theirs", k7=None)


@pytest.mark.parametrize(
    ("table_type", "version", "on_driver"),
    parameters(
        [
            ("MERGE_ON_READ", 9, True),
            ("MERGE_ON_READ", 8, False),
            ("COPY_ON_WRITE", 9, False),
            ("COPY_ON_WRITE", 8, True),
        ],
        in_ci=[],
    ),
)
def test_hudi_12_and_hudisql_change_a_table_in_turn(
    oracle_120: HudiOracle, session: Any, tmp_path: Path, table_type: str, version: int, on_driver: bool
) -> None:
    name = f"several_{table_type.lower()}_{version}"
    table = _new_table(oracle_120, session, tmp_path, name, table_type, version)
    table.expect()
    session.sql(f"SET hudisql.driver.max.bytes = {8 << 20 if on_driver else 0}")
    try:
        _change(table)
    finally:
        session.sql("RESET hudisql.driver.max.bytes")


def _change(table: OrderedTable) -> None:
    name, session = table.name, table.session
    table.ours((0, 10, 9, "late"), (1, 10, 11, "ours"), (2, 9, 99, "late"), (3, 11, 0, "ours"))
    table.ours((4, 10, 10, "equal"), (5, 11, 6, "newest"), (5, 11, 5, "older"), (10, 1, 1, "older"))
    table.ours((11, 1, 2, "newest"), (11, 1, 1, "older"))
    table.expect(k1="ours", k3="ours", k4="equal", k5="newest", k10="older", k11="newest")
    session.sql(f"UPDATE {name} SET note = 'lowered', two = 1 WHERE id = 'k6'")
    session.sql(f"DELETE FROM {name} WHERE id IN ('k7', 'k8')")
    source = _values(((9, 12, 1, "older"), (9, 12, 2, "merged"), (12, 1, 1, "older"), (12, 1, 2, "merged")))
    session.sql(
        f"MERGE INTO {name} t USING ({source}) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    table.expect(k6="lowered", k7=None, k8=None, k9="merged", k12="merged")
    table.theirs((0, 10, 11, "theirs"), (1, 10, 10, "late"), (3, 11, 1, "theirs"))
    table.theirs((6, 10, 2, "theirs"), (7, 1, 1, "again"), (9, 12, 1, "late"), (12, 1, 3, "theirs"))
    table.expect(k0="theirs", k3="theirs", k6="theirs", k7="again", k12="theirs")
    table.ours((0, 10, 10, "late"), (2, 10, 11, "ours"), (8, 1, 1, "again"))
    table.theirs((13, 1, 1, "theirs"), **COMPACTS if "merge" in name else {})
    table.expect(k2="ours", k8="again", k13="theirs")
    session.sql(f"UPDATE {name} SET note = 'ours' WHERE id IN ('k0', 'k13')")
    session.sql(f"DELETE FROM {name} WHERE id = 'k12'")
    if "merge" in name:
        session.sql(f"CALL run_compaction(op => 'scheduleAndExecute', table => '{name}')")
    table.expect(k0="ours", k13="ours", k12=None)
    table.theirs((0, 10, 10, "late"), (13, 1, 2, "theirs"))
    table.expect(k13="theirs")
    for rows in ("'k0', 11L, CAST(NULL AS BIGINT), 'null'", "'k20', CAST(NULL AS BIGINT), 1L, 'null'"):
        for operation in ("upsert", "bulk_insert"):
            session.sql(f"SET hoodie.spark.sql.insert.into.operation = {operation}")
            with pytest.raises(WriteRefusedError, match=r"NULL in (one|two), one of the ordering columns"):
                session.sql(f"INSERT INTO {name} SELECT {rows}")
            session.sql("RESET hoodie.spark.sql.insert.into.operation")
    table.expect()
