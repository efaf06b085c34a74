"""Arrivals from the timeline: what commits wrote, on which day of a partition's life."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from hudisql.format.timeline.commit_metadata import WriteStat, new_commit_metadata
from hudisql.ingest.split.arrivals import Arrivals, read_arrivals
from hudisql.services.archive.archive_action import archive_table
from hudisql.services.archive.archive_plan import ArchiveOptions
from hudisql.services.clean.clean_plan import CleanOptions
from hudisql.write.transaction.concurrency import SINGLE_WRITER
from tests.ingest.small_tables import AVRO, SmallTable
from tests.opened import open_at


def _stat(
    path: str, inserts: int = 0, updates: int = 0, writes: int = 0, *, is_log: bool = False
) -> WriteStat:
    name = ".f_20261101000000000.log.1_0-0-0" if is_log else "f_0-0-0_20261101000000000.parquet"
    return WriteStat(
        file_id="f",
        path=f"{path}/{name}",
        partition_path=path,
        num_inserts=inserts,
        num_update_writes=updates,
        num_writes=writes,
    )


def _commit(table: SmallTable, instant: str, *stats: WriteStat, operation: str = "UPSERT") -> None:
    directory = table.path / ".hoodie"
    (directory / f"{instant}.deltacommit.requested").touch()
    (directory / f"{instant}.deltacommit.inflight").write_bytes(b"")
    content = new_commit_metadata(stats, AVRO, operation).to_json()
    (directory / f"{instant}.deltacommit").write_bytes(content)


def _increments(table: SmallTable, known=None) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in read_arrivals(table.open(), known).increments().to_pylist())


def test_rows_count_on_the_day_since_the_first_write_of_their_partition(tmp_path: Path) -> None:
    table = SmallTable(tmp_path)
    _commit(table, "20261101230000000", _stat("dt=a", inserts=10, writes=10))
    # A base file's writes include the rows that it had before; a log's do not.
    _commit(table, "20261102225959999", _stat("dt=a", updates=3, writes=13), _stat("dt=b", inserts=4))
    _commit(table, "20261102230000000", _stat("dt=a", writes=5, is_log=True), _stat("dt=a", writes=18))
    _commit(table, "20261109000000000", _stat("dt=a", updates=18, writes=18), operation="COMPACT")
    assert _increments(table) == [("dt=a", 0, 13), ("dt=a", 1, 5), ("dt=b", 0, 4)]
    ages = read_arrivals(table.open()).ages(datetime(2026, 11, 4, 22, 59, 59))
    assert ages == {"dt=a": 2, "dt=b": 2}


def test_bootstrapped_partitions_are_left_out(tmp_path: Path) -> None:
    table = SmallTable(tmp_path)
    _commit(table, "00000000000001", _stat("dt=a", inserts=10))
    _commit(table, "20261101230000000", _stat("dt=a", inserts=1), _stat("dt=b", inserts=2))
    assert _increments(table) == [("dt=b", 0, 2)]
    assert set(read_arrivals(table.open()).ages(datetime(2026, 11, 2))) == {"dt=b"}


def test_archived_commits_count_once_and_known_ones_are_not_read_again(tmp_path: Path) -> None:
    table = SmallTable(tmp_path)
    for day in range(1, 7):
        _commit(table, f"2026110{day}120000000", _stat("dt=a", inserts=day, writes=day))
    expected = [("dt=a", day - 1, day) for day in range(1, 7)]
    assert _increments(table) == expected
    known = read_arrivals(table.open())
    options = ArchiveOptions(2, 3, clean=CleanOptions(commits_retained=1))
    archive_table(table.open(), options, SINGLE_WRITER)
    active = [each.timestamp for each in table.open().timeline.commits]
    assert len(active) < 6
    assert _increments(table) == expected
    for instant in active:
        (table.path / ".hoodie" / f"{instant}.deltacommit").write_bytes(b"not read")
    _commit(table, "20261107120000000", _stat("dt=a", inserts=7))
    assert _increments(table, known) == [*expected, ("dt=a", 6, 7)]


def test_commits_that_are_archived_after_the_timeline_was_listed_count(tmp_path: Path) -> None:
    table = SmallTable(tmp_path)
    for day in range(1, 7):
        _commit(table, f"2026110{day}120000000", _stat("dt=a", inserts=day, writes=day))
    listed = table.open()
    archive_table(table.open(), ArchiveOptions(2, 3, clean=CleanOptions(commits_retained=1)), SINGLE_WRITER)
    expected = [("dt=a", day - 1, day) for day in range(1, 7)]
    for known in (None, Arrivals()):
        found = read_arrivals(listed, known).increments().to_pylist()
        assert sorted(tuple(row.values()) for row in found) == expected


def test_arrivals_of_a_table_of_hudis_with_archived_commits(golden: Callable[[str], Any]) -> None:
    table = open_at(golden("cow_archived_bootstrap").table)
    arrivals = read_arrivals(table)
    assert {each.timestamp for each in table.timeline.commits} < arrivals.commits
    assert arrivals.bootstrapped
