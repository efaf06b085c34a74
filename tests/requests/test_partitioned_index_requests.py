"""Requests of statements on record keys in partitions, by a partitioned record index.

They follow the partitions of the statement. Without a known one it is asked in few partitions alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.requests.counted_requests import A_FEW, LISTINGS, READS
from tests.requests.wide_tables import ROWS, WideTable, day, wide_table

pytestmark = [pytest.mark.spark, pytest.mark.hms, pytest.mark.soak]
FILES = 8
MOST_OF_A_QUERY = 14
MOST_OF_A_CHANGE = 72
MOST_OF_A_CHANGE_IN_TWO_PARTITIONS = 92


@pytest.fixture(scope="module")
def tables(session: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[WideTable, WideTable]]:
    directory = tmp_path_factory.mktemp("by_partition")
    arguments = "table_version => 9, indexes => 'record_level_index'"
    with (
        wide_table(session, "partitioned_small", directory, 20, arguments=arguments, files=FILES) as small,
        wide_table(session, "partitioned_large", directory, 80, arguments=arguments, files=FILES) as large,
    ):
        yield small, large


def _row(partition: int, file: int = 3) -> str:
    """A filter of one row's key and partition."""
    return f"id = '{_key(partition, file)}' AND dt = '{day(partition)}'"


def _key(partition: int, file: int = 3) -> str:
    return f"k{(partition * FILES + file) * ROWS}"


@pytest.mark.parametrize(
    ("text", "most"),
    [
        (f"SELECT seq, dt FROM {{t}} WHERE {_row(4)}", MOST_OF_A_QUERY),
        (f"UPDATE {{t}} SET price = 1 WHERE {_row(5)}", MOST_OF_A_CHANGE),
        (
            f"DELETE FROM {{t}} WHERE id IN ('{_key(6)}', '{_key(7)}') AND dt IN ('{day(6)}', '{day(7)}')",
            MOST_OF_A_CHANGE_IN_TWO_PARTITIONS,
        ),
        (
            f"MERGE INTO {{t}} AS t USING (SELECT '{_key(8)}' AS id, 100 AS seq, '{day(8)}' AS dt) AS s "
            "ON t.id = s.id AND t.dt = s.dt WHEN MATCHED THEN UPDATE SET seq = s.seq",
            MOST_OF_A_CHANGE,
        ),
    ],
)
def test_a_statement_asks_the_index_in_its_partitions(
    tables: tuple[WideTable, WideTable], text: str, most: int
) -> None:
    few, many = (table.requests(text)[0] for table in tables)
    assert abs(len(many) - len(few)) <= A_FEW
    assert len(many) <= most
    # The statement lists the index once, its commit once.
    index = f"{tables[1].path}/.hoodie/metadata/record_index"
    assert len(many.below(index, *LISTINGS)) <= 2


def test_a_filter_opens_one_file_group_of_the_index_and_one_file_of_the_table(
    tables: tuple[WideTable, WideTable],
) -> None:
    for table in tables:
        requests, rows = table.requests(f"SELECT id FROM {{t}} WHERE {_row(9)}")
        assert rows == [(_key(9),)]
        index = f"{table.path}/.hoodie/metadata/record_index"
        assert {path for _, path in requests.below(index, *READS)} <= {
            f"{index}/record-index-dt%3D{day(9)}-0000-0_0-0-0_{'0' * 17}.hfile"
        }
        assert len({path for _, path in requests.below(f"{table.path}/dt={day(9)}", *READS)}) <= 1
        without, rows = table.requests(f"SELECT id FROM {{t}} WHERE id = '{_key(10)}'")
        assert rows == [(_key(10),)]
        assert without.below(index, *READS) == []
