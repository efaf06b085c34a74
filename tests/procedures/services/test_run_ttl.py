"""CALL run_ttl: partitions that are older than they are to be kept are dropped by one commit."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from hudisql.errors import SettingsError
from tests.sql.changed_tables import ChangedTable

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def _call(table: ChangedTable, arguments: str) -> list[str]:
    rows = table.session.sql(f"CALL run_ttl(table => '{table.name}'{arguments})").rows
    return [row["deleted_partitions"] for row in rows]


def test_old_partitions_are_dropped(table: ChangedTable) -> None:
    then = time.time() - 40 * 24 * 3600
    for path in Path(table.path, "dt=2024-03-02").glob("*.parquet"):
        os.utime(path, (then, then))
    before = table.instants()
    assert _call(table, ", retain_days => 50") == []
    assert _call(table, ", retain_days => 30, dry_run => true") == ["dt=2024-03-02"]
    assert table.instants() == before
    with pytest.raises(SettingsError, match=r"is not set"):
        _call(table, "")
    with pytest.raises(
        SettingsError, match=r"must be one of KEEP_BY_TIME, KEEP_BY_CREATION_TIME, not 'NEVER'"
    ):
        _call(table, ", ttl_policy => 'NEVER', retain_days => 30")
    table.session.sql(
        f"ALTER TABLE {table.name} SET TBLPROPERTIES ('hoodie.partition.ttl.strategy.days.retain' = '30')"
    )
    assert _call(table, "") == ["dt=2024-03-02"]
    assert _call(table, "") == []
    assert [each.split()[1] for each in table.instants()] == ["commit", "replacecommit"]
    assert {str(row[3]) for row in table.rows()} == {"2024-03-01", "2024-03-03"}
    shown = [row[0] for row in table.session.sql(f"SHOW PARTITIONS {table.name}").rows]
    assert shown == ["dt=2024-03-01", "dt=2024-03-03"]
