"""Avro in Confluent's framing is decoded by its writer's schema and brought to the table's."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudisql.errors import InvalidArgumentError
from hudisql.ingest.parse.avro_records import AvroParser
from tests.ingest.parse.json_model import TIMESTAMP
from tests.ingest.parse.test_debezium import Registered, reasons


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields]}


FIRST = record(("id", "string"), ("n", "int"))
SECOND = record(
    ("n", ["null", "long"]),
    ("extra", "boolean"),
    ("id", "string"),
    ("deep", record(("a", "int")) | {"name": "D"}),
)
TABLE = pa.schema([("id", pa.string()), ("n", pa.int64()), ("later", pa.float64())])


def test_bytes_of_the_wire_format() -> None:
    # Zero byte, schema 1, "ab" behind its length, 150 as zigzag varint.
    value = b"\x00\x00\x00\x00\x01\x04ab\xac\x02"
    found = AvroParser(TABLE, Registered(None, FIRST)).parse([value])
    assert found.rows.to_pylist() == [{"id": "ab", "n": 150, "later": None}]
    assert found.rows.schema == TABLE


def test_batches_of_several_writer_schemas_keep_their_order() -> None:
    registry = Registered(FIRST, SECOND)
    first = [registry.frame(0, {"id": str(number), "n": number}) for number in range(0, 10, 2)]
    second = [
        registry.frame(1, {"id": str(number), "n": None, "extra": True, "deep": {"a": 1}})
        for number in range(1, 10, 2)
    ]
    values = [each for pair in zip(first, second, strict=True) for each in pair]
    found = AvroParser(TABLE, registry, take_new_columns=True).parse(values)
    assert found.rows.column("id").to_pylist() == [str(number) for number in range(10)]
    assert found.rows.column("n").to_pylist()[:4] == [0, None, 2, None]
    assert found.positions.tolist() == list(range(10))
    assert found.new_columns == pa.schema([("extra", pa.bool_()), ("deep", pa.struct([("a", pa.int32())]))])
    assert len(AvroParser(TABLE, registry).parse(values).new_columns) == 0


@given(st.lists(st.sampled_from(["good", "cut", "longer", "magic", "short", "unknown", "utf8"]), max_size=30))
def test_bad_records_shift_no_position(kinds: list[str]) -> None:
    registry = Registered(FIRST)
    forms = {
        "cut": (lambda value: value[:-1], "not Avro of schema 0"),
        "longer": (lambda value: value + b"\0", "not Avro of schema 0"),
        "magic": (
            lambda value: b"\1" + value[1:],
            "not in Confluent's framing: no zero byte and schema number",
        ),
        "short": (lambda _: b"\0\0", "not in Confluent's framing: no zero byte and schema number"),
        "unknown": (lambda value: b"\0\0\0\0\7" + value[5:], "the registry has no schema 7"),
        "utf8": (
            lambda value: value.replace(b"\x02x", b"\x02\xff"),
            "a value that schema 0 does not allow (text that is not UTF-8?)",
        ),
    }
    values, expected = [], []
    for number, kind in enumerate(kinds):
        value = registry.frame(0, {"id": "x", "n": number * 1000})
        if kind != "good":
            change, reason = forms[kind]
            value = change(value)
            expected.append((number, reason))
        values.append(value)
    found = AvroParser(TABLE, registry).parse(values)
    assert reasons(found) == expected
    assert found.positions.tolist() == [number for number, kind in enumerate(kinds) if kind == "good"]
    assert found.rows.column("n").to_pylist() == [1000 * int(each) for each in found.positions]


@pytest.mark.parametrize(
    ("writer", "sent", "table", "read"),
    [
        ("int", 5, pa.float64(), 5.0),
        ("long", 5, pa.float32(), 5.0),
        ("float", 0.5, pa.float64(), 0.5),
        ("string", "é", pa.binary(), "é".encode()),
        ("bytes", b"ab", pa.string(), "ab"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", pa.string(), "B"),
        ({"type": "array", "items": "int"}, [1, 2], pa.list_(pa.field("element", pa.int64())), [1, 2]),
        (["null", {"type": "map", "values": "int"}], {"a": 1}, pa.map_(pa.string(), pa.int64()), [("a", 1)]),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
            Decimal("1.5"),
            pa.decimal128(10, 2),
            Decimal("1.50"),
        ),
        (
            record(("b", "int"), ("a", "int")) | {"name": "D"},
            {"a": 1, "b": 2},
            pa.struct([("a", pa.int64()), ("c", pa.string())]),
            {"a": 1, "c": None},
        ),
    ],
)
def test_writer_types_are_resolved(writer: Any, sent: Any, table: pa.DataType, read: Any) -> None:
    registry = Registered(record(("x", writer)))
    found = AvroParser(pa.schema([("x", table)]), registry).parse([registry.frame(0, {"x": sent})])
    assert found.bad == ()
    assert found.rows.to_pylist() == [{"x": read}]
    found.rows.validate(full=True)


@pytest.mark.parametrize(
    ("writer", "sent", "table"),
    [
        ("long", 5, pa.int32()),
        ("double", 0.5, pa.float32()),
        ("int", 1, pa.string()),
        ("long", 1, TIMESTAMP),
        ("int", 1, pa.bool_()),
    ],
)
def test_types_that_avro_does_not_resolve_make_records_bad(
    writer: Any, sent: Any, table: pa.DataType
) -> None:
    registry = Registered(record(("x", writer)))
    found = AvroParser(pa.schema([("x", table)]), registry).parse([registry.frame(0, {"x": sent})] * 2)
    assert [each.position for each in found.bad] == [0, 1]
    assert found.bad[0].reason.startswith("schema 0: column x is ")


def test_tombstones_and_the_delete_field_delete() -> None:
    registry = Registered(
        record(("id", "string"), ("_hoodie_is_deleted", "boolean")), record(("id", "string"))
    )
    values = [registry.frame(0, {"id": "a", "_hoodie_is_deleted": True}), None, None, None]
    keys = [None, b"b", registry.frame(1, {"id": "c"}), None]
    found = AvroParser(TABLE, registry, key_column="id").parse(values, keys)
    assert found.rows.column("id").to_pylist() == ["a", "b", "c"]
    assert found.is_deleted is not None
    assert found.is_deleted.all()
    assert [each.position for each in found.bad] == [3]
    with pytest.raises(InvalidArgumentError, match="not a column of the table"):
        AvroParser(TABLE, registry, key_column="missing")


def test_a_value_that_the_column_does_not_hold_makes_its_record_bad_alone() -> None:
    writer = record(("text", "bytes"), ("price", "string"), ("items", {"type": "array", "items": "bytes"}))
    registry = Registered(writer)
    items = pa.list_(pa.field("element", pa.string()))
    schema = pa.schema([("text", pa.string()), ("price", pa.decimal128(6, 2)), ("items", items)])
    sent = [{"text": b"a%d" % number, "price": f"{number}.50", "items": [b"x", b"y"]} for number in range(9)]
    sent[2]["text"], sent[5]["price"], sent[6]["items"] = b"\xff", "dear", [b"\xfe"]
    found = AvroParser(schema, registry).parse([registry.frame(0, each) for each in sent])
    assert [each.position for each in found.bad] == [2, 5, 6]
    assert "column text has a value that is no string" in found.bad[0].reason
    assert "column price" in found.bad[1].reason
    assert "column items.element" in found.bad[2].reason
    assert found.positions.tolist() == [0, 1, 3, 4, 7, 8]
    assert found.rows.column("text").to_pylist() == ["a0", "a1", "a3", "a4", "a7", "a8"]
    assert found.rows.column("items").to_pylist() == [["x", "y"]] * 6
    found.rows.validate(full=True)
    assert len(AvroParser(schema, registry).parse([registry.frame(0, sent[2])]).bad) == 1


def test_new_columns_of_a_semantic_type_are_times() -> None:
    day = {"type": "int", "connect.name": "io.debezium.time.Date"}
    at = {"type": "long", "connect.name": "io.debezium.time.Timestamp"}
    registry = Registered(record(("id", "string"), ("day", day), ("at", at)))
    frame = registry.frame(0, {"id": "a", "day": 19_000, "at": 1_700_000_000_000})
    found = AvroParser(TABLE, registry, take_new_columns=True).parse([frame])
    assert found.new_columns == pa.schema([("day", pa.date32()), ("at", TIMESTAMP)])
