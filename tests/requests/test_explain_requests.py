"""EXPLAIN asks the store no more than the query; EXTENDED counts what is left out."""

from __future__ import annotations

import pytest

from tests.requests.wide_tables import WideTable

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def test_explain_asks_no_more_than_its_query(large_table: WideTable) -> None:
    text = f"SELECT id FROM {{t}} WHERE dt = '{large_table.day(3)}' AND seq > 0"
    of_query, _ = large_table.requests(text)
    of_plan, _ = large_table.requests(f"EXPLAIN {text}")
    assert len(of_plan) <= len(of_query)
    counted, [(plan,)] = large_table.requests(f"EXPLAIN EXTENDED {text}")
    assert f" of {2 * large_table.partitions} (" in plan
    assert len(counted) >= len(of_plan) + large_table.partitions


def test_explain_of_a_change_lists_its_own_partitions(small_table: WideTable, large_table: WideTable) -> None:
    text = f"EXPLAIN DELETE FROM {{t}} WHERE dt = '{small_table.day(3)}' AND seq > 0"
    [small, large] = [len(each.requests(text)[0]) for each in (small_table, large_table)]
    assert large - small <= large_table.partitions - small_table.partitions
