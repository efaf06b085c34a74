"""A sync and SHOW PARTITIONS ask the store only for what commits have changed since the last sync."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.requests.counted_requests import LISTINGS
from tests.requests.wide_tables import WideTable, wide_table

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def partitions_listed(table: WideTable, statement: str) -> tuple[set[str], list[tuple[Any, ...]]]:
    """The directories of partitions that the statement lists, and its rows."""
    requests, rows = table.requests(statement)
    asked = {path for _, path in requests.below(table.path, *LISTINGS)}
    return {path for path in asked if path.rsplit("/", 1)[-1].startswith("dt=")}, rows


def test_show_partitions_and_an_incremental_sync_list_no_partition(large_table: WideTable) -> None:
    listed, rows = partitions_listed(large_table, "SHOW PARTITIONS {t}")
    assert (listed, len(rows)) == (set(), large_table.partitions)
    one = f"SHOW PARTITIONS {{t}} PARTITION (dt = '{large_table.day(7)}')"
    assert partitions_listed(large_table, one) == (set(), [(f"dt={large_table.day(7)}",)])
    assert partitions_listed(large_table, "CALL hive_sync(table => '{t}')")[0] == set()


@pytest.mark.parametrize(
    "statement",
    ["CALL hive_sync(table => '{t}', sync_incremental => 'false')", "MSCK REPAIR TABLE {t}"],
)
def test_a_whole_sync_lists_each_partition_once(small_table: WideTable, statement: str) -> None:
    requests, _ = small_table.requests(statement)
    listings = requests.below(small_table.path, "list_directory")
    of_partitions = [path for _, path in listings if "/dt=" in path]
    assert len(set(of_partitions)) == small_table.partitions


def test_a_sync_after_dropped_partitions_lists_these(session: Any, tmp_path: Path) -> None:
    with wide_table(session, "dropped_from", tmp_path, 20) as table:
        session.sql("SET hudisql.sync = false")
        try:
            session.sql(f"ALTER TABLE {table.name} DROP PARTITION (dt = '{table.day(3)}')")
            session.sql(f"INSERT OVERWRITE {table.name} PARTITION (dt = '{table.day(5)}') SELECT 'x', 1, 1.0")
        finally:
            session.sql("RESET hudisql.sync")
        gone = f"{table.path}/dt={table.day(3)}"
        listed, rows = partitions_listed(table, "SHOW PARTITIONS {t}")
        assert listed == {gone}
        assert (f"dt={table.day(3)}",) not in rows
        assert len(rows) == 19
        assert partitions_listed(table, "CALL hive_sync(table => '{t}')")[0] == {gone}
        database, name = session.context.qualify_table_name(table.name)
        names = session.context.metastore.list_partition_names(database, name)
        assert names == [row[0] for row in rows]
