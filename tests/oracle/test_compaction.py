"""Compactions: hudisql runs what Apache Hudi has planned, and Apache Hudi what hudisql has planned."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.format.timeline.commit_metadata import read_commit_metadata
from hudisql.storage import Storage
from tests.opened import open_at
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.shapes import SHAPES, bootstrap_shape
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

AT_ONCE = "hoodie.metadata.enable=false,hoodie.compact.inline.max.delta.commits=1"
SHAPE = next(shape for shape in SHAPES if shape.table_type == "MERGE_ON_READ")


@dataclass
class CompactedTable:
    """A bootstrapped merge-on-read table with log files, looked at by both."""

    session: Any
    oracle: HudiOracle
    name: str
    path: str

    def compact(self, by: str, op: str) -> list[tuple[str, int, str]]:
        if by == "hudisql":
            call = f"CALL run_compaction(op => '{op}', table => '{self.name}', options => '{AT_ONCE}')"
            return [tuple(row) for row in self.session.sql(call).rows]
        found = self.oracle.sql(f"call run_compaction(op=>'{op}', path=>'{self.path}', options=>'{AT_ONCE}')")
        return [tuple(row.values()) for row in found.to_pylist()]

    def check(self) -> pa.Table:
        theirs = self.oracle.read(self.path)
        assert_same_rows(self.session.sql(f"SELECT * FROM {self.name}").arrow(), theirs, sort_by=["seq"])
        return theirs

    def notes(self) -> dict[int, str]:
        rows = self.check()
        return dict(zip(rows["seq"].to_pylist(), rows["note"].to_pylist(), strict=True))


@pytest.fixture
def table(oracle_015: HudiOracle, session: Any, tmp_path: Path) -> CompactedTable:
    made = bootstrap_shape(session, SHAPE, tmp_path)
    name = f"oracle.{SHAPE.name}"
    found = CompactedTable(session, oracle_015, name, made.path)
    session.sql(f"UPDATE {name} SET note = 'updated' WHERE seq % 5 = 0")
    session.sql(f"DELETE FROM {name} WHERE seq % 7 = 0")
    return found


@pytest.mark.parametrize(
    ("planner", "runner"),
    parameters(product(("hudisql", "hudi"), repeat=2), in_ci=[("hudisql", "hudi")]),
)
def test_a_plan_of_one_is_run_by_the_other(
    table: CompactedTable, oracle_120: HudiOracle, planner: str, runner: str
) -> None:
    before = table.notes()
    ((planned, size, state),) = table.compact(planner, "schedule")
    assert (size > 0, state) == (True, "REQUESTED")
    assert table.notes() == before
    # Changed while the compaction is pending: kept on top of its result.
    table.session.sql(f"DELETE FROM {table.name} WHERE seq % 11 = 0")
    expected = {seq: note for seq, note in before.items() if seq % 11}
    assert table.notes() == expected
    assert [(row[0], row[2]) for row in table.compact(runner, "run")] == [(planned, "COMPLETED")]
    opened = open_at(table.path)
    assert opened.timeline.pending == ()
    commit = next(each for each in opened.timeline.commits if each.timestamp == planned)
    metadata = read_commit_metadata(Storage(), opened.instant_path(commit))
    assert (metadata.operation_type, metadata.compacted) == ("COMPACT", True)
    assert all(stat.total_log_files_compacted >= 1 for stat in metadata.write_stats)
    assert table.notes() == expected
    assert_same_rows(oracle_120.read(table.path), table.oracle.read(table.path), sort_by=["seq"])
    # Both go on writing.
    table.session.sql(f"UPDATE {table.name} SET note = 'again' WHERE seq % 13 = 1")
    expected |= {seq: "again" for seq in expected if seq % 13 == 1}
    assert table.notes() == expected
    ((_, _, state),) = table.compact("hudi", "scheduleandexecute")
    assert (state, table.notes()) == ("COMPLETED", expected)
