"""The changes of windows add up: with them, each past state becomes the next one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.errors import NoSuchStateError, UnsupportedTableError
from hudisql.format.schema.meta_columns import COMMIT_TIME
from hudisql.read.changes import change_capture
from hudisql.read.changes.change_capture import GroupChange, captured_schema, plan_capture, read_changes
from hudisql.read.files.predicates import Comparison, matching_rows
from hudisql.read.scan.incremental import IncrementalRead, incremental_read
from hudisql.read.scan.scan_plan import ScanPlan, ScanRequest
from hudisql.read.scan.table_scan import plan_scan
from hudisql.storage import Storage
from hudisql.table.history.timeline_window import ChangedGroups, timeline_window
from hudisql.table.hudi_table import HudiTable
from tests.opened import open_at

TABLES = [
    "cow_bootstrap_then_upsert_delete",
    "cow_insert_overwrite",
    "mor_upsert_only_updates",
    "mor_compacted",
    "mor_two_log_generations",
]

ReadPlan = Callable[[ScanPlan], pa.Table]


def instants_of(table: HudiTable) -> list[str]:
    return [commit.timestamp for commit in table.timeline.commits]


def rows_of(found: pa.Table) -> list[str]:
    return sorted(map(repr, found.to_pylist()))


@pytest.mark.parametrize("name", TABLES)
def test_a_window_has_the_rows_of_its_end_that_its_commits_wrote(
    open_golden: Callable[[str], HudiTable], read_plan: ReadPlan, name: str
) -> None:
    table = open_golden(name)
    instants = instants_of(table)
    assert len(instants) > 1
    for begin, end in combinations(["000", *instants], 2):
        changes = incremental_read(table, timeline_window(table, begin, end))
        found = read_plan(plan_scan(ScanRequest(table, table.full_schema, changes=changes)))
        then = read_plan(plan_scan(ScanRequest(table, table.full_schema, as_of=end)))
        times = [begin < row[COMMIT_TIME] <= end for row in then.to_pylist()]
        assert rows_of(found) == rows_of(then.filter(pa.array(times)))


@pytest.mark.parametrize("name", TABLES)
def test_captured_changes_lead_from_one_state_to_the_next(
    open_golden: Callable[[str], HudiTable], read_plan: ReadPlan, name: str
) -> None:
    table = open_golden(name)
    for begin, end in pairwise(["000", *instants_of(table)]):
        before = [] if begin == "000" else _state(table, read_plan, begin)
        after = _state(table, read_plan, end)
        for event in _captured(table, begin, end):
            assert event["ts_ms"] == end
            assert (event["before"] is None, event["after"] is None) == {
                "i": (True, False),
                "u": (False, False),
                "d": (False, True),
            }[event["op"]]
            if event["before"] is not None:
                before.remove(event["before"])
            if event["after"] is not None:
                before.append(event["after"])
        assert sorted(map(repr, before)) == sorted(map(repr, after))


def _state(table: HudiTable, read_plan: ReadPlan, as_of: str) -> list[dict[str, Any]]:
    return list(read_plan(plan_scan(ScanRequest(table, table.schema, as_of=as_of))).to_pylist())


def _captured(table: HudiTable, begin: str, end: str) -> list[dict[str, Any]]:
    return [
        event
        for change in plan_capture(table, timeline_window(table, begin, end))
        for batch in read_changes(table.storage, change, table.schema)
        for event in pa.Table.from_batches([batch], captured_schema(table.schema)).to_pylist()
    ]


@pytest.mark.parametrize("name", TABLES)
def test_deleted_rows_are_found_whatever_the_commit_counts(
    open_golden: Callable[[str], HudiTable], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = open_golden(name)
    changes = plan_capture(table, timeline_window(table, instants_of(table)[0]))
    counted = _events_of(table, changes)
    for other in (None, 0, 1):
        assert _events_of(table, [replace(each, deleted_rows=other) for each in changes]) == counted
    # Of rewritten base files without deletes no keys are compared.
    monkeypatch.setattr(change_capture, "_removed_rows", None)
    without_logs = [
        each
        for each in changes
        if each.deleted_rows == 0
        and not any(side is None or side.has_log_files for side in (each.before, each.after))
    ]
    assert bool(without_logs) == (name not in ("mor_upsert_only_updates", "mor_two_log_generations"))
    assert len(_events_of(table, without_logs)) >= len(without_logs)


def _events_of(table: HudiTable, changes: Sequence[GroupChange]) -> list[str]:
    batches = [batch for each in changes for batch in read_changes(table.storage, each, table.schema)]
    return rows_of(pa.Table.from_batches(batches, captured_schema(table.schema)))


def test_captured_changes_of_wide_rows_come_in_small_batches(
    open_golden: Callable[[str], HudiTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = open_golden("cow_bootstrap_then_upsert_delete")
    begin, *_, end = instants_of(table)
    expected = _captured(table, begin, end)
    monkeypatch.setattr(change_capture, "_BATCH_BYTES", 1)
    assert sorted(map(repr, _captured(table, begin, end))) == sorted(map(repr, expected))
    changes = plan_capture(table, timeline_window(table, begin, end))
    batches = [batch for change in changes for batch in read_changes(Storage(), change, table.schema)]
    assert {batch.num_rows for batch in batches} == {1}


def test_only_files_that_the_windows_commits_name_are_read(
    open_golden: Callable[[str], HudiTable], read_plan: ReadPlan
) -> None:
    table = open_golden("cow_bootstrap_then_upsert_delete")
    begin, end = instants_of(table)[:2]
    changes = incremental_read(table, timeline_window(table, begin, end))
    plan = plan_scan(ScanRequest(table, table.full_schema, changes=changes))
    assert 0 < len(plan.slices) < len(plan_scan(ScanRequest(table, table.full_schema)).slices)
    assert {file_slice.base_instant_time for file_slice, _ in plan.slices} == {end}
    assert ("changes", f"1 commits after {begin} up to {end}") in plan.describe()
    filtered = [Comparison(("dt",), "=", "2000-01-01")]
    assert plan_scan(ScanRequest(table, table.full_schema, filtered, changes=changes)).partitions_read == 0
    one = incremental_read(table, timeline_window(table, begin, end), "/dt=2024-03-0[1]/*{0_0,parquet}")
    none = incremental_read(table, timeline_window(table, begin, end), "/dt=2024-03-09/*")
    assert len(plan_scan(ScanRequest(table, table.full_schema, changes=one)).slices) == len(plan.slices)
    assert plan_scan(ScanRequest(table, table.full_schema, changes=none)).slices == ()
    nothing = incremental_read(table, timeline_window(table, instants_of(table)[-1]))
    assert read_plan(plan_scan(ScanRequest(table, table.full_schema, changes=nothing))).num_rows == 0


def test_windows_whose_files_were_cleaned_are_gone(
    open_golden: Callable[[str], HudiTable], read_plan: ReadPlan
) -> None:
    table = open_golden("cow_savepoint_clean")
    instants = instants_of(table)
    lost = timeline_window(table, instants[1], instants[2])
    with pytest.raises(NoSuchStateError, match="file groups that were written up to then were deleted"):
        plan_scan(ScanRequest(table, table.full_schema, changes=incremental_read(table, lost)))
    with pytest.raises(NoSuchStateError, match="before and after each commit"):
        plan_capture(table, lost)
    # The last version holds the rows of all commits.
    whole = incremental_read(table, timeline_window(table, instants[1]))
    found = read_plan(plan_scan(ScanRequest(table, table.full_schema, changes=whole)))
    assert {row[COMMIT_TIME] for row in found.to_pylist()} <= set(instants[2:])
    assert found.num_rows > 0


def test_archived_commits_of_a_window_are_read_while_files_remain(
    open_golden: Callable[[str], HudiTable], read_plan: ReadPlan
) -> None:
    table = open_golden("cow_archived_bootstrap")
    window = timeline_window(table, "earliest")
    assert window.is_open
    found = read_plan(
        plan_scan(ScanRequest(table, table.full_schema, changes=incremental_read(table, window)))
    )
    assert rows_of(found) == rows_of(read_plan(plan_scan(ScanRequest(table, table.full_schema))))
    with pytest.raises(NoSuchStateError, match="archived"):
        plan_capture(table, window)
    with pytest.raises(NoSuchStateError, match="archived"):
        plan_scan(ScanRequest(table, table.full_schema, as_of="00000000000001"))


def test_rows_without_meta_columns_tell_no_commit(tmp_path: Path, make_table: Callable[..., Path]) -> None:
    path = make_table(tmp_path / "t", {"dt=a": 1})
    properties = path / ".hoodie/hoodie.properties"
    properties.write_text(properties.read_text() + "\nhoodie.populate.meta.fields=false\n")
    table = open_at(path)
    for read_changes_of in (incremental_read, plan_capture):
        with pytest.raises(UnsupportedTableError, match="keeps no meta columns"):
            read_changes_of(table, timeline_window(table, "000"))


def test_rows_that_a_clustering_gave_its_own_commit_time_are_no_changes(
    open_golden: Callable[[str], HudiTable],
) -> None:
    table = open_golden("cow_bootstrap_then_upsert_delete")
    begin, *times = instants_of(table)
    window = timeline_window(table, begin)
    plain = IncrementalRead(window, ChangedGroups({}, frozenset()))
    assert plain.condition == f"_hoodie_commit_time > '{begin}' AND _hoodie_commit_time <= '{times[-1]}'"
    moved = IncrementalRead(window, ChangedGroups({}, frozenset(times[:1])))
    assert moved.condition == f"{plain.condition} AND _hoodie_commit_time NOT IN ('{times[0]}')"
    by_completion = replace(window, by_transition_time=True)
    chosen = IncrementalRead(by_completion, ChangedGroups({}, frozenset()))
    assert chosen.condition == f"_hoodie_commit_time IN ({', '.join(map(repr, times))})"
    nothing = IncrementalRead(by_completion, ChangedGroups({}, frozenset(times)))
    assert nothing.condition == "false"
    rows = pa.record_batch({COMMIT_TIME: [begin, *times]})
    for read, kept in ((plain, times), (moved, times[1:]), (chosen, times), (nothing, [])):
        assert rows.filter(matching_rows(read.predicate, rows))[COMMIT_TIME].to_pylist() == kept
