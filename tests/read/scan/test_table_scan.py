from __future__ import annotations

import datetime
import decimal
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudisql.errors import SourceChangedError
from hudisql.format.schema.meta_columns import META_SCHEMA
from hudisql.read.files.predicates import Comparison, IsNotNull, Or
from hudisql.read.scan.scan_method import ScanMethod, scan_methods
from hudisql.read.scan.scan_plan import ScanPlan, ScanRequest
from hudisql.read.scan.table_scan import plan_scan
from hudisql.storage import Storage
from hudisql.table.file_slice import BaseFile, ExternalFile, FileSlice, LogFile
from hudisql.table.hudi_table import HudiTable, open_table
from tests.opened import open_at

READABLE = (
    "cow_archived_bootstrap",
    "cow_bootstrap_2part",
    "cow_bootstrap_meta",
    "cow_bootstrap_meta_mdt",
    "cow_bootstrap_meta_nonpart",
    "cow_bootstrap_mixed",
    "cow_bootstrap_then_upsert_delete",
    "cow_clustering_scheduled",
    "cow_insert_overwrite",
    "cow_savepoint_clean",
    "mor_bootstrap_meta",
    "mor_compacted",
)
WITH_LOGS = (
    "mor_compaction_scheduled",
    "mor_parquet_log",
    "mor_rollback",
    "mor_two_log_generations",
    "mor_upsert_only_updates",
)
ReadPlan = Callable[[ScanPlan], pa.Table]


def _as_json(value: Any) -> Any:
    """A value as Spark's toJSON gives it, null fields left out."""
    match value:
        case dict():
            return {name: _as_json(each) for name, each in value.items() if each is not None}
        case list() if value and isinstance(value[0], tuple):
            return {key: _as_json(each) for key, each in value}
        case list():
            return [_as_json(each) for each in value]
        case decimal.Decimal():
            return float(value)
        case datetime.datetime():
            return (
                value.strftime("%Y-%m-%dT%H:%M:%S.")
                + f"{value.microsecond:06d}".rstrip("0").ljust(3, "0")
                + "Z"
            )
        case datetime.date():
            return value.isoformat()
    return value


def _sorted_json(rows: list[Any]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.parametrize("name", READABLE + WITH_LOGS)
def test_golden_tables_read_as_apache_hudi_reads_them(
    name: str, golden: Any, open_golden: Callable[[str], HudiTable], read_plan: ReadPlan
) -> None:
    expected, table = golden(name), open_golden(name)
    found = read_plan(plan_scan(ScanRequest(table, table.full_schema)))
    data = found.select(table.schema.names).to_pylist()
    meta = found.select([each for each in found.schema.names if each.startswith("_hoodie")]).to_pylist()
    assert _sorted_json(_as_json(data)) == _sorted_json(expected.rows)
    assert _sorted_json(meta) == _sorted_json(expected.meta_rows)


@pytest.mark.parametrize("name", READABLE + WITH_LOGS)
def test_data_columns_alone_are_the_same_rows(
    name: str, golden: Any, open_golden: Callable[[str], HudiTable], read_plan: ReadPlan
) -> None:
    table = open_golden(name)
    plan = plan_scan(ScanRequest(table, table.schema))
    assert plan.mode == "native"
    assert _sorted_json(_as_json(read_plan(plan).to_pylist())) == _sorted_json(golden(name).rows)


@pytest.mark.parametrize(
    "name",
    ["v6_complexkeygen_hivestyle", "v6_nonpartitioned", "v6_nonpartitioned_rollback", "v6_trips_8i1u"],
)
def test_tables_of_other_writers_read_as_hudi_rs_reads_them(
    name: str, third_party: Callable[[str], str], read_plan: ReadPlan
) -> None:
    expected = json.loads((Path(__file__).parent / "third_party_rows.json").read_text())[name]
    table = open_at(third_party(name))
    found = read_plan(plan_scan(ScanRequest(table, table.full_schema))).sort_by("_hoodie_record_key")
    rows = [{column: str(value) for column, value in row.items()} for row in found.to_pylist()]
    assert [{column: row[column] for column in expected[0]} for row in rows] == expected


def test_a_read_optimized_scan_takes_the_base_files_alone(
    golden: Any, open_golden: Callable[[str], HudiTable], read_plan: ReadPlan
) -> None:
    table = open_golden("mor_upsert_only_updates")
    plan = plan_scan(ScanRequest(table, table.full_schema, read_optimized=True))
    keys = read_plan(plan)["_hoodie_record_key"].to_pylist()
    assert len(keys) == len(set(keys)) == len(golden("mor_upsert_only_updates").rows)
    assert set(read_plan(plan)["_hoodie_commit_time"].to_pylist()) == {"00000000000001"}


def test_partition_predicates_prune_before_listing(
    open_golden: Callable[[str], HudiTable], read_plan: ReadPlan
) -> None:
    table = open_golden("cow_bootstrap_2part")
    schema = pa.schema([table.schema.field("id"), table.schema.field("region"), table.schema.field("dt")])
    region = Comparison(("region",), "=", "eu")
    day = Comparison(("dt",), ">", "2024-03-01")
    row = Comparison(("id",), "<", "k0001")
    plan = plan_scan(ScanRequest(table, schema, [region, row], [day, Or((region, day))], count_all=True))
    assert (plan.partitions_read, plan.partitions_total) == (1, 4)
    assert (len(plan.slices), plan.slices_total) == (2, 8)
    assert plan.predicate == row
    assert dict(plan.describe())["partitions"] == "1 of 4"
    assert dict(plan.describe())["row filter"] == "id < 'k0001'"
    assert "region = 'eu'" in dict(plan.describe())["partition filter"]
    rows = read_plan(plan).to_pylist()
    assert rows
    assert {(each["region"], each["dt"]) for each in rows} == {("eu", "2024-03-02")}
    assert all(each["id"] < "k0001" for each in rows)


@pytest.mark.parametrize("name", ["cow_bootstrap_2part", "mor_upsert_only_updates", "mor_bootstrap_meta"])
def test_a_partitions_path_prunes_and_loses_no_row(
    name: str, open_golden: Callable[[str], HudiTable], read_plan: ReadPlan
) -> None:
    table = open_golden(name)
    schema = table.full_schema
    whole = plan_scan(ScanRequest(table, schema))
    rows = read_plan(whole)
    for path in set(rows["_hoodie_partition_path"].to_pylist()):
        plan = plan_scan(ScanRequest(table, schema, [Comparison(("_hoodie_partition_path",), "=", path)]))
        wanted = rows.filter(pc.equal(rows["_hoodie_partition_path"], path))
        assert plan.partitions_read == 1 < whole.partitions_read
        assert len(plan.slices) < len(whole.slices)
        by = [("_hoodie_record_key", "ascending")]
        assert read_plan(plan).sort_by(by).equals(wanted.sort_by(by))


def test_predicates_that_cannot_be_pushed_are_left_out(open_golden: Callable[[str], HudiTable]) -> None:
    table = open_golden("cow_bootstrap_meta")
    schema = pa.schema([table.schema.field("id"), table.schema.field("seq")])
    plan = plan_scan(
        ScanRequest(
            table, schema, [Comparison(("seq",), "=", "text"), IsNotNull(("id",)), IsNotNull(("fare",))]
        )
    )
    assert plan.predicate == IsNotNull(("id",))


def test_a_scan_can_be_bound_to_a_path_below_the_table(
    open_golden: Callable[[str], HudiTable], read_plan: ReadPlan
) -> None:
    table = open_golden("cow_bootstrap_2part")
    whole = read_plan(plan_scan(ScanRequest(table, table.full_schema)))
    part = read_plan(plan_scan(ScanRequest(table, table.full_schema, below="region=eu")))
    assert 0 < part.num_rows < whole.num_rows
    assert set(part["region"].to_pylist()) == {"eu"}


def test_a_changed_source_file_is_found_at_planning(tmp_path: Path, golden: Any, storage: Storage) -> None:
    import shutil

    copied = tmp_path / "table"
    shutil.copytree(golden("cow_bootstrap_meta").table, copied)
    table = open_table(storage, str(copied))
    source = Path(plan_scan(ScanRequest(table, table.schema)).slices[0][0].external_file.path)  # type: ignore[union-attr]
    content, times = source.read_bytes(), (source.stat().st_atime_ns, source.stat().st_mtime_ns)
    try:
        source.write_bytes(content + b"\x00")
        for schema in (table.schema, table.full_schema):
            with pytest.raises(SourceChangedError) as caught:
                plan_scan(ScanRequest(table, schema))
            assert str(source) in caught.value.message
            assert "partition 'dt=2024-03-0" in caught.value.message
        source.unlink()
        with pytest.raises(SourceChangedError, match="is missing"):
            plan_scan(ScanRequest(table, table.schema))
    finally:
        source.write_bytes(content)
        os.utime(source, ns=times)


def test_ten_thousand_files_are_planned_in_seconds(many_files_table: HudiTable) -> None:
    started = time.process_time()
    plan = plan_scan(ScanRequest(many_files_table, many_files_table.full_schema))
    seconds = time.process_time() - started
    assert len(plan.slices) == 10_000
    assert plan.partitions_read == 100
    assert seconds < 5, f"{seconds:.1f} s"


def test_files_that_spark_would_hide_are_read_by_the_slice_reader(
    tmp_path: Path, storage: Storage, make_table: Any
) -> None:
    table = open_table(storage, str(make_table(tmp_path / "t", {"": 1})))
    ((file_slice, _),) = plan_scan(ScanRequest(table, table.schema)).slices
    assert file_slice.base_file is not None

    def method_of(name: str) -> ScanMethod:
        assert file_slice.base_file is not None
        named = replace(file_slice, base_file=replace(file_slice.base_file, path=f"{table.base_path}/{name}"))
        (method,) = scan_methods([named], table.schema, [])
        return method

    assert method_of("a.parquet") is ScanMethod.NATIVE
    assert method_of("_a.parquet") is method_of(".a.parquet") is ScanMethod.STITCHED
    assert method_of("a:b.parquet") is ScanMethod.STITCHED


def test_only_many_rows_with_few_log_records_are_merged_by_spark() -> None:
    schema = pa.schema([pa.field("id", pa.int64())])
    time = "20240101000000000"

    def methods_of(base: int, log: int, columns: pa.Schema = schema, **changes: Any) -> ScanMethod:
        file_slice = FileSlice(
            "p",
            "f",
            time,
            BaseFile(f"/t/p/f_0_{time}.parquet", base, "f", "0", time),
            log_files=(LogFile(f"/t/p/.f_{time}.log.1_0", log, "f", time, 1, "0"),),
        )
        (method,) = scan_methods([replace(file_slice, **changes)], columns, [])
        return method

    megabyte = 1 << 20
    external = ExternalFile("/source/a.parquet", 100 * megabyte, 0)
    assert methods_of(100 * megabyte, megabyte) is ScanMethod.MERGED
    assert methods_of(100 * megabyte, megabyte, META_SCHEMA) is ScanMethod.MERGED
    assert methods_of(megabyte, megabyte, external_file=external) is ScanMethod.MERGED
    assert methods_of(megabyte, megabyte, META_SCHEMA, external_file=external) is ScanMethod.STITCHED
    assert methods_of(20 * megabyte, megabyte) is ScanMethod.STITCHED
    assert methods_of(100 * megabyte, 50 * megabyte) is ScanMethod.STITCHED
    assert methods_of(1000 * megabyte, 100 * megabyte) is ScanMethod.STITCHED
    assert methods_of(100 * megabyte, megabyte, base_file=None) is ScanMethod.STITCHED


def test_a_scan_on_the_driver_reads_all_columns(
    third_party: Callable[[str], str], read_plan: ReadPlan
) -> None:
    table = open_at(third_party("v6_trips_8i1u"))
    wanted = pa.schema([table.full_schema.field("_hoodie_record_key")])
    few, many = (plan_scan(ScanRequest(table, wanted, driver_bytes=size)) for size in (1 << 30, 1000))
    assert (few.on_driver, few.columns) == (True, table.full_schema)
    assert (many.on_driver, many.columns) == (False, wanted)
    whole = read_plan(plan_scan(ScanRequest(table, table.full_schema)))
    assert read_plan(few).sort_by("_hoodie_record_key") == whole.sort_by("_hoodie_record_key")


def test_floats_in_structs_are_filtered_by_the_slice_reader() -> None:
    time = "20240101000000000"
    base = BaseFile(f"/t/p/f_0_{time}.parquet", 1, "f", "0", time)
    file_slice = FileSlice("p", "f", time, base)

    def method_of(value_type: pa.DataType, *, has_predicate: bool = True) -> ScanMethod:
        schema = pa.schema([pa.field("s", value_type)])
        (method,) = scan_methods([file_slice], schema, [], has_predicate=has_predicate)
        return method

    # Spark prunes row groups by their bounds, which leave NaN out, for any filter of the query.
    assert method_of(pa.struct([("x", pa.float64())])) is ScanMethod.STITCHED
    assert method_of(pa.struct([("y", pa.struct([("x", pa.float32())]))])) is ScanMethod.STITCHED
    assert method_of(pa.struct([("x", pa.float64())]), has_predicate=False) is ScanMethod.NATIVE
    assert method_of(pa.struct([("x", pa.int32())])) is ScanMethod.NATIVE
    assert method_of(pa.list_(pa.float64())) is ScanMethod.NATIVE
    assert method_of(pa.float64()) is ScanMethod.NATIVE
