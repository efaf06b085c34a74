"""Rows that stand for deletes, in tables where event time decides: late ones delete nothing, as in Hudi."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.oracle.client import HudiOracle
from tests.oracle.newer_tables import WITHOUT_SKIPPING
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

Row = tuple[str, int, str, bool]
KEYS = ("late", "newer", "equal", "later", "untouched")
FIRST: tuple[Row, ...] = tuple((key, 10, "first", False) for key in KEYS)
DELETES: tuple[Row, ...] = tuple(
    (key, seq, "deleted", True)
    for key, seq in (("late", 9), ("newer", 11), ("equal", 10), ("later", 12), ("unknown", 1))
)
THEN: tuple[Row, ...] = (("later", 13, "newer than its delete", False), ("late", 10, "equal", False))
LEFT = [("late", 10, "first"), ("untouched", 10, "first")]
AFTER = [("late", 10, "equal"), ("later", 13, "newer than its delete"), ("untouched", 10, "first")]
DEFAULT, PARTIAL = "DefaultHoodieRecordPayload", "PartialUpdateAvroPayload"
CASES = [
    (version, table_type, driver_bytes, DEFAULT)
    for version in ("0.15.0", "1.2.0", "9")
    for table_type in ("COPY_ON_WRITE", "MERGE_ON_READ")
    for driver_bytes in ("", "0")
] + [("9", "MERGE_ON_READ", "", PARTIAL)]


@dataclass
class EventTable:
    """A table ordered by event time; `twin` is one that Apache Hudi alone writes."""

    oracle: HudiOracle
    session: Any
    name: str
    path: str
    twin: str
    options: dict[str, str]

    def theirs(self, path: str, rows: tuple[Row, ...]) -> None:
        """Apache Hudi upserts rows."""
        names = ["id", "seq", "v", "_hoodie_is_deleted"]
        table = pa.table([pa.array(column) for column in zip(*rows, strict=True)], names=names)
        self.oracle.upsert(table, path, self.options)

    def ours(self, rows: tuple[Row, ...]) -> None:
        """hudisql upserts rows."""
        values = ", ".join(f"('{key}', {seq}L, '{v}', {gone})" for key, seq, v, gone in rows)
        self.session.sql(f"INSERT INTO {self.name} SELECT * FROM (VALUES {values})")

    def check(self, expected: list[tuple[str, int, str]], *, as_twin: bool) -> None:
        """Both read these rows; they are those of the twin."""
        own, twin = (self.oracle.read(path, options=WITHOUT_SKIPPING) for path in (self.path, self.twin))
        assert _rows(self.session.sql(f"SELECT * FROM {self.name}").arrow()) == expected
        assert _rows(own) == expected
        assert (_rows(twin) == expected) is as_twin


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.select(["id", "seq", "v"]).to_pylist())


@pytest.mark.parametrize(
    ("version", "table_type", "driver_bytes", "payload"),
    parameters(CASES, in_ci=[("9", "MERGE_ON_READ", "", DEFAULT)]),
)
def test_late_deletes_delete_nothing(
    request: pytest.FixtureRequest,
    session: Any,
    tmp_path: Path,
    version: str,
    table_type: str,
    driver_bytes: str,
    payload: str,
) -> None:
    oracle = request.getfixturevalue("oracle_015" if version == "0.15.0" else "oracle_120")
    name = f"late_deletes_{table_type}_{version}_{driver_bytes}_{payload}".replace(".", "_").lower()
    options = {
        "hoodie.table.name": name,
        "hoodie.write.table.version": "9" if version == "9" else "6",
        "hoodie.write.auto.upgrade": "false",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "seq",
        "hoodie.datasource.write.partitionpath.field": "",
        "hoodie.datasource.write.payload.class": f"org.apache.hudi.common.model.{payload}",
        "hoodie.parquet.small.file.limit": "0",
    }
    table = EventTable(oracle, session, name, str(tmp_path / "table"), str(tmp_path / "twin"), options)
    for path in (table.path, table.twin):
        table.theirs(path, FIRST)
    session.sql(f"CREATE TABLE {name} USING hudi LOCATION '{table.path}'")
    if version == "0.15.0" and table_type == "COPY_ON_WRITE":
        own = f"org.apache.hudi.common.model.{payload}"
        session.sql(f"ALTER TABLE {name} SET TBLPROPERTIES (payloadClass = '{own}')")
    session.sql("SET hoodie.parquet.small.file.limit = 0")
    if driver_bytes:
        session.sql(f"SET hudisql.driver.max.bytes = {driver_bytes}")
    try:
        for rows, expected in ((DELETES, LEFT), (THEN, AFTER), (DELETES, AFTER)):
            table.ours(rows)
            table.theirs(table.twin, rows)
            # The delete blocks of 0.15 hold over newer rows of the base file.
            is_lost_by_hudi = (version, table_type) == ("0.15.0", "MERGE_ON_READ") and expected is LEFT
            table.check(expected, as_twin=not is_lost_by_hudi)
    finally:
        session.sql("RESET hoodie.parquet.small.file.limit")
        session.sql("RESET hudisql.driver.max.bytes")
