"""Hive's type texts and Arrow types."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudisql.catalog.hive_types import arrow_from_hive_type, hive_type_name
from hudisql.errors import UnsupportedTableError

PRIMITIVES = st.sampled_from(
    [
        pa.string(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.bool_(),
        pa.binary(),
        pa.date32(),
        pa.timestamp("us", tz="UTC"),
        pa.decimal128(38, 18),
        pa.decimal128(5, 0),
    ]
)
FIELD_NAMES = st.lists(
    st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True), min_size=1, max_size=4, unique=True
)


def _nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    structs = FIELD_NAMES.flatmap(
        lambda names: st.tuples(*[inner for _ in names]).map(
            lambda types: pa.struct(list(zip(names, types, strict=True)))
        )
    )
    return st.one_of(
        inner.map(lambda element: pa.list_(pa.field("element", element))),
        inner.map(lambda value: pa.map_(pa.string(), value)),
        structs,
    )


@given(st.recursive(PRIMITIVES, _nested, max_leaves=12))
def test_a_type_written_for_hive_is_read_back_the_same(arrow_type: pa.DataType) -> None:
    assert arrow_from_hive_type(hive_type_name(arrow_type)) == arrow_type


def test_texts_that_hive_and_spark_write_are_read() -> None:
    assert arrow_from_hive_type("varchar(10)") == pa.string()
    assert arrow_from_hive_type("DECIMAL") == pa.decimal128(10, 0)
    assert arrow_from_hive_type("decimal(12, 2)") == pa.decimal128(12, 2)
    assert arrow_from_hive_type("smallint") == pa.int32()
    assert arrow_from_hive_type("struct<`odd name:x`:int, b : map<string,array<double>>>") == pa.struct(
        [("odd name:x", pa.int32()), ("b", pa.map_(pa.string(), pa.list_(pa.field("element", pa.float64()))))]
    )


def test_struct_fields_are_lower_cased_for_hive() -> None:
    assert hive_type_name(pa.struct([("aB", pa.int64())])) == "struct<ab:bigint>"


def test_timestamps_may_be_declared_as_bigint_for_readers_without_them() -> None:
    nested = pa.list_(pa.timestamp("us", tz="UTC"))
    assert hive_type_name(nested) == "array<timestamp>"
    assert hive_type_name(nested, support_timestamp=False) == "array<bigint>"


@pytest.mark.parametrize(
    "text", ["", "uniontype<int,string>", "array<int", "struct<a>", "int extra", "decimal(x)", "array<int>>"]
)
def test_what_is_no_known_type_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedTableError, match="not a Hive type"):
        arrow_from_hive_type(text)
