"""Statements of all kinds by tasks of two workers, which share neither modules nor memory with the driver.

The same statements run in the suite's own session, where the driver does most of the work itself: the rows
must be the same, and Apache Hudi reads them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.test_cluster import run_driver

pytestmark = [pytest.mark.spark, pytest.mark.hms, pytest.mark.oracle, pytest.mark.slow, pytest.mark.soak]

DRIVER = """
import json, sys
root, warehouse, script = sys.argv[1:4]
sys.path.insert(0, root)
import hudisql
from hudisql.console import SilentConsole
from hudisql.config.settings import Settings
from hudisql.write.metadata_table import new_index_files

new_index_files._MOST_KEYS_IN_PROCESS = 10
conf = {"spark.sql.shuffle.partitions": "2"}
settings = Settings(master="local-cluster[2,1,1024]", warehouse=warehouse, conf=conf)
with hudisql.connect(settings=settings, console=SilentConsole()) as session:
    session.sql("SET hudisql.driver.max.bytes = 0")
    answers = []
    for statement in json.load(open(script)):
        print(statement, file=sys.stderr, flush=True)
        rows = session.sql(statement).rows
        if statement.startswith("SELECT"):
            answers.append([statement, [list(row) for row in rows]])
    print(json.dumps(answers))
"""
ROWS = "SELECT id, value, note, dt FROM {t} ORDER BY id, dt, value"
FILTERS = (
    "SELECT id, value FROM {t} WHERE id = 'k00010' ORDER BY id",
    "SELECT id, value FROM {t} WHERE note = 'note 4' ORDER BY id",
    "SELECT count(*), sum(value) FROM {t} WHERE value > 200 AND dt = '2024-01-02'",
    "SELECT count(*) FROM {t} WHERE _hoodie_record_key >= 'k00100' AND value % 3 = 1",
)
CHANGES = (
    "UPDATE {t} SET value = value + 1000, note = 'changed' WHERE id IN ('k00010', 'k00011', 'k00250')",
    "DELETE FROM {t} WHERE value % 50 = 7",
    "MERGE INTO {t} t USING (SELECT concat('k', lpad(cast(id AS string), 5, '0')) AS id, id * 2 AS value, "
    "'merged' AS note, concat('2024-01-0', id % 3 + 1) AS dt FROM range(280, 330)) s ON t.id = s.id "
    "WHEN MATCHED AND s.value % 4 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET value = s.value, "
    "note = s.note WHEN NOT MATCHED THEN INSERT *",
    "INSERT INTO {t} SELECT concat('n', id) AS id, value, note, dt FROM {t} WHERE value % 10 = 3",
    "INSERT OVERWRITE {t} PARTITION (dt = '2024-01-03') "
    "SELECT concat('o', id) AS id, value, note FROM {t} WHERE dt = '2024-01-01'",
)
OF_VERSION_6 = ("skeletons_cow", "rewritten")
TABLES = (*OF_VERSION_6, "skeletons_mor", "indexed_cow", "indexed_mor")
COMPACTION = "CALL run_compaction(op => 'scheduleandexecute', table => '{t}')"
SERVICES = (
    "CALL run_clustering(table => '{t}', order => 'value')",
    "CALL run_clean(table => '{t}', retain_commits => 1)",
)


def _bootstrapped(source: Path, kind: str, version: int, more: str = "") -> Sequence[str]:
    call = (
        f"CALL bootstrap_table(table => '{{t}}', source => '{source}', record_key => 'id', "
        f"partition_by => 'dt string', table_type => '{kind}', table_version => {version}{more})"
    )
    return (call, ROWS, *FILTERS, *CHANGES[:3])


def _made_by_spark(kind: str, source: Path) -> Sequence[str]:
    properties = f"primaryKey = 'id', type = '{kind}', 'hoodie.write.table.version' = '9'"
    return (
        f"CREATE TABLE {{t}} USING hudi PARTITIONED BY (dt) TBLPROPERTIES ({properties}) "
        f"AS SELECT id, value, note, cast(dt AS string) AS dt FROM parquet.`{source}`",
        "CALL create_metadata_table(table => '{t}')",
    )


def _scripts(source: Path) -> dict[str, Sequence[str]]:
    """For each table its statements."""
    after = (*FILTERS, *CHANGES, *FILTERS, ROWS)
    return {
        "skeletons_cow": (
            *_bootstrapped(source, "cow", 6, ", indexes => 'record_index'"),
            *(*after, *SERVICES, *FILTERS, "CALL verify_bootstrap(table => '{t}', level => 'full')", ROWS),
        ),
        "skeletons_mor": (
            *_bootstrapped(source, "mor", 9, ", indexes => 'record_level_index'"),
            *(*after, COMPACTION, *CHANGES[:2], *SERVICES, *FILTERS, ROWS),
        ),
        "rewritten": (
            *_bootstrapped(source, "cow", 6, ", mode => 'full_record'"),
            *(*after, *SERVICES, ROWS),
        ),
        "indexed_cow": (
            *_made_by_spark("cow", source),
            "CREATE INDEX by_note ON {t} (note)",
            "CREATE INDEX by_upper ON {t} USING column_stats(note) OPTIONS (expr = 'upper')",
            *(*after, *SERVICES, *FILTERS, ROWS),
        ),
        "indexed_mor": (
            *_made_by_spark("mor", source),
            "CALL create_metadata_table(table => '{t}', indexes => 'record_level_index')",
            *(*after, COMPACTION, *CHANGES[:2], *FILTERS, ROWS),
        ),
    }


def _source(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    for day in range(3):
        directory = source / f"dt=2024-01-0{day + 1}"
        directory.mkdir(parents=True)
        for part in range(2):
            numbers = [number for number in range(300) if number % 3 == day and number % 2 == part]
            rows = {
                "id": [f"k{number:05}" for number in numbers],
                "value": pa.array(numbers, pa.int64()),
                "note": [f"note {number % 7}" for number in numbers],
            }
            pq.write_table(pa.table(rows), directory / f"part-{part}.parquet")
    return source


@pytest.mark.parametrize("name", TABLES)
def test_two_workers_give_the_rows_of_one_process(
    name: str, tmp_path: Path, spark_home: Path, session: Any, request: pytest.FixtureRequest
) -> None:
    table = f"two_workers.{name}"
    statements = [text.replace("{t}", table) for text in _scripts(_source(tmp_path))[name]]
    statements.insert(0, "CREATE DATABASE IF NOT EXISTS two_workers")
    script = tmp_path / "script.json"
    script.write_text(json.dumps(statements))
    found = run_driver(tmp_path, spark_home, Path(sys.executable), script, driver=DRIVER)
    rows_of = [(text, [list(row) for row in session.sql(text).rows]) for text in statements]
    assert found == [[text, rows] for text, rows in rows_of if text.startswith("SELECT")]
    oracle = request.getfixturevalue("oracle_015" if name in OF_VERSION_6 else "oracle_120")
    theirs = oracle.read(str(tmp_path / "warehouse" / "two_workers.db" / name))
    read = theirs.select(["id", "value", "note", "dt"]).to_pylist()
    assert sorted(tuple(row.values()) for row in read) == sorted(map(tuple, found[-1][1]))
