from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudisql.errors import CorruptTableError, UnsupportedTableError
from hudisql.format.schema.avro_schema import (
    LOCAL_TIMESTAMP,
    TIMESTAMP,
    arrow_from_avro,
    avro_from_arrow,
    canonical_type,
    comment_of,
    commented_field,
    decimal_bytes,
    is_avro_name,
    is_column_name,
)
from hudisql.format.timeline.commit_metadata import parse_commit_metadata

GOLDENS = ["cow_bootstrap_meta", "cow_bootstrap_2part", "cow_savepoint_clean", "mor_compacted"]


def record(*fields: object) -> str:
    return json.dumps({"type": "record", "name": "r", "namespace": "n", "fields": list(fields)})


@pytest.mark.parametrize("name", GOLDENS)
def test_schemas_of_apache_hudi_are_written_again_letter_for_letter(golden, name: str) -> None:
    for file in (Path(golden(name).table) / ".hoodie").glob("*commit"):
        text = parse_commit_metadata(file.read_bytes()).schema
        assert text is not None
        table_name = json.loads(text)["namespace"].removeprefix("hoodie.")
        assert avro_from_arrow(arrow_from_avro(text), table_name) == text


def test_the_golden_schema_in_arrow(golden) -> None:
    commit = Path(golden("cow_bootstrap_meta").table) / ".hoodie" / "00000000000001.commit"
    text = parse_commit_metadata(commit.read_bytes()).schema
    assert text is not None
    assert arrow_from_avro(text) == pa.schema(
        [
            ("id", pa.string()),
            ("seq", pa.int32()),
            ("fare", pa.float64()),
            ("price", pa.decimal128(12, 2)),
            ("d", pa.date32()),
            ("ts", TIMESTAMP),
            ("note", pa.string()),
            ("st", pa.struct([("a", pa.int64()), ("b", pa.string())])),
            ("arr", pa.list_(pa.field("element", pa.int32()))),
            ("mp", pa.map_(pa.string(), pa.string())),
            ("dt", pa.string()),
        ]
    )


def test_nested_records_of_apache_hudi_get_the_same_namespaces(third_party) -> None:
    for file in (Path(third_party("v6_complexkeygen_hivestyle")) / ".hoodie").glob("*.commit"):
        text = parse_commit_metadata(file.read_bytes()).schema
        assert text is not None
        assert avro_from_arrow(arrow_from_avro(text), "v6_complexkeygen_hivestyle") == text


def test_types_that_other_writers_use_have_an_arrow_form() -> None:
    schema = arrow_from_avro(
        record(
            {"name": "millis", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "local", "type": ["null", {"type": "long", "logicalType": "local-timestamp-micros"}]},
            {"name": "byte_decimal", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9}},
            {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED"]}},
            {"name": "mac", "type": {"type": "fixed", "name": "Mac", "size": 6}},
            {"name": "other_mac", "type": ["null", "Mac"]},
            {"name": "qualified_mac", "type": ["null", "n.Mac"]},
            {"name": "wide", "type": ["null", "int", "long"]},
            {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
            {"name": "java_string", "type": {"type": "string", "avro.java.string": "String"}},
        )
    )
    assert {field.name: field.type for field in schema} == {
        "millis": TIMESTAMP,
        "local": LOCAL_TIMESTAMP,
        "byte_decimal": pa.decimal128(9, 0),
        "color": pa.string(),
        "mac": pa.binary(),
        "other_mac": pa.binary(),
        "qualified_mac": pa.binary(),
        "wide": pa.int64(),
        "uuid": pa.string(),
        "java_string": pa.string(),
    }


def test_comments_travel_as_doc() -> None:
    schema = pa.schema([commented_field("a", pa.int32(), 'the "first"'), pa.field("b", pa.int32())])
    text = avro_from_arrow(schema, "t")
    assert json.loads(text)["fields"][0]["doc"] == 'the "first"'
    assert [comment_of(field) for field in arrow_from_avro(text)] == ['the "first"', None]


@pytest.mark.parametrize("text", ["", "{}", '"string"', "[1]"])
def test_what_is_no_record_schema_is_damaged(text: str) -> None:
    with pytest.raises(CorruptTableError):
        arrow_from_avro(text)


@pytest.mark.parametrize(
    "avro_type",
    [
        ["null", "string", "int"],
        "null",
        "Unknown",
        {"type": "bytes", "logicalType": "decimal", "precision": 40},
    ],
)
def test_avro_types_without_a_column_type_are_refused_by_name(avro_type: object) -> None:
    with pytest.raises(UnsupportedTableError, match=r"odd|decimals"):
        arrow_from_avro(record({"name": "odd", "type": avro_type}))


def test_arrow_types_take_one_form() -> None:
    row = pa.struct(
        [
            pa.field("a", pa.large_string(), nullable=False),
            pa.field("b", pa.dictionary(pa.int32(), pa.string())),
            pa.field("c", pa.int8()),
            pa.field("d", pa.uint32()),
            pa.field("e", pa.timestamp("ns", tz="Europe/Berlin")),
            pa.field("f", pa.timestamp("ms")),
            pa.field("g", pa.list_(pa.field("item", pa.struct([pa.field("x", pa.int16(), nullable=False)])))),
            pa.field("h", pa.map_(pa.string(), pa.large_binary())),
            pa.field("i", pa.binary(16)),
        ]
    )
    assert canonical_type(row, "row") == pa.struct(
        [
            ("a", pa.string()),
            ("b", pa.string()),
            ("c", pa.int32()),
            ("d", pa.int64()),
            ("e", TIMESTAMP),
            ("f", LOCAL_TIMESTAMP),
            ("g", pa.list_(pa.field("element", pa.struct([("x", pa.int32())])))),
            ("h", pa.map_(pa.string(), pa.binary())),
            ("i", pa.binary()),
        ]
    )


@pytest.mark.parametrize("odd", [pa.time64("us"), pa.uint64(), pa.null(), pa.map_(pa.int32(), pa.string())])
def test_arrow_types_that_a_table_cannot_hold_are_refused_by_name(odd: pa.DataType) -> None:
    with pytest.raises(UnsupportedTableError, match="odd"):
        avro_from_arrow(pa.schema([("odd", odd)]), "t")


def test_names_that_avro_refuses() -> None:
    assert is_avro_name("_a1")
    assert not any(map(is_avro_name, ["a-b", "1a", "", "a b", "größe", "a.b"]))
    assert all(map(is_column_name, ["größe", "名字", "_1", "t٣"]))
    assert not any(map(is_column_name, ["a-b", "1a", "", "a b", "a.b", "x²"]))
    with pytest.raises(UnsupportedTableError, match="a-b"):
        avro_from_arrow(pa.schema([("a-b", pa.int32())]), "t")
    with pytest.raises(UnsupportedTableError, match="größe"):
        avro_from_arrow(pa.schema([("s", pa.struct([("größe", pa.int32())]))]), "t")


def test_table_names_are_made_fit_for_avro() -> None:
    document = json.loads(avro_from_arrow(pa.schema([("a", pa.int32())]), "my-table"))
    assert (document["name"], document["namespace"]) == ("my__table_record", "hoodie.my__table")


def test_decimals_take_the_fewest_bytes() -> None:
    assert [decimal_bytes(precision) for precision in (1, 2, 3, 9, 10, 12, 18, 19, 20, 38)] == [
        1,
        1,
        2,
        4,
        5,
        6,
        8,
        9,
        9,
        16,
    ]


_SIMPLE = st.sampled_from(
    [
        pa.string(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.bool_(),
        pa.binary(),
        pa.date32(),
        TIMESTAMP,
        LOCAL_TIMESTAMP,
        pa.decimal128(38, 10),
        pa.decimal128(1, 0),
    ]
)
_TYPES = st.recursive(
    _SIMPLE,
    lambda inner: st.one_of(
        inner.map(lambda item: pa.list_(pa.field("element", item))),
        inner.map(lambda item: pa.map_(pa.string(), item)),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda members: pa.struct([(f"m{number}", member) for number, member in enumerate(members)])
        ),
    ),
    max_leaves=6,
)


@given(st.lists(_TYPES, min_size=1, max_size=5))
def test_any_schema_survives_avro_and_is_legal_avro(types: list[pa.DataType]) -> None:
    import fastavro

    schema = pa.schema([(f"c{number}", found) for number, found in enumerate(types)])
    text = avro_from_arrow(schema, "t")
    fastavro.parse_schema(json.loads(text))
    assert arrow_from_avro(text) == schema


@pytest.mark.parametrize("logical_type", ["variant", "blob", "vector"])
def test_types_of_hudi_1_2_are_refused_by_name(logical_type: str) -> None:
    kind = {"type": "fixed", "name": "f", "size": 4, "logicalType": logical_type}
    fields = [{"name": "id", "type": "string"}, {"name": "x", "type": ["null", kind]}]
    text = json.dumps({"type": "record", "name": "t", "fields": fields})
    with pytest.raises(UnsupportedTableError, match=f"x is of the type {logical_type.upper()}"):
        arrow_from_avro(text)
