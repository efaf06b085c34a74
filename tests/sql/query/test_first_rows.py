"""LIMIT over file slices with log files, which may delete rows of their base files."""

from __future__ import annotations

import pytest

from tests.sql.changed_tables import ChangedTable

pytestmark = [pytest.mark.spark, pytest.mark.hms]


@pytest.mark.parametrize("limit", [5, 11, 21, 25])
def test_rows_that_logs_delete_do_not_count(merge_on_read_table: ChangedTable, limit: int) -> None:
    table = merge_on_read_table
    table.run("DELETE FROM {t} WHERE seq < 9")
    found = table.session.sql(f"SELECT seq FROM {table.name} LIMIT {limit}").rows
    seqs = {row[0] for row in found}
    assert len(found) == len(seqs) == min(limit, 21)
    assert seqs <= set(range(9, 30))
    [explained] = table.session.sql(f"EXPLAIN SELECT seq FROM {table.name} LIMIT {limit}").rows
    assert ("partition filter  (none)" in explained[0]) == (limit > 20)
