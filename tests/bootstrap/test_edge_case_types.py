"""Columns as many writers store them: each is read right by both scans, or refused by one clear error."""

from __future__ import annotations

import datetime
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.bootstrap.plan.bootstrap_mode import BootstrapMode, ModeChoice, UnsafeTypePolicy
from hudisql.bootstrap.type_safety import TYPE_INCOMPATIBILITIES
from hudisql.bootstrap.verify.verification import VerifyLevel, verify_bootstrap
from hudisql.context import Context
from hudisql.errors import QueryError
from hudisql.read.scan.scan_dataframe import scan_to_dataframe
from hudisql.read.scan.scan_plan import ScanRequest
from hudisql.read.scan.table_scan import plan_scan
from hudisql.spark.versions import to_arrow
from tests.bootstrap.edge_case_sources import blockers_of, bootstrap, read_both_ways, write_by_parquet_mr
from tests.sources import write_parquet
from tests.spark_versions import needs_spark

pytestmark = pytest.mark.spark
UTC = datetime.UTC
IDS = pa.array(["a", "b", "c"])


@pytest.mark.parametrize("as_integer", [False, True])
def test_decimals_of_every_precision_are_right(context: Context, tmp_path: Path, as_integer: bool) -> None:
    columns: dict[str, pa.Array] = {"id": IDS}
    for precision in range(1, 39):
        scale = precision // 2
        digits = (9,) * precision
        largest, least = (Decimal((sign, digits, -scale)) for sign in (0, 1))
        columns[f"d{precision}"] = pa.array([largest, None, least], pa.decimal128(precision, scale))
    expected = pa.table(columns)
    write_parquet(tmp_path / "s" / "a.parquet", expected, store_decimal_as_integer=as_integer)
    table = bootstrap(context, tmp_path / "s", tmp_path / "t")
    found = read_both_ways(context.spark, table)
    assert found.to_pylist() == expected.to_pylist()
    assert [field.type for field in found.schema] == [field.type for field in expected.schema]
    assert read_both_ways(context.spark, table, "d9 < 0 AND d38 < 0 AND d18 < 0")["id"].to_pylist() == ["c"]


def _write_binary_decimals(context: Context, path: Path) -> None:
    def row(key: str, number: int | None) -> Any:
        def fill(group: Any, jvm: Any) -> None:
            group.add("id", key)
            if number is not None:
                inner = group.addGroup("st")
                for place, name in ((group, "d5"), (group, "d15"), (group, "d38"), (inner, "d7")):
                    stored = number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)
                    binary = jvm.org.apache.parquet.io.api.Binary.fromConstantByteArray(bytearray(stored))
                    place.add(name, binary)

        return fill

    write_by_parquet_mr(
        context.spark,
        path,
        "message m { required binary id (STRING); optional binary d5 (DECIMAL(5,2));"
        " optional binary d15 (DECIMAL(15,2)); optional binary d38 (DECIMAL(38,2));"
        " optional group st { optional binary d7 (DECIMAL(7,2)); } }",
        [row("a", 12345), row("b", None), row("c", -99999), row("d", 0)],
    )


BINARY_DECIMALS = [Decimal("123.45"), None, Decimal("-999.99"), Decimal("0.00")]


def _check_binary_decimals(found: pa.Table) -> None:
    for name in ("d5", "d15", "d38"):
        assert found[name].to_pylist() == BINARY_DECIMALS
    assert [row and row["d7"] for row in found["st"].to_pylist()] == BINARY_DECIMALS


def test_decimals_stored_as_binary_are_right(context: Context, tmp_path: Path) -> None:
    _write_binary_decimals(context, tmp_path / "s" / "a.parquet")
    table = bootstrap(context, tmp_path / "s", tmp_path / "t")
    assert set(table.properties.unsafe_types) == {"d5", "d15", "st"}
    _check_binary_decimals(read_both_ways(context.spark, table))
    assert verify_bootstrap(context, table, VerifyLevel.FULL).is_good


# The rows are read by pyarrow, or by Spark for a sort.
@pytest.mark.parametrize("sort_mode", ["NONE", "PARTITION_SORT"])
def test_decimals_stored_as_binary_are_mended_by_a_rewrite(
    context: Context, tmp_path: Path, sort_mode: str
) -> None:
    _write_binary_decimals(context, tmp_path / "s" / "a.parquet")
    assert "column st (struct<d7:decimal(7,2)>): decimal of up to 18 digits stored as BYTE_ARRAY" in (
        blockers_of(context, tmp_path / "s", tmp_path / "t", on_unsafe_type=UnsafeTypePolicy.FAIL)
    )
    rewriting = {"on_unsafe_type": UnsafeTypePolicy.FULL_RECORD, "sort_mode": sort_mode}
    table = bootstrap(context, tmp_path / "s", tmp_path / "t", **rewriting)
    # Spark's own vectorised reader, which fails on the source, reads what was written.
    assert table.properties.unsafe_types == {}
    assert plan_scan(ScanRequest(table, table.schema)).is_vectorized
    _check_binary_decimals(read_both_ways(context.spark, table))
    _check_binary_decimals(to_arrow(context.spark.read.parquet(str(tmp_path / "t"))).sort_by("id"))
    assert verify_bootstrap(context, table, VerifyLevel.FULL).is_good


def test_integers_of_every_width_keep_their_largest_values(context: Context, tmp_path: Path) -> None:
    kinds = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()]
    columns: dict[str, pa.Array] = {"id": IDS}
    for kind in kinds:
        bounds = np.iinfo(kind.to_pandas_dtype())
        columns[str(kind)] = pa.array([bounds.max, None, bounds.min], kind)
    source = write_parquet(tmp_path / "s" / "a.parquet", pa.table(columns))
    table = bootstrap(context, source.parent, tmp_path / "t")
    assert read_both_ways(context.spark, table).to_pylist() == pa.table(columns).to_pylist()
    # Above 2^31 the stored bits are negative: row groups must not be left out by them.
    for where, ids in (
        ("`uint32` > 4000000000", ["a"]),
        ("`uint32` = 4294967295", ["a"]),
        ("`uint32` < 5", ["c"]),
        ("`uint8` > 200 AND `uint16` > 60000", ["a"]),
        ("`int8` = -128", ["c"]),
    ):
        assert read_both_ways(context.spark, table, where)["id"].to_pylist() == ids, where


def test_bytes_of_fixed_length_and_uuids_are_binary(context: Context, tmp_path: Path) -> None:
    values = {
        "fixed": pa.array([b"\x00\xff\x80", None, b"abc"], pa.binary(3)),
        "uuid": pa.array([bytes(16), None, bytes(range(16))], pa.uuid()),
        "raw": pa.array([b"", None, b"\xff\xfe"], pa.binary()),
    }
    write_parquet(tmp_path / "s" / "a.parquet", pa.table({"id": IDS, **values}))
    found = read_both_ways(context.spark, bootstrap(context, tmp_path / "s", tmp_path / "t"))
    assert found["fixed"].to_pylist() == [b"\x00\xff\x80", None, b"abc"]
    assert found["uuid"].to_pylist() == [bytes(16), None, bytes(range(16))]
    assert found["raw"].to_pylist() == [b"", None, b"\xff\xfe"]


MOMENTS = [
    datetime.datetime(1900, 1, 1, 0, 0, 0, 1000),
    None,
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999000),
]


@pytest.mark.parametrize("zone", ["UTC", None])
@pytest.mark.parametrize("unit", ["ms", "us"])
def test_moments_in_millis_and_micros_with_and_without_utc_are_right(
    context: Context, tmp_path: Path, unit: str, zone: str | None
) -> None:
    given = [None if each is None else each.replace(tzinfo=UTC if zone else None) for each in MOMENTS]
    times = pa.array(given, pa.timestamp(unit, zone))
    nested = pa.StructArray.from_arrays([times], names=["t"])
    write_parquet(tmp_path / "s" / "a.parquet", pa.table({"id": IDS, "t": times, "st": nested}))
    table = bootstrap(context, tmp_path / "s", tmp_path / "t")
    found = read_both_ways(context.spark, table)
    assert found["t"].to_pylist() == given
    assert [row["t"] for row in found["st"].to_pylist()] == given
    literal = "TIMESTAMP" if zone else "TIMESTAMP_NTZ"
    assert read_both_ways(context.spark, table, f"t > {literal}'2000-01-01'")["id"].to_pylist() == ["c"]


@pytest.mark.parametrize(
    ("array", "options", "words"),
    [
        (pa.array([1] * 3, pa.time32("ms")), {}, "column odd: time of day"),
        (pa.array([1] * 3, pa.time64("us")), {}, "column odd: time of day"),
        (pa.array([2**64 - 1] * 3, pa.uint64()), {}, "column odd: unsigned 64-bit integer"),
        (pa.array([1.5] * 3, pa.float16()), {}, "column odd: half-precision float"),
        (pa.array([1] * 3, pa.timestamp("ns", "UTC")), {"version": "2.6"}, "timestamp in nanoseconds"),
        (pa.array([1] * 3, pa.timestamp("ns")), {"version": "2.6"}, "without time zone in nanoseconds"),
        (pa.array([[(1, "x")]] * 3, pa.map_(pa.int32(), pa.string())), {}, "keys are not strings"),
        (pa.nulls(3), {}, "column of type null"),
    ],
)
def test_types_that_no_table_left_as_it_is_can_carry_are_named(
    context: Context, tmp_path: Path, array: pa.Array, options: dict[str, Any], words: str
) -> None:
    write_parquet(tmp_path / "s" / "a.parquet", pa.table({"id": IDS, "odd": array}), **options)
    assert words in blockers_of(context, tmp_path / "s", tmp_path / "t")


def _as_impala_wrote_it(path: Path) -> Path:
    """The file with Impala's name for its writer, which is as long as pyarrow's."""
    content = path.read_bytes()
    ours = f"parquet-cpp-arrow version {pa.__version__}".encode()
    assert content.count(ours) == 1
    path.write_bytes(content.replace(ours, b"impala version 2.12.0 (build x)".ljust(len(ours))[: len(ours)]))
    assert pq.read_metadata(path).created_by.startswith("impala version 2.12.0")
    return path


@needs_spark("4.0", "int96RebaseModeInRead = CORRECTED by default")
def test_int96_of_impala_and_of_any_year_is_taken_as_spark_takes_it(context: Context, tmp_path: Path) -> None:
    moments = [datetime.datetime(1, 1, 1), None, datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)]
    path = write_parquet(
        tmp_path / "s" / "a.parquet",
        pa.table({"id": IDS, "t": pa.array(moments, pa.timestamp("us"))}),
        use_deprecated_int96_timestamps=True,
    )
    _as_impala_wrote_it(path)
    rewriting = {"on_unsafe_type": UnsafeTypePolicy.FULL_RECORD}
    table = bootstrap(context, tmp_path / "s", tmp_path / "t", **rewriting)
    expected = [None if each is None else each.replace(tzinfo=UTC) for each in moments]
    assert read_both_ways(context.spark, table)["t"].to_pylist() == expected
    context.spark.conf.set("spark.sql.parquet.int96TimestampConversion", "true")
    try:
        told = blockers_of(context, tmp_path / "s", tmp_path / "t2", **rewriting)
    finally:
        context.spark.conf.unset("spark.sql.parquet.int96TimestampConversion")
    assert "hudisql takes them as UTC: 1 file:" in told


def test_a_file_of_hive_2_is_rewritten_as_hive_reads_it(context: Context, tmp_path: Path) -> None:
    # Made by Hive 2.3.10 (INSERT of three rows): dates and INT96 of the older calendar that nothing tells of.
    (tmp_path / "s").mkdir()
    shutil.copy(Path(__file__).parent / "writers" / "hive_2_3_000000_0", tmp_path / "s" / "000000_0")
    told = blockers_of(context, tmp_path / "s", tmp_path / "t", on_unsafe_type=UnsafeTypePolicy.FAIL)
    for words in ("column d (date): dates before 1582-10-15", "column t (timestamp): INT96 timestamp"):
        assert words in told
    settings = [f"spark.sql.parquet.{kind}RebaseModeInRead" for kind in ("datetime", "int96")]
    before = {name: str(context.spark.conf.get(name)) for name in settings}
    try:
        for name in settings:
            context.spark.conf.set(name, "LEGACY")
        table = bootstrap(context, tmp_path / "s", tmp_path / "t", mode=ModeChoice(BootstrapMode.FULL_RECORD))
        assert verify_bootstrap(context, table, VerifyLevel.FULL).discrepancies == ()
    finally:
        for name, value in before.items():
            context.spark.conf.set(name, value)
    first, nulls, last = read_both_ways(context.spark, table).to_pylist()
    same = {"f": 1.5, "x": 2.5, "ok": True, "s": "w", "ch": "ab", "vc": "abcde", "raw": b"bin"}
    same |= {"m": [("k", 1)], "st": {"a": 1, "b": "w"}}
    assert first == {
        **{"id": "a", "ti": 127, "si": 32767, "i": 2**31 - 1, "b": 2**62, **same},
        "d": datetime.date(1500, 2, 28),
        "t": datetime.datetime(1500, 2, 28, 1, 2, 3, 456000, UTC),
        **dict.fromkeys(("p9", "p38"), Decimal("1234567.89")),
        **{"l": [1, 2], "ls": [{"x": 1}, {"x": 2}]},
    }
    assert nulls == {**dict.fromkeys(first), "id": "b"}
    assert last == {
        **{"id": "c", "ti": -128, "si": -32768, "i": -1, "b": -1, **same},
        "d": datetime.date(2024, 2, 29),
        "t": datetime.datetime(2024, 2, 29, 1, 2, 3, 456789, UTC),
        **dict.fromkeys(("p9", "p38"), Decimal("-0.01")),
        **{"l": [3], "ls": [{"x": 3}]},
    }


LIST_FORMS = {
    # parquet-avro and Hive of old, Thrift, Hive's own, Spark 1, parquet's standard.
    "two-level": "optional group l (LIST) { repeated int32 array; }",
    "tuple": "optional group l (LIST) { repeated int32 l_tuple; }",
    "bag": "optional group l (LIST) { repeated group bag { optional int32 array_element; } }",
    "array": "optional group l (LIST) { repeated group list { required int32 item; } }",
    "element": "optional group l (LIST) { repeated group list { optional int32 element; } }",
    "bare": "repeated int32 l;",
}


@pytest.mark.parametrize("form", LIST_FORMS)
def test_lists_of_every_form_are_right(context: Context, tmp_path: Path, form: str) -> None:
    is_two_level = form in ("two-level", "tuple")

    def row(key: str, values: list[int] | None) -> Any:
        def fill(group: Any, _jvm: Any) -> None:
            group.add("id", key)
            if form == "bare":
                for value in values or ():
                    group.add("l", value)
                return
            if values is None:
                return
            inner = group.addGroup("l")
            for value in values:
                (inner if is_two_level else inner.addGroup(0)).add(0, value)

        return fill

    write_by_parquet_mr(
        context.spark,
        tmp_path / "s" / "a.parquet",
        f"message m {{ required binary id (STRING); {LIST_FORMS[form]} }}",
        [row("a", [1, 2]), row("b", None), row("c", []), row("d", [3])],
    )
    found = read_both_ways(context.spark, bootstrap(context, tmp_path / "s", tmp_path / "t"))
    nothing: list[int] | None = [] if form == "bare" else None
    assert found["l"].to_pylist() == [[1, 2], nothing, [], [3]]


STRUCT_LIST_FORMS = {
    "two-level of one field": ("optional group l (LIST) {{ repeated group array {{ {} }} }}", False),
    "tuple of one field": ("optional group l (LIST) {{ repeated group l_tuple {{ {} }} }}", False),
    "three-level of one field": (
        "optional group l (LIST) {{ repeated group list {{ optional group element {{ {} }} }} }}",
        True,
    ),
    "Hive's bag of one field": (
        "optional group l (LIST) {{ repeated group bag {{ optional group array_element {{ {} }} }} }}",
        True,
    ),
}


@pytest.mark.parametrize("fields", [1, 2])
@pytest.mark.parametrize("form", STRUCT_LIST_FORMS)
def test_lists_of_structs_keep_the_struct_even_of_one_field(
    context: Context, tmp_path: Path, form: str, fields: int
) -> None:
    text, is_three_level = STRUCT_LIST_FORMS[form]
    inside = "optional int32 x;" + (" optional binary y (STRING);" if fields == 2 else "")

    def row(key: str, values: list[int] | None) -> Any:
        def fill(group: Any, _jvm: Any) -> None:
            group.add("id", key)
            if values is None:
                return
            inner = group.addGroup("l")
            for value in values:
                item = inner.addGroup(0)
                item = item.addGroup(0) if is_three_level else item
                item.add("x", value)
                if fields == 2:
                    item.add("y", f"y{value}")

        return fill

    write_by_parquet_mr(
        context.spark,
        tmp_path / "s" / "a.parquet",
        f"message m {{ required binary id (STRING); {text.format(inside)} }}",
        [row("a", [1, 2]), row("b", None), row("c", [])],
    )
    found = read_both_ways(context.spark, bootstrap(context, tmp_path / "s", tmp_path / "t"))

    def struct(value: int) -> dict[str, object]:
        return {"x": value, "y": f"y{value}"} if fields == 2 else {"x": value}

    assert found["l"].to_pylist() == [[struct(1), struct(2)], None, []]


@pytest.mark.parametrize("annotation", ["MAP", "MAP_KEY_VALUE"])
@pytest.mark.parametrize("group_name", ["key_value", "map"])
def test_maps_of_old_and_new_form_are_right(
    context: Context, tmp_path: Path, annotation: str, group_name: str
) -> None:
    def row(key: str, entries: dict[str, int | None] | None) -> Any:
        def fill(group: Any, _jvm: Any) -> None:
            group.add("id", key)
            if entries is None:
                return
            inner = group.addGroup("m")
            for name, value in entries.items():
                entry = inner.addGroup(0)
                entry.add("key", name)
                if value is not None:
                    entry.add("value", value)

        return fill

    write_by_parquet_mr(
        context.spark,
        tmp_path / "s" / "a.parquet",
        f"message m {{ required binary id (STRING); optional group m ({annotation}) {{"
        f" repeated group {group_name} {{ required binary key (STRING); optional int32 value; }} }} }}",
        [row("a", {"x": 1, "y": None}), row("b", None), row("c", {})],
    )
    found = read_both_ways(context.spark, bootstrap(context, tmp_path / "s", tmp_path / "t"))
    assert found["m"].to_pylist() == [[("x", 1), ("y", None)], None, []]


def test_nulls_at_every_level_stay_where_they_are(context: Context, tmp_path: Path) -> None:
    inner = pa.struct(
        [("x", pa.int32()), ("deep", pa.struct([("s", pa.string()), ("l", pa.list_(pa.int64()))]))]
    )
    rows = [
        {"id": "a", "st": None, "ls": None, "m": None},
        {"id": "b", "st": {"x": None, "deep": None}, "ls": [], "m": []},
        {"id": "c", "st": {"x": 1, "deep": {"s": None, "l": None}}, "ls": [None], "m": [("k", None)]},
        {
            "id": "d",
            "st": {"x": None, "deep": {"s": "", "l": [None, 1]}},
            "ls": [None, {"x": None, "deep": None}, {"x": 2, "deep": {"s": "t", "l": []}}],
            "m": [("k", {"x": None, "deep": None}), ("l", {"x": 3, "deep": {"s": None, "l": [5]}})],
        },
    ]
    schema = pa.schema(
        [("id", pa.string()), ("st", inner), ("ls", pa.list_(inner)), ("m", pa.map_(pa.string(), inner))]
    )
    expected = pa.Table.from_pylist(rows, schema)
    write_parquet(tmp_path / "s" / "a.parquet", expected, row_group_size=2)
    write_parquet(
        tmp_path / "s" / "b.parquet",
        pa.table({"id": ["e"], **{name: pa.nulls(1, schema.field(name).type) for name in ("st", "ls", "m")}}),
    )
    table = bootstrap(context, tmp_path / "s", tmp_path / "t")
    found = read_both_ways(context.spark, table).to_pylist()
    assert found == [*expected.to_pylist(), {"id": "e", "st": None, "ls": None, "m": None}]
    assert read_both_ways(context.spark, table, "st.deep.l[1] = 1")["id"].to_pylist() == ["d"]
    assert read_both_ways(context.spark, table, "st IS NOT NULL AND st.x IS NULL")["id"].to_pylist() == [
        "b",
        "d",
    ]


def test_numbers_at_their_edges_are_right(context: Context, tmp_path: Path) -> None:
    doubles = [float("nan"), float("inf"), float("-inf"), -0.0, 5e-324, None]
    table = pa.table(
        {
            "id": list("abcdef"),
            "x": pa.array(doubles, pa.float64()),
            "f": pa.array(doubles, pa.float32()),
            "b": [True, False, None, True, False, None],
            "s": ["", "\0", "ü名\U0001f600", " ", None, "x" * 100_000],
        }
    )
    write_parquet(tmp_path / "s" / "a.parquet", table)
    made = bootstrap(context, tmp_path / "s", tmp_path / "t")
    columns = [name for name in table.column_names if name not in ("x", "f")]
    for schema in (made.schema, made.full_schema):
        found = scan_to_dataframe(context.spark, plan_scan(ScanRequest(made, schema)))
        rows = to_arrow(found.select(*table.column_names)).sort_by("id")
        assert rows.select(columns).to_pylist() == table.select(columns).to_pylist()
        for name in ("x", "f"):
            assert [str(each) for each in rows[name].to_pylist()] == [
                str(each) for each in table[name].to_pylist()
            ]
        assert [row.id for row in found.where("x > 1 OR f > 1").select("id").orderBy("id").collect()] == [
            "a",
            "b",
        ]


def test_types_that_a_rewrite_mends_are_right_and_verified(context: Context, tmp_path: Path) -> None:
    moments = [datetime.datetime(2020, 1, 1, 1, 2, 3, 456000), None, datetime.datetime(1900, 1, 1)]
    in_utc = [None if each is None else each.replace(tzinfo=UTC) for each in moments]
    numbers = [None if number is None else Decimal(number).scaleb(-2) for number in (12345, None, -1)]
    columns = {
        "timestamp_millis": pa.array(in_utc, pa.timestamp("ms", "UTC")),
        "uint32": pa.array([2**32 - 1, None, 0], pa.uint32()),
        "small_integer": pa.array([127, None, -128], pa.int8()),
        "uuid": pa.array([bytes(16), None, bytes(range(16))], pa.uuid()),
        "fixed_binary": pa.array([b"abc", None, b"\0\0\0"], pa.binary(3)),
        "integer_decimal": pa.array(numbers, pa.decimal128(9, 2)),
    }
    nanos = {"timestamp_nanos": pa.array(in_utc, pa.timestamp("ns", "UTC"))}
    int96 = {"int96": pa.array(moments, pa.timestamp("us"))}
    elsewhere = {"older_calendar", "unknown_calendar", "binary_decimal"}
    mended = {
        name
        for name, incompatibility in TYPE_INCOMPATIBILITIES.items()
        if incompatibility.fixed_by_full_record
    }
    assert mended - elsewhere == {*columns, *nanos, *int96}
    write_parquet(
        tmp_path / "s" / "a.parquet", pa.table({"id": IDS, **columns}), store_decimal_as_integer=True
    )
    write_parquet(tmp_path / "sns" / "a.parquet", pa.table({"id": IDS, **nanos}), version="2.6")
    write_parquet(
        tmp_path / "s96" / "a.parquet",
        pa.table({"id": IDS, **int96}),
        use_deprecated_int96_timestamps=True,
    )
    uuids = columns["uuid"].storage
    in_table = {**columns, **nanos, "int96": pa.array(in_utc), "uuid": uuids}
    for source, names in (("s", [*columns]), ("sns", [*nanos]), ("s96", [*int96])):
        policy = UnsafeTypePolicy.FULL_RECORD
        table = bootstrap(context, tmp_path / source, tmp_path / f"t{source}", on_unsafe_type=policy)
        assert table.properties.unsafe_types == {}
        found = read_both_ways(context.spark, table)
        for name in names:
            assert found[name].to_pylist() == in_table[name].to_pylist(), name
        assert verify_bootstrap(context, table, VerifyLevel.SAMPLE).compared_rows == 3
        if source == "sns":
            with pytest.raises(QueryError, match=r"cannot be compared: .*/sns/a.parquet") as raised:
                verify_bootstrap(context, table, VerifyLevel.FULL)
            assert "level => 'sample'" in str(raised.value.hint)
        else:
            assert verify_bootstrap(context, table, VerifyLevel.FULL).discrepancies == ()
