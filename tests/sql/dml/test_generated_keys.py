"""Tables without a record key: every new row gets a generated key, which stays with it whatever changes."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import hudisql
from hudisql.console import SilentConsole
from hudisql.errors import HudisqlError, UnsupportedTableError, WriteRefusedError
from hudisql.format.table_properties import KEY_GENERATOR_CLASS, RECORD_KEY_FIELDS, parse_properties
from hudisql.session import Session
from hudisql.sql.text.script import split_script
from tests.rows import rows
from tests.spark_versions import has_data_sources
from tests.sql.changed_tables import database_fixture, setting

pytestmark = pytest.mark.spark

QUICK_START = Path(__file__).parents[3] / "sql" / "quickstart.sql"
GENERATED = re.compile(r"\d{17}_\d+_\d+")
INSERT = "hoodie.spark.sql.insert.into.operation"


database = database_fixture("keyless", autouse=True)


def keys_of(session: Session, name: str, column: str = "id") -> dict[Any, str]:
    """The record key of each row, all of them generated and none twice."""
    found = rows(session, f"SELECT {column}, _hoodie_record_key FROM {name}")
    counted = Counter(key for _, key in found)
    assert [key for key, count in counted.items() if count > 1] == []
    assert all(GENERATED.fullmatch(key) for key in counted), counted
    return dict(found)


def test_the_quick_start_of_hudi_s_documentation_runs(session: Session) -> None:
    session.sql("USE keyless")
    statements = split_script(QUICK_START.read_text())
    results = [session.sql(each.text) for each in statements]
    assert len(results) == 10
    assert len(results[2].rows) == 6
    assert all(GENERATED.fullmatch(row[1]) for row in results[3].rows)
    assert [(row[0], round(row[1], 2)) for row in results[-1].rows] == [
        ("rider-A", 19.1),
        ("rider-C", 25.0),
        ("rider-D", 25.0),
        ("rider-E", 93.5),
        ("rider-F", 34.15),
        ("rider-G", 43.4),
        ("rider-H", 66.6),
        ("rider-I", 41.06),
        ("rider-J", 19.7),
    ]


@pytest.mark.soak
@pytest.mark.parametrize("kind", [pytest.param("cow", marks=pytest.mark.soak), "mor"])
def test_rows_are_added_changed_moved_and_removed_under_keys_of_their_own(
    session: Session, tmp_path: Path, kind: str
) -> None:
    place = tmp_path / "t"
    session.sql(
        f"CREATE TABLE keyless.t (id INT, v STRING, seq BIGINT, m MAP<STRING, INT>, p STRING) USING hudi "
        f"PARTITIONED BY (p) LOCATION '{place}' TBLPROPERTIES (type = '{kind}', preCombineField = 'seq')"
    )
    properties = parse_properties((place / ".hoodie" / "hoodie.properties").read_bytes())
    assert RECORD_KEY_FIELDS not in properties
    assert properties[KEY_GENERATOR_CLASS] == "org.apache.hudi.keygen.SimpleKeyGenerator"
    some = "SELECT CAST(id AS INT), 'a', 1L, map('k', 1), concat('p', id % 3) FROM range({}, {}, 1, 4)"
    assert session.sql(f"INSERT INTO keyless.t {some.format(0, 60)}").rows[0]["rows_inserted"] == 60
    # A load writes several partitions of the table in one task, and several files one after the other.
    with setting(session, INSERT, "bulk_insert"), setting(session, "hoodie.bulkinsert.sort.mode", "NONE"):
        session.sql(f"INSERT INTO keyless.t {some.format(60, 120)}")
    # Equal rows stay two rows, with an ordering column too.
    session.sql("INSERT INTO keyless.t VALUES (120, 'b', 1, NULL, 'p0'), (121, 'b', 1, NULL, 'p0')")
    session.sql("INSERT INTO keyless.t VALUES (120, 'b', 1, NULL, 'p0')")
    assert rows(session, "SELECT count(*), count(DISTINCT _hoodie_record_key) FROM keyless.t") == [(123, 123)]
    session.sql("DELETE FROM keyless.t WHERE id = 120")
    before = keys_of(session, "keyless.t")

    # A lower ordering value is taken as well: the statement says which row it means.
    updated = session.sql("UPDATE keyless.t SET v = 'u', seq = 0 WHERE id < 10").rows[0]
    moved = session.sql("UPDATE keyless.t SET p = 'q' WHERE id BETWEEN 5 AND 9 OR id = 121").rows[0]
    assert (updated["rows_updated"], moved["rows_moved"]) == (10, 6)
    merged = session.sql(
        "MERGE INTO keyless.t t USING (SELECT CAST(id AS INT) AS i FROM range(115, 125)) s ON t.id = s.i "
        "WHEN MATCHED AND t.id = 121 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'm' "
        "WHEN NOT MATCHED THEN INSERT (id, v, p) VALUES (s.i, 'n', 'p1')"
    ).rows[0]
    assert (merged["rows_updated"], merged["rows_deleted"], merged["rows_inserted"]) == (5, 1, 4)
    after = keys_of(session, "keyless.t")
    assert {key: after[key] for key in range(120)} == {key: before[key] for key in range(120)}
    assert set(after) == {*range(121), 122, 123, 124}
    found = rows(session, "SELECT v, p, count(*) FROM keyless.t GROUP BY 1, 2 HAVING v <> 'a' ORDER BY 1, 2")
    assert found == [
        *(("m", "p0", 1), ("m", "p1", 2), ("m", "p2", 2), ("n", "p1", 4)),
        *(("u", "p0", 2), ("u", "p1", 2), ("u", "p2", 1), ("u", "q", 5)),
    ]

    session.sql("INSERT OVERWRITE keyless.t PARTITION (p = 'q') SELECT 7, 'o', 1L, NULL")
    assert rows(session, "SELECT id FROM keyless.t WHERE p = 'q'") == [(7,)]
    session.sql("ALTER TABLE keyless.t ADD COLUMNS (w INT)")
    session.sql("INSERT INTO keyless.t (id, w, p) VALUES (200, 5, 'q')")
    assert keys_of(session, "keyless.t")[200]
    session.sql("TRUNCATE TABLE keyless.t")
    assert rows(session, "SELECT count(*) FROM keyless.t") == [(0,)]


def test_new_rows_without_key_spread_over_file_groups_and_maps_do_not_block_it(
    session: Session, tmp_path: Path
) -> None:
    session.sql(
        f"CREATE TABLE keyless.w (id BIGINT, m MAP<STRING, INT>) USING hudi LOCATION '{tmp_path / 'w'}'"
    )
    with setting(session, "hoodie.parquet.max.file.size", "120000"):
        written = session.sql("INSERT INTO keyless.w SELECT id, map('a', 1) FROM range(30000)").rows[0]
    assert (written["rows_inserted"], written["files_written"] > 1) == (30000, True)
    assert len(keys_of(session, "keyless.w")) == 30000


def test_create_table_as_makes_keys_and_is_described(session: Session, tmp_path: Path) -> None:
    query = "SELECT id, concat('v', id % 2) AS v, id % 3 AS p, id % 2 AS q FROM range(0, 40, 1, 3)"
    explained = session.sql(f"EXPLAIN CREATE TABLE keyless.c USING hudi AS {query}").rows[0][0]
    assert re.search(r"record key +\(generated\)", explained)
    session.sql(
        f"CREATE TABLE keyless.c USING hudi PARTITIONED BY (p, q) LOCATION '{tmp_path / 'c'}' AS {query}"
    )
    assert len(keys_of(session, "keyless.c")) == 40
    shown = session.sql("SHOW CREATE TABLE keyless.c").rows[0][0]
    assert "primaryKey" not in shown
    described = {row[0]: row[1] for row in session.sql("DESCRIBE EXTENDED keyless.c").rows}
    assert described["Record Key"] == "(generated)"
    session.sql("DROP TABLE keyless.c")
    session.sql(shown)
    assert len(keys_of(session, "keyless.c")) == 40


def test_frames_add_rows_to_a_table_without_key_and_make_one(session: Session, tmp_path: Path) -> None:
    frame = session.spark.sql("SELECT id, 'a' AS v, concat('p', id % 2) AS p FROM range(0, 10, 1, 2)")
    options = {"path": str(tmp_path / "f"), "hoodie.datasource.write.partitionpath.field": "p"}
    with pytest.raises(HudisqlError, match=r"no Hudi table keyless.f(.|\n)*'insert'"):
        session.write(frame, "keyless.f", "upsert", **options)
    assert session.write(frame, "keyless.f", "insert", **options).inserted == 10
    # As Hudi's own writer does: the rows get new keys, and none is replaced.
    assert hudisql.write_table(frame, "keyless.f", operation="upsert").inserted == 10
    if has_data_sources():
        writer = frame.write.format("hudi").option("hoodie.datasource.write.operation", "insert")
        writer.mode("append").save(options["path"])
    else:
        session.write(frame, "keyless.f", "insert")
    found = rows(session, "SELECT count(*), count(DISTINCT _hoodie_record_key) FROM keyless.f")
    assert found == [(30, 30)]
    with pytest.raises(WriteRefusedError, match=r"record keys of .* are generated(.|\n)*DELETE"):
        session.write(frame, "keyless.f", "delete")


def test_what_needs_a_record_key_is_refused_or_adds_rows_and_says_so(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.sql(f"CREATE TABLE keyless.r (id INT, v INT) USING hudi LOCATION '{tmp_path / 'r'}'")
    said: list[str] = []
    monkeypatch.setattr(SilentConsole, "warning", lambda _, text: said.append(text))
    with setting(session, INSERT, "upsert"):
        session.sql("INSERT INTO keyless.r VALUES (1, 1)")
    assert "keyless.r: its record keys are generated, so the upsert adds all rows" in said[0]
    bucketed = pytest.raises(UnsupportedTableError, match=r"bucket index(.|\n)*BLOOM")
    with setting(session, "hoodie.index.type", "BUCKET"), bucketed:
        session.sql("INSERT INTO keyless.r VALUES (1, 1)")
    with setting(session, "hoodie.combine.before.insert", "true"):
        session.sql("INSERT INTO keyless.r VALUES (1, 1), (1, 1)")
    assert rows(session, "SELECT id, v FROM keyless.r") == [(1, 1)] * 3
    with pytest.raises(HudisqlError, match=r"primaryKey = ' ' names no column"):
        session.sql("CREATE TABLE keyless.x (id INT) USING hudi TBLPROPERTIES (primaryKey = ' ')")
