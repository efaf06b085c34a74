"""DELETE of a partition asks the store for that partition alone, and writes no data file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.requests.counted_requests import LISTINGS, WRITES, Requests
from tests.requests.wide_tables import WideTable, wide_table

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def partitions_asked(table: WideTable, requests: Requests, *operations: str) -> set[str]:
    """The days whose directory, or a file in it, was asked for."""
    asked = requests.below(table.path, *operations)
    return {path.split("/dt=")[1].split("/")[0] for _, path in asked if "/dt=" in path}


def test_a_delete_of_partitions_lists_these_and_writes_nothing_there(session: Any, tmp_path: Path) -> None:
    with wide_table(session, "deleted_from", tmp_path, 60) as table:
        days = [table.day(3), table.day(7)]
        statement = f"DELETE FROM {{t}} WHERE dt IN ('{days[0]}', '{days[1]}')"
        requests, [row] = table.requests(statement)
        assert row[3] == 12
        listed = {path for _, path in requests.below(table.path, "list_directory") if "/dt=" in path}
        assert {path.split("/dt=")[1] for path in listed} == set(days)
        assert partitions_asked(table, requests, *WRITES) == set()
        assert session.sql(f"SELECT count(*) FROM {table.name}").rows[0][0] == 58 * 6


def test_a_delete_of_all_rows_lists_each_partition_once(session: Any, tmp_path: Path) -> None:
    with wide_table(session, "emptied", tmp_path, 20) as table:
        requests, [row] = table.requests("DELETE FROM {t}")
        assert row[3] == 120
        listings = [path for _, path in requests.below(table.path, *LISTINGS) if "/dt=" in path]
        # Once for their file slices, once by the sync, which drops them.
        assert len(listings) <= 2 * table.partitions
        assert partitions_asked(table, requests, *WRITES) == set()
        assert session.sql(f"SHOW PARTITIONS {table.name}").rows == []


@pytest.mark.parametrize(
    ("statement", "days"),
    [("ALTER TABLE {t} DROP PARTITION (dt = '{day}')", 1), ("TRUNCATE TABLE {t}", 20)],
)
def test_dropped_partitions_are_listed_for_the_commit_and_for_the_sync(
    session: Any, tmp_path: Path, statement: str, days: int
) -> None:
    with wide_table(session, "dropped", tmp_path, 20) as table:
        requests, _ = table.requests(statement.replace("{day}", table.day(3)))
        listings = [path for _, path in requests.below(table.path, "list_directory") if "/dt=" in path]
        assert len(listings) == 2 * days
        assert len(session.sql(f"SHOW PARTITIONS {table.name}").rows) == 20 - days
