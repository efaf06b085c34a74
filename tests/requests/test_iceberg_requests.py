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


def test_a_statement_hands_what_it_knows_to_its_publication(small_table: WideTable) -> None:
    table, row = small_table, f"dt = '{small_table.day(7)}' AND seq % 6 = 0"
    sent = []
    table.requests("ALTER TABLE {t} SET TBLPROPERTIES ('hudisql.iceberg.sync' = 'true')")
    try:
        for number in range(2):
            sent.append(table.requests(f"UPDATE {{t}} SET price = {number} WHERE {row}")[0])
    finally:
        table.requests("ALTER TABLE {t} SET TBLPROPERTIES ('hudisql.iceberg.sync' = 'false')")
    plain, _ = table.requests(f"UPDATE {{t}} SET price = 2 WHERE {row}")
    published = sent[-1]
    # The lock is created, checked and released, the timeline listed, the partition's other source file looked
    # at, and a footer read.
    assert len(published) - len(plain) == 5 + 6
    assert [operation for operation, _ in published.below(f"{table.path}/.hoodie/iceberg")] == [
        *("list_file_names", "write", "write", "create", "write")
    ]
    assert len(published.below(f"{table.path}/dt={table.day(7)}", *LISTINGS)) == 1
    published_later, [result] = table.requests("CALL sync_iceberg(table => '{t}')")
    assert result[0] == "published"
    assert len(published_later.below(f"{table.path}/dt={table.day(7)}", *LISTINGS)) == 1
