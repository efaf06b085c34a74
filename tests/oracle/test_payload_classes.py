"""Payload classes with rules of their own: hudisql and Apache Hudi upsert tables that have them in turn."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.format.table_properties import read_table_properties
from hudisql.storage import Storage
from tests.oracle.client import HudiOracle
from tests.oracle.newer_tables import WITHOUT_SKIPPING
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

PARTIAL = "PartialUpdateAvroPayload"
NON_DEFAULTS = "OverwriteNonDefaultsWithLatestAvroPayload"
EVENT_TIME = "EventTimeAvroPayload"
FIRST_VALUE = "FirstValueAvroPayload"
DMS = "AWSDmsAvroPayload"
POSTGRES = "debezium.PostgresDebeziumAvroPayload"
UNAVAILABLE = "__debezium_unavailable_value"
CASES = [
    (version, table_type, payload)
    for version in ("0.15.0", "1.2.0", "9")
    for table_type in ("COPY_ON_WRITE", "MERGE_ON_READ")
    for payload in (PARTIAL, NON_DEFAULTS, EVENT_TIME, FIRST_VALUE, DMS)
    # 1.2 does not have the class.
    if payload != FIRST_VALUE or version == "0.15.0"
] + [("9", "COPY_ON_WRITE", POSTGRES), ("9", "MERGE_ON_READ", POSTGRES)]
SMALL_FILES = "hoodie.parquet.small.file.limit"
# The metadata table that 1.2 keeps, and its merger strategy, which says what the payload class does.
LEFT_BY_HUDI = {
    *("hoodie.table.checksum", "hoodie.compaction.record.merger.strategy"),
    *("hoodie.table.metadata.partitions", "hoodie.table.metadata.partitions.inflight"),
    "hoodie.table.index.defs.path",
}
Row = tuple[str, int, str | None, int | None, str]
COLUMNS = ("id", "seq", "a", "b", "Op")
POSTGRES_COLUMNS = ("id", "_event_lsn", "a", "b", "_change_operation_type")
POSTGRES_OPERATIONS = {"I": "c", "U": "u", "D": "d"}
# The first commit of all tables; then rows that are newer, late, equal, of one key, new, and deletes.
FIRST: tuple[Row, ...] = tuple(
    (key, 10, None if key == "late1" else "a0", None if key == "late2" else 1, "I")
    for key in ("new", "late1", "late2", "equal", "both1", "both2", "del")
)
SECOND: tuple[Row, ...] = (
    ("new", 11, None, 2, "U"),
    ("late1", 9, "late", 5, "U"),
    ("late2", 9, "late", 6, "U"),
    ("equal", 10, "eq", None, "U"),
    ("both1", 11, "older", 8, "U"),
    ("both1", 12, None, 7, "U"),
    ("both2", 12, "older", None, "U"),
    ("both2", 13, None, 9, "U"),
    ("fresh1", 1, "f", None, "I"),
    ("fresh1", 2, None, 3, "I"),
    ("fresh2", 1, "x", 1, "I"),
    ("del", 11, None, None, "D"),
)
THIRD: tuple[Row, ...] = (
    ("new", 12, "third", None, "U"),
    ("late1", 8, "later", None, "U"),
    ("late2", 12, None, None, "U"),
    ("equal", 11, None, None, "U"),
    ("fresh1", 2, "equal", 9, "U"),
    ("del", 9, "again", 1, "I"),
)


@dataclass
class PayloadTable:
    """A table with a payload class, below `directory`; `twin` is one that Apache Hudi alone writes."""

    oracle: HudiOracle
    session: Any
    name: str
    path: str
    twin: str
    options: dict[str, str]
    columns: tuple[str, ...] = COLUMNS

    def theirs(self, path: str, rows: tuple[Row, ...]) -> None:
        """Apache Hudi upserts rows."""
        types = (pa.string(), pa.int64(), pa.string(), pa.int32(), pa.string())
        values = zip(*self.events(rows), strict=True)
        columns = [pa.array(column, type_) for column, type_ in zip(values, types, strict=True)]
        self.oracle.upsert(pa.table(columns, names=list(self.columns)), path, self.options)

    def ours(self, rows: tuple[Row, ...]) -> None:
        """hudisql upserts rows."""
        values = [["NULL" if value is None else repr(value) for value in row] for row in self.events(rows)]
        listed = ", ".join(f"({', '.join(row)})" for row in values)
        self.session.sql(
            f"INSERT INTO {self.name} SELECT id, CAST(seq AS BIGINT), CAST(a AS STRING), CAST(b AS INT), op "
            f"FROM (VALUES {listed}) AS v(id, seq, a, b, op)"
        )

    def events(self, rows: tuple[Row, ...]) -> tuple[Row, ...]:
        """The rows as the payload class expects them: Debezium has a text for unknown values."""
        if self.columns == COLUMNS:
            return rows
        return tuple(
            (key, seq, UNAVAILABLE if a is None else a, b, POSTGRES_OPERATIONS[operation])
            for key, seq, a, b, operation in rows
        )

    def rows(self, path: str) -> list[Any]:
        """The rows that Apache Hudi reads."""
        return self.sorted(self.oracle.read(path, options=WITHOUT_SKIPPING))

    def sorted(self, table: pa.Table) -> list[Any]:
        """The rows of the table, without meta columns."""
        rows = (tuple(row.values()) for row in table.select(list(self.columns)).to_pylist())
        return sorted(rows, key=lambda row: str(row[0]))

    def check(self) -> None:
        """Both read the rows of the twin."""
        theirs = self.rows(self.path)
        assert self.sorted(self.session.sql(f"SELECT * FROM {self.name}").arrow()) == theirs
        assert theirs == self.rows(self.twin)


def _new_table(
    oracle: HudiOracle,
    session: Any,
    directory: Path,
    version: str,
    table_type: str,
    payload: str,
    suffix: str = "",
) -> PayloadTable:
    name = f"payload_{payload}_{table_type}_{version}{suffix}".replace(".", "_").lower()
    columns = POSTGRES_COLUMNS if payload == POSTGRES else COLUMNS
    options = {
        "hoodie.table.name": name,
        "hoodie.write.table.version": "9" if version == "9" else "6",
        "hoodie.write.auto.upgrade": "false",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": columns[1],
        "hoodie.datasource.write.partitionpath.field": "",
        "hoodie.datasource.write.payload.class": f"org.apache.hudi.common.model.{payload}",
        # Updates go to log files. A merge with the base file in between changes the rows of some classes.
        SMALL_FILES: "0",
    }
    paths = (str(directory / "table"), str(directory / "twin"))
    table = PayloadTable(oracle, session, name, *paths, options, columns)
    for path in (table.path, table.twin):
        table.theirs(path, FIRST)
    # 0.15 keeps no payload class in the properties of copy-on-write tables: each write names it.
    session.sql(f"CREATE TABLE {name} USING hudi LOCATION '{table.path}'")
    if version == "0.15.0" and table_type == "COPY_ON_WRITE":
        own = f"org.apache.hudi.common.model.{payload}"
        session.sql(f"ALTER TABLE {name} SET TBLPROPERTIES (payloadClass = '{own}')")
    return table


@pytest.mark.parametrize(
    ("version", "table_type", "payload"),
    parameters(CASES, in_ci=[("9", "COPY_ON_WRITE", PARTIAL)]),
)
def test_hudi_and_hudisql_upsert_in_turn(
    request: pytest.FixtureRequest,
    session: Any,
    tmp_path: Path,
    version: str,
    table_type: str,
    payload: str,
) -> None:
    oracle = request.getfixturevalue("oracle_015" if version == "0.15.0" else "oracle_120")
    table = _new_table(oracle, session, tmp_path, version, table_type, payload)
    table.check()
    second, third = SECOND, THIRD
    if (table_type, payload) == ("MERGE_ON_READ", POSTGRES):
        # hudisql merges a slice that gets such deletes, as a compaction of Hudi would (docs/facts.md).
        second, third = SECOND[:-1], THIRD[:-1]
    session.sql(f"SET {SMALL_FILES} = 0")
    try:
        table.ours(second)
        table.theirs(table.twin, second)
        table.check()
        table.theirs(table.path, third)
        table.theirs(table.twin, third)
        table.check()
        session.sql("SET hudisql.driver.max.bytes = 0")
        for rows in (third, second):
            table.ours(rows)
            table.theirs(table.twin, rows)
            table.check()
    finally:
        session.sql("RESET hudisql.driver.max.bytes")
        session.sql(f"RESET {SMALL_FILES}")
    session.sql(f"UPDATE {table.name} SET a = NULL, b = 77 WHERE id = 'new'")
    session.sql(f"DELETE FROM {table.name} WHERE id = 'late1'")
    changed = {row[0]: row for row in table.rows(table.path)}
    assert changed["new"][2:4] == (None, 77)
    assert "late1" not in changed
    assert table.sorted(session.sql(f"SELECT * FROM {table.name}").arrow()) == table.rows(table.path)


@pytest.mark.soak
def test_unavailable_values_stay_filled_over_log_files_and_compactions(
    oracle_120: HudiOracle, session: Any, tmp_path: Path
) -> None:
    """Newer, equal and late rows of which most lack a value, by both writers, compacted by either."""
    table = _new_table(oracle_120, session, tmp_path, "9", "MERGE_ON_READ", POSTGRES, "_logs")
    twin = "unavailable_twin"
    session.sql(f"CREATE TABLE {twin} USING hudi LOCATION '{table.twin}'")
    chance = random.Random(7)
    keys = [f"k{number:02}" for number in range(40)]
    newest = dict.fromkeys(keys, 20)
    session.sql(f"SET {SMALL_FILES} = 0")
    for runner in (session, oracle_120):
        runner.sql("SET hoodie.compact.inline.max.delta.commits = 1")
    compact = "CALL run_compaction(op => 'scheduleAndExecute', table => '{}')"
    try:
        for turn in range(8):
            rows = []
            for key in keys if turn == 0 else chance.sample(keys, 25):
                sequence = newest[key] + (0 if turn == 0 else chance.choice((1, 1, 2, 0, -1)))
                newest[key] = max(newest[key], sequence)
                text = f"{key} {turn}" if chance.random() < (0.8 if turn == 0 else 0.4) else None
                rows.append((key, sequence, text, turn, "U" if turn else "I"))
            table.theirs(table.twin, tuple(rows))
            write = table.ours if turn % 2 else lambda events: table.theirs(table.path, events)
            write(tuple(rows))
            table.check()
            assert table.sorted(session.sql(f"SELECT * FROM {twin}").arrow()) == table.rows(table.twin)
            if turn in (2, 5):
                before = table.rows(table.twin)
                compactor, other = (session, oracle_120) if turn == 2 else (oracle_120, session)
                assert list(_rows_of(compactor.sql(compact.format(table.name))))
                assert list(_rows_of(other.sql(compact.format(twin))))
                table.check()
                assert table.rows(table.twin) == before
        # Deletes: an older one is none, a newer one holds, and a whole row comes after it.
        newer, older, gone = keys[:3]
        table.ours(
            (
                (newer, newest[newer] + 1, None, 9, "D"),
                (older, newest[older] - 1, None, 9, "D"),
                (gone, newest[gone] + 1, "deleted", 9, "D"),
            )
        )
        table.ours(((newer, newest[newer] + 2, "again", 10, "I"),))
        left = {row[0]: row for row in table.rows(table.path)}
        assert left.keys() == (set(keys) | {row[0] for row in FIRST}) - {gone}
        assert left[newer][1:4] == (newest[newer] + 2, "again", 10)
        assert left[older][1] == newest[older]
        assert table.sorted(session.sql(f"SELECT * FROM {table.name}").arrow()) == table.rows(table.path)
    finally:
        session.sql(f"RESET {SMALL_FILES}")
        for runner in (session, oracle_120):
            runner.sql("RESET hoodie.compact.inline.max.delta.commits")


def _rows_of(result: Any) -> list[Any]:
    return result.to_pylist() if isinstance(result, pa.Table) else list(result.rows)


@pytest.mark.soak
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("payload", [PARTIAL, NON_DEFAULTS, DMS, EVENT_TIME])
def test_a_downgraded_table_keeps_its_payload_class(
    oracle_015: HudiOracle,
    oracle_120: HudiOracle,
    session: Any,
    tmp_path: Path,
    table_type: str,
    payload: str,
) -> None:
    """Properties are as after a downgrade by 1.2, and 0.15 and hudisql merge rows in turn as 0.15 alone."""
    table = _new_table(oracle_120, session, tmp_path, "9", table_type, payload, "_downgraded")
    twin = f"{table.name}_twin"
    session.sql(f"CREATE TABLE {twin} USING hudi LOCATION '{table.twin}'")
    session.sql(f"SET {SMALL_FILES} = 0")
    try:
        for path in (table.path, table.twin):
            table.theirs(path, SECOND)
        before = table.rows(table.path)
        session.sql(f"CALL downgrade_table(table => '{table.name}', to_version => 'SIX')")
        oracle_120.sql(f"CALL downgrade_table(table => '{twin}', to_version => 'SIX')")
        ours, theirs = (read_table_properties(Storage(), path).values for path in (table.path, table.twin))
        differ = {key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key)}
        assert differ <= LEFT_BY_HUDI, {key: (ours.get(key), theirs.get(key)) for key in differ}
        assert ours["hoodie.compaction.payload.class"] == f"org.apache.hudi.common.model.{payload}"
        assert table.rows(table.path) == table.rows(table.twin) == before
        table.oracle, table.options = oracle_015, {**table.options, "hoodie.write.table.version": "6"}
        table.check()
        for turn, rows in enumerate((THIRD, SECOND)):
            (table.ours if turn else lambda events: table.theirs(table.path, events))(rows)
            table.theirs(table.twin, rows)
            table.check()
    finally:
        session.sql(f"RESET {SMALL_FILES}")
