"""Clusterings crashed at their steps: readers see before or after, and the plan is run again or undone."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import WriteConflictError
from hudisql.storage import Storage
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable, open_table
from tests.fault_injection import run_with_fault, wait_for_late_tasks
from tests.sql.changed_tables import ChangedTable

pytestmark = [pytest.mark.spark, pytest.mark.hms]

ORDERS = {
    "unsorted": "",
    "sorted": ", order => 'price, id'",
    "z-order": ", order => 'seq, price', order_strategy => 'z-order'",
}

Crash = Callable[[str, str, str, int], bool]


def _open(table: ChangedTable) -> HudiTable:
    return open_table(Storage(), table.path)


def _groups(table: ChangedTable) -> set[str]:
    return {each.file_id for each in load_file_slices(_open(table))}


def _kept(table: ChangedTable) -> list[tuple[Any, ...]]:
    # `_hoodie_file_name` is the one meta column that a rewrite changes.
    return [row[:4] + row[5:] for row in table.rows("*")]


def _left(table: ChangedTable, pattern: str) -> list[str]:
    return [path.name for path in Path(table.path, ".hoodie").glob(pattern) if path.suffix != ".crc"]


def _run_again(table: ChangedTable) -> None:
    table.session.sql(f"CALL run_clustering(table => '{table.name}', op => 'execute')")


def _undo(table: ChangedTable) -> None:
    for each in _open(table).timeline.pending:
        table.session.sql(
            f"CALL run_rollback_inflight_tableservice(table => '{table.name}', "
            f"pending_instant => '{each.timestamp}', delete_request_instant_file => true)"
        )


@pytest.fixture
def crash(request: pytest.FixtureRequest, spark: Any, metastore_uri: str) -> Crash:
    """`crash(kind, order, process, step)`: a crash, then what must hold; False if there was none."""

    def run(kind: str, order: str, process: str, step: int) -> bool:
        table: ChangedTable = request.getfixturevalue(kind)
        # Log files, or new base files beside skeletons; and something to cluster in every round.
        table.run(f"UPDATE {{t}} SET price = price + {step + 1} WHERE seq % 10 < 5")
        rows, groups = _kept(table), _groups(table)
        ended = run_with_fault(
            spark,
            metastore_uri,
            statement=f"CALL run_clustering(table => '{table.name}'{ORDERS[order]})",
            target=table.path,
            process=process,
            step=step,
        )
        if ended.returncode == 1:
            # Its driver is alive: the plan alone is left.
            assert re.search("exited unexpectedly|crashed", ended.stderr), ended.stderr
            assert [each.state.name for each in _open(table).timeline.pending] == ["REQUESTED"]
        assert _kept(table) == rows
        is_done = not groups & _groups(table)
        assert is_done or groups == _groups(table)
        assert is_done is any(each.endswith("replacecommit") for each in table.instants()[-1:])
        _go_on(table, step)
        assert _kept(table) == rows
        wait_for_late_tasks(spark)
        assert _open(table).timeline.pending == ()
        table.run("UPDATE {t} SET price = 0 WHERE seq = 29")
        assert table.orphans() == []
        assert _left(table, ".temp/*") == []
        return ended.returncode != 0

    return run


def _go_on(table: ChangedTable, step: int) -> None:
    """Run the plan again, or undo it, in turns; its run counts as dead once its heartbeat has expired."""
    go_on = (_run_again, _undo)[step % 2]
    beats = [Path(table.path, ".hoodie", ".heartbeat", name) for name in _left(table, ".heartbeat/*")]
    if beats and _open(table).timeline.pending:
        with pytest.raises(WriteConflictError, match="another process runs the clustering"):
            go_on(table)
    for beat in beats:
        os.utime(beat, (0, 0))
    go_on(table)


@pytest.mark.parametrize(
    ("kind", "process", "step"),
    [
        ("merge_on_read_table", "driver", 4),
        pytest.param("table", "worker", 1, marks=pytest.mark.soak),
    ],
)
def test_a_crashed_clustering_is_seen_atomically(crash: Crash, kind: str, process: str, step: int) -> None:
    assert crash(kind, "unsorted", process, step)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["table", "merge_on_read_table"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("process", "steps"), [("driver", 6), ("worker", 2)])
def test_a_clustering_crashed_at_any_step_is_seen_atomically(
    crash: Crash, kind: str, order: str, process: str, steps: int
) -> None:
    step = 0
    while crash(kind, order, process, step):
        step += 1
    assert step >= steps
