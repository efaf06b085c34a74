"""Requests to the store of table services: they follow the partitions that commits wrote to."""

from __future__ import annotations

import pytest

from hudisql.services.clean import clean_action
from tests.requests.counted_requests import A_FEW
from tests.requests.wide_tables import WideTable

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def test_a_clean_of_a_new_process_looks_at_the_partitions_of_the_commits_since(
    small_table: WideTable, large_table: WideTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []
    for table in (small_table, large_table):
        for day in (1, 2, 3):
            table.session.sql(
                f"UPDATE {table.name} SET price = 0 WHERE dt = '{table.day(day)}' AND seq % 7 = 0"
            )
        monkeypatch.setattr(clean_action, "_looked_at_until", {})
        cleaned, _ = table.requests("CALL run_clean(table => '{t}', retain_commits => 2)")
        idle, _ = table.requests("CALL run_clean(table => '{t}', retain_commits => 2)")
        looked_at = {path for _, path in cleaned.below(table.path) if "/dt=" in path}
        assert 0 < len({path.split("/dt=")[1][:10] for path in looked_at}) <= 3
        counts.append((len(cleaned), len(idle)))
    for small, large in zip(*counts, strict=True):
        assert abs(large - small) <= A_FEW
    assert counts[1][1] <= 20
