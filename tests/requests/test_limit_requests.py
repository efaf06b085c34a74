"""LIMIT without a filter or an order reads the partitions whose footers show enough rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.requests.wide_tables import WideTable, wide_table

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def partitions_listed(table: WideTable, statement: str) -> tuple[set[str], list[tuple[Any, ...]]]:
    """The directories of partitions that the statement lists, and its rows."""
    requests, rows = table.requests(statement)
    listed = {path for _, path in requests.below(table.path, "list_directory") if "/dt=" in path}
    return listed, rows


@pytest.mark.parametrize("columns", ["*", "id, upper(dt)", "1"])
def test_ten_rows_are_read_from_two_partitions(large_table: WideTable, columns: str) -> None:
    listed, rows = partitions_listed(large_table, f"SELECT {columns} FROM {{t}} LIMIT 10")
    assert (len(listed), len(rows)) == (2, 10)


def test_many_rows_filters_and_orders_need_all_partitions(large_table: WideTable) -> None:
    many = large_table.partitions * 6
    for rest, rows in (
        (f"LIMIT {many}", many),
        ("WHERE seq >= 3 LIMIT 10", 10),
        ("ORDER BY seq LIMIT 10", 10),
    ):
        listed, found = partitions_listed(large_table, f"SELECT id FROM {{t}} {rest}")
        assert (len(listed), len(found)) == (large_table.partitions, rows)


def test_a_query_within_the_query_reads_all_rows(large_table: WideTable) -> None:
    text = "WITH c AS (SELECT * FROM {t}) SELECT id, (SELECT max(seq) FROM c) FROM c LIMIT 10"
    _, rows = partitions_listed(large_table, text)
    assert {row[1] for row in rows} == {large_table.partitions * 6 - 1}


def test_deleted_rows_do_not_count(session: Any, tmp_path: Path) -> None:
    with wide_table(session, "limited", tmp_path, 20) as table:
        session.sql(f"DELETE FROM {table.name} WHERE id IN ('k0', 'k1', 'k6', 'k7')")
        session.sql(f"INSERT OVERWRITE {table.name} PARTITION (dt = '{table.day(2)}') SELECT 'x', 1, 1.0")
        listed, rows = partitions_listed(table, "SELECT id FROM {t} LIMIT 10")
        assert len(rows) == 10
        assert len(listed) <= 6
