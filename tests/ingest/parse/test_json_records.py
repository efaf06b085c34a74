"""JSON batches become columns as one record at a time would, whatever is bad among them."""

from __future__ import annotations

import base64
import json
import string
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudisql.errors import InvalidArgumentError, UnsupportedTableError
from hudisql.ingest.parse.json_program import Encoding
from hudisql.ingest.parse.json_records import NO_KEY, JsonParser
from hudisql.ingest.parse.parsed_batch import ParsedBatch
from tests.ingest.parse.json_model import TIMESTAMP, WrongValueError, parse_record

INNER = pa.struct(
    [
        ("a", pa.int32()),
        ("many", pa.list_(pa.field("element", pa.struct([("x", pa.float32()), ("y", pa.string())])))),
    ]
)
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("small", pa.int16()),
        ("number", pa.int32()),
        ("big", pa.int64()),
        ("real", pa.float32()),
        ("double", pa.float64()),
        ("price", pa.decimal128(10, 2)),
        ("huge", pa.decimal128(38, 5)),
        ("flag", pa.bool_()),
        ("content", pa.binary()),
        ("day", pa.date32()),
        ("at", TIMESTAMP),
        ("tags", pa.list_(pa.field("element", pa.string()))),
        ("counts", pa.map_(pa.string(), pa.int64())),
        ("place", INNER),
    ]
)
PARSER = JsonParser(SCHEMA)
NO_SURROGATES = st.text(st.characters(codec="utf-8"), max_size=40)


def times() -> st.SearchStrategy[Any]:
    moments = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1))
    zones = st.sampled_from(["", "Z", "+01:00", "-0730", "+05"])
    texts = st.builds(
        lambda at, zone, apart: at.isoformat(apart) + zone, moments, zones, st.sampled_from("T ")
    )
    return texts | st.integers(-(10**15), 10**15) | st.dates(date(1900, 1, 1)).map(str)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Any]:
    whole = st.integers(-(10**precision) + 1, 10**precision - 1)
    exact = whole.map(lambda each: Decimal(each).scaleb(-scale))
    return exact.map(lambda each: f"{each:f}") | exact.map(str) | st.integers(-999, 999)


def good_values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    types = pa.types
    if types.is_integer(kind):
        most = 2 ** (kind.bit_width - 1)
        return st.integers(-most, most - 1)
    if types.is_floating(kind):
        return st.floats(width=32 if kind == pa.float32() else 64, allow_nan=False, allow_infinity=False)
    if types.is_decimal(kind):
        return decimals(kind.precision, kind.scale)
    if types.is_boolean(kind):
        return st.booleans()
    if types.is_binary(kind):
        return st.binary(max_size=20).map(lambda each: base64.b64encode(each).decode())
    if types.is_date(kind):
        return st.dates().map(str) | st.integers(-10_000, 50_000)
    if types.is_timestamp(kind):
        return times()
    if types.is_list(kind):
        return st.lists(st.none() | good_values(kind.value_type), max_size=4)
    if types.is_map(kind):
        return st.dictionaries(NO_SURROGATES, st.none() | good_values(kind.item_type), max_size=3)
    if types.is_struct(kind):
        return objects(list(kind))
    return NO_SURROGATES


def objects(fields: list[pa.Field]) -> st.SearchStrategy[dict[str, Any]]:
    known = {field.name: st.none() | good_values(field.type) for field in fields}
    unknown = {"zzz": json_values(), "": json_values()}
    return st.fixed_dictionaries({}, optional=known | unknown).flatmap(
        lambda row: st.permutations(list(row)).map(lambda names: {name: row[name] for name in names})
    )


def json_values() -> st.SearchStrategy[Any]:
    leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9)
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    )


@st.composite
def records(draw: st.DrawFn) -> bytes:
    row: dict[str, Any] = draw(objects(list(SCHEMA)))
    how = draw(st.integers(0, 9))
    if how == 0:
        row[draw(st.sampled_from(SCHEMA.names))] = draw(json_values())
    text = json.dumps(row, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1])))
    value = text.encode("utf-8", "surrogatepass")
    if how == 1:
        at = draw(st.integers(0, len(value)))
        value = (
            value[:at]
            + draw(st.sampled_from([b"", b"\n", b"\xff", b'"', b"}", b"0", b"e"]))
            + value[at + 1 :]
        )
    if how == 2:
        value = draw(
            st.sampled_from(
                [
                    b"",
                    b"null",
                    b"[]",
                    b"{}{}",
                    b'{"big":NaN}',
                    b'{"big":1,"big":2}',
                    b'{"double":1e999}',
                    value[:-1],
                ]
            )
        )
    return value


def expected(
    values: list[bytes], schema: pa.Schema
) -> tuple[list[dict[str, Any]], list[int], list[tuple[int, str]]]:
    rows, positions, bad = [], [], []
    for position, value in enumerate(values):
        try:
            rows.append(parse_record(value, schema))
            positions.append(position)
        except WrongValueError as error:
            bad.append((position, str(error) if value else NO_KEY))
    return rows, positions, bad


def check(values: list[bytes], schema: pa.Schema, found: ParsedBatch) -> None:
    rows, positions, bad = expected(values, schema)
    assert [(each.position, each.reason.split(", at byte")[0]) for each in found.bad] == bad
    assert found.positions.tolist() == positions
    assert found.rows.schema == schema
    found.rows.validate(full=True)
    assert found.rows.to_pylist() == rows


@given(st.lists(records(), max_size=12))
def test_a_batch_is_what_its_records_are_one_by_one(values: list[bytes]) -> None:
    check(values, SCHEMA, PARSER.parse(values))


NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)


@given(
    st.lists(NUMBERS, min_size=1, max_size=30), st.sampled_from(["big", "real", "double", "price", "huge"])
)
def test_numbers_are_read_exactly_or_refused(numbers: list[str], column: str) -> None:
    values = [f'{{"{column}":{number}}}'.encode() for number in numbers]
    check(values, SCHEMA, PARSER.parse(values))


@given(st.lists(st.text("0123456789-+:TZ. ", max_size=30) | times().map(str), min_size=1, max_size=30))
def test_times_and_dates_are_iso_text_or_refused(texts: list[str]) -> None:
    values = [json.dumps({column: text}).encode() for text in texts for column in ("day", "at", "price")]
    check(values, SCHEMA, PARSER.parse(values))


@given(st.text(string.printable, max_size=40))
def test_any_text_is_json_or_refused(text: str) -> None:
    values = [text.encode(), f'{{"id":"{text}"}}'.encode(), f'{{"zzz":{text}}}'.encode()]
    check(values, SCHEMA, PARSER.parse(values))


@pytest.mark.parametrize("rate", [0.0, 0.0001, 0.01, 0.5, 1.0])
def test_bad_records_shift_no_position(rate: float) -> None:
    count = 20_000
    bad = {int(number / rate) for number in range(int(count * rate))}
    values = [b'{"big":"x\n' if number in bad else b'{"big":%d}' % number for number in range(count)]
    found = PARSER.parse(values)
    assert [each.position for each in found.bad] == sorted(bad)
    assert found.rows.column("big").to_pylist() == found.positions.tolist()
    assert found.rows.num_rows == count - len(bad)


def test_many_items_outgrow_the_guessed_room() -> None:
    values = [
        json.dumps({"tags": [str(each)] * 5_000, "place": {"many": [{"x": 1}] * 3_000}}).encode()
        for each in range(5)
    ]
    check(values, SCHEMA, PARSER.parse(values))


def test_line_breaks_and_empty_values_shift_no_position() -> None:
    values = [b'{"big":\n1}', b"", b'{"big":2}\n{"big":3}', b'{"id":"a\\nb"}', b"\n", b'{"big":4}']
    found = PARSER.parse(values)
    assert found.positions.tolist() == [0, 3, 5]
    assert [each.position for each in found.bad] == [1, 2, 4]


def test_a_tombstone_deletes_by_the_key() -> None:
    schema = pa.schema([("id", pa.string()), ("n", pa.int64())])
    keys = [b"a", b'"b"', b'{"id":"c"}', b'{"schema":{},"payload":{"id":"d"}}', b"5", None, b"\xff", b"f"]
    values = [None, b"", None, None, None, None, None, b'{"id":"f"}']
    found = JsonParser(schema, key_column="id").parse(values, keys)
    assert found.rows.column("id").to_pylist() == ["a", "b", "c", "d", "5", "f"]
    assert found.is_deleted is not None
    assert found.is_deleted.tolist() == [True] * 5 + [False]
    assert [(each.position, each.reason) for each in found.bad] == [(5, NO_KEY), (6, NO_KEY)]
    assert JsonParser(schema).parse([None], [b"a"]).bad[0].reason == NO_KEY
    numbers = JsonParser(schema, key_column="n").parse([None, None], [b"7", b"x"])
    assert numbers.rows.column("n").to_pylist() == [7]
    assert numbers.bad[0].reason == "column n: a value of another type than int64"


@pytest.mark.parametrize("stored", [True, False])
def test_the_delete_field_marks_deletes_and_is_a_column_if_declared(stored: bool) -> None:
    fields = [("id", pa.string())] + ([("_hoodie_is_deleted", pa.bool_())] if stored else [])
    values = [b'{"id":"a","_hoodie_is_deleted":true}', b'{"id":"b"}', b'{"_hoodie_is_deleted":false}']
    found = JsonParser(pa.schema(fields)).parse(values)
    assert found.is_deleted is not None
    assert found.is_deleted.tolist() == [True, False, False]
    assert found.rows.schema.names == [name for name, _ in fields]
    assert JsonParser(pa.schema(fields)).parse(values[1:]).is_deleted is None


def test_new_columns_are_inferred_when_asked_for() -> None:
    schema = pa.schema([("id", pa.string())])
    values = [
        b'{"id":"a","n":1,"x":1,"b":true,"s":"t","m":1,"nothing":null}',
        b'{"x":1.5,"m":"u"}',
        b'{"deep":{"a":1}}',
        b'{"a-b":1}',
    ]
    found = JsonParser(schema, take_new_columns=True).parse(values)
    kinds = [
        ("n", pa.int64()),
        ("x", pa.float64()),
        ("b", pa.bool_()),
        ("s", pa.string()),
        ("m", pa.string()),
    ]
    assert found.new_columns == pa.schema(kinds)
    assert [each.position for each in found.bad] == [2, 3]
    assert found.bad[0].reason == (
        "the new field at byte 2 has an object or array, whose type JSON does not say: "
        "ALTER TABLE adds such a column"
    )
    assert found.bad[1].reason == "a new field whose name no column can have, at byte 2"
    ignored = JsonParser(schema).parse(values)
    assert (len(ignored.new_columns), ignored.bad) == (0, ())


@pytest.mark.parametrize(
    ("unit", "sent"), [("seconds", 1), ("millis", 1_000), ("micros", 1_000_000), ("nanos", 1_000_000_999)]
)
def test_epochs_are_of_the_declared_unit(unit: str, sent: int) -> None:
    schema = pa.schema([("at", TIMESTAMP), ("local", pa.timestamp("us"))])
    parser = JsonParser(schema, encodings={"at": Encoding(epoch_unit=unit)})
    rows = parser.parse([b'{"at":%d,"local":1000000}' % sent]).rows.to_pylist()
    assert rows == [{"at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "local": datetime(1970, 1, 1, 0, 0, 1)}]


def test_local_times_have_no_zone() -> None:
    parser = JsonParser(pa.schema([("local", pa.timestamp("us"))]))
    found = parser.parse([b'{"local":"2024-01-01 00:00:00"}', b'{"local":"2024-01-01T00:00:00Z"}'])
    assert found.rows.to_pylist() == [{"local": datetime(2024, 1, 1)}]
    assert found.bad[0].reason == "column local: a text that is no timestamp[us]"


def test_escapes_in_times_decimals_and_base64_are_read() -> None:
    value = rb'{"day":"2024\u002d01-02","price":"1\u002e50","content":"\/\/\/\/","\u0069d":"\ud83d\ude00"}'
    row = PARSER.parse([value]).rows.to_pylist()[0]
    assert (row["day"], row["price"]) == (date(2024, 1, 2), Decimal("1.50"))
    assert (row["content"], row["id"]) == (b"\xff\xff\xff", "😀")


@pytest.mark.parametrize("text", ["0.001:", "1234567890123:", "1e99 "])
def test_a_text_that_goes_on_behind_a_decimal_is_none(text: str) -> None:
    found = PARSER.parse([json.dumps({"price": text}).encode()])
    assert [each.reason for each in found.bad] == ["column price: a text that is no decimal128(10, 2)"]


def test_declarations_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="not a column of the table"):
        JsonParser(SCHEMA, key_column="missing")
    with pytest.raises(InvalidArgumentError, match="not a unit of timestamps"):
        Encoding(epoch_unit="hours")
    with pytest.raises(UnsupportedTableError, match="column at is of type time64"):
        JsonParser(pa.schema([("at", pa.time64("us"))]))
