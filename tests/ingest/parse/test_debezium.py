"""Debezium envelopes, in JSON and Avro, become the rows and deletes that they describe."""

from __future__ import annotations

import base64
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from hudisql.ingest.parse.debezium_avro import DebeziumAvroParser
from hudisql.ingest.parse.debezium_json import DebeziumJsonParser
from hudisql.ingest.parse.json_program import Encoding
from hudisql.ingest.parse.json_records import NO_KEY
from hudisql.ingest.parse.parsed_batch import ParsedBatch
from tests.ingest.parse.json_model import TIMESTAMP

ROW = pa.schema([("id", pa.int64()), ("name", pa.string())])
WITH_META = pa.schema(
    [
        *ROW,
        ("_change_operation_type", pa.string()),
        ("_event_lsn", pa.int64()),
        ("_upstream_event_processed_ts_ms", pa.int64()),
    ]
)
MYSQL = pa.schema(
    [
        ("id", pa.int64()),
        ("_event_bin_file", pa.string()),
        ("_event_pos", pa.int64()),
        ("_event_seq", pa.string()),
    ]
)

# As the documentation of Debezium's PostgreSQL connector shows them.
CREATE = b"""{"before": null, "after": {"id": 1, "name": "anne"}, "source": {"version": "2.7.4.Final",
 "connector": "postgresql", "name": "shop", "ts_ms": 1559033904863, "snapshot": true, "db": "postgres",
 "sequence": "[\\"24023119\\",\\"24023128\\"]", "schema": "public", "table": "customers", "txId": 555,
 "lsn": 24023128, "xmin": null}, "op": "c", "ts_ms": 1559033904961}"""
UPDATE = b'{"before":{"id":1},"after":{"id":1,"name":"bob"},"source":{"lsn":24023130},"op":"u","ts_ms":5}'
DELETE = b'{"before":{"id":1,"name":"bob"},"after":null,"source":{"lsn":24023140},"op":"d","ts_ms":6}'
READ = b'{"before":null,"after":{"id":2,"name":"cy"},"source":{"lsn":1},"op":"r","ts_ms":7}'
TRUNCATE = b'{"source":{"lsn":2},"op":"t","ts_ms":8}'
MESSAGE = b'{"op":"m","ts_ms":9,"source":{"lsn":3},"message":{"prefix":"p","content":"YQ=="}}'


def wrapped(message: bytes, schema: Any = None) -> bytes:
    return b'{"schema":' + json.dumps(schema or {"type": "struct"}).encode() + b',"payload":' + message + b"}"


def reasons(batch: ParsedBatch) -> list[tuple[int, str]]:
    return [(each.position, each.reason.split(", at byte")[0]) for each in batch.bad]


@pytest.mark.parametrize("wrap", [False, True])
def test_operations_are_rows_deletes_or_ignored(wrap: bool) -> None:
    messages = [CREATE, UPDATE, DELETE, READ, TRUNCATE, MESSAGE]
    values = [wrapped(each) if wrap else each for each in messages]
    found = DebeziumJsonParser(WITH_META).parse([*values, None])
    assert found.rows.to_pylist() == [
        {"id": 1, "name": "anne", "_change_operation_type": "c", "_event_lsn": 24023128,
         "_upstream_event_processed_ts_ms": 1559033904961},
        {"id": 1, "name": "bob", "_change_operation_type": "u", "_event_lsn": 24023130,
         "_upstream_event_processed_ts_ms": 5},
        {"id": 1, "name": "bob", "_change_operation_type": "d", "_event_lsn": 24023140,
         "_upstream_event_processed_ts_ms": 6},
        {"id": 2, "name": "cy", "_change_operation_type": "r", "_event_lsn": 1,
         "_upstream_event_processed_ts_ms": 7},
    ]  # fmt: skip
    assert found.positions.tolist() == [0, 1, 2, 3]
    assert found.is_deleted is not None
    assert found.is_deleted.tolist() == [False, False, True, False]
    assert (found.bad, found.ignored) == ((), 3)


def test_wrapped_and_plain_envelopes_may_be_mixed() -> None:
    found = DebeziumJsonParser(ROW).parse([wrapped(CREATE), READ, wrapped(UPDATE, {"type": "other"}), DELETE])
    assert found.rows.column("name").to_pylist() == ["anne", "cy", "bob", "bob"]
    assert found.positions.tolist() == [0, 1, 2, 3]


def test_bad_envelopes_have_their_reasons_and_shift_nothing() -> None:
    values = [
        b"{",
        CREATE,
        b'{"op":"x"}',
        b'{"op":"c","after":null}',
        b'{"op":"c","after":{"id":"no number"}}',
        b'{"op":"d","before":null}',
        b"[]",
        b'{"op":5}',
        UPDATE,
        b'{"after":{"id":1}}',
    ]
    found = DebeziumJsonParser(ROW).parse(values)
    assert found.positions.tolist() == [1, 8]
    assert reasons(found) == [
        (0, "not JSON"),
        (2, "op 'x' is none of Debezium's"),
        (3, "no row after"),
        (4, "column id: a value of another type than int64"),
        (5, "neither the row nor a key to delete by"),
        (6, "no JSON object"),
        (7, "column op: a value of another type than string"),
        (9, "op None is none of Debezium's"),
    ]


def test_deletes_without_the_row_and_tombstones_delete_the_key() -> None:
    keys = [b'{"id":7}', wrapped(b'{"id":8}'), b'{"id":1}', b"9", None, b'{"id":"text"}']
    values = [b'{"op":"d","before":null,"after":null}', None, CREATE, b"", None, None]
    found = DebeziumJsonParser(ROW, key_column="id").parse(values, keys)
    assert found.rows.column("id").to_pylist() == [7, 8, 1, 9]
    assert found.positions.tolist() == [0, 1, 2, 3]
    assert found.is_deleted is not None
    assert found.is_deleted.tolist() == [True, True, False, True]
    assert reasons(found) == [(5, "column id: a value of another type than int64")]
    assert found.ignored == 1


def test_mysql_events_are_ordered_by_file_and_place() -> None:
    value = b'{"op":"c","after":{"id":1},"source":{"file":"mysql-bin.000003","pos":154,"row":0}}'
    found = DebeziumJsonParser(MYSQL).parse([value])
    assert found.rows.to_pylist() == [
        {"id": 1, "_event_bin_file": "mysql-bin.000003", "_event_pos": 154, "_event_seq": "000003.154"}
    ]


TYPES = pa.schema(
    [
        ("day", pa.date32()),
        ("millis", TIMESTAMP),
        ("micros", pa.timestamp("us")),
        ("nanos", TIMESTAMP),
        ("zoned", TIMESTAMP),
        ("price", pa.decimal128(10, 2)),
        ("wide", pa.decimal128(12, 4)),
        ("text_price", pa.decimal128(10, 2)),
        ("content", pa.binary()),
    ]
)


def connect_field(name: str, kind: str, semantic: str | None = None, **parameters: str) -> dict[str, Any]:
    return {"field": name, "type": kind, "name": semantic, "parameters": parameters, "optional": True}


def test_semantic_types_of_the_schema_say_how_values_are_read() -> None:
    fields = [
        connect_field("day", "int32", "io.debezium.time.Date"),
        connect_field("millis", "int64", "io.debezium.time.Timestamp"),
        connect_field("micros", "int64", "io.debezium.time.MicroTimestamp"),
        connect_field("nanos", "int64", "io.debezium.time.NanoTimestamp"),
        connect_field("zoned", "string", "io.debezium.time.ZonedTimestamp"),
        connect_field("price", "bytes", "org.apache.kafka.connect.data.Decimal", scale="2"),
        connect_field("wide", "bytes", "org.apache.kafka.connect.data.Decimal", scale="2"),
        connect_field("text_price", "string"),
        connect_field("content", "bytes"),
    ]
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}
    row = {
        "day": 19782,
        "millis": 1_700_000_000_123,
        "micros": 1_700_000_000_123_456,
        "nanos": 1_700_000_000_123_456_789,
        "zoned": "2023-11-14T22:13:20.123456Z",
        "price": base64.b64encode((-12345).to_bytes(2, "big", signed=True)).decode(),
        "wide": base64.b64encode((255).to_bytes(2, "big", signed=True)).decode(),
        "text_price": "12.50",
        "content": "AQI=",
    }
    value = wrapped(json.dumps({"op": "c", "after": row}).encode(), schema)
    too_wide = wrapped(json.dumps({"op": "c", "after": {"price": "/" * 16}}).encode(), schema)
    overflow = wrapped(json.dumps({"op": "c", "after": {"price": "f////////w=="}}).encode(), schema)
    found = DebeziumJsonParser(TYPES).parse([value, overflow, too_wide])
    at = datetime(2023, 11, 14, 22, 13, 20, 123_456)
    assert found.rows.to_pylist()[0] == {
        "day": date(2024, 2, 29),
        "millis": datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC),
        "micros": at,
        "nanos": at.replace(tzinfo=UTC),
        "zoned": at.replace(tzinfo=UTC),
        "price": Decimal("-123.45"),
        "wide": Decimal("2.5500"),
        "text_price": Decimal("12.50"),
        "content": b"\x01\x02",
    }
    assert reasons(found)[0] == (1, "column price: a number that decimal128(10, 2) does not hold")
    assert found.rows.column("price").to_pylist()[1:] == [Decimal("-0.01")]


def test_without_a_schema_the_options_say_how_values_are_read() -> None:
    parser = DebeziumJsonParser(
        TYPES, encoding=Encoding(epoch_unit="millis"), encodings={"price": Encoding(decimal_scale=2)}
    )
    value = b'{"op":"c","after":{"millis":1000,"price":"BNI=","text_price":"12.34"}}'
    row = parser.parse([value]).rows.to_pylist()[0]
    assert row["millis"] == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert (row["price"], row["text_price"]) == (Decimal("12.34"), Decimal("12.34"))


VALUE = {
    "type": "record",
    "name": "Value",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}},
        {"name": "day", "type": ["null", {"type": "int", "connect.name": "io.debezium.time.Date"}]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
    ],
}
SOURCE = {"type": "record", "name": "Source", "fields": [{"name": "lsn", "type": ["null", "long"]}]}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop",
    "fields": [
        {"name": "before", "type": ["null", VALUE], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": SOURCE},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ],
}
KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}


class Registered:
    """Schemas by number, as a registry has them."""

    def __init__(self, *schemas: Any) -> None:
        self._schemas = schemas

    def schema_text(self, number: int) -> str | None:
        return json.dumps(self._schemas[number]) if number < len(self._schemas) else None

    def frame(self, number: int, record: Any) -> bytes:
        body = io.BytesIO()
        fastavro.schemaless_writer(
            body, fastavro.parse_schema(json.loads(self.schema_text(number) or "")), record
        )
        return b"\0" + number.to_bytes(4, "big") + body.getvalue()


def test_avro_envelopes_are_read_like_json() -> None:
    registry = Registered(ENVELOPE, KEY)
    row = {"id": 1, "name": "anne", "at": 1_000_000, "day": 1, "price": Decimal("1.50")}
    source = {"lsn": 24023128}
    schema = pa.schema(
        [
            *WITH_META,
            ("at", TIMESTAMP),
            ("day", pa.date32()),
            ("price", pa.decimal128(12, 2)),
            ("lacks", pa.string()),
        ]
    )
    values = [
        registry.frame(0, {"after": row, "source": source, "op": "c", "ts_ms": 5}),
        registry.frame(0, {"before": row | {"name": None}, "source": source, "op": "d", "ts_ms": 6}),
        registry.frame(0, {"source": source, "op": "t", "ts_ms": 7}),
        registry.frame(0, {"source": source, "op": "u", "ts_ms": 7}),
        registry.frame(0, {"source": source, "op": "d", "ts_ms": 7}),
        None,
        None,
        registry.frame(0, {"after": row, "source": source, "op": "c"})[:-3],
    ]
    keys = [None] * 4 + [registry.frame(1, {"id": 8}), registry.frame(1, {"id": 9}), None, None]
    found = DebeziumAvroParser(schema, registry, key_column="id").parse(values, keys)
    expected = {
        "id": 1, "name": "anne", "_change_operation_type": "c", "_event_lsn": 24023128,
        "_upstream_event_processed_ts_ms": 5, "at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "day": date(1970, 1, 2), "price": Decimal("1.50"), "lacks": None,
    }  # fmt: skip
    changed = {"name": None, "_change_operation_type": "d", "_upstream_event_processed_ts_ms": 6}
    assert found.rows.to_pylist()[:2] == [expected, expected | changed]
    assert found.rows.column("id").to_pylist() == [1, 1, 8, 9]
    assert found.positions.tolist() == [0, 1, 4, 5]
    assert found.is_deleted is not None
    assert found.is_deleted.tolist() == [False, True, True, True]
    assert reasons(found) == [(3, "no row after"), (7, "not Avro of schema 0")]
    assert found.ignored == 2
    without_key = DebeziumAvroParser(schema, registry).parse(values)
    assert (4, NO_KEY) in reasons(without_key)
    assert without_key.ignored == 3


def test_an_avro_schema_that_is_no_envelope_makes_its_records_bad() -> None:
    registry = Registered(KEY)
    found = DebeziumAvroParser(ROW, registry).parse([registry.frame(0, {"id": 1})])
    assert reasons(found) == [(0, "schema 0: no Debezium envelope: it has no before, after and op")]
