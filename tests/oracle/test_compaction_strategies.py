"""Compactions of partitions by day: plans equal Hudi 0.15's, and each plan is deleted before the next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hudisql.services.compaction.compaction_plan import read_compaction_plan
from tests.opened import open_at
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows, read_by_both
from tests.oracle.shapes import Shape, bootstrap_shape

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

STRATEGIES = (
    "DayBasedCompactionStrategy",
    "BoundedPartitionAwareCompactionStrategy",
    "UnBoundedPartitionAwareCompactionStrategy",
)
NOW = datetime.now(UTC)
DAYS_AGO = (3, 0, 1, 40)
OPTIONS = (
    "hoodie.metadata.enable=false,hoodie.compact.inline.max.delta.commits=1,"
    "hoodie.compaction.daybased.target.partitions=2,"
    "hoodie.compaction.strategy=org.apache.hudi.table.action.compact.strategy."
)


def _day(number: int, form: str) -> str:
    return (NOW - timedelta(days=DAYS_AGO[number % len(DAYS_AGO)])).strftime(form)


SHAPE = Shape(
    "by_day",
    rows=40,
    files=1,
    partition_columns={
        "y": lambda n: _day(n, "%Y"),
        "m": lambda n: _day(n, "%m"),
        "d": lambda n: _day(n, "%d"),
    },
    table_type="MERGE_ON_READ",
)


def _planned(path: str, instant_time: str) -> list[tuple[Any, ...]]:
    plan = read_compaction_plan(open_at(path), instant_time)
    return [
        (each.partition_path, each.file_id, each.base_file, each.log_files, each.metrics)
        for each in plan.operations
    ]


@pytest.mark.soak
def test_partitions_are_chosen_as_hudi_chooses_them(
    session: Any, oracle_015: HudiOracle, tmp_path: Path
) -> None:
    made, name = bootstrap_shape(session, SHAPE, tmp_path), f"oracle.{SHAPE.name}"
    session.sql(f"UPDATE {name} SET note = 'updated' WHERE seq < 8")
    before = read_by_both(oracle_015, session, name, made.path)
    sizes = []
    for strategy in STRATEGIES:
        call = f"run_compaction(op => 'schedule', path => '{made.path}', options => '{OPTIONS}{strategy}')"
        ((theirs, size, _),) = [tuple(row.values()) for row in oracle_015.sql(f"CALL {call}").to_pylist()]
        plan = _planned(made.path, theirs)
        _delete_plan(session, made.path, theirs)
        ((ours, *_),) = session.sql(f"CALL {call}").rows
        assert _planned(made.path, ours) == plan, strategy
        _delete_plan(session, made.path, ours)
        sizes.append(size)
    assert sizes == [2, 2, 2]
    # Hudi goes on after plans that were deleted.
    options = f"{OPTIONS}{STRATEGIES[0]}"
    call = f"run_compaction(op => 'scheduleandexecute', path => '{made.path}', options => '{options}')"
    assert [row["state"] for row in oracle_015.sql(f"CALL {call}").to_pylist()] == ["COMPLETED"]
    after = read_by_both(oracle_015, session, name, made.path)
    kept = [column for column in after.column_names if column != "_hoodie_file_name"]
    assert_same_rows(after.select(kept), before.select(kept), sort_by=["seq"])


def _delete_plan(session: Any, path: str, instant_time: str) -> None:
    session.sql(
        f"CALL run_rollback_inflight_tableservice(path => '{path}', pending_instant => '{instant_time}', "
        "delete_request_instant_file => true)"
    )
