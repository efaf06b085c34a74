"""Compaction plans: Hudi's bytes, which slices are taken, and when a compaction is due."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import CorruptTableError, SettingsError
from hudisql.format.timeline.active_timeline import Timeline
from hudisql.format.timeline.instant import COMMIT, COMPACTION, DELTA_COMMIT, Instant, InstantState
from hudisql.services.compaction.compaction_action import (
    CompactionOptions,
    CompactionTrigger,
    is_compaction_due,
)
from hudisql.services.compaction.compaction_plan import (
    CompactionPlan,
    parse_compaction_plan,
    partitions_to_compact,
    plan_compaction,
    read_compaction_plan,
    slice_of,
)
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice, LogFile
from hudisql.table.hudi_table import HudiTable
from tests.opened import open_at

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


@pytest.fixture
def planned(golden: Callable[[str], Any]) -> HudiTable:
    return open_at(golden("mor_compaction_scheduled").table)


def _plan(table: HudiTable) -> CompactionPlan:
    (pending,) = table.timeline.pending
    return read_compaction_plan(table, pending.timestamp)


def test_a_plan_of_hudi_is_read_and_written_as_it_was(planned: HudiTable) -> None:
    plan = _plan(planned)
    assert len(plan.operations) == 3
    assert all(each.bootstrap_file and each.base_file and each.log_files for each in plan.operations)
    assert plan.operations[0].metrics["TOTAL_LOG_FILES_SIZE"] == 2142.0
    assert parse_compaction_plan(plan.to_avro(), "plan") == plan


def test_a_slice_of_the_plan_has_no_later_log_files(planned: HudiTable) -> None:
    (pending,) = planned.timeline.pending
    for operation in _plan(planned).operations:
        found = slice_of(planned, operation, None)
        assert [Path(each.path).name for each in found.log_files] == list(operation.log_files)
        assert all(each.base_instant_time < pending.timestamp for each in found.log_files)
        assert found.base_file is not None
        assert found.base_file.length == Path(found.base_file.path).stat().st_size


def test_a_planned_file_that_is_gone_is_named(planned: HudiTable) -> None:
    operation = replace(_plan(planned).operations[0], log_files=(".gone_00000000000001.log.1_0-1-1",))
    with pytest.raises(CorruptTableError, match=r"\.gone_00000000000001\.log\.1_0-1-1 .* does not exist"):
        slice_of(planned, operation, None)


def _slice(file_id: str, *log_bytes: int) -> FileSlice:
    logs = tuple(
        LogFile(f"/t/.{file_id}_1.log.{number}_0-0-0", length, file_id, "1", number, "0-0-0")
        for number, length in enumerate(log_bytes, start=1)
    )
    return FileSlice("", file_id, "00000000000001", None, logs)


def _file_ids(plan: CompactionPlan) -> list[str]:
    return [each.file_id for each in plan.operations]


SLICES = [_slice("few", 100), _slice("none"), _slice("many", 20, 20, 20), _slice("big", 3 << 20)]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("log_file_size", ["big", "few", "many"]),
        ("log_file_count", ["many", "few", "big"]),
        ("bounded_io", ["few", "many", "big"]),
        ("unbounded", ["few", "many", "big"]),
    ],
)
def test_the_strategy_orders_slices_with_log_files(strategy: Any, expected: list[str]) -> None:
    assert _file_ids(plan_compaction(Storage(), SLICES, (), strategy, 1 << 40)) == expected


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("log_file_size", ["big", "few"]), ("log_file_count", ["many"]), ("unbounded", ["few", "many", "big"])],
)
def test_slices_below_the_threshold_of_their_strategy_are_left(strategy: Any, expected: list[str]) -> None:
    plan = plan_compaction(Storage(), SLICES, (), strategy, 1 << 40, least_log_bytes=100, least_log_files=2)
    assert _file_ids(plan) == expected


def test_all_strategies_but_one_stop_at_the_target_of_io() -> None:
    assert _file_ids(plan_compaction(Storage(), SLICES, (), "log_file_size", 1)) == ["big"]
    assert len(plan_compaction(Storage(), SLICES, (), "unbounded", 1).operations) == 3


def test_file_groups_of_other_services_are_left_out() -> None:
    assert _file_ids(plan_compaction(Storage(), SLICES, {("", "few")}, "unbounded", 1)) == ["many", "big"]


def _timeline(*instants: tuple[str, str, bool]) -> Timeline:
    return Timeline(
        tuple(
            Instant(time, action, InstantState.COMPLETED if done else InstantState.REQUESTED)
            for time, action, done in instants
        )
    )


DELTAS = [(f"2026112211{minute:02}00000", DELTA_COMMIT, True) for minute in (0, 10, 20)]


@pytest.mark.parametrize(
    ("trigger", "commits", "seconds", "expected"),
    [
        ("NUM_COMMITS", 3, 0, True),
        ("NUM_COMMITS", 4, 0, False),
        ("TIME_ELAPSED", 99, 3600, True),
        ("TIME_ELAPSED", 99, 3601, False),
        ("NUM_AND_TIME", 3, 3601, False),
        ("NUM_AND_TIME", 3, 3600, True),
        ("NUM_OR_TIME", 3, 3601, True),
        ("NUM_OR_TIME", 4, 3601, False),
    ],
)
def test_a_compaction_is_due_by_commits_and_time(
    trigger: str, commits: int, seconds: int, expected: bool
) -> None:
    options = CompactionOptions(CompactionTrigger(trigger), commits, seconds)
    assert is_compaction_due(_timeline(*DELTAS), options, NOON) is expected


def test_only_delta_commits_since_the_last_compaction_count() -> None:
    timeline = _timeline(*DELTAS[:2], ("20261122111500000", COMMIT, True), DELTAS[2])
    assert is_compaction_due(timeline, CompactionOptions(max_delta_commits=1), NOON)
    assert not is_compaction_due(timeline, CompactionOptions(max_delta_commits=2), NOON)


def test_a_pending_plan_counts_for_the_trigger_after_the_last_request() -> None:
    timeline = _timeline(*DELTAS[:2], ("20261122111500000", COMPACTION, False), DELTAS[2])
    after_request = CompactionTrigger.NUM_COMMITS_AFTER_LAST_REQUEST
    assert is_compaction_due(timeline, CompactionOptions(max_delta_commits=3), NOON)
    assert not is_compaction_due(timeline, CompactionOptions(after_request, 3), NOON)


def test_nothing_is_due_without_delta_commits() -> None:
    assert not is_compaction_due(_timeline(), CompactionOptions(max_delta_commits=0), NOON)


def test_a_bootstrap_was_long_ago() -> None:
    timeline = _timeline(("00000000000001", DELTA_COMMIT, True))
    assert is_compaction_due(timeline, CompactionOptions(CompactionTrigger.TIME_ELAPSED), NOON)


TODAY = date(2024, 3, 4)
DAYS = ["2024/03/01", "2024/03/04", "2024/02/29", "2024/03/03"]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("day_based", ["2024/03/04", "2024/03/03"]),
        ("bounded_partitions", ["2024/03/04", "2024/03/03"]),
        ("unbounded_partitions", ["2024/03/01", "2024/02/29"]),
    ],
)
def test_partitions_are_chosen_by_their_days_latest_first(strategy: Any, expected: list[str]) -> None:
    assert partitions_to_compact(strategy, DAYS, 2, TODAY) == expected


@pytest.mark.parametrize(
    "path", ["2024-03-03", "dt=2024-03-03", "year=2024/month=3/day=03", "2024/03/03/eu", "dt=2024-03-03 10"]
)
def test_a_partition_path_names_its_day_in_many_ways(path: str) -> None:
    assert partitions_to_compact("bounded_partitions", [path], 1, TODAY) == [path]
    assert partitions_to_compact("unbounded_partitions", [path], 1, TODAY) == []


@pytest.mark.parametrize("path", ["", "eu", "dt=20240303", "region=eu/dt=2024-03-03", "2024/13/01"])
def test_a_strategy_by_days_refuses_paths_without_a_day(path: str) -> None:
    with pytest.raises(SettingsError, match=f"the partition path '{path}' names none"):
        partitions_to_compact("day_based", [*DAYS, path], 10, TODAY)


def test_a_strategy_by_days_has_no_bound_of_bytes() -> None:
    assert _file_ids(plan_compaction(Storage(), SLICES, (), "day_based", 1)) == ["few", "many", "big"]
