"""Requests of a publication: they follow the partitions that commits have changed since the last one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hudisql.iceberg import publication
from tests.requests.counted_requests import A_FEW, LISTINGS
from tests.requests.wide_tables import WideTable, wide_table

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


@pytest.mark.parametrize("is_short", [True, False])
def test_a_statement_publishes_under_its_lock_what_it_knows(
    small_table: WideTable, monkeypatch: pytest.MonkeyPatch, is_short: bool
) -> None:
    table, row = small_table, f"dt = '{small_table.day(7)}' AND seq % 6 = 0"
    if not is_short:
        monkeypatch.setattr(publication, "_SHORT", replace(publication._SHORT, files=1))
    sent = []
    table.requests("ALTER TABLE {t} SET TBLPROPERTIES ('hudisql.iceberg.sync' = 'true')")
    try:
        for number in range(2):
            sent.append(table.requests(f"UPDATE {{t}} SET price = {number} WHERE {row}")[0])
    finally:
        table.requests("ALTER TABLE {t} SET TBLPROPERTIES ('hudisql.iceberg.sync' = 'false')")
    plain, _ = table.requests(f"UPDATE {{t}} SET price = 2 WHERE {row}")
    published = sent[-1]
    # The footer of the new file is known. Beyond the limit the lock is created, checked and released, the
    # timeline listed, and the metadata listed once more.
    assert len(published) - len(plain) == 5 + (0 if is_short else 5)
    own = published.below(f"{table.path}/.hoodie/iceberg")
    again = ["list_file_names"] if not is_short else []
    assert [operation for operation, _ in own] == [
        *again,
        *("list_file_names", "write", "write", "create", "write"),
    ]
    lock = [operation for operation, _ in published.below(f"{table.path}/.hoodie/lock")]
    assert lock.count("create") == (2 if is_short else 3)
    assert len(published.below(f"{table.path}/dt={table.day(7)}", *LISTINGS)) == 1
    published_later, [result] = table.requests("CALL sync_iceberg(table => '{t}')")
    assert result[0] == "published"
    assert len(published_later.below(f"{table.path}/dt={table.day(7)}", *LISTINGS)) == 1


def test_an_update_of_a_merge_on_read_table_publishes_four_files_more(session: Any, tmp_path: Path) -> None:
    with wide_table(session, "wide_log_table", tmp_path, 4, table_type="MERGE_ON_READ") as table:
        row = f"dt = '{table.day(1)}' AND seq % 6 = 0"
        table.requests("ALTER TABLE {t} SET TBLPROPERTIES ('hudisql.iceberg.sync' = 'true')")
        for number in range(3):
            published, _ = table.requests(f"UPDATE {{t}} SET price = {number} WHERE {row}")
    assert len(published.below(f"{table.path}/.hoodie/lock", "create")) == 2
    # The deletes have a manifest of their own.
    assert [operation for operation, _ in published.below(f"{table.path}/.hoodie/iceberg")] == [
        *("list_file_names", "create", "create", "write", "write", "write", "create", "write")
    ]
