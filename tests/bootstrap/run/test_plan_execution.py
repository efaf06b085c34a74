"""What a bootstrap leaves behind when something goes wrong on the way: nothing of its own."""

import json
import os
import shutil
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.bootstrap.lease.target_lease import acquire_lease
from hudisql.bootstrap.lease.target_state import LeaseRecord
from hudisql.bootstrap.run import plan_execution as run
from hudisql.bootstrap.run import skeleton_tasks, table_files
from hudisql.bootstrap.run.plan_execution import run_bootstrap
from hudisql.bootstrap.source.hive_source import SourceProtection
from hudisql.errors import (
    BootstrapBlockedError,
    HudisqlError,
    SourceChangedError,
    StorageError,
    TableExistsError,
)
from hudisql.format.hfile.bootstrap_index import read_bootstrap_mappings
from hudisql.format.metadata_table.metadata_records import COLUMN_STATS, FILES, PARTITION_STATS, RECORD_INDEX
from hudisql.format.schema.meta_columns import COMMIT_TIME, META_COLUMNS, PARTITION_PATH, RECORD_KEY
from hudisql.format.timeline.commit_metadata import parse_commit_metadata
from hudisql.storage import Storage
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import open_table
from hudisql.table.metadata_table.kept_metadata_table import find_kept
from hudisql.write.metadata_table import column_ranges
from tests.bootstrap.plans import plan_of
from tests.file_slices import base_file_path, external_file_path
from tests.opened import open_at, open_kept
from tests.write.metadata_table.test_kept_metadata_table import assert_kept

pytestmark = pytest.mark.spark


def test_sequence_numbers_file_ids_and_row_groups_are_the_files_own(context, source, tmp_path):
    run_bootstrap(context, plan_of(context, source, tmp_path / "t"))
    slices = load_file_slices(open_at(tmp_path / "t"))
    assert len({each.file_id for each in slices}) == 4
    sequence_numbers = set()
    for each in slices:
        skeleton = pq.read_metadata(base_file_path(each))
        external = pq.read_metadata(external_file_path(each))
        assert [skeleton.row_group(i).num_rows for i in range(skeleton.num_row_groups)] == [
            external.row_group(i).num_rows for i in range(external.num_row_groups)
        ]
        table = pq.read_table(base_file_path(each), partitioning=None)
        sequence_numbers |= set(table["_hoodie_commit_seqno"].to_pylist())
    assert len(sequence_numbers) == 20


def test_the_commit_tells_every_skeleton_and_the_schema(context, source, tmp_path):
    run_bootstrap(context, plan_of(context, source, tmp_path / "t"))
    commit = parse_commit_metadata((tmp_path / "t/.hoodie/00000000000001.commit").read_bytes())
    assert commit.operation_type == "BOOTSTRAP"
    stats = list(commit.write_stats)
    assert len(stats) == 4
    for stat in stats:
        assert (stat.num_writes, stat.num_inserts, stat.prev_commit) == (5, 5, "null")
        assert (
            (tmp_path / "t" / stat.path).stat().st_size == stat.file_size_in_bytes == stat.total_write_bytes
        )
    assert [field["name"] for field in json.loads(commit.schema)["fields"]] == ["id", "dt"]


def test_a_blocked_plan_is_not_run(context, source, tmp_path):
    plan = plan_of(context, source, tmp_path / "t", record_key=("nope",))
    with pytest.raises(BootstrapBlockedError):
        run_bootstrap(context, plan)
    assert not (tmp_path / "t").exists()


def test_a_column_that_a_file_holds_twice_is_a_blocker(context, tmp_path):
    (tmp_path / "s").mkdir()
    pq.write_table(pa.table([[1], [2]], names=["id", "id"]), tmp_path / "s" / "a.parquet")
    plan = plan_of(context, tmp_path / "s", tmp_path / "t")
    assert any("2 columns: id, id" in finding.message for finding in plan.blockers)


def test_a_source_that_changed_since_the_plan_stops_the_run_and_leaves_nothing(context, source, tmp_path):
    target = tmp_path / "new" / "directories" / "t"
    plan = plan_of(context, source, target)
    path = source / "dt=0" / "part-0.parquet"
    pq.write_table(pa.table({"id": pa.array(range(9), pa.int64())}), path)
    with pytest.raises(SourceChangedError, match=r"part-0\.parquet changed"):
        run_bootstrap(context, plan)
    assert not (tmp_path / "new").exists()
    plan = plan_of(context, source, target)
    path.unlink()
    with pytest.raises(SourceChangedError, match="was removed"):
        run_bootstrap(context, plan)
    assert not (tmp_path / "new").exists()


def test_a_source_file_touched_while_skeletons_were_written_stops_the_run(
    context, source, tmp_path, monkeypatch
):
    write = run._write_skeletons

    def write_and_touch(*arguments):
        written = write(*arguments)
        os.utime(source / "dt=1" / "part-2.parquet", (1, 1))
        return written

    monkeypatch.setattr(run, "_write_skeletons", write_and_touch)
    with pytest.raises(SourceChangedError, match=r"changed while it was bootstrapped: 1 file: .*part-2"):
        run_bootstrap(context, plan_of(context, source, tmp_path / "t"))
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("came", "told"),
    [
        (["dt=1/part-9.parquet"], r"files were added to the source .*: 1 file: .*dt=1/part-9\.parquet"),
        (["dt=2/part-0.parquet"], r"files were added to the source .*: 1 file: .*dt=2/part-0\.parquet"),
        # Not chosen, hidden and empty files.
        (
            ["dt=7/part-0.parquet", "dt=1/_part-9.parquet", "_temporary/dt=2/part-0.parquet", "dt=2/empty"],
            None,
        ),
    ],
)
def test_files_that_come_into_the_source_meanwhile_stop_the_run_if_they_belong_to_it(
    context, source, tmp_path, monkeypatch, came, told
):
    write = run._write_skeletons

    def write_and_let_come(*arguments):
        written = write(*arguments)
        for path in (source / each for each in came):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"" if path.name == "empty" else b"rows")
        return written

    monkeypatch.setattr(run, "_write_skeletons", write_and_let_come)
    plan = plan_of(context, source, tmp_path / "t", partition_filter="dt < '7'")
    if told is None:
        run_bootstrap(context, plan)
        assert (tmp_path / "t" / ".hoodie" / "hoodie.properties").exists()
        return
    with pytest.raises(SourceChangedError, match=told):
        run_bootstrap(context, plan)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("step", ["write_bootstrap_index", "avro_from_arrow"])
def test_a_failure_after_the_skeletons_leaves_an_existing_empty_directory_empty(
    context, source, tmp_path, monkeypatch, step
):
    (tmp_path / "t").mkdir()

    def fail(*_arguments):
        raise StorageError("disk full")

    monkeypatch.setattr(table_files, step, fail)
    with pytest.raises(StorageError, match="disk full"):
        run_bootstrap(context, plan_of(context, source, tmp_path / "t"))
    assert list((tmp_path / "t").iterdir()) == []


def test_an_interrupt_removes_what_was_made_of_a_table_without_partitions(context, tmp_path, monkeypatch):
    (tmp_path / "s").mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "s" / "a.parquet")
    plan = plan_of(context, tmp_path / "s", tmp_path / "t")

    def interrupt(*_arguments):
        assert len(list((tmp_path / "t").glob("*.parquet"))) == 1
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "write_table_files", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_bootstrap(context, plan)
    assert not (tmp_path / "t").exists()
    assert (tmp_path / "s" / "a.parquet").exists()


def test_no_reader_sees_the_table_before_its_properties_are_there(context, source, tmp_path, monkeypatch):
    plan = plan_of(context, source, tmp_path / "t")

    def look_first(storage, planned, now):
        with pytest.raises(HudisqlError, match="no Hudi table"):
            open_table(storage, planned.target_path)
        # Until the table is there, no other run may take the directory.
        assert (tmp_path / "t/.hoodie/.hudisql-bootstrap").exists()
        return table_files.publish_table(storage, planned, now)

    monkeypatch.setattr(run, "publish_table", look_first)
    run_bootstrap(context, plan)
    assert not (tmp_path / "t/.hoodie/.hudisql-bootstrap").exists()
    assert open_at(tmp_path / "t").name == "t"


def test_a_run_of_version_9_that_failed_before_its_properties_is_resumed(
    context, source, tmp_path, monkeypatch
):
    plan = plan_of(context, source, tmp_path / "t", table_version=9, resume=True)

    def fail(*_arguments):
        raise StorageError("disk full")

    with monkeypatch.context() as patched:
        patched.setattr(run, "publish_table", fail)
        with pytest.raises(StorageError, match="disk full"):
            run_bootstrap(context, plan)
    assert len(list((tmp_path / "t/.hoodie/timeline").glob("0*.commit"))) == 1
    assert run_bootstrap(context, plan).resumed_files > 0
    table = open_at(tmp_path / "t")
    (commit,) = table.timeline.commits
    assert (table.version, commit.timestamp) == (9, "00000000000001")
    assert commit.completion_time > commit.timestamp


@pytest.mark.parametrize(
    ("is_repeated", "indexes"),
    [
        (False, (COLUMN_STATS, FILES, PARTITION_STATS, RECORD_INDEX)),
        (True, (COLUMN_STATS, FILES, PARTITION_STATS)),
    ],
)
def test_a_record_index_is_made_with_the_table_unless_rows_share_a_key(
    context, source, tmp_path, is_repeated, indexes
):
    if is_repeated:
        shutil.copytree(source / "dt=0", source / "dt=9")
    plan = plan_of(context, source, tmp_path / "t", table_version=9, indexes=frozenset({RECORD_INDEX}))
    run_bootstrap(context, plan)
    assert open_kept(tmp_path / "t").indexes == indexes


@pytest.mark.parametrize(
    ("named", "indexes"),
    [
        ((), None),
        ((COLUMN_STATS,), (COLUMN_STATS, FILES)),
        ((RECORD_INDEX,), (COLUMN_STATS, FILES, RECORD_INDEX)),
    ],
)
def test_in_version_6_a_metadata_table_is_made_on_request(context, source, tmp_path, named, indexes):
    run_bootstrap(context, plan_of(context, source, tmp_path / "t", indexes=frozenset(named)))
    metadata = find_kept(open_at(tmp_path / "t"))
    assert indexes == (None if metadata is None else metadata.indexes)
    assert metadata is None or metadata.has_statistics_of_sources


def test_attempts_that_go_on_once_the_files_were_looked_through_add_none(
    context, source, tmp_path, monkeypatch
):
    plan = plan_of(context, source, tmp_path / "t")
    attempts, begun = [], []

    def plan_skeletons(storage, plan, lease):
        work = skeleton_tasks.plan_skeletons(storage, plan, lease)
        attempts.append(partial(skeleton_tasks.write_skeleton_partition, storage, lease, work.tasks))
        # This one has begun: its first skeleton is written, and it goes on later.
        begun.append(attempts[0]())
        next(begun[0])
        return work

    def late(_context, _plan):
        for attempt in (begun[0], attempts[0]()):
            with pytest.raises(StorageError, match="a task outlived its run, its files were"):
                list(attempt)

    monkeypatch.setattr(run, "plan_skeletons", plan_skeletons)
    monkeypatch.setattr(run, "_check_source_unchanged", late)
    run_bootstrap(context, plan)
    table = open_at(tmp_path / "t")
    visible = {base_file_path(each) for each in load_file_slices(table)}
    assert visible == {str(path) for path in (tmp_path / "t").rglob("*.parquet")}
    assert len(visible) == 4
    assert not list((tmp_path / "t/.hoodie").glob(".hudisql-bootstrap*"))


def test_a_run_that_is_taken_over_while_it_publishes_withdraws(context, source, tmp_path, monkeypatch):
    def take_over_first(*arguments):
        # As if this run had been silent for long: the other one looks for a table before it is there.
        monkeypatch.setattr(LeaseRecord, "is_expired", property(lambda _: True))
        acquire_lease(Storage(), str(tmp_path / "t"), "db.t", takes_over=True)
        return table_files.publish_table(*arguments)

    monkeypatch.setattr(run, "publish_table", take_over_first)
    with pytest.raises(TableExistsError, match="took over"):
        run_bootstrap(context, plan_of(context, source, tmp_path / "t"))
    assert not (tmp_path / "t/.hoodie/hoodie.properties").exists()
    assert (tmp_path / "t/.hoodie/.hudisql-bootstrap-1").exists()


def test_of_two_runs_into_one_directory_the_second_stops_and_harms_nothing(context, source, tmp_path):
    plan = plan_of(context, source, tmp_path / "t")
    (tmp_path / "t" / ".hoodie").mkdir(parents=True)
    lease = tmp_path / "t" / ".hoodie" / ".hudisql-bootstrap"
    lease.write_text("another run's")
    with pytest.raises(TableExistsError, match="another bootstrap is writing"):
        run_bootstrap(context, plan)
    assert lease.read_text() == "another run's"
    with pytest.raises(BootstrapBlockedError, match="did not finish"):
        run_bootstrap(context, plan_of(context, source, tmp_path / "t"))


def test_a_table_that_came_into_the_target_after_the_plan_is_not_touched(context, source, tmp_path):
    late = plan_of(context, source, tmp_path / "t")
    run_bootstrap(context, plan_of(context, source, tmp_path / "t"))
    before = {path: path.read_bytes() for path in (tmp_path / "t").rglob("*") if path.is_file()}
    with pytest.raises(TableExistsError, match="was empty when the bootstrap was planned"):
        run_bootstrap(context, late)
    assert {path: path.read_bytes() for path in (tmp_path / "t").rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, StorageError("disk full")])
def test_a_failure_removes_only_what_the_run_made(context, source, tmp_path, monkeypatch, error):
    foreign = tmp_path / "t" / "dt=0" / "of-someone-else"

    def fail(*_arguments):
        foreign.write_text("kept")
        raise error

    monkeypatch.setattr(run, "write_table_files", fail)
    with pytest.raises(error if isinstance(error, type) else StorageError):
        run_bootstrap(context, plan_of(context, source, tmp_path / "t"))
    assert [path for path in (tmp_path / "t").rglob("*") if path.is_file()] == [foreign]


def test_a_table_that_another_writer_made_meanwhile_keeps_its_timeline(
    context, source, tmp_path, monkeypatch
):
    properties = tmp_path / "t" / ".hoodie" / "hoodie.properties"

    def publish_behind_another(*arguments):
        properties.write_text("another's")
        return table_files.publish_table(*arguments)

    monkeypatch.setattr(run, "publish_table", publish_behind_another)
    with pytest.raises(StorageError, match=r"hoodie\.properties exists already"):
        run_bootstrap(context, plan_of(context, source, tmp_path / "t"))
    assert properties.read_text() == "another's"
    assert not list((tmp_path / "t").rglob("*.parquet"))
    assert not list((tmp_path / "t").rglob(".hoodie_partition_metadata"))


def test_the_source_is_protected_only_once_all_else_is_done(context, source, tmp_path, monkeypatch):
    protection = SourceProtection("db", "source", (("EXTERNAL", "TRUE"),))
    plan = replace(plan_of(context, source, tmp_path / "t"), protection=protection)
    done = []

    def protect(*_arguments):
        done.append((tmp_path / "t/.hoodie/00000000000001.commit").exists())

    def fail(*_arguments):
        raise StorageError("disk full")

    monkeypatch.setattr(run, "_protect_source", protect)
    with monkeypatch.context() as patched:
        patched.setattr(run, "_check_written", fail)
        with pytest.raises(StorageError, match="disk full"):
            run_bootstrap(context, plan)
    assert done == []
    run_bootstrap(context, plan)
    assert done == [True]


def test_an_interrupt_after_the_table_is_published_leaves_the_whole_table(
    context, source, tmp_path, monkeypatch
):
    def publish_and_interrupt(*arguments):
        table_files.publish_table(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "publish_table", publish_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_bootstrap(context, plan_of(context, source, tmp_path / "t"))
    assert len(load_file_slices(open_at(tmp_path / "t"))) == 4
    assert not (tmp_path / "t/.hoodie/.hudisql-bootstrap").exists()


def test_files_without_rows_get_skeletons_without_rows(context, source, tmp_path):
    pq.write_table(pa.table({"id": pa.array([], pa.int64())}), source / "dt=1" / "none.parquet")
    result = run_bootstrap(context, plan_of(context, source, tmp_path / "t"))
    assert [(each.files, each.rows) for each in result.partitions] == [(2, 10), (3, 10)]


@pytest.mark.soak
def test_three_thousand_files_make_an_index_of_many_blocks(context, tmp_path):
    pq.write_table(pa.table({"id": ["a", "b"]}), tmp_path / "one.parquet")
    content = (tmp_path / "one.parquet").read_bytes()
    for number in range(3000):
        path = tmp_path / "s" / f"dt={number % 300:03d}" / f"part-{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    result = run_bootstrap(context, plan_of(context, tmp_path / "s", tmp_path / "t", key_check="nulls"))
    assert sum(partition.files for partition in result.partitions) == 3000
    mappings = list(read_bootstrap_mappings(Storage(), str(tmp_path / "t")))
    assert len({mapping.external_file.path for mapping in mappings}) == 3000
    only = list(read_bootstrap_mappings(Storage(), str(tmp_path / "t"), ["dt=123"]))
    assert {mapping.partition_path for mapping in only} == {"dt=123"}
    assert len(only) == 10


def test_files_of_attempts_that_lost_are_removed_before_the_commit(context, source, tmp_path, monkeypatch):
    write = run._write_skeletons

    def write_and_lose(*arguments):
        written = write(*arguments)
        for skeleton in written:
            directory, name = skeleton.result.path.rsplit("/", 1)
            file_id, token, instant = name.split("_")
            (tmp_path / "t" / directory / f"{file_id}_{token}99_{instant}").write_bytes(b"cut short")
        return written

    monkeypatch.setattr(run, "_write_skeletons", write_and_lose)
    run_bootstrap(context, plan_of(context, source, tmp_path / "t"))
    commit = parse_commit_metadata((tmp_path / "t/.hoodie/00000000000001.commit").read_bytes())
    named = sorted(stat.path for stat in commit.write_stats)
    assert named == sorted(
        str(path.relative_to(tmp_path / "t")) for path in (tmp_path / "t").rglob("*.parquet")
    )
    assert len(named) == 4


def test_the_driver_asks_the_store_by_partition_and_not_by_file(context, source, tmp_path, monkeypatch):
    asked = 0
    find = Storage._file_system

    def counted(self, path):
        nonlocal asked
        # Locks of earlier tests may still be renewed elsewhere.
        asked += path.startswith(str(tmp_path))
        return find(self, path)

    monkeypatch.setattr(Storage, "_file_system", counted)
    costs = []
    for target in ("few", "many"):
        plan = plan_of(context, source, tmp_path / target)
        asked = 0
        run_bootstrap(context, plan)
        costs.append(asked)
        for number in range(4, 40):
            path = source / f"dt={number % 2}" / f"part-{number}.parquet"
            pq.write_table(pa.table({"id": pa.array([number * 100], pa.int64())}), path)
    assert len(plan.partitions) == 2
    assert sum(len(partition.files) for partition in plan.partitions) == 40
    assert costs[0] == costs[1]


@pytest.mark.parametrize(
    ("table_version", "indexes", "measured"),
    [
        (6, (), (RECORD_KEY,)),
        (6, (COLUMN_STATS,), META_COLUMNS),
        (9, (), (COMMIT_TIME, RECORD_KEY, PARTITION_PATH)),
    ],
)
def test_footers_of_skeletons_tell_what_the_metadata_table_has_of_them(
    context, source, tmp_path, monkeypatch, table_version, indexes, measured
):
    # Without them the rows of each skeleton are read again.
    monkeypatch.setattr(column_ranges, "_ranges_of_rows", None)
    plan = plan_of(context, source, tmp_path / "t", table_version=table_version, indexes=frozenset(indexes))
    run_bootstrap(context, plan)
    table = open_at(tmp_path / "t")
    for each in load_file_slices(table):
        group = pq.read_metadata(base_file_path(each)).row_group(0)
        columns = [group.column(number) for number in range(group.num_columns)]
        assert {column.path_in_schema for column in columns if column.is_stats_set} == {*measured}
    if plan.request.has_metadata_table:
        assert_kept(str(tmp_path / "t"))
