"""Secondary indexes: hudisql keeps those of Apache Hudi 1.2, which finds rows by them and goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.read.scan import data_skipping
from hudisql.table.metadata_table.secondary_indexes import secondary_indexes
from hudisql.write.metadata_table import metadata_compaction
from hudisql.write.metadata_table.deltacommit_files import IndexUpdate, next_time, write_deltacommit
from tests.opened import open_at, open_kept
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

WITH_RECORD_INDEX = {**SETTINGS, "hoodie.metadata.global.record.level.index.enable": "true"}
COLUMNS = "id, label, n, x, day, dt"
ROWS = (
    "SELECT concat('k', id), CASE id % 9 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'a$b' WHEN 3 THEN "
    "concat('c', chr(92), 'd') ELSE concat('v', id % 9) END, int(id), id / 8, date_add(date'2024-01-01', "
    "int(id % 3)), concat('p', id % 2) FROM range({})"
)
INDEXES = {"by_label": "label", "by_x": "x", "by_day": "day", "by_n": "n"}
FEWER_INDEXES = {"by_label": "label"}
FILTERS = (
    *("label = 'v4'", "label = ''", "label = 'a$b'", "label = concat('c', chr(92), 'd')", "label IS NULL"),
    *("label = 'new'", "label IN ('v5', 'moved')", "label = 'none'", "x = 1.25", "x = 2e9"),
    *("day = date'2024-01-02'", "n = 17", "n = 1017"),
)
OURS = (
    "UPDATE {t} SET label = 'new' WHERE n IN (3, 14, 33)",
    "UPDATE {t} SET x = 2000000000 WHERE n IN (4, 14, 34)",
    "DELETE FROM {t} WHERE n IN (20, 21)",
    "INSERT INTO {t} SELECT concat('n', id), label, n + 1000, x, day, dt FROM {t} WHERE n IN (0, 1, 2, 17)",
    "UPDATE {t} SET dt = 'p0' WHERE n IN (5, 7, 1001)",
    "UPDATE {t} SET dt = 'p1', label = 'moved' WHERE n IN (6, 8)",
    "MERGE INTO {t} t USING (SELECT id FROM {t} WHERE n IN (30, 31)) s ON t.id = s.id "
    "WHEN MATCHED AND t.n = 30 THEN DELETE WHEN MATCHED THEN UPDATE SET label = NULL",
)
SERVICES = (
    "CALL run_clustering(table => '{t}')",
    "INSERT OVERWRITE {t} PARTITION (dt = 'p1') SELECT id, label, n, x, day FROM {t} "
    "WHERE dt = 'p1' AND n < 60",
    "CALL run_clean(table => '{t}', retain_commits => 1)",
)
THEIRS = (
    "DELETE FROM {t} WHERE n IN (12, 1002)",
    "MERGE INTO {t} t USING (SELECT 'k16' AS id, 'new' AS label, 16 AS n) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET label = s.label, n = s.n",
    "CALL run_clustering(table => '{t}')",
)


@pytest.fixture
def hudi(oracle_120: HudiOracle, session: Any) -> Iterator[HudiOracle]:
    """Hudi 1.2 with the settings by which its SQL keeps and reads the indexes."""
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    session.sql("SET hoodie.metadata.index.secondary.enable=true")
    with oracle_120.settings(WITH_RECORD_INDEX):
        yield oracle_120
    session.sql("RESET hoodie.metadata.index.secondary.enable")


class TableWithSecondaryIndexes(TableIndexedBySql):
    """A table of both engines."""

    def theirs(self, statement: str) -> None:
        """1.2 runs the statement; hudisql sees its rows in the indexes."""
        super().theirs(statement)
        self.check_index()

    def check_index(self) -> None:
        """The indexes have the pairs of the table's rows, and no others."""
        metadata = open_kept(self.path)
        indexes = secondary_indexes(metadata.table)
        assert {index for index in metadata.indexes if index.startswith("secondary")} == {*indexes}
        texts = {
            "label": "label",
            "x": "x",
            "day": "unix_date(day)",
            "n": "n",
        }
        rows = self.session.sql(f"SELECT id, {', '.join(texts.values())} FROM {self.name}").rows
        for index in indexes.values():
            at = [*texts].index(index.column[0]) + 1
            expected = sorted(f"{_escaped(row[at])}${_escaped(row[0])}" for row in rows)
            assert metadata.read_records(index.name).keys.to_pylist() == expected != []

    def check_rebuilt(self) -> None:
        """Hudi makes the same records anew."""
        text = f"SELECT key FROM hudi_metadata('{self.name}') WHERE type = 7"
        kept = sorted(self.hudi.sql(text)["key"].to_pylist())
        assert sorted(row[0] for row in self.session.sql(text.replace(self.name, self.path)).rows) == kept
        for index in secondary_indexes(open_at(self.path)).values():
            name = index.name.removeprefix("secondary_index_")
            self.hudi.sql(f"DROP INDEX {name} ON {self.name}")
            self.hudi.sql(f"CREATE INDEX {name} ON {self.name} ({index.column[0]})")
        self.refresh()
        assert sorted(self.hudi.sql(text)["key"].to_pylist()) == kept != []

    def hide_the_label(self) -> None:
        """Its pair is taken out of the index."""
        metadata = open_kept(self.path)
        index = secondary_indexes(metadata.table)["secondary_index_by_label"]
        update = IndexUpdate(deleted=pa.array(["only$k10"]), group_keys=index.file_groups_of)
        write_deltacommit(metadata, next_time(metadata), {index.name: update})


def _escaped(value: Any) -> str:
    if value is None:
        return "\0"
    return str(value).replace("\\", "\\\\").replace("$", "\\$").replace("2000000000.0", "2.0E9")


@pytest.mark.soak
@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize("version", [9, 8])
def test_hudi_finds_all_rows_by_the_indexes_that_both_keep(
    session: Any,
    hudi: HudiOracle,
    table_type: str,
    version: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 3)
    monkeypatch.setattr(data_skipping, "FEWEST_TO_SKIP", 1)
    name, path = f"oracle.secondary_{table_type}_{version}_t", str(tmp_path / "t")
    create_table(hudi, session, name, path, "x DOUBLE, day DATE", table_type, version)
    table = TableWithSecondaryIndexes(hudi, session, name, path)
    hudi.sql(f"INSERT INTO {table.name} {ROWS.format(60)}")
    for index, column in (INDEXES if table_type == "cow" else FEWER_INDEXES).items():
        hudi.sql(f"CREATE INDEX {index} ON {table.name} ({column})")
    table.check_index()
    for statement in OURS:
        table.ours(statement)
    table.check_filters(FILTERS)
    table.check_rebuilt()
    table.theirs("UPDATE {t} SET label = 'theirs', x = 9 WHERE n IN (9, 11)")
    services = (COMPACTION,) if table_type == "mor" else ()
    for statement in (*services, *SERVICES):
        table.ours(statement)
    table.check_filters(FILTERS)
    table.theirs("INSERT INTO {t} VALUES ('t1', 'v4', 1, 1.25, date'2024-01-02', 'p0')")
    for statement in THEIRS:
        table.theirs(statement)
    table.ours(OURS[0])
    table.check_filters(FILTERS)
    table.check_rebuilt()
    table.check_is_used("label = 'only'")


SHAPE = next(shape for shape in SHAPES if shape.name == "partitioned")
OF_BOOTSTRAPPED = (
    "UPDATE {t} SET note = 'ours' WHERE seq IN (3, 14, 77)",
    "DELETE FROM {t} WHERE seq IN (20, 21)",
    "UPDATE {t} SET dt = '2024-03-02', total = 7 WHERE seq IN (6, 9)",
    "CALL run_clustering(table => '{t}')",
)
FILTERS_OF_BOOTSTRAPPED = (
    *("note = 'first 名 13'", "note = 'ours'", "note IS NULL", "note IN ('first 名 16', 'theirs 名 11')"),
    *("at = timestamp'2020-01-01 12:35:20.789024'", "place.b = 's17'"),
)


@pytest.mark.parametrize(
    "table_type", parameters(["COPY_ON_WRITE", "MERGE_ON_READ"], in_ci=["COPY_ON_WRITE"])
)
def test_hudi_goes_on_with_the_indexes_that_hudisql_made_of_a_bootstrapped_table(
    session: Any, oracle_120: HudiOracle, table_type: str, tmp_path: Path
) -> None:
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    shape = replace(SHAPE, table_type=table_type, name=f"secondary_{table_type[:5].lower()}")
    path = bootstrap_shape(session, shape, tmp_path, table_version="9").path
    name = f"oracle.{shape.name}"
    # Of several indexes of a merge-on-read table the log writes of 1.2 change one alone.
    columns = ("note", "at") if table_type == "COPY_ON_WRITE" else ("note",)
    for column in columns:
        session.sql(f"CREATE INDEX by_{column} ON {name} ({column})")
    _check_bootstrapped(session, oracle_120, name, path, columns)
    for statement in OF_BOOTSTRAPPED[:-1]:
        session.sql(statement.replace("{t}", name))
    _check_bootstrapped(session, oracle_120, name, path, columns)
    options = {
        **shape.write_options(),
        **WITH_RECORD_INDEX,
        "hoodie.datasource.write.hive_style_partitioning": "true",
    }
    oracle_120.upsert(noted_rows(shape, 10, 40, "theirs"), path, options)
    _check_bootstrapped(session, oracle_120, name, path, columns)
    for statement in (OF_BOOTSTRAPPED[-1], OF_BOOTSTRAPPED[0]):
        session.sql(statement.replace("{t}", name))
    _check_bootstrapped(session, oracle_120, name, path, columns)


def _check_bootstrapped(
    session: Any, oracle: HudiOracle, name: str, path: str, columns: Sequence[str]
) -> None:
    """The indexes have the pairs of all rows, and by them Hudi finds the rows that it finds without."""
    metadata = open_kept(path)
    rows = session.sql(f"SELECT note, unix_micros(at), _hoodie_record_key FROM {name}").rows
    for number, column in enumerate(columns):
        expected = sorted(f"{_escaped(row[number])}${_escaped(row[2])}" for row in rows)
        assert metadata.read_records(f"secondary_index_by_{column}").keys.to_pylist() == expected != []
    assert_found_by_index(oracle, path, FILTERS_OF_BOOTSTRAPPED)
