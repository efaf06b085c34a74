"""Requests of a publication: they follow the partitions that commits have changed since the last one."""

from __future__ import annotations

import pytest

from tests.requests.counted_requests import A_FEW, LISTINGS
from tests.requests.wide_tables import WideTable

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def test_a_publication_after_a_change_looks_at_the_changed_partitions(
    small_table: WideTable, large_table: WideTable
) -> None:
    counts = []
    for table in (small_table, large_table):
        table.requests("CALL sync_iceberg(table => '{t}')")
        changed = [f"dt={table.day(number)}" for number in (3, 5)]
        table.requests(f"UPDATE {{t}} SET price = -1 WHERE dt = '{table.day(3)}' AND seq % 3 = 0")
        table.requests(f"DELETE FROM {{t}} WHERE dt = '{table.day(5)}' AND seq % 3 = 0")
        sent, [row] = table.requests("CALL sync_iceberg(table => '{t}')")
        assert (row[0], row[-2]) == ("published", table.partitions * 6 - 2)
        listed = {path for _, path in sent.below(table.path, *LISTINGS) if "/dt=" in path}
        assert {path.rpartition("/")[2] for path in listed} == set(changed)
        again, [row] = table.requests("CALL sync_iceberg(table => '{t}')")
        assert row[0] == "already published"
        assert len(again) < len(sent)
        counts.append(len(sent))
    assert abs(counts[1] - counts[0]) <= A_FEW
