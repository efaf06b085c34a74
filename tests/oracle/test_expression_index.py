"""Expression indexes: hudisql keeps those of Apache Hudi 1.2 and makes some that it goes on with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hudisql.storage import Storage
from hudisql.table.hudi_table import open_table
from hudisql.table.metadata_table.expression_indexes import expression_indexes, is_expression
from hudisql.table.metadata_table.kept_metadata_table import find_kept
from hudisql.write.metadata_table import metadata_compaction
from tests.oracle.client import HudiOracle

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms, pytest.mark.soak]

SETTINGS = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.enable.data.skipping": "true",
    "hoodie.datasource.hive_sync.enable": "false",
    "hoodie.datasource.meta.sync.enable": "false",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
}
ROWS = (
    "SELECT concat('k', id), CASE id % 9 WHEN 0 THEN NULL WHEN 1 THEN 'Straße' ELSE concat(' Name', id) END, "
    "int(id), 1700000000 + id * 864000, timestamp_seconds(1700000000 + id * 8640000), "
    "date_add(date'2023-11-01', int(id) * 40), concat('p', id % 3) FROM range({})"
)
INDEXES = {
    "by_upper": "label) OPTIONS (expr = 'upper')",
    "by_lower": "label) OPTIONS (expr = 'lower')",
    "by_trim": "label) OPTIONS (expr = 'trim')",
    "by_length": "label) OPTIONS (expr = 'length')",
    "by_beginning": "label) OPTIONS (expr = 'substring', pos = '2', len = '5')",
    "by_second": "ts) OPTIONS (expr = 'from_unixtime', format = 'yyyy-MM-dd')",
    "by_moment": "ts) OPTIONS (expr = 'from_unixtime')",
    "by_year": "at) OPTIONS (expr = 'year')",
    "by_day_of": "at) OPTIONS (expr = 'to_date')",
    "by_hour": "at) OPTIONS (expr = 'hour')",
    "by_text": "at) OPTIONS (expr = 'date_format', format = 'yyyy-MM')",
    "by_month": "day) OPTIONS (expr = 'month')",
    "by_day": "day) OPTIONS (expr = 'day')",
    "by_later": "day) OPTIONS (expr = 'date_add', days = '10')",
}
FILTERS = {
    "by_upper": ("upper(label) = ' NAME12'", "upper(label) IN ('STRASSE', 'ÄÖÜ')", "upper(label) = 'none'"),
    "by_lower": ("lower(label) = ' name12'", "lower(label) = 'straße'", "lower(label) = 'äöü'"),
    "by_trim": ("trim(label) = 'Name12'", "trim(label) IN ('Straße', 'ÄÖÜ')"),
    "by_length": ("length(label) = 7", "length(label) = 3", "length(label) = 70"),
    "by_beginning": ("substring(label, 2, 5) = 'Name1'", "substring(label, 2, 5) = 'ÖÜ'"),
    "by_second": (
        "from_unixtime(ts, 'yyyy-MM-dd') = '2023-11-24'",
        "from_unixtime(ts, 'yyyy-MM-dd') = '2099-01-01'",
    ),
    "by_moment": ("from_unixtime(ts) = '2023-11-24 22:13:20'",),
    "by_year": ("year(at) = 2024", "year(at) IN (2023, 2099)", "year(at) = 1999"),
    "by_day_of": ("to_date(at) = date'2024-02-22'", "to_date(at) = date'2099-01-01'"),
    "by_hour": ("hour(at) = 22", "hour(at) = 5"),
    "by_text": ("date_format(at, 'yyyy-MM') = '2024-02'", "date_format(at, 'yyyy-MM') = '2099-01'"),
    "by_month": ("month(day) = 12", "month(day) = 1"),
    "by_day": ("day(day) = 1", "day(day) = 31"),
    "by_later": ("date_add(day, 10) = date'2023-11-11'", "date_add(day, 10) = date'2099-01-11'"),
}
NEW = "timestamp'2099-01-01 05:00:00', date'2099-01-01'"
OURS = (
    "UPDATE {t} SET label = 'ÄÖÜ' WHERE n IN (3, 14, 33)",
    "UPDATE {t} SET ts = 4070908800, at = timestamp'2099-01-01 05:00:00', day = date'2099-01-01' WHERE n = 4",
    "DELETE FROM {t} WHERE n IN (20, 21)",
    "INSERT INTO {t} SELECT concat('n', id), label, n + 1000, ts, at, day, 'p9' FROM {t} WHERE n IN (2, 12)",
    "UPDATE {t} SET dt = 'p0' WHERE n IN (5, 7, 1002)",
    "MERGE INTO {t} t USING (SELECT id FROM {t} WHERE n IN (30, 31)) s ON t.id = s.id "
    "WHEN MATCHED AND t.n = 30 THEN DELETE WHEN MATCHED THEN UPDATE SET label = NULL",
)
SERVICES = (
    "CALL run_clustering(table => '{t}')",
    "INSERT OVERWRITE {t} PARTITION (dt = 'p1') SELECT id, label, n, ts, at, day FROM {t} "
    "WHERE dt = 'p1' AND n < 60",
    "CALL run_clean(table => '{t}', retain_commits => 1)",
)
COMPACTION = "CALL run_compaction(op => 'scheduleandexecute', table => '{t}')"


@pytest.fixture
def hudi(oracle_120: HudiOracle, session: Any) -> Iterator[HudiOracle]:
    """Hudi 1.2 with the settings by which its SQL keeps and reads the indexes."""
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    for key, value in SETTINGS.items():
        oracle_120.sql(f"SET {key}={value}")
    yield oracle_120
    for key in (*SETTINGS, "hoodie.write.table.version"):
        oracle_120.sql(f"RESET {key}")
    oracle_120.sql("SET hoodie.metadata.enable=false")


@dataclass
class IndexedTable:
    """A table of both engines; Hudi asks the last index of a column alone, so that each has one."""

    hudi: HudiOracle
    session: Any
    name: str
    path: str
    indexes: tuple[str, ...]

    def ours(self, statement: str) -> None:
        """The statement keeps the indexes."""
        self.session.sql(statement.replace("{t}", self.name))
        metadata = find_kept(open_table(Storage(), self.path))
        assert metadata is not None
        assert {*filter(is_expression, metadata.indexes)} == {f"expr_index_{name}" for name in self.indexes}

    def theirs(self, statement: str) -> None:
        """1.2 runs the statement."""
        self.hudi.sql(f"REFRESH TABLE {self.name}")
        self.hudi.sql(statement.replace("{t}", self.name))

    def check_reads(self) -> None:
        """1.2 finds by the indexes the rows for which hudisql says that each filter holds."""
        self.hudi.sql(f"REFRESH TABLE {self.name}")
        filters = [condition for index in self.indexes for condition in FILTERS[index]]
        rows = self.session.sql(f"SELECT id, {', '.join(filters)} FROM {self.name}").rows
        for number, condition in enumerate(filters, start=1):
            found = self.hudi.sql(f"SELECT id FROM {self.name} WHERE {condition}")["id"].to_pylist()
            assert sorted(found) == sorted(row[0] for row in rows if row[number]), condition

    def check_rebuilt(self) -> None:
        """Hudi makes records anew of the same files, whose ranges are within those that are kept."""
        kept = self._ranges()
        for index in self.indexes:
            self.hudi.sql(f"DROP INDEX {index} ON {self.name}")
            self.hudi.sql(f"CREATE INDEX {index} ON {self.name} USING column_stats({INDEXES[index]}")
        made = self._ranges()
        assert made
        for key, (least, greatest, values, nulls, rest) in made.items():
            known = kept[key]
            assert known[4] == rest, key
            if key[2] is not None:
                assert known[2:4] == (values, nulls), key
            if least is not None:
                assert known[0] <= least <= greatest <= known[1], key

    def _ranges(self) -> dict[Any, Any]:
        """The bounds of each file of the latest slices, and of each partition, by index."""
        table = open_table(Storage(), self.path)
        metadata = find_kept(table)
        assert metadata is not None
        found = {}
        for index in expression_indexes(table):
            records = metadata.read_records(index)
            for key, value in zip(records.keys.to_pylist(), records.values.to_pylist(), strict=True):
                bounds = [_bound(value[name]) for name in ("minValue", "maxValue")]
                rest = (value["columnName"], value["valueType"], [wrapper for wrapper, _ in bounds])
                file_name = value["fileName"] if len(key) > 36 else None
                found[index, key, file_name] = (
                    *(bound for _, bound in bounds),
                    value["valueCount"],
                    value["nullCount"],
                    rest,
                )
        return found


def _bound(wrappers: Any) -> tuple[str, Any]:
    for name, wrapper in (wrappers or {}).items():
        if wrapper is not None:
            return name, wrapper["value"]
    return "", None


def _make(
    hudi: HudiOracle, session: Any, path: Path, table_type: str, version: int, indexes: tuple[str, ...]
) -> IndexedTable:
    name = f"oracle.expression_{table_type}_{version}_{path.name}"
    hudi.sql(f"SET hoodie.write.table.version={version}")
    # hudisql makes no tables of version 8.
    (hudi if version == 8 else session).sql(
        f"CREATE TABLE {name} (id STRING, label STRING, n INT, ts BIGINT, at TIMESTAMP, day DATE, dt STRING) "
        f"USING hudi PARTITIONED BY (dt) LOCATION '{path}' TBLPROPERTIES (primaryKey = 'id', "
        f"preCombineField = 'n', type = '{table_type}', 'hoodie.write.table.version' = '{version}')"
    )
    return IndexedTable(hudi, session, name, str(path), indexes)


@pytest.mark.parametrize(
    ("table_type", "version", "indexes"),
    [
        ("cow", 9, ("by_upper", "by_second", "by_year", "by_month")),
        ("mor", 9, ("by_length", "by_moment", "by_day_of", "by_day")),
        ("cow", 8, ("by_beginning", "by_text", "by_later")),
        ("mor", 8, ("by_lower", "by_second", "by_text", "by_later")),
        ("mor", 9, ("by_trim", "by_hour")),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else str(value),
)
def test_hudi_finds_all_rows_by_the_indexes_that_both_keep(
    session: Any,
    hudi: HudiOracle,
    table_type: str,
    version: int,
    indexes: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 3)
    table = _make(hudi, session, tmp_path / indexes[0], table_type, version, indexes)
    hudi.sql(f"INSERT INTO {table.name} {ROWS.format(40)}")
    for index in indexes:
        hudi.sql(f"CREATE INDEX {index} ON {table.name} USING column_stats({INDEXES[index]}")
    for statement in OURS:
        table.ours(statement)
    table.check_reads()
    table.check_rebuilt()
    table.theirs("UPDATE {t} SET label = 'theirs', ts = 9 WHERE n IN (9, 11)")
    services = (COMPACTION,) if table_type == "mor" else ()
    for statement in (*services, *SERVICES):
        table.ours(statement)
    table.check_reads()
    table.theirs(f"INSERT INTO {{t}} VALUES ('t1', 'ÄÖÜ', 1, 4070908800, {NEW}, 'p0')")
    table.theirs("DELETE FROM {t} WHERE n IN (12, 1002)")
    table.ours(OURS[0])
    table.check_reads()
    table.check_rebuilt()
