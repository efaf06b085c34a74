from __future__ import annotations

import datetime
import decimal
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from hudisql.errors import SourceChangedError
from hudisql.format.schema.meta_columns import META_COLUMNS, META_SCHEMA, RECORD_KEY
from hudisql.read.files.predicates import Comparison
from hudisql.read.scan import (
    merged_scan,
    native_scan,
    row_bitmap,
    scan_method,
)
from hudisql.read.scan.scan_dataframe import scan_to_dataframe
from hudisql.read.scan.scan_method import ScanMethod, scan_methods
from hudisql.read.scan.scan_plan import ScanPlan, ScanRequest
from hudisql.read.scan.table_scan import plan_scan
from hudisql.read.slice.replaced_rows import LogMatch
from hudisql.spark.task_errors import translate_task_error
from hudisql.spark.versions import has_scalar_subqueries, pyspark_version
from hudisql.table.file_slice import FileSlice
from hudisql.table.hudi_table import HudiTable
from tests.rows import json_rows

pytestmark = pytest.mark.spark

TABLES = (
    "cow_bootstrap_2part",
    "cow_bootstrap_meta_nonpart",
    "cow_bootstrap_mixed",
    "cow_bootstrap_then_upsert_delete",
    "mor_bootstrap_meta",
    "mor_parquet_log",
    "mor_upsert_only_updates",
)
UTC = datetime.UTC
EVERY_TYPE = pa.schema(
    [
        ("id", pa.int32()),
        ("l", pa.int64()),
        ("f", pa.float32()),
        ("x", pa.float64()),
        ("ok", pa.bool_()),
        ("s", pa.string()),
        ("by", pa.binary()),
        ("d", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("nt", pa.timestamp("us")),
        ("p9", pa.decimal128(9, 2)),
        ("p18", pa.decimal128(18, 4)),
        ("p38", pa.decimal128(38, 10)),
        ("st", pa.struct([("a", pa.int64()), ("deep", pa.struct([("t", pa.timestamp("us", "UTC"))]))])),
        ("ar", pa.list_(pa.field("element", pa.struct([("u", pa.string()), ("v", pa.int32())])))),
        ("aa", pa.list_(pa.field("element", pa.list_(pa.field("element", pa.int32()))))),
        ("mp", pa.map_(pa.string(), pa.struct([("k", pa.decimal128(9, 2))]))),
    ]
)


def _every_type_rows(rows: int) -> pa.Table:
    moment = datetime.datetime(2020, 1, 1, 1, 2, 3, 456789)

    def row(n: int) -> dict[str, Any]:
        if n % 7 == 6:
            return {"id": n}
        price = decimal.Decimal(n * 7 - 50) / 4
        return {
            "id": n,
            "l": n * 2**40,
            "f": [1.5, math.nan, -0.0][n % 3],
            "x": [math.inf, n / 3, math.nan, -0.0][n % 4],
            "ok": n % 2 == 0,
            "s": f"zeile {n} ü",
            "by": bytes([n % 256, 255]),
            "d": datetime.date(1969, 12, 25) + datetime.timedelta(days=n),
            "ts": moment.replace(tzinfo=UTC) - datetime.timedelta(days=n * 400),
            "nt": moment + datetime.timedelta(microseconds=n),
            "p9": price.quantize(decimal.Decimal("0.01")),
            "p18": price.quantize(decimal.Decimal("0.0001")),
            "p38": price.quantize(decimal.Decimal("0.0000000001")),
            "st": {"a": n, "deep": {"t": moment.replace(tzinfo=UTC)} if n % 2 else None},
            "ar": [{"u": str(n), "v": None}, None][: n % 3],
            "aa": [[n, None], None, []][: n % 4],
            "mp": [("k", {"k": price.quantize(decimal.Decimal("0.01"))}), ("null", None)][: n % 3],
        }

    return pa.Table.from_pylist([row(n) for n in range(rows)], EVERY_TYPE)


def _values(frame: Any, *order: str) -> list[Any]:
    # NaN differs from itself, and -0.0 equals 0.0: compare what is printed.
    return sorted(str(row.asDict(recursive=True)) for row in frame.select(*order).collect())


@pytest.mark.parametrize("name", TABLES)
def test_golden_tables_are_right_by_both_scans(
    spark: Any, golden: Any, open_golden: Callable[[str], HudiTable], name: str
) -> None:
    table = open_golden(name)
    native_plan = plan_scan(ScanRequest(table, table.schema))
    stitched_plan = replace(plan_scan(ScanRequest(table, table.full_schema)), mode="stitched")
    assert native_plan.mode == "native"
    stitched, native = scan_to_dataframe(spark, stitched_plan), scan_to_dataframe(spark, native_plan)
    assert stitched.columns == native.columns == table.full_schema.names
    expected = sorted(json.dumps(row, sort_keys=True) for row in golden(name).rows)
    for frame in (stitched, native):
        assert json_rows(frame.select(*table.schema.names)) == expected
    meta = sorted(json.dumps(row, sort_keys=True) for row in golden(name).meta_rows)
    whole, alone = (
        scan_to_dataframe(spark, plan_scan(ScanRequest(table, each)))
        for each in (table.full_schema, META_SCHEMA)
    )
    for frame in (stitched, whole, alone):
        assert json_rows(frame.select(*META_COLUMNS)) == meta


@pytest.mark.parametrize(
    "name",
    ["mor_parquet_log", "mor_two_log_generations", "mor_upsert_only_updates"],
)
def test_spark_merges_log_records_as_the_slice_reader_does(
    spark: Any,
    golden: Any,
    open_golden: Callable[[str], HudiTable],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    monkeypatch.setattr(scan_method, "_LEAST_BYTES_TO_MERGE", 0)
    monkeypatch.setattr(scan_method, "_MOST_LOG_SHARE", 1e9)
    table = open_golden(name)
    has_native_log = False
    for columns, expected in ((table.schema, "rows"), (META_SCHEMA, "meta_rows")):
        plan = plan_scan(ScanRequest(table, columns))
        methods = scan_methods([each for each, _ in plan.slices], columns, [])
        has_native_log |= ScanMethod.MERGED in methods
        rows = scan_to_dataframe(spark, plan)
        # Positions of few rows are a bitmap in a filter, where Spark has it.
        assert _joins(rows) == (ScanMethod.MERGED in methods and not has_scalar_subqueries())
        wanted = sorted(json.dumps(row, sort_keys=True) for row in getattr(golden(name), expected))
        assert json_rows(rows.select(*columns.names)) == wanted
        with monkeypatch.context() as patch:
            patch.setattr(row_bitmap, "MOST_WORDS", -1)
            patch.setattr(merged_scan, "run_on_files", _match_nothing)
            joined = scan_to_dataframe(spark, plan)
        lazily = scan_to_dataframe(spark, plan, runs_jobs=False)
        for each in (joined, lazily):
            assert _joins(each) == (ScanMethod.MERGED in methods)
            assert json_rows(each.select(*columns.names)) == wanted
    assert has_native_log


@pytest.mark.parametrize(
    "name",
    ["mor_parquet_log", "mor_two_log_generations", "mor_upsert_only_updates"],
)
def test_rows_that_are_only_counted_are_not_read(
    spark: Any,
    golden: Any,
    open_golden: Callable[[str], HudiTable],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    monkeypatch.setattr(scan_method, "_LEAST_BYTES_TO_MERGE", 0)
    plan = plan_scan(ScanRequest(open_golden(name), pa.schema([])))
    assert ScanMethod.MERGED in plan.methods()
    rows = scan_to_dataframe(spark, plan)
    tree = str(rows._jdf.queryExecution().analyzed())
    assert tree.count("Relation [") == len({*plan.methods()} - {ScanMethod.MERGED, ScanMethod.STITCHED})
    assert rows.count() == len(golden(name).rows)
    assert rows.crossJoin(rows).count() == len(golden(name).rows) ** 2


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE b.id = a.id AND b.seq >= a.seq)",
        "SELECT count(*) FROM t a WHERE id NOT IN (SELECT b.id FROM t b WHERE b.seq > 3)",
        "SELECT sum((SELECT max(b.seq) FROM t b WHERE b.id = a.id)) FROM t a",
        "SELECT count(*) FROM t a, LATERAL (SELECT b.seq FROM t b WHERE b.id = a.id)",
        "WITH r AS (SELECT * FROM t) SELECT count(*) FROM r a FULL JOIN r b ON a.seq = b.seq + 1",
    ],
)
def test_merged_slices_are_read_right_in_subqueries(
    spark: Any, open_golden: Callable[[str], HudiTable], monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.setattr(scan_method, "_LEAST_BYTES_TO_MERGE", 0)
    monkeypatch.setattr(scan_method, "_MOST_LOG_SHARE", 1e9)
    table = open_golden("mor_upsert_only_updates")
    plan = plan_scan(ScanRequest(table, table.schema))
    assert ScanMethod.MERGED in plan.methods()
    results = []
    for each in (plan, replace(plan_scan(ScanRequest(table, table.full_schema)), mode="stitched")):
        scan_to_dataframe(spark, each).createOrReplaceTempView("t")
        results.append(spark.sql(query).collect())
    assert results[0] == results[1]


def _match_nothing(_spark: Any, slices: list[FileSlice], *_: object, **__: object) -> list[LogMatch]:
    """What is asked of the tasks if all matches are known from the query before."""
    assert not slices
    return []


def _joins(frame: Any) -> int:
    return str(frame._jdf.queryExecution().analyzed()).count("Join LeftAnti")


@pytest.fixture
def awkward_slices(
    tmp_path: Path, write_slice: Callable[..., FileSlice]
) -> list[tuple[FileSlice, dict[str, object]]]:
    """Bootstrapped slices and a merged base file in one partition, under awkward paths."""
    rows = _every_type_rows(50)
    day = datetime.date(2024, 2, 29)
    first = write_slice(
        tmp_path, rows.slice(0, 20), partition_path="p=a b%20ü/d2=2024-02-29", row_group_rows=6
    )
    second = write_slice(tmp_path, rows.slice(20, 15), partition_path="p=#+&/d2=__HIVE_DEFAULT_PARTITION__")
    merged = write_slice(
        tmp_path, rows.slice(35), partition_path="p=a b%20ü/d2=2024-02-29", name="part 1%.parquet"
    )
    assert merged.base_file is not None
    skeleton = pq.read_table(merged.base_file.path, schema=META_SCHEMA)
    whole = skeleton
    for name in EVERY_TYPE.names:
        whole = whole.append_column(EVERY_TYPE.field(name), rows.slice(35)[name])
    # A writer's merge keeps the partition columns in the file, as text.
    whole = whole.append_column("p", pa.array(["a b%20ü"] * 15))
    whole = whole.append_column("d2", pa.array(["2024-02-29"] * 15))
    pq.write_table(whole, merged.base_file.path, store_schema=False)
    rewritten = replace(merged.base_file, length=Path(merged.base_file.path).stat().st_size)
    merged = replace(merged, base_file=rewritten, external_file=None)
    return [
        (first, {"p": "a b%20ü", "d2": day}),
        (second, {"p": "#+&", "d2": None}),
        (merged, {"p": "a b%20ü", "d2": day}),
    ]


PARTITION_COLUMNS = (pa.field("p", pa.string()), pa.field("d2", pa.date32()))


def test_every_type_is_equal_by_the_native_and_the_stitched_scan(
    spark: Any,
    plan_of: Callable[..., ScanPlan],
    awkward_slices: list[tuple[FileSlice, dict[str, object]]],
) -> None:
    names = [*EVERY_TYPE.names, "p", "d2"]
    native = scan_to_dataframe(
        spark, plan_of(awkward_slices, EVERY_TYPE, PARTITION_COLUMNS, names, mode="native")
    )
    stitched = scan_to_dataframe(
        spark, plan_of(awkward_slices, EVERY_TYPE, PARTITION_COLUMNS, max_split_bytes=2000)
    )
    assert native.schema == stitched.schema
    assert "FileScan parquet" in native._jdf.queryExecution().toString()
    expected = _values(native, *names)
    assert len(expected) == 50
    assert _values(stitched, *names) == expected
    assert _values(native.where("d2 is null"), "id") == _values(stitched.where("p = '#+&'"), "id")
    for filters in ("d2 = date'2024-02-29' and st.deep.t is not null", "x > 3", "p9 < 1 and p like 'a%'"):
        assert _values(native.where(filters), *names) == _values(stitched.where(filters), *names), filters


def _take_internals_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """What happens on a version of Spark whose classes differ."""

    def other_internals(*_: object) -> None:
        raise TypeError("InMemoryFileIndex has other parameters")

    monkeypatch.setattr(native_scan, "_file_relation", other_internals)


def test_the_native_scan_has_a_fallback_with_the_same_rows(
    spark: Any,
    plan_of: Callable[..., ScanPlan],
    awkward_slices: list[tuple[FileSlice, dict[str, object]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [*EVERY_TYPE.names, "p", "d2"]
    plan = plan_of(awkward_slices, EVERY_TYPE, PARTITION_COLUMNS, names, mode="native")
    expected = _values(scan_to_dataframe(spark, plan), *names)

    _take_internals_away(monkeypatch)
    with pytest.warns(RuntimeWarning, match="cannot be used with this version of Spark"):
        fallback = scan_to_dataframe(spark, plan)
    assert _values(fallback, *names) == expected


def test_the_fallback_reads_slices_with_log_files_once(
    spark: Any, open_golden: Callable[[str], HudiTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = open_golden("mor_upsert_only_updates")
    plan = plan_scan(ScanRequest(table, table.schema))
    assert plan.mode == "native"
    assert {file_slice.has_log_files for file_slice, _ in plan.slices} == {True, False}
    names = table.schema.names
    expected = _values(scan_to_dataframe(spark, plan), *names)

    _take_internals_away(monkeypatch)
    with pytest.warns(RuntimeWarning, match="cannot be used with this version of Spark"):
        fallback = scan_to_dataframe(spark, plan)
    assert _values(fallback, *names) == expected


def test_filters_and_columns_reach_sparks_own_scan(
    spark: Any, open_golden: Callable[[str], HudiTable]
) -> None:
    table = open_golden("cow_bootstrap_2part")
    frame = scan_to_dataframe(spark, plan_scan(ScanRequest(table, table.schema)))
    text = frame.where("region = 'eu' and seq > 3").select("st.b")._jdf.queryExecution().toString()
    assert "PartitionFilters: [isnotnull(region" in text
    assert "GreaterThan(seq,3)" in text
    assert "ReadSchema: struct<seq:int,st:struct<b:string>>" in text


@pytest.mark.parametrize(
    ("name", "native", "bootstrapped"),
    [("mor_compacted", 3, 3), ("cow_bootstrap_then_upsert_delete", 3, 3), ("v9_cow_clustered", 3, 0)],
)
def test_meta_columns_of_native_slices_do_not_cross_python(
    spark: Any,
    golden: Any,
    open_golden: Callable[[str], HudiTable],
    name: str,
    native: int,
    bootstrapped: int,
) -> None:
    table = open_golden(name)
    plan = plan_scan(ScanRequest(table, table.full_schema))
    frame = scan_to_dataframe(spark, plan)
    slices = [file_slice for file_slice, _ in plan.slices]
    apart = [each for each in slices if each.is_bootstrapped]
    assert (len(slices) - len(apart), len(apart)) == (native, bootstrapped)
    scanned = {Path(unquote(urlparse(each).path)).name for each in frame.inputFiles()}
    assert scanned == {
        Path(each.base_file.path).name for each in slices if each.base_file and each not in apart
    }
    executed = frame._jdf.queryExecution().executedPlan().toString()
    assert executed.count("MapInArrow") == min(len(apart), 1)
    assert f"ReadSchema: struct<{META_COLUMNS[0]}:string,{META_COLUMNS[1]}:string" in executed
    assert json_rows(frame.select(*META_COLUMNS)) == _sorted_json(golden(name).meta_rows)
    assert json_rows(frame.select(*table.schema.names)) == _sorted_json(golden(name).rows)


def _sorted_json(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def test_no_row_group_is_skipped_by_bounds_of_floats_in_structs(
    spark: Any, tmp_path: Path, plan_of: Callable[..., ScanPlan], write_slice: Callable[..., FileSlice]
) -> None:
    schema = pa.schema([("id", pa.int32()), ("st", pa.struct([("x", pa.float64())]))])
    values = [1.0, 2.0, 3.0, math.nan]
    rows = pa.Table.from_pylist([{"id": at, "st": {"x": value}} for at, value in enumerate(values)], schema)
    plan = plan_of([(write_slice(tmp_path, rows), {})], schema, (), ["id", "st"], mode="native")
    assert plan.methods() == [ScanMethod.NATIVE]
    frame = scan_to_dataframe(spark, plan)
    # For Spark NaN is greater than any number; the file's bounds say that there is nothing above 3.
    assert [row.id for row in frame.where("st.x > 3").select("id").collect()] == [3]


def test_a_scan_has_all_columns_but_evaluating_an_unplanned_one_is_an_error(
    spark: Any, open_golden: Callable[[str], HudiTable]
) -> None:
    table = open_golden("cow_bootstrap_meta")
    columns = pa.schema(
        [
            table.full_schema.field(RECORD_KEY),
            table.schema.field("id"),
            pa.field("st", pa.struct([("b", pa.string())])),
        ]
    )
    frame = scan_to_dataframe(
        spark, plan_scan(ScanRequest(table, columns, [Comparison(("id",), "<", "k000010")]))
    )
    assert frame.columns == table.full_schema.names
    assert frame.schema["st"].dataType.simpleString() == "struct<a:bigint,b:string>"
    frame.createOrReplaceTempView("pruned")
    rows = spark.sql("select id, b from (select id, st.b, fare, price from pruned)").collect()
    assert sorted((row.id, row.b) for row in rows) == [(f"k{n:06d}", f"s{n}") for n in range(10)]
    assert spark.sql("select count(*) from pruned").first()[0] == 10
    spark.catalog.dropTempView("pruned")
    # PySpark 3.5 does not translate errors of tasks.
    error = PySparkException if pyspark_version() >= (4, 0) else Py4JJavaError
    with pytest.raises(error, match="without the column 'fare'"):
        frame.select("fare").collect()


def test_errors_of_tasks_become_one_clear_error(
    spark: Any, tmp_path: Path, plan_of: Callable[..., ScanPlan], write_slice: Callable[..., FileSlice]
) -> None:
    file_slice = write_slice(tmp_path, _every_type_rows(5), partition_path="p=1")
    assert file_slice.external_file is not None
    plan = plan_of([(file_slice, {})], EVERY_TYPE, columns=[RECORD_KEY, "id"])
    frame = scan_to_dataframe(spark, plan)
    Path(file_slice.external_file.path).unlink()
    with pytest.raises(PySparkException) as caught:
        frame.collect()
    error = translate_task_error(caught.value)
    assert isinstance(error, SourceChangedError)
    assert error.message == f"partition 'p=1': the source file {file_slice.external_file.path} is missing"
    assert error.hint
    assert translate_task_error(ValueError("something else")) is None


def test_an_empty_table_gives_no_rows_of_the_right_schema(
    spark: Any, plan_of: Callable[..., ScanPlan]
) -> None:
    for mode in ("native", "stitched"):
        frame = scan_to_dataframe(spark, plan_of([], EVERY_TYPE, PARTITION_COLUMNS, ["id"], mode=mode))
        assert frame.columns == [*META_COLUMNS, *EVERY_TYPE.names, "p", "d2"]
        assert frame.count() == 0


def test_ten_thousand_files_become_a_dataframe_without_a_spark_job(
    spark: Any, many_files_table: HudiTable
) -> None:
    context = spark.sparkContext
    modes: tuple[Literal["native", "stitched"], ...] = ("native", "stitched")
    for mode in modes:
        plan = replace(
            plan_scan(ScanRequest(many_files_table, many_files_table.full_schema, parallelism=2)), mode=mode
        )
        context.setJobGroup(f"planning {mode}", "")
        frame = scan_to_dataframe(spark, plan)
        # Spark's own way to read a list of paths lists them by jobs, which takes minutes here.
        assert list(context.statusTracker().getJobIdsForGroup(f"planning {mode}")) == []
        context.setLocalProperty("spark.jobGroup.id", None)
        assert frame.columns[-1] == "dt"
        if mode == "native":
            assert frame.where("dt = '2024-007'").selectExpr("sum(n)").collect()[0][0] == 300
