"""Cleans: hudisql deletes the files that Apache Hudi would delete, and each runs the other's plan."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.format.timeline.instant import CLEAN, Instant, InstantState
from hudisql.services.clean.clean_action import run_clean, schedule_clean
from hudisql.services.clean.clean_metadata import read_clean_metadata
from hudisql.services.clean.clean_plan import CleanOptions, CleanPolicy, read_clean_plan
from hudisql.services.rollback.savepoint import read_savepoint
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.write.transaction.concurrency import SINGLE_WRITER
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.shapes import SHAPES, bootstrap_shape
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

KEEP_TWO = CleanOptions(commits_retained=2)
KEEP_ONE_VERSION = CleanOptions(CleanPolicy.KEEP_LATEST_FILE_VERSIONS, versions_retained=1)
CLEANED = [*product(["COPY_ON_WRITE", "MERGE_ON_READ"], [KEEP_TWO, KEEP_ONE_VERSION])]
PENDING = (InstantState.REQUESTED, InstantState.INFLIGHT)
COMPACT = "hoodie.compact.inline.max.delta.commits=1"


@dataclass
class Copies:
    """A table's directory as it was, put back again and again at its one place."""

    session: Any
    oracle: HudiOracle
    name: str
    path: str
    saved: str

    def restore(self) -> HudiTable:
        shutil.rmtree(self.path)
        shutil.copytree(self.saved, self.path)
        return self.open()

    def open(self) -> HudiTable:
        return open_table(Storage(), self.path)

    def data_files(self) -> set[str]:
        return {
            str(path.relative_to(self.path))
            for path in Path(self.path).rglob("*")
            if (path.suffix == ".parquet" or ".log." in path.name) and not path.name.endswith(".crc")
        }

    def clean_by_hudi(self, options: CleanOptions) -> None:
        retained = (
            f"file_versions_retained=>{options.versions_retained}"
            if options.policy is CleanPolicy.KEEP_LATEST_FILE_VERSIONS
            else f"retain_commits=>{options.commits_retained}"
        )
        self.call_hudi(f"clean_policy=>'{options.policy}', {retained}")

    def call_hudi(self, arguments: str) -> None:
        # Hudi's procedure takes no path; the table's properties name its database.
        self.oracle.sql("create database if not exists oracle")
        self.oracle.sql(f"create table if not exists {self.name} using hudi location '{self.path}'")
        self.oracle.sql("set hoodie.metadata.enable=false")
        self.oracle.sql(f"call run_clean(table=>'{self.name}', {arguments})")

    def check_rows(self) -> None:
        ours = self.session.sql(f"SELECT * FROM {self.name}").arrow()
        assert_same_rows(ours, self.oracle.read(self.path), sort_by=["seq"])


def _write_history(run: Callable[[str], object], table_type: str) -> None:
    """Slices that were rewritten several times, a dropped partition, and a pending compaction."""
    run("UPDATE {t} SET note = 'first' WHERE seq % 3 = 0")
    run("UPDATE {t} SET note = 'second' WHERE seq % 4 = 0")
    if table_type == "MERGE_ON_READ":
        run(f"CALL run_compaction(op => 'scheduleandexecute', table => '{{t}}', options => '{COMPACT}')")
    run("ALTER TABLE {t} DROP PARTITION (dt = '2024-03-02')")
    run("UPDATE {t} SET note = 'third' WHERE seq % 3 = 0")
    run("UPDATE {t} SET note = 'fourth' WHERE seq % 3 = 0")
    if table_type == "MERGE_ON_READ":
        run(f"CALL run_compaction(op => 'schedule', table => '{{t}}', options => '{COMPACT}')")
        run("UPDATE {t} SET note = 'fifth' WHERE seq % 3 = 0")


@pytest.fixture(scope="module")
def history(
    oracle_015: HudiOracle, session: Any, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Copies]:
    shapes = {shape.table_type: shape for shape in SHAPES if set(shape.partition_columns) == {"dt"}}

    @cache
    def make(table_type: str) -> Copies:
        shape = shapes[table_type]
        made = bootstrap_shape(session, shape, tmp_path_factory.mktemp(table_type.lower()))
        name = f"oracle.{shape.name}"
        _write_history(lambda text: session.sql(text.format(t=name)), table_type)
        saved = f"{made.path}_saved"
        shutil.copytree(made.path, saved)
        return Copies(session, oracle_015, name, made.path, saved)

    return make


def _clean(table: HudiTable) -> Instant:
    return next(each for each in reversed(table.timeline.instants) if each.action == CLEAN)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("table_type", "options"),
    parameters(CLEANED, in_ci=[("MERGE_ON_READ", KEEP_TWO)]),
)
def test_both_delete_the_same_files(
    history: Callable[[str], Copies], table_type: str, options: CleanOptions
) -> None:
    copies = history(table_type)
    table = copies.restore()
    before = copies.data_files()
    copies.clean_by_hudi(options)
    theirs = copies.open()
    plan, metadata = read_clean_plan(theirs, _clean(theirs)), read_clean_metadata(theirs, _clean(theirs))
    left = copies.data_files()
    assert left < before
    # Its plan as it was before it ran, then run by hudisql.
    instant = _clean(theirs).in_state(InstantState.INFLIGHT)
    kept = {state: Path(theirs.instant_path(instant.in_state(state))).read_bytes() for state in PENDING}
    table = copies.restore()
    for state, content in kept.items():
        Path(table.instant_path(instant.in_state(state))).write_bytes(content)
    again = run_clean(table.reopened(), instant, SINGLE_WRITER)
    assert metadata is not None
    assert again is not None
    assert copies.data_files() == left
    assert {each.partition_path: _names(each) for each in again.partitions} == {
        each.partition_path: _names(each) for each in metadata.partitions
    }
    copies.check_rows()
    # hudisql's own plan of the same table, run by Apache Hudi.
    table = copies.restore()
    requested = schedule_clean(table, options, SINGLE_WRITER)
    assert requested is not None
    ours = read_clean_plan(table, requested)
    assert {path: set(files) for path, files in ours.files.items()} == {
        path: set(files) for path, files in plan.files.items()
    }
    assert set(ours.partitions_to_delete) == set(plan.partitions_to_delete)
    assert (ours.earliest_retained, ours.last_completed, ours.policy, ours.extra_metadata, ours.version) == (
        plan.earliest_retained,
        plan.last_completed,
        plan.policy,
        plan.extra_metadata,
        plan.version,
    )
    copies.call_hudi("schedule_in_line=>false")
    assert copies.data_files() == left
    assert copies.open().timeline.pending_compactions == table.timeline.pending_compactions
    assert _clean(copies.open()).is_completed
    copies.check_rows()


def _names(partition: Any) -> tuple[Any, ...]:
    return (
        partition.policy,
        set(partition.patterns),
        set(partition.deleted),
        set(partition.failed),
        partition.is_partition_deleted,
    )


@pytest.mark.soak
def test_source_files_go_as_apache_hudi_deletes_them(
    oracle_015: HudiOracle, oracle_120: HudiOracle, session: Any, tmp_path: Path
) -> None:
    shape = next(each for each in SHAPES if each.name == "partitioned")
    made = bootstrap_shape(session, shape, tmp_path, table="oracle.with_sources")
    for number in (1, 2, 3):
        session.sql(f"UPDATE oracle.with_sources SET note = '{number}' WHERE dt <> '2024-03-03'")
    saved, source = f"{made.path}_saved", Path(made.source)
    shutil.copytree(made.path, saved)
    shutil.copytree(source, tmp_path / "kept", copy_function=shutil.copy2)
    copies = Copies(session, oracle_015, "oracle.with_sources", made.path, saved)
    setting = "options => 'hoodie.cleaner.delete.bootstrap.base.file=true'"
    copies.call_hudi(f"retain_commits=>1, {setting}")
    theirs = copies.open()
    plan, metadata = read_clean_plan(theirs, _clean(theirs)), read_clean_metadata(theirs, _clean(theirs))
    left = {path.relative_to(source) for path in source.rglob("*.parquet")}
    assert {path.parent.name for path in left} == {"dt=2024-03-03"}
    # The same by hudisql.
    copies.restore()
    shutil.rmtree(source)
    shutil.copytree(tmp_path / "kept", source, copy_function=shutil.copy2)
    session.sql(
        f"CALL run_clean(table => 'oracle.with_sources', retain_commits => 1, {setting}, "
        "confirm_source_deletion => true)"
    )
    table = copies.open()
    ours, done = read_clean_plan(table, _clean(table)), read_clean_metadata(table, _clean(table))
    assert metadata is not None
    assert done is not None
    assert {path.relative_to(source) for path in source.rglob("*.parquet")} == left
    assert {path: set(files) for path, files in ours.files.items()} == {
        path: set(files) for path, files in plan.files.items()
    }
    assert {each.partition_path: _names(each) for each in done.sources} == {
        each.partition_path: _names(each) for each in metadata.sources
    }
    assert done.files_deleted == metadata.files_deleted
    copies.check_rows()
    # Both versions of Apache Hudi write on.
    rows = shape.expected_rows()
    for oracle in (oracle_015, oracle_120):
        oracle.upsert(rows, made.path, {**shape.write_options(), "hoodie.table.name": "with_sources"})
        assert_same_rows(
            session.sql("SELECT * FROM oracle.with_sources").arrow(), oracle.read(made.path), sort_by=["seq"]
        )


@pytest.mark.soak
@pytest.mark.parametrize("version", [6, 9])
def test_apache_hudi_alone_deletes_a_dropped_partition_that_a_savepoint_names(
    request: pytest.FixtureRequest, version: int, tmp_path: Path
) -> None:
    """A fault of Apache Hudi's own: hudisql has no part in this table."""
    hudi: HudiOracle = request.getfixturevalue("oracle_015" if version == 6 else "oracle_120")
    path = str(tmp_path / "table")
    options = {
        "hoodie.table.name": "saved",
        "hoodie.write.table.version": str(version),
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.partitionpath.field": "dt",
        "hoodie.clean.automatic": "false",
    }
    rows = pa.table({"id": [1, 2], "note": ["a", "b"], "ts": [1, 1], "dt": ["a", "b"]})
    hudi.upsert(rows, path, options)
    (saved,) = (commit.timestamp for commit in open_table(Storage(), path).timeline.commits)
    with hudi.settings({"hoodie.metadata.enable": "false"}):
        hudi.sql(f"CALL create_savepoint(path => '{path}', commit_time => '{saved}')")
    assert sorted(read_savepoint(open_table(Storage(), path), saved).files) == ["a", "b"]
    dropped = {
        "hoodie.datasource.write.operation": "delete_partition",
        "hoodie.datasource.write.partitions.to.delete": "a",
    }
    hudi.write(rows.slice(0, 1), path, {**options, **dropped})
    for _ in range(2):
        hudi.upsert(rows.slice(1), path, options)
    assert Path(path, "a").exists()
    cleans = {"hoodie.clean.automatic": "true", "hoodie.cleaner.commits.retained": "1"}
    hudi.upsert(rows.slice(1), path, {**options, **cleans})
    assert not Path(path, "a").exists()
