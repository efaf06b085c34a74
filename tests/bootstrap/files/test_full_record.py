"""Full-record partitions: what is written, by which path, and that nothing half done is ever seen."""

import hashlib
import json
import os
from datetime import UTC, date, datetime
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.bootstrap.lease.target_lease import Lease, acquire_lease
from hudisql.bootstrap.plan.bootstrap_mode import BootstrapMode, ModeChoice, UnsafeTypePolicy
from hudisql.bootstrap.plan.bootstrap_plan import plan_bootstrap
from hudisql.bootstrap.plan.request import BootstrapRequest, apply_options
from hudisql.bootstrap.run import full_record_tasks, table_files
from hudisql.bootstrap.run import plan_execution as run
from hudisql.bootstrap.run.plan_execution import run_bootstrap
from hudisql.errors import BootstrapBlockedError, HudisqlError, SourceChangedError, StorageError
from hudisql.format.keys.bloom_filter import parse_bloom_filter
from hudisql.format.timeline.commit_metadata import parse_commit_metadata
from hudisql.storage import Storage
from hudisql.table.files.snapshot import load_file_slices
from tests.bootstrap.plans import plan_of
from tests.file_slices import base_file_path
from tests.opened import open_at

pytestmark = pytest.mark.spark

FULL = ModeChoice(BootstrapMode.FULL_RECORD)
MIXED = ModeChoice(where="dt = '1'")


def _plan(context, source, target, mode=FULL, **changes):
    return plan_of(context, source, target, mode=mode, **changes)


def _read(target):
    slices = load_file_slices(open_at(target))
    files = [base_file_path(each) for each in slices if not each.is_bootstrapped]
    return pa.concat_tables([pq.read_table(path, partitioning=None) for path in files])


def _write(path, table, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **options)
    return path


def test_partitions_of_both_kinds_make_two_commits_like_hudis(context, source, tmp_path):
    result = run_bootstrap(context, _plan(context, source, tmp_path / "t", MIXED))
    assert [(each.path, each.mode.value, each.rows) for each in result.partitions] == [
        ("dt=0", "metadata_only", 10),
        ("dt=1", "full_record", 10),
    ]
    timeline = tmp_path / "t" / ".hoodie"
    commits = {
        number: parse_commit_metadata((timeline / f"0000000000000{number}.commit").read_bytes())
        for number in (1, 2)
    }
    assert (commits[1].operation_type, commits[2].operation_type) == ("BOOTSTRAP", "BULK_INSERT")
    assert list(commits[1].partition_to_write_stats) == ["dt=0"]
    assert list(commits[2].partition_to_write_stats) == ["dt=1"]
    assert commits[1].schema == commits[2].schema
    (stat,) = commits[2].write_stats
    assert (stat.num_writes, stat.num_inserts, stat.prev_commit) == (10, 10, "null")
    assert (tmp_path / "t" / stat.path).stat().st_size == stat.file_size_in_bytes == stat.total_write_bytes
    for name in ("00000000000002.commit.requested", "00000000000002.inflight"):
        assert (timeline / name).read_bytes() == b""
    for partition, instant in (("dt=0", "00000000000001"), ("dt=1", "00000000000002")):
        text = (tmp_path / "t" / partition / ".hoodie_partition_metadata").read_text()
        assert f"commitTime={instant}" in text


def test_a_table_without_skeletons_has_neither_index_nor_first_commit(context, source, tmp_path):
    run_bootstrap(context, _plan(context, source, tmp_path / "t"))
    assert not (tmp_path / "t/.hoodie/.aux/.bootstrap").exists()
    assert not (tmp_path / "t/.hoodie/00000000000001.commit").exists()
    assert _read(tmp_path / "t").num_rows == 20


def test_footers_tell_keys_filter_and_schema_and_rows_their_meta_columns(context, source, tmp_path):
    run_bootstrap(context, _plan(context, source, tmp_path / "t"))
    numbers = set()
    for path in (tmp_path / "t").rglob("*_00000000000002.parquet"):
        table = pq.read_table(path, partitioning=None)
        footer = pq.read_metadata(path).metadata
        keys = table["_hoodie_record_key"].to_pylist()
        assert keys == [str(number) for number in table["id"].to_pylist()]
        assert (footer[b"hoodie_min_record_key"].decode(), footer[b"hoodie_max_record_key"].decode()) == (
            min(keys),
            max(keys),
        )
        assert footer[b"hoodie_bloom_filter_type_code"] == b"DYNAMIC_V0"
        bloom_filter = parse_bloom_filter(footer[b"org.apache.hudi.bloomfilter"])
        assert bloom_filter.might_contain(table["_hoodie_record_key"]).all()
        assert not bloom_filter.might_contain(pa.array(["another", "more"])).any()
        fields = [field["name"] for field in json.loads(footer[b"parquet.avro.schema"])["fields"]]
        assert fields == table.column_names
        assert set(table["_hoodie_file_name"].to_pylist()) == {path.name}
        assert set(table["_hoodie_partition_path"].to_pylist()) == {path.parent.name}
        assert set(table["dt"].to_pylist()) == {path.parent.name[3:]}
        numbers |= set(table["_hoodie_commit_seqno"].to_pylist())
    assert len(numbers) == 20


def test_files_are_sized_and_large_sources_shared_by_tasks(context, tmp_path):
    texts = [hashlib.sha256(b"%d" % n).hexdigest() for n in range(40_000)]
    rows = pa.table({"id": pa.array(range(40_000), pa.int64()), "text": texts})
    path = _write(tmp_path / "s" / "a.parquet", rows, row_group_size=4_000)
    limit = 300_000
    plan = _plan(context, tmp_path / "s", tmp_path / "t", max_file_bytes=limit)
    work = full_record_tasks.plan_full_records(plan)
    assert len(work.tasks) == -(-path.stat().st_size // limit)
    run_bootstrap(context, plan)
    files = list((tmp_path / "t").glob("*.parquet"))
    assert len(files) > 3
    # A file's footer with the filter comes on top of what is counted.
    assert max(file.stat().st_size for file in files) < 1.5 * limit
    written = _read(tmp_path / "t")
    assert sorted(written["id"].to_pylist()) == list(range(40_000))
    assert len(set(written["_hoodie_commit_seqno"].to_pylist())) == 40_000


def test_small_source_files_of_a_partition_become_one(context, tmp_path):
    for number in range(30):
        _write(tmp_path / "s" / f"dt={number % 2}" / f"{number}.parquet", pa.table({"id": [number]}))
    run_bootstrap(context, _plan(context, tmp_path / "s", tmp_path / "t"))
    assert [len(list((tmp_path / "t" / each).glob("*.parquet"))) for each in ("dt=0", "dt=1")] == [1, 1]
    assert sorted(_read(tmp_path / "t")["id"].to_pylist()) == list(range(30))


def test_partitions_without_rows_are_there_but_hold_no_files(context, source, tmp_path):
    _write(source / "dt=9" / "empty.parquet", pa.table({"id": pa.array([], pa.int64())}))
    run_bootstrap(context, _plan(context, source, tmp_path / "t"))
    assert [path.name for path in (tmp_path / "t" / "dt=9").iterdir()] == [".hoodie_partition_metadata"]


@pytest.mark.parametrize("sort_mode", ["GLOBAL_SORT", "PARTITION_SORT"])
def test_sorted_rows_are_the_same_rows(context, tmp_path, sort_mode):
    ids = [(n * 7919) % 1000 for n in range(1000)]
    for number in range(4):
        part = pa.table({"id": [f"k{n:04d}" for n in ids[number * 250 : number * 250 + 250]]})
        _write(tmp_path / "s" / f"dt={number % 2}" / f"{number}.parquet", part)
    plan = _plan(context, tmp_path / "s", tmp_path / "t", sort_mode=sort_mode, max_file_bytes=10_000)
    run_bootstrap(context, plan)
    written = _read(tmp_path / "t")
    assert sorted(written["id"].to_pylist()) == [f"k{n:04d}" for n in range(1000)]
    assert len(set(written["_hoodie_commit_seqno"].to_pylist())) == 1000
    ranges = []
    for path in (tmp_path / "t").rglob("*.parquet"):
        keys = pq.read_table(path, partitioning=None)["_hoodie_record_key"].to_pylist()
        assert keys == sorted(keys)
        ranges.append((path.parent.name, keys[0], keys[-1]))
    if sort_mode == "GLOBAL_SORT":
        ordered = sorted(ranges)
        assert all(one[2] < other[1] for one, other in pairwise(ordered) if one[0] == other[0])


@pytest.mark.parametrize("stored", ["INT96", "TIMESTAMP_MICROS"])
@pytest.mark.parametrize("mode", ["LEGACY", "CORRECTED"])
def test_dates_of_both_calendars_come_out_as_spark_reads_them(context, tmp_path, stored, mode):
    settings = {
        "spark.sql.parquet.outputTimestampType": stored,
        "spark.sql.parquet.datetimeRebaseModeInWrite": mode,
        "spark.sql.parquet.int96RebaseModeInWrite": mode,
    }
    spark = context.spark
    before = {name: spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        frame = spark.sql(
            "SELECT 'a' id, date'1500-01-01' d, timestamp'1500-01-01 01:02:03.456789' t"
            " UNION ALL SELECT 'b', date'0001-01-01', timestamp'0001-01-01 00:00:00'"
            " UNION ALL SELECT 'c', date'9999-12-31', timestamp'9999-12-31 23:59:59.999999'"
            " UNION ALL SELECT 'd', null, null"
        )
        frame.coalesce(1).write.parquet(str(tmp_path / "s" / "dt=1"))
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    plan = _plan(context, tmp_path / "s", tmp_path / "t")
    # The plain path and the one by Spark's reader both take part, and must agree.
    assert bool(full_record_tasks.plan_full_records(plan).by_spark.tasks) is (mode == "LEGACY")
    run_bootstrap(context, plan)
    written = _read(tmp_path / "t").sort_by("id")
    assert written["d"].to_pylist() == [date(1500, 1, 1), date(1, 1, 1), date(9999, 12, 31), None]
    assert written["t"].to_pylist() == [
        datetime(1500, 1, 1, 1, 2, 3, 456789, UTC),
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
        None,
    ]


def test_unsafe_types_are_mended_in_just_their_partitions(context, tmp_path):
    prices = pa.array([125, 250], pa.int32()).cast(pa.decimal128(12, 2))
    rows = pa.table({"id": ["a", "b"], "price": prices})
    _write(tmp_path / "s" / "dt=1" / "a.parquet", rows, store_decimal_as_integer=True)
    _write(tmp_path / "s" / "dt=2" / "a.parquet", rows)
    plan = _plan(
        context,
        tmp_path / "s",
        tmp_path / "t",
        ModeChoice(),
        on_unsafe_type=UnsafeTypePolicy.FULL_RECORD,
    )
    assert [each.mode.value for each in plan.partitions] == ["full_record", "metadata_only"]
    run_bootstrap(context, plan)
    (path,) = (tmp_path / "t" / "dt=1").glob("*.parquet")
    schema = pq.ParquetFile(path).schema
    (price,) = [schema.column(n) for n in range(len(schema)) if schema.column(n).name == "price"]
    assert (price.physical_type, price.length) == ("FIXED_LEN_BYTE_ARRAY", 6)
    assert _read(tmp_path / "t")["price"].to_pylist() == prices.to_pylist()


def test_null_keys_name_source_file_and_row(context, tmp_path):
    path = _write(tmp_path / "s" / "dt=1" / "a.parquet", pa.table({"id": ["a", None, "c", ""]}))
    plan = _plan(context, tmp_path / "s", tmp_path / "t")
    # The footer's statistics would stop it already.
    plan = type(plan)(**{**plan.__dict__, "findings": ()})
    with pytest.raises(BootstrapBlockedError) as raised:
        run_bootstrap(context, plan)
    assert raised.value.blockers == (f"2 in partition 'dt=1', such as row 1 of {path}, row 3 of {path}",)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("sort_mode", ["NONE", "GLOBAL_SORT"])
def test_repeated_keys_name_the_source_files(context, tmp_path, sort_mode):
    one = _write(tmp_path / "s" / "dt=1" / "a.parquet", pa.table({"id": ["a", "b", "c"]}))
    other = _write(tmp_path / "s" / "dt=1" / "b.parquet", pa.table({"id": ["d", "b"]}))
    with pytest.raises(BootstrapBlockedError) as raised:
        run_bootstrap(context, _plan(context, tmp_path / "s", tmp_path / "t", sort_mode=sort_mode))
    (text,) = raised.value.blockers
    if sort_mode == "NONE":
        assert text == f"'b' in 2 rows: row 1 of {one} and row 1 of {other}"
    else:
        assert text in (f"'b' in 2 rows: in {one} and {other}", f"'b' in 2 rows: in {other} and {one}")
    assert not (tmp_path / "t").exists()


def test_a_key_in_a_skeleton_and_in_a_rewritten_partition_is_found_too(context, tmp_path):
    one = _write(tmp_path / "s" / "dt=0" / "a.parquet", pa.table({"id": ["a", "b"]}))
    other = _write(tmp_path / "s" / "dt=1" / "a.parquet", pa.table({"id": ["b", "c"]}))
    run_bootstrap(context, _plan(context, tmp_path / "s", tmp_path / "t", MIXED))
    with pytest.raises(BootstrapBlockedError) as raised:
        run_bootstrap(
            context, _plan(context, tmp_path / "s", tmp_path / "u", MIXED, key_check="unique_global")
        )
    assert raised.value.blockers == (f"'b' in 2 rows: row 1 of {one} and row 0 of {other}",)


def test_a_source_that_changes_while_it_is_rewritten_stops_the_run(context, source, tmp_path, monkeypatch):
    rewrite = run.rewrite_partitions

    def rewrite_and_touch(*arguments):
        written = rewrite(*arguments)
        os.utime(source / "dt=1" / "part-2.parquet", (1, 1))
        return written

    monkeypatch.setattr(run, "rewrite_partitions", rewrite_and_touch)
    with pytest.raises(SourceChangedError, match=r"changed while it was bootstrapped: 1 file: .*part-2"):
        run_bootstrap(context, _plan(context, source, tmp_path / "t"))
    assert not (tmp_path / "t").exists()


def test_a_source_that_changed_since_the_plan_stops_the_run(context, source, tmp_path):
    plan = _plan(context, source, tmp_path / "t")
    _write(source / "dt=0" / "part-0.parquet", pa.table({"id": pa.array(range(9), pa.int64())}))
    with pytest.raises(SourceChangedError, match=r"part-0\.parquet changed"):
        run_bootstrap(context, plan)
    assert not (tmp_path / "t").exists()


def test_between_the_two_commits_there_is_no_table(context, source, tmp_path, monkeypatch):
    write_instant = table_files._write_instant
    seen = []

    def die_at_the_second(storage, plan, instant_time, metadata, now):
        if instant_time == "00000000000002":
            # What a killed process would leave here: the first commit is whole.
            assert (tmp_path / "t/.hoodie/00000000000001.commit").exists()
            with pytest.raises(HudisqlError, match="no Hudi table"):
                open_at(tmp_path / "t")
            seen.append(instant_time)
            raise StorageError("killed")
        return write_instant(storage, plan, instant_time, metadata, now)

    monkeypatch.setattr(table_files, "_write_instant", die_at_the_second)
    with pytest.raises(StorageError, match="killed"):
        run_bootstrap(context, _plan(context, source, tmp_path / "t", MIXED))
    assert seen == ["00000000000002"]
    assert not (tmp_path / "t").exists()


def test_files_that_a_second_try_of_a_task_left_are_removed(context, source, tmp_path, monkeypatch):
    run_on_files = full_record_tasks.run_on_files
    orphan = "11111111-0000-0000-0000-000000000000-0_7-0-7_00000000000002.parquet"

    def run_and_leave(*arguments, **options):
        results = run_on_files(*arguments, **options)
        _write(tmp_path / "t" / "dt=1" / orphan, pa.table({"id": [1]}))
        return results

    monkeypatch.setattr(full_record_tasks, "run_on_files", run_and_leave)
    run_bootstrap(context, _plan(context, source, tmp_path / "t", MIXED))
    assert not (tmp_path / "t" / "dt=1" / orphan).exists()
    assert _read(tmp_path / "t").num_rows == 10


def _leaves(path):
    schema = pq.ParquetFile(path).schema
    columns = [schema.column(number) for number in range(len(schema))]
    # Hudi's Avro writer makes 2-level lists, which hold no null elements; ours have three levels.
    return {
        column.path.replace("arr.list.element", "arr.array"): (
            column.physical_type,
            str(column.logical_type),
            column.length,
        )
        for column in columns
    }


def test_a_mixed_bootstrap_is_what_apache_hudi_makes_of_the_same_source(context, golden, tmp_path):
    theirs = golden("cow_bootstrap_mixed")
    plan = _plan(
        context,
        theirs.source,
        tmp_path / "t",
        ModeChoice(where="dt = '2024-03-03'"),
        name="cow_bootstrap_mixed",
        precombine="seq",
        on_unsafe_type=UnsafeTypePolicy.WARN,
        max_file_bytes=6_000,
    )
    run_bootstrap(context, plan)
    ours, real = tmp_path / "t", Path(theirs.table)
    for number in (1, 2):
        name = f".hoodie/0000000000000{number}.commit"
        written, expected = (parse_commit_metadata((table / name).read_bytes()) for table in (ours, real))
        assert written.operation_type == expected.operation_type
        assert written.schema == expected.schema
        assert set(written.partition_to_write_stats) == set(expected.partition_to_write_stats)
    full = "dt=2024-03-03/*_00000000000002.parquet"
    (our_files, their_files) = (sorted(table.glob(full)) for table in (ours, real))
    assert len(our_files) > 1
    assert _leaves(our_files[0]) == _leaves(their_files[0])
    (our_footer, their_footer) = (pq.read_metadata(files[0]).metadata for files in (our_files, their_files))
    assert their_footer.keys() <= our_footer.keys()
    assert our_footer[b"parquet.avro.schema"] == their_footer[b"parquet.avro.schema"]
    (our_rows, their_rows) = (
        pa.concat_tables([pq.read_table(path, partitioning=None) for path in files])
        .drop_columns(["_hoodie_file_name", "_hoodie_commit_seqno"])
        .sort_by("id")
        .to_pylist()
        for files in (our_files, their_files)
    )
    assert our_rows == their_rows


@pytest.mark.parametrize("sort_mode", ["NONE", "PARTITION_SORT"])
def test_a_task_that_outlives_its_run_takes_its_files_back(context, source, tmp_path, sort_mode):
    target = tmp_path / "t"
    options = {"hoodie.bulkinsert.sort.mode": sort_mode}
    request = BootstrapRequest(
        database="db",
        name="t",
        record_key=("id",),
        source_path=str(source),
        target_path=str(target),
        sync=False,
        mode=FULL,
        options=options,
    )
    plan = plan_bootstrap(context, apply_options(request, frozenset())[0])
    work = full_record_tasks.plan_full_records(plan)
    assert bool(work.by_spark.tasks) is (sort_mode != "NONE")
    # Nobody holds this lease: the run it belonged to is over.
    over = Lease(str(target), 0)
    with pytest.raises(StorageError, match="a task outlived its run, its files were deleted"):
        full_record_tasks.rewrite_partitions(context, plan, work, over)
    assert list(target.rglob("*.parquet")) == []


def test_a_claim_lost_while_a_task_writes_takes_its_files_back(tmp_path):
    written = tmp_path / "file.parquet"
    written.write_bytes(b"PAR1")
    lease = acquire_lease(Storage(), str(tmp_path), "db.t", takes_over=False)
    lease.fence_late_attempt(Storage(), [str(written)])
    assert written.exists()
    lease.release(Storage())
    with pytest.raises(StorageError, match="has ended: a task outlived"):
        lease.fence_late_attempt(Storage(), [str(written)])
    assert not written.exists()
