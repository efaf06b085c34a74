"""Requests to the store of statements on one partition: the same for every number of partitions."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from hudisql.storage.local import LocalFileSystem
from hudisql.storage.unchanged_files import UnchangedFiles
from tests.opened import open_at
from tests.requests.counted_requests import A_FEW, LISTINGS, LOOKS
from tests.requests.wide_tables import FILES, ROWS, WideTable, wide_table

pytestmark = [pytest.mark.spark, pytest.mark.hms]

ONE_DAY = "2015-01-05"
DAY = f"dt = '{ONE_DAY}'"
MOST_OF_A_QUERY = 12
MOST_OF_A_CHANGE = 36
"""Reading the row: properties, timeline, schema, the table's directory, the partition's, a file or two.

Beginning: the lock (created, read, deleted), properties, the entries of `.hoodie` with the timeline, column
ids, stale markers and heartbeats, the own heartbeat, the requested and the inflight instant, and whether its
time is taken. Writing a file: its marker, the stored footer and rows, and the new file. Completing: the lock
(created, read twice, deleted), properties and timeline, the completed instant, and the timeline once more for
commits beside it, which also tells the sync when commits were completed; then the markers and the heartbeat
go.
"""
MOST_OF_A_CHANGE_ON_AN_OBJECT_STORE = 21
"""Without those for source and data files, but with the bootstrap index: properties that are known are not
read again, and directories that have no files are not listed."""

MOST_OF_THE_FORM_OF_KEYS = 10
"""With several partition columns the keys of the first partition and of the newest commits tell whether they
name their column: the directories down to it, and the files."""

MOST_OF_A_METADATA_TABLE = 18
"""Its properties, its timeline and the index definitions at the beginning and at the end; three instants; a
listing and one or two log files of each of three indexes."""


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT count(*) FROM {{t}} WHERE {DAY}",
        f"SELECT id, price FROM {{t}} WHERE {DAY} AND seq > 3",
        f"SELECT _hoodie_record_key, _hoodie_file_name FROM {{t}} WHERE {DAY}",
        "SELECT id FROM {t} WHERE dt IN ('2015-01-05', '2015-01-06')",
        "SELECT id FROM {t} WHERE _hoodie_partition_path = 'dt=2015-01-05'",
        f"EXPLAIN SELECT id FROM {{t}} WHERE {DAY}",
    ],
)
def test_a_query_asks_for_the_partitions_that_it_names(
    small_table: WideTable, large_table: WideTable, text: str
) -> None:
    few, rows = small_table.requests(text)
    many, _ = large_table.requests(text)
    assert rows
    assert many.counts() == few.counts()
    assert len(many) <= MOST_OF_A_QUERY + 2


def test_a_query_of_all_partitions_lists_each_directory_once(
    small_table: WideTable, large_table: WideTable
) -> None:
    for table in (small_table, large_table):
        requests, rows = table.requests("SELECT count(*), sum(seq) FROM {t}")
        assert rows[0][0] == table.partitions * FILES * ROWS
        assert len(requests.below(table.source)) == table.partitions
        assert len(requests) <= 2 * table.partitions + MOST_OF_A_QUERY
        assert len(requests.below(table.path, *LOOKS)) <= 4


@pytest.mark.parametrize(
    "text",
    [
        f"UPDATE {{t}} SET price = price + 1 WHERE {DAY} AND id = 'k24'",
        f"DELETE FROM {{t}} WHERE {DAY} AND id = 'k25'",
        "INSERT INTO {t} VALUES ('k24', 30, 1.0, '2015-01-05')",
        "INSERT INTO {t} VALUES ('n1', 30, 1.0, '2014-01-05')",
        "MERGE INTO {t} AS t USING (SELECT 'k26' AS id, 100 AS seq, 5.0 AS price, '2015-01-05' AS dt) AS s"
        " ON t.id = s.id AND t.dt = s.dt WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    ],
)
def test_a_change_asks_for_the_partitions_of_its_rows(
    small_table: WideTable, large_table: WideTable, text: str
) -> None:
    few, _ = small_table.requests(text)
    many, _ = large_table.requests(text)
    assert abs(len(many) - len(few)) <= A_FEW
    assert len(many) <= MOST_OF_A_CHANGE + A_FEW


@pytest.mark.parametrize(
    "text",
    [
        f"UPDATE {{t}} SET price = price + 1 WHERE {DAY} AND id = 'k24'",
        f"INSERT INTO {{t}} VALUES ('n2', 30, 1.0, '{ONE_DAY}')",
        f"DELETE FROM {{t}} WHERE {DAY} AND id = 'n2'",
    ],
)
def test_a_change_on_a_store_that_lists_files_with_their_times(
    large_table: WideTable, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(LocalFileSystem, "unchanged_files", UnchangedFiles())
    directory = Path(large_table.path, ".hoodie")
    os.utime(directory / "hoodie.properties", (1_700_000_000, 1_700_000_000))
    open_at(large_table.path)
    for name in (".temp", ".heartbeat", ".schema"):
        shutil.rmtree(directory / name, ignore_errors=True)
    requests, _ = large_table.requests(text)
    of_files = {*requests.below(large_table.source)}
    of_files |= {(operation, path) for operation, path in requests.sent if ".parquet" in path}
    own = [request for request in requests.sent if request not in of_files]
    assert not requests.below(f"{directory}/hoodie.properties")
    assert len(own) <= MOST_OF_A_CHANGE_ON_AN_OBJECT_STORE, own


def test_directories_of_several_columns_are_listed_where_the_values_lead(
    session: Any, tmp_path: Path
) -> None:
    """An INSERT lists the directories of all months, but not those of the days."""
    day = "y = '2015' AND m = '01' AND d = '05'"
    counts = []
    for days in (40, 160):
        with wide_table(session, f"by_month_{days}", tmp_path, days, by_month=True) as table:
            of_table = [
                len(table.requests(text)[0])
                for text in (
                    f"SELECT count(*) FROM {{t}} WHERE {day}",
                    f"UPDATE {{t}} SET price = 2 WHERE {day} AND id = 'k24'",
                    "INSERT INTO {t} VALUES ('n1', 30, 1.0, '2015', '01', '05')",
                )
            ]
            counts.append(of_table)
    months = 6
    assert counts[1][0] <= MOST_OF_A_QUERY + months
    for few, many in zip(*counts, strict=True):
        assert abs(many - few) <= A_FEW
        assert many <= MOST_OF_A_CHANGE + A_FEW + MOST_OF_THE_FORM_OF_KEYS + months


def test_an_update_by_key_alone_opens_no_footers_on_the_driver(
    small_table: WideTable, large_table: WideTable
) -> None:
    opened = []
    for table in (small_table, large_table):
        requests, _ = table.requests("UPDATE {t} SET price = 1 WHERE id = 'k27'")
        assert len(requests.below(table.path, *LISTINGS)) <= table.partitions + 30
        opened.append(len(requests.below(table.path, "open_input")))
    assert opened[1] <= 10


def test_a_change_of_a_kept_metadata_table_writes_the_records_of_its_partition(
    session: Any, tmp_path: Path
) -> None:
    counts = []
    for days in (3, 30):
        name = f"kept_{days}"
        session.sql(
            f"CREATE TABLE {name} (id STRING, seq BIGINT, price DOUBLE, dt STRING) USING hudi"
            " PARTITIONED BY (dt) TBLPROPERTIES (primaryKey='id', preCombineField='seq',"
            f" 'hoodie.write.table.version'='9') LOCATION '{tmp_path / name}'"
        )
        session.sql(
            f"INSERT INTO {name} SELECT concat('k', id) AS id, id AS seq, 1.0D AS price,"
            f" cast(date_add(date'2015-01-01', cast(id as int)) as string) AS dt FROM range({days})"
        )
        session.sql(f"CALL create_metadata_table(table => '{name}')")
        table = WideTable(session, name, str(tmp_path / name), str(tmp_path / name), days)
        requests, _ = table.requests("UPDATE {t} SET price = 2 WHERE dt = '2015-01-02' AND id = 'k1'")
        counts.append(len(requests))
        assert len(requests.below(f"{table.path}/.hoodie/.index_defs", "read")) == 2
        session.sql(f"DROP TABLE {name}")
    assert abs(counts[0] - counts[1]) <= A_FEW
    assert counts[1] <= MOST_OF_A_CHANGE + MOST_OF_A_METADATA_TABLE
