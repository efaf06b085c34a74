"""Clusterings: hudisql runs what Apache Hudi has planned, and Apache Hudi what hudisql has planned."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from hudisql.format.timeline.commit_metadata import read_commit_metadata
from hudisql.storage import Storage
from hudisql.table.files.snapshot import load_file_slices
from tests.opened import open_at
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows, read_by_both
from tests.oracle.shapes import SHAPES, Shape, bootstrap_shape
from tests.oracle.sources import sample_rows
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

META = [
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
]


def _cluster(by: str, session: Any, oracle: HudiOracle, path: str, more: str) -> list[tuple[Any, ...]]:
    text = f"CALL run_clustering(path => '{path}', {more})"
    if by == "hudisql":
        return [tuple(row) for row in session.sql(text).rows]
    return [tuple(row.values()) for row in oracle.sql(text).to_pylist()]


@pytest.mark.parametrize(
    ("planner", "runner", "shape"),
    parameters(
        [(*each, shape) for shape in ("partitioned", "merge_on_read") for each in product(
            ("hudisql", "hudi"), repeat=2
        )],
        in_ci=[("hudisql", "hudi", "merge_on_read")],
    ),
)  # fmt: skip
def test_a_plan_of_one_is_run_by_the_other(
    session: Any,
    oracle_015: HudiOracle,
    oracle_120: HudiOracle,
    tmp_path: Path,
    planner: str,
    runner: str,
    shape: str,
) -> None:
    chosen: Shape = next(each for each in SHAPES if each.name == shape)
    made, name = bootstrap_shape(session, chosen, tmp_path), f"oracle.{shape}"
    oracle_015.sql("SET hoodie.metadata.enable = false")
    session.sql(f"UPDATE {name} SET note = 'updated' WHERE seq % 5 = 0")
    session.sql(f"DELETE FROM {name} WHERE seq % 7 = 0")
    before = read_by_both(oracle_015, session, name, made.path)
    groups = {each.file_id for each in load_file_slices(open_at(made.path))}
    ((planned, size, state, _),) = _cluster(
        planner, session, oracle_015, made.path, "op => 'schedule', order => 'seq'"
    )
    assert (size, state) == (3, "REQUESTED")
    read_by_both(oracle_015, session, name, made.path)
    found = _cluster(runner, session, oracle_015, made.path, f"op => 'execute', instants => '{planned}'")
    assert [(row[0], row[1], row[2]) for row in found] == [(planned, 3, "COMPLETED")]
    opened = open_at(made.path)
    assert opened.timeline.pending == ()
    metadata = read_commit_metadata(Storage(), opened.instant_path(opened.timeline.commits[-1]))
    assert metadata.operation_type == "CLUSTER"
    replaced = metadata.partition_to_replace_file_ids or {}
    assert {file_id for file_ids in replaced.values() for file_id in file_ids} == groups
    after = read_by_both(oracle_015, session, name, made.path)
    kept = [column for column in after.column_names if column != "_hoodie_file_name"]
    assert_same_rows(after.select(kept), before.select(kept), sort_by=["seq"])
    assert set(META) < set(kept)
    assert_same_rows(oracle_120.read(made.path), after, sort_by=["seq"])
    # Both go on writing.
    session.sql(f"UPDATE {name} SET note = 'again' WHERE seq % 13 = 1")
    rows = chosen.with_partition_columns(sample_rows(2, 3))
    oracle_015.upsert(rows, made.path, {**chosen.write_options(), "hoodie.compact.inline": "false"})
    assert "again" in read_by_both(oracle_015, session, name, made.path)["note"].to_pylist()
