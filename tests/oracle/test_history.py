"""Past states and changes of tables that both have written: hudisql reads the rows that Apache Hudi reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.table.hudi_table import HudiTable
from tests.opened import open_at
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.shapes import SHAPES, bootstrap_shape
from tests.oracle.sources import sample_rows
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

INCREMENTAL = {"hoodie.datasource.query.type": "incremental"}
BEGIN = "hoodie.datasource.read.begin.instanttime"
END = "hoodie.datasource.read.end.instanttime"
GLOB = "hoodie.datasource.read.incr.path.glob"
COMPACT = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
CLUSTER = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}


@dataclass
class Recorded:
    """A table in the making, and what Apache Hudi read of it after each commit, by instant time."""

    session: Any
    oracle: HudiOracle
    path: str
    states: dict[str, pa.Table] = field(default_factory=dict)

    @property
    def opened(self) -> HudiTable:
        return open_at(self.path)

    def run(self, statement: str) -> None:
        self.session.sql(statement)
        self.record()

    def record(self) -> None:
        latest = self.opened.timeline.latest_commit
        assert latest is not None
        self.states[latest.timestamp] = self.oracle.read(self.path)

    def changes(self, begin: str, end: str | None = None, **options: str) -> pa.Table:
        bounds = {BEGIN: begin, **({END: end} if end else {})}
        return self.oracle.read(self.path, options={**INCREMENTAL, **bounds, **options})

    def check_states(self) -> None:
        assert len(self.states) >= 5
        for instant, expected in self.states.items():
            text = f"SELECT * FROM hudi.`{self.path}` VERSION AS OF '{instant}'"
            assert_same_rows(self.session.sql(text).arrow(), expected, sort_by=["seq"])

    def check_window(self, begin: str, end: str | None = None) -> None:
        last = "" if end is None else f", '{end}'"
        text = f"SELECT * FROM hudi_table_changes('{self.path}', 'latest_state', '{begin}'{last})"
        assert_same_rows(self.session.sql(text).arrow(), self.changes(begin, end), sort_by=["seq"])


@pytest.mark.parametrize("name", parameters(["partitioned", "merge_on_read"], in_ci=["merge_on_read"]))
def test_past_states_and_changes_of_bootstrapped_tables_that_both_write(
    oracle_015: HudiOracle, session: Any, tmp_path: Path, name: str
) -> None:
    shape = next(shape for shape in SHAPES if shape.name == name)
    table = Recorded(session, oracle_015, bootstrap_shape(session, shape, tmp_path).path)
    table.record()
    table.run(f"UPDATE oracle.{name} SET note = 'updated' WHERE seq < 10")
    table.run(f"DELETE FROM oracle.{name} WHERE seq % 7 = 0")
    services = COMPACT if shape.table_type == "MERGE_ON_READ" else {}
    rows = shape.with_partition_columns(sample_rows(100, 130, "second"))
    oracle_015.upsert(rows, table.path, {**shape.write_options(), **services})
    table.record()
    table.run(f"ALTER TABLE oracle.{name} ADD COLUMNS (added INT)")
    same = f"SELECT * EXCEPT (dt) FROM oracle.{name} WHERE seq = 4"
    table.run(f"INSERT OVERWRITE oracle.{name} PARTITION (dt = '2024-03-02') {same}")
    table.check_states()
    instants = [commit.timestamp for commit in table.opened.timeline.commits]
    for begin, end in [*pairwise(instants[2:]), (instants[0], instants[3])]:
        table.check_window(begin, end)
    if shape.table_type == "COPY_ON_WRITE":
        # Of skeletons of merge-on-read tables Hudi's incremental query gives NULL in all data columns.
        table.check_window("000", instants[2])
        glob = {**INCREMENTAL, BEGIN: "000", GLOB: "/dt=2024-03-01/*"}
        frame = session.context.spark.read.format("hudi").options(**glob).load(table.path)
        expected = table.changes("000", **{GLOB: "/dt=2024-03-01/*"})
        assert 0 < expected.num_rows < len(table.states[instants[-1]])
        assert_same_rows(frame.toArrow(), expected, sort_by=["seq"])


@pytest.mark.soak
def test_past_states_and_changes_of_a_table_of_hudis_with_clusterings(
    oracle_015: HudiOracle, session: Any, tmp_path: Path
) -> None:
    shape = next(shape for shape in SHAPES if shape.name == "partitioned")
    table = Recorded(session, oracle_015, str(tmp_path / "table"))
    options = {**shape.write_options(), "hoodie.table.cdc.enabled": "true"}
    for first, last, more in ((0, 30, {}), (20, 40, CLUSTER), (5, 8, {}), (35, 50, {}), (1, 2, {})):
        rows = shape.with_partition_columns(sample_rows(first, last, f"from {first}"))
        oracle_015.upsert(rows, table.path, {**options, **more})
        table.record()
    table.check_states()
    commits = table.opened.timeline.commits
    assert "replacecommit" in {commit.action for commit in commits}
    instants = [commit.timestamp for commit in commits]
    for begin, end in [("000", None), ("000", instants[1]), *pairwise(instants[1:])]:
        table.check_window(begin, end)
    _check_captured(table, "000")
    _check_captured(table, instants[3])


def test_the_timeline_and_the_file_slices_are_those_that_hudi_12_shows(
    oracle_120: HudiOracle, session: Any, golden: Callable[[str], Any]
) -> None:
    for name in ("cow_savepoint_clean", "mor_rollback"):
        path = golden(name).table
        for call in (f"hudi_query_timeline('{path}')", f"hudi_filesystem_view('{path}', '*')"):
            text = f"SELECT * FROM {call}"
            ours, theirs = session.sql(text).arrow(), oracle_120.sql(text)
            assert ours.schema.names == theirs.schema.names
            assert sorted(map(repr, ours.to_pylist())) == sorted(map(repr, theirs.to_pylist()))


def test_a_table_is_queried_by_a_function_as_in_hudi(
    oracle_015: HudiOracle, oracle_120: HudiOracle, session: Any, tmp_path: Path
) -> None:
    properties = "TBLPROPERTIES (primaryKey = 'id', type = 'mor')"
    session.sql("CREATE DATABASE queried")
    session.sql(
        f"CREATE TABLE queried.t (id INT, note STRING) USING hudi LOCATION '{tmp_path / 't'}' {properties}"
    )
    session.sql("INSERT INTO queried.t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    session.sql("UPDATE queried.t SET note = 'updated' WHERE id = 2")
    found = {}
    for form in ("snapshot", "read_optimized"):
        text = f"SELECT q.* FROM hudi_query('queried.t', '{form}') AS q WHERE q._hoodie_record_key > '1'"
        found[form] = session.sql(text).arrow()
        for oracle in (oracle_015, oracle_120):
            assert_same_rows(found[form], oracle.sql(text), sort_by=["_hoodie_record_key"])
    assert [sorted(rows["note"].to_pylist()) for rows in found.values()] == [["c", "updated"], ["b", "c"]]
    session.sql("DROP DATABASE queried CASCADE")


def _check_captured(table: Recorded, begin: str) -> None:
    """Hudi's images are texts in several forms, of which columns of text and numbers are equal."""
    text = f"SELECT * FROM hudi_table_changes('{table.path}', 'cdc', '{begin}')"
    assert_same_captures(table.session.sql(text).arrow(), table.oracle.sql(text))


def assert_same_captures(actual: pa.Table, expected: pa.Table) -> None:
    """Assert that both have the same captured changes, by columns that Hudi shows in one form only."""
    assert actual.column_names == expected.column_names == ["op", "ts_ms", "before", "after"]
    shown: Callable[[pa.Table], list[Any]] = lambda rows: sorted(  # noqa: E731
        (row["op"], row["ts_ms"], *(_image(row[side]) for side in ("before", "after")))
        for row in rows.to_pylist()
    )
    assert shown(actual) == shown(expected) != []


def _image(text: str | None) -> tuple[Any, ...]:
    found = None if text is None else json.loads(text)
    return () if found is None else tuple(found.get(name) for name in ("id", "seq", "note", "dt"))
