"""Expression indexes: hudisql keeps those of Apache Hudi 1.2 and makes some that it goes on with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.format.hfile.hfile_cells import cells_of
from hudisql.format.metadata_table.metadata_keys import key_parts
from hudisql.format.metadata_table.metadata_writing import ColumnRange, encode_range
from hudisql.table.metadata_table.expression_indexes import expression_indexes, is_expression
from hudisql.write.metadata_table import metadata_compaction
from hudisql.write.metadata_table.deltacommit_files import IndexUpdate, next_time, write_deltacommit
from tests.opened import open_kept
from tests.oracle.client import HudiOracle
from tests.oracle.indexed_table import (
    COMPACTION,
    SETTINGS,
    TableIndexedBySql,
    assert_found_by_index,
    create_table,
)
from tests.oracle.shapes import SHAPES, bootstrap_shape, noted_rows
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

WITH_SKIPPING = {
    **SETTINGS,
    "hoodie.enable.data.skipping": "true",
    "hoodie.datasource.hive_sync.enable": "false",
    "hoodie.datasource.meta.sync.enable": "false",
}
ROWS = (
    "SELECT concat('k', id), CASE id % 9 WHEN 0 THEN NULL WHEN 1 THEN 'Straße' ELSE concat(' Name', id) END, "
    "int(id), 1700000000 + id * 864000, timestamp_seconds(1700000000 + id * 8640000), "
    "date_add(date'2023-11-01', int(id) * 40), concat('p', id % 3) FROM range({})"
)
KEY_OF_PARTITION = 36
INDEXES = {
    "by_upper": "label) OPTIONS (expr = 'upper')",
    "by_lower": "label) OPTIONS (expr = 'lower')",
    "by_trim": "label) OPTIONS (expr = 'trim')",
    "by_length": "label) OPTIONS (expr = 'length')",
    "by_beginning": "label) OPTIONS (expr = 'substring', pos = 2, len 5)",
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


@pytest.fixture
def hudi(oracle_120: HudiOracle, session: Any) -> Iterator[HudiOracle]:
    """Hudi 1.2 with the settings by which its SQL keeps and reads the indexes."""
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    with oracle_120.settings(WITH_SKIPPING):
        yield oracle_120


@dataclass
class TableWithExpressions(TableIndexedBySql):
    """Hudi asks the last index of a column alone, so that each has one."""

    indexes: tuple[str, ...]

    def check_index(self) -> None:
        """The indexes are kept."""
        indexes = open_kept(self.path).indexes
        assert {*filter(is_expression, indexes)} == {f"expr_index_{name}" for name in self.indexes}

    def check_reads(self) -> None:
        """Both find by the indexes all rows of their filters."""
        self.check_filters([condition for index in self.indexes for condition in FILTERS[index]])

    def check_rebuilt(self) -> None:
        """Hudi makes records anew of the same files, whose ranges are within those that are kept."""
        kept = self._ranges()
        for index in self.indexes:
            self.hudi.sql(f"DROP INDEX {index} ON {self.name}")
            self.hudi.sql(f"CREATE INDEX {index} ON {self.name} USING column_stats({INDEXES[index]}")
        made = self._ranges()
        assert made
        for key, (least, greatest, counts, rest) in made.items():
            known = kept[key]
            assert known[3] == rest, key
            if len(key[1]) > KEY_OF_PARTITION:
                assert known[2] == counts, key
            if least is not None:
                assert known[0] <= least <= greatest <= known[1], key

    def hide_the_label(self) -> None:
        """Its file has another range in the index."""
        metadata = open_kept(self.path)
        records = metadata.read_records("expr_index_by_upper")
        kind = 7 if metadata.table.version == 9 else None
        other = ColumnRange("label", "StringWrapper", kind, "zz", "zz", values=9, nulls=0)
        others = {
            key: encode_range(other, value["fileName"])
            for key, value in zip(records.keys.to_pylist(), records.values.to_pylist(), strict=True)
            if len(key) > KEY_OF_PARTITION
        }
        # Of a key that stays readers merge the ranges.
        for update in (IndexUpdate(deleted=pa.array([*others])), IndexUpdate(cells_of(others))):
            metadata = open_kept(self.path)
            write_deltacommit(metadata, next_time(metadata), {"expr_index_by_upper": update})

    def _ranges(self) -> dict[Any, Any]:
        """The bounds of each file of the latest slices, and of each partition, by index."""
        metadata = open_kept(self.path)
        found: dict[Any, Any] = {}
        for index, known in expression_indexes(metadata.table).items():
            prefix = key_parts([known.column])[known.column]
            for layers in metadata.read_layers(index, [prefix]):
                for layer in layers:
                    for key, value in zip(layer.keys.to_pylist(), layer.values.to_pylist(), strict=True):
                        older = found.pop((index, key), None)
                        if value is not None:
                            found[index, key] = _merged(older, value)
        return found


def _merged(older: tuple[Any, ...] | None, value: dict[str, Any]) -> tuple[Any, ...]:
    """The bounds, counts and further values of a record, with the older ones of a partition."""
    (kind, least), (_, greatest) = (_bound(value[name]) for name in ("minValue", "maxValue"))
    rest = (value["columnName"], value.get("valueType"), kind)
    counts = value["valueCount"], value["nullCount"]
    if older is None or value["isTightBound"] or _is_file(value["fileName"]):
        return least, greatest, counts, rest
    bounds = [bound for bound in (older[0], least) if bound is not None]
    tops = [bound for bound in (older[1], greatest) if bound is not None]
    return min(bounds, default=None), max(tops, default=None), counts, rest


def _is_file(name: str) -> bool:
    return name.endswith(".parquet") or ".log." in name


def _bound(wrappers: Any) -> tuple[str, Any]:
    for name, wrapper in (wrappers or {}).items():
        if wrapper is not None:
            return name, wrapper["value"]
    return "", None


def _make(
    hudi: HudiOracle, session: Any, path: Path, table_type: str, version: int, indexes: tuple[str, ...]
) -> TableWithExpressions:
    name = f"oracle.expression_{table_type}_{version}_{path.name}"
    create_table(hudi, session, name, str(path), "ts BIGINT, at TIMESTAMP, day DATE", table_type, version)
    return TableWithExpressions(hudi, session, name, str(path), indexes)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("table_type", "version", "indexes"),
    [
        ("cow", 9, ("by_upper", "by_second", "by_year", "by_month")),
        ("mor", 9, ("by_length", "by_moment", "by_day_of", "by_day")),
        ("mor", 9, ("by_trim", "by_hour", "by_later")),
        ("cow", 9, ("by_beginning", "by_text")),
        # By those of dates and moments 1.2 fails in version 8.
        ("cow", 8, ("by_beginning", "by_second")),
        ("mor", 8, ("by_lower", "by_moment")),
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


@pytest.mark.soak
@pytest.mark.parametrize(("table_type", "version"), [("cow", 9), ("mor", 9), ("mor", 8)])
def test_hudi_goes_on_with_the_indexes_that_hudisql_makes(
    session: Any, hudi: HudiOracle, table_type: str, version: int, tmp_path: Path
) -> None:
    indexes = ("by_upper", "by_second", *(("by_text", "by_month") if version == 9 else ()))
    table = _make(hudi, session, tmp_path / "made", table_type, version, indexes)
    session.sql(f"INSERT INTO {table.name} {ROWS.format(40)}")
    session.sql(OURS[0].replace("{t}", table.name))
    for index in indexes:
        session.sql(f"CREATE INDEX {index} ON {table.name} USING column_stats({INDEXES[index]}")
    table.check_reads()
    table.theirs("UPDATE {t} SET label = 'theirs', ts = 9 WHERE n IN (9, 11)")
    table.theirs(f"INSERT INTO {{t}} VALUES ('t1', 'ÄÖÜ', 1, 4070908800, {NEW}, 'p8')")
    table.check_reads()
    for statement in OURS[1:]:
        table.ours(statement)
    table.check_reads()
    table.check_rebuilt()
    table.check_is_used("upper(label) = 'ONLY'")
    hudi.sql(
        f"CREATE INDEX by_number ON {table.name} USING column_stats(label) "
        "OPTIONS (expr = 'regexp_extract', pattern = '([0-9]+)', idx = '1')"
    )
    # One of an unknown expression is dropped, the others stay.
    table.ours("DELETE FROM {t} WHERE n = 13")


SHAPE = next(shape for shape in SHAPES if shape.name == "partitioned")
OF_BOOTSTRAPPED = {
    "note": ("expr = 'upper'", ("upper(note) = 'FIRST 名 13'", "upper(note) = 'OURS'", "upper(note) = 'x'")),
    "at": ("expr = 'to_date'", ("to_date(at) = date'2020-01-01'", "to_date(at) = date'2099-01-01'")),
}
CHANGES = (
    "UPDATE {t} SET note = 'ours' WHERE seq IN (3, 14, 77)",
    "DELETE FROM {t} WHERE seq IN (20, 21)",
    "UPDATE {t} SET dt = '2024-03-02', at = timestamp'2099-01-01 00:00:00' WHERE seq IN (6, 9)",
    "CALL run_clustering(table => '{t}')",
)


@pytest.mark.parametrize(
    "table_type", parameters(["COPY_ON_WRITE", "MERGE_ON_READ"], in_ci=["COPY_ON_WRITE"])
)
def test_indexes_of_a_bootstrapped_table_have_the_ranges_of_the_source_files(
    session: Any, oracle_120: HudiOracle, table_type: str, tmp_path: Path
) -> None:
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    shape = replace(SHAPE, table_type=table_type, name=f"expression_{table_type[:5].lower()}")
    path = bootstrap_shape(session, shape, tmp_path, table_version="9").path
    name = f"oracle.{shape.name}"
    for column, (expression, _) in OF_BOOTSTRAPPED.items():
        session.sql(f"CREATE INDEX by_{column} ON {name} USING column_stats({column}) OPTIONS ({expression})")
    _check_bootstrapped(oracle_120, path)
    for statement in CHANGES[:-1]:
        session.sql(statement.replace("{t}", name))
    _check_bootstrapped(oracle_120, path)
    options = {
        **shape.write_options(),
        **WITH_SKIPPING,
        "hoodie.datasource.write.hive_style_partitioning": "true",
    }
    oracle_120.upsert(noted_rows(shape, 10, 40, "theirs"), path, options)
    _check_bootstrapped(oracle_120, path)
    for statement in (CHANGES[-1], CHANGES[0]):
        session.sql(statement.replace("{t}", name))
    _check_bootstrapped(oracle_120, path)


def _check_bootstrapped(oracle: HudiOracle, path: str) -> None:
    """The indexes are kept, and by them Hudi finds the rows that it finds without."""
    assert len(expression_indexes(open_kept(path).table)) == len(OF_BOOTSTRAPPED)
    filters = [condition for _, conditions in OF_BOOTSTRAPPED.values() for condition in conditions]
    assert_found_by_index(oracle, path, filters)
