"""Which differences between files are taken, which stop the run, and what is said of them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hudisql.bootstrap.plan.schema_drift import (
    MergedColumns,
    SchemaDrift,
    describe_file_differences,
    merge_file_schemas,
)
from hudisql.bootstrap.source.footers import SourceColumn, SourceSchema
from hudisql.spark import versions


def _schema(**columns: pa.DataType | None) -> SourceSchema:
    return SourceSchema(
        tuple(SourceColumn(name, kind, "PHYSICAL", frozenset()) for name, kind in columns.items()),
        repr(columns),
    )


def _merged(one: pa.DataType, other: pa.DataType, drift: SchemaDrift = SchemaDrift.WIDEN) -> MergedColumns:
    return merge_file_schemas({_schema(v=one): ["a", "b"], _schema(v=other): ["c"]}, drift)


def _struct(**fields: pa.DataType) -> pa.DataType:
    return pa.struct(list(fields.items()))


SAFE = [
    (pa.int32(), pa.int64(), pa.int64()),
    (pa.float32(), pa.float64(), pa.float64()),
    (pa.decimal128(9, 2), pa.decimal128(16, 2), pa.decimal128(16, 2)),
    (_struct(a=pa.int32()), _struct(a=pa.int32(), b=pa.string()), _struct(a=pa.int32(), b=pa.string())),
    (_struct(a=pa.int32()), _struct(b=pa.string()), _struct(a=pa.int32(), b=pa.string())),
    (
        pa.list_(pa.field("element", _struct(a=pa.int32()))),
        pa.list_(pa.field("element", _struct(a=pa.int32(), b=pa.string()))),
        pa.list_(pa.field("element", _struct(a=pa.int32(), b=pa.string()))),
    ),
    (
        pa.map_(pa.string(), _struct(a=pa.int32())),
        pa.map_(pa.string(), _struct(a=pa.int32(), b=pa.string())),
        pa.map_(pa.string(), _struct(a=pa.int32(), b=pa.string())),
    ),
]
UNSAFE = [
    (pa.int32(), pa.float64()),
    (pa.int64(), pa.string()),
    (pa.date32(), pa.timestamp("us", "UTC")),
    (pa.decimal128(9, 2), pa.decimal128(12, 4)),
    (pa.int64(), pa.decimal128(20, 0)),
    (_struct(a=pa.int32()), _struct(a=pa.int64())),
    (_struct(a=pa.int32()), _struct(A=pa.int32())),
    (_struct(a=pa.int32()), pa.int32()),
    (pa.list_(pa.int32()), pa.list_(pa.int64())),
    (pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.int64())),
]


@pytest.mark.parametrize(("narrow", "wide", "widest"), SAFE)
def test_what_every_reader_gets_right_is_widened_whichever_files_are_more(
    narrow: pa.DataType, wide: pa.DataType, widest: pa.DataType
) -> None:
    for merged in (_merged(narrow, wide), _merged(wide, narrow)):
        (column,) = merged.columns
        assert column.type is not None
        assert {str(field) for field in _leaves(column.type)} == {str(field) for field in _leaves(widest)}
        (finding,) = merged.findings
        assert not finding.is_blocker
        assert "in 1 file: c" in finding.message
        assert "it becomes" in finding.message


@pytest.mark.parametrize(("narrow", "wide", "widest"), SAFE)
def test_the_warning_says_what_the_scan_of_spark_3_5_refuses(
    monkeypatch: pytest.MonkeyPatch, narrow: pa.DataType, wide: pa.DataType, widest: pa.DataType
) -> None:
    for pyspark in ((3, 5), (4, 0)):
        monkeypatch.setattr(versions, "pyspark_version", lambda found=pyspark: found)
        (finding,) = _merged(narrow, wide).findings
        is_refused = pyspark == (3, 5) and widest in (pa.int64(), pa.float64())
        assert finding.message.endswith("Spark 3.5 cannot scan such files, Spark 4 can") == is_refused


def _leaves(kind: pa.DataType) -> list[object]:
    if pa.types.is_nested(kind):
        children = [kind.field(index) for index in range(kind.num_fields)]
        return [(each.name, leaf) for each in children for leaf in _leaves(each.type)]
    return [kind]


@pytest.mark.parametrize("narrow_first", [True, False])
@pytest.mark.parametrize(("one", "other"), UNSAFE)
def test_what_some_reader_gets_wrong_is_a_blocker(
    one: pa.DataType, other: pa.DataType, narrow_first: bool
) -> None:
    merged = _merged(one, other) if narrow_first else _merged(other, one)
    (finding,) = merged.findings
    assert finding.is_blocker
    assert finding.hint is not None
    assert "rewrite the fewer files" in finding.hint
    assert merged.columns[0].type == (one if narrow_first else other)


def test_a_difference_stops_the_run_by_default_and_says_what_takes_it() -> None:
    (finding,) = _merged(pa.int32(), pa.int64(), SchemaDrift.FAIL).findings
    assert finding.is_blocker
    assert finding.hint is not None
    assert "on_schema_drift => 'widen'" in finding.hint


def test_a_missing_column_is_null_where_it_is_missing_and_new_columns_come_last() -> None:
    files = {
        _schema(b=pa.string(), a=pa.int32()): ["one", "two"],
        _schema(new=pa.string(), a=pa.int32(), b=pa.string()): ["three"],
        _schema(a=pa.int32(), x=pa.int32()): ["four"],
    }
    merged = merge_file_schemas(files, SchemaDrift.WIDEN)
    assert [column.name for column in merged.columns] == ["b", "a", "new", "x"]
    assert [finding.message for finding in merged.findings] == [
        "column b is missing in 1 file: four: it is null there",
        "column new is only in 1 file: three: it is null elsewhere",
        "column x is only in 1 file: four: it is null elsewhere",
    ]


def test_the_order_of_columns_is_no_difference() -> None:
    files = {_schema(a=pa.int32(), b=pa.string()): ["1"], _schema(b=pa.string(), a=pa.int32()): ["2"]}
    assert merge_file_schemas(files).findings == ()


def test_differences_name_every_file_and_how_it_differs() -> None:
    wide = _schema(id=pa.int64(), note=pa.string())
    files = {wide: ["b", "d"], _schema(id=pa.int32()): ["c", "a"]}
    merged = merge_file_schemas(files, SchemaDrift.WIDEN)
    difference = "id is int, the table's id bigint; note is missing"
    assert list(describe_file_differences(files, merged.columns)) == [("a", difference), ("c", difference)]
