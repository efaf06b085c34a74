"""Requests to the store of statements on one partition: the same for every number of partitions."""

from __future__ import annotations

import pytest

from tests.requests.counted_requests import A_FEW, LISTINGS, LOOKS
from tests.requests.wide_tables import FILES, ROWS, WideTable

pytestmark = [pytest.mark.spark, pytest.mark.hms]

DAY = "dt = '2015-01-05'"
MOST_OF_A_QUERY = 12
MOST_OF_A_CHANGE = 44
"""Reading the row: properties, timeline, schema, the table's directory, the partition's, a file or two.

Beginning: the lock (created, read, deleted), properties and timeline again under it, staged files (not on an
object store), the entries of `.hoodie`, leftover markers and heartbeats, the own heartbeat, the requested and
the inflight instant, and whether its time is taken. Writing a file: its marker, the stored footer and rows,
the new file, and twice a look whether the commit is still open. Completing: the lock (created, read twice,
deleted), properties and timeline, markers, the completed instant, and the timeline once more for commits
beside it; then the markers and the heartbeat go. Sync: the completion times and the commit.
"""


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


def test_an_update_by_key_alone_opens_no_footers_on_the_driver(
    small_table: WideTable, large_table: WideTable
) -> None:
    opened = []
    for table in (small_table, large_table):
        requests, _ = table.requests("UPDATE {t} SET price = 1 WHERE id = 'k27'")
        assert len(requests.below(table.path, *LISTINGS)) <= table.partitions + 30
        opened.append(len(requests.below(table.path, "open_input")))
    assert opened[1] <= 10
