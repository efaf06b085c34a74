"""Parsing whole Kafka batches: MB of messages a second of CPU time of one thread, best of five.

`python -m benchmarks.ingest_parse` parses batches of 10,000 events in each format, clean and with bad records
among them; pyarrow's JSON reader and fastavro stand beside it. Writes its part of docs/benchmarks-ingest.md.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import fastavro
import pyarrow as pa
import pyarrow.json as arrow_json

from benchmarks.pages import replace_part
from hudisql.ingest.parse.avro_records import AvroParser
from hudisql.ingest.parse.debezium_avro import DebeziumAvroParser
from hudisql.ingest.parse.debezium_json import DebeziumJsonParser
from hudisql.ingest.parse.json_records import JsonParser
from hudisql.ingest.parse.parsed_batch import RecordParser

ROOT: Final = Path(__file__).resolve().parent.parent
TITLE: Final = "Parsing batches"
TRIES: Final = 5
BAD_RATES: Final = (0.0001, 0.001, 0.01, 0.1)

TABLE: Final = pa.schema(
    [
        ("event_id", pa.string()),
        ("user_id", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),
        ("dt", pa.string()),
        ("kind", pa.string()),
        ("amount", pa.float64()),
        ("latitude", pa.float64()),
        ("is_new", pa.bool_()),
        ("country", pa.string()),
        ("city", pa.string()),
        ("session", pa.string()),
        ("number", pa.int32()),
        ("comment", pa.string()),
    ]
)
WITH_META: Final = TABLE.append(pa.field("_event_lsn", pa.int64()))
_AVRO_TYPES: Final = {
    pa.int64(): "long",
    pa.int32(): "int",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.timestamp("us", "UTC"): {"type": "long", "logicalType": "timestamp-micros"},
}
_FIELDS: Final = [{"name": each.name, "type": ["null", _AVRO_TYPES[each.type]]} for each in TABLE]
ROW_SCHEMA: Final = {"type": "record", "name": "Event", "fields": _FIELDS}
SOURCE_SCHEMA: Final = {
    "type": "record",
    "name": "Source",
    "fields": [{"name": "connector", "type": "string"}, {"name": "lsn", "type": ["null", "long"]}],
}
ENVELOPE_SCHEMA: Final = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": ["null", ROW_SCHEMA]},
        {"name": "after", "type": ["null", "Event"]},
        {"name": "source", "type": SOURCE_SCHEMA},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"]},
    ],
}


@dataclass(frozen=True)
class Speed:
    """MB a second of one batch's values; `goal` is 0 where there is none."""

    what: str
    message_bytes: int
    megabytes: float
    goal: float = 0.0


class _Registry:
    """Two schemas, as a registry would answer."""

    def schema_text(self, number: int) -> str | None:
        return json.dumps((ROW_SCHEMA, ENVELOPE_SCHEMA)[number])


def events(count: int) -> list[dict[str, Any]]:
    """Events of about 300 bytes in JSON, the same in every run."""
    source = random.Random(1)
    return [
        {
            "event_id": f"{source.getrandbits(64):016x}-{source.getrandbits(48):012x}",
            "user_id": source.randrange(10**9),
            "ts": 1_700_000_000_000_000 + number * 1_000,
            "dt": f"2024-05-{number % 28 + 1:02}",
            "kind": source.choice(["click", "view", "purchase"]),
            "amount": round(source.random() * 1000, 2),
            "latitude": source.uniform(-90, 90),
            "is_new": number % 2 == 0,
            "country": "DE",
            "city": "Zürich" if number % 5 == 0 else "Berlin",
            "session": f"{source.getrandbits(64):x}",
            "number": number,
            "comment": f"carefully final deposits {number}",
        }
        for number in range(count)
    ]


def envelopes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Debezium's envelopes of updates of the rows."""
    source = {"connector": "postgresql"}
    return [
        {
            "before": row,
            "after": row,
            "source": {**source, "lsn": number},
            "op": "u",
            "ts_ms": 1_700_000_000_000,
        }
        for number, row in enumerate(rows)
    ]


def framed(number: int, records: list[dict[str, Any]], schema: Any) -> list[bytes]:
    """The records in Avro with Confluent's framing."""
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    found = []
    for each in records:
        body = io.BytesIO(b"\0" + number.to_bytes(4, "big"))
        body.seek(0, io.SEEK_END)
        fastavro.schemaless_writer(body, parsed, each)
        found.append(body.getvalue())
    return found


def measure_all(count: int) -> list[Speed]:
    """Every format. Raises AssertionError if a batch loses rows."""
    rows = events(count)
    changes = envelopes(rows)
    plain = [json.dumps(each).encode() for each in rows]
    compact = [json.dumps(each, separators=(",", ":"), ensure_ascii=False).encode() for each in rows]
    avro, avro_changes = framed(0, rows, ROW_SCHEMA), framed(1, changes, ENVELOPE_SCHEMA)
    wrapper = json.dumps({"schema": _connect_schema(), "payload": None}).encode()
    json_changes = [json.dumps(each).encode() for each in changes]
    wrapped = [wrapper.replace(b"null}", each + b"}") for each in json_changes]
    parser, registry = JsonParser(TABLE), _Registry()
    return [
        _speed("JSON, with spaces", parser, plain, 130),
        _speed("JSON, compact", parser, compact, 130),
        *(_with_bad(parser, compact, rate) for rate in BAD_RATES),
        _of("JSON by pyarrow.json, not strict", compact, lambda: _by_arrow(compact)),
        _speed("Avro, Confluent's framing", AvroParser(TABLE, registry), avro, 200),
        _of("Avro by fastavro, Python objects", avro, lambda: _by_fastavro(avro)),
        _speed("Debezium JSON", DebeziumJsonParser(WITH_META), json_changes, 130),
        _speed("Debezium JSON with schema", DebeziumJsonParser(WITH_META), wrapped, 130),
        _speed("Debezium Avro", DebeziumAvroParser(WITH_META, registry), avro_changes, 130),
    ]


def _connect_schema() -> dict[str, Any]:
    fields = [{"type": "string", "optional": True, "field": name} for name in TABLE.names]
    images = [
        {"type": "struct", "fields": fields, "optional": True, "field": name} for name in ("before", "after")
    ]
    return {"type": "struct", "fields": images, "optional": False, "name": "shop.Envelope"}


def _speed(what: str, parser: RecordParser, values: list[bytes], goal: float) -> Speed:
    found = parser.parse(values)
    assert found.bad == (), found.bad[:1]
    assert found.rows.num_rows == len(values)
    return _of(what, values, lambda: parser.parse(values), goal)


def _with_bad(parser: RecordParser, values: list[bytes], rate: float) -> Speed:
    every = round(1 / rate)
    mixed = [value[:-1] if number % every == 0 else value for number, value in enumerate(values)]
    assert len(parser.parse(mixed).bad) == -(-len(values) // every)
    return _of(f"JSON, compact, {rate:.2%} bad", mixed, lambda: parser.parse(mixed))


def _by_arrow(values: list[bytes]) -> pa.Table:
    schema = pa.schema([(each.name, pa.int64() if each.name == "ts" else each.type) for each in TABLE])
    return arrow_json.read_json(
        pa.BufferReader(b"\n".join(values)),
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=1 << 28),
        parse_options=arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )


def _by_fastavro(values: list[bytes]) -> list[Any]:
    parsed = fastavro.parse_schema(json.loads(json.dumps(ROW_SCHEMA)))
    return [fastavro.schemaless_reader(io.BytesIO(value[5:]), parsed, None) for value in values]


def _of(what: str, values: list[bytes], work: Callable[[], object], goal: float = 0.0) -> Speed:
    work()
    taken = []
    for _ in range(TRIES):
        started = time.process_time()
        work()
        taken.append(time.process_time() - started)
    size = sum(map(len, values))
    return Speed(what, size // len(values), size / min(taken) / 1e6, goal)


def render(speeds: list[Speed], count: int) -> str:
    """This benchmark's part of the page."""
    lines = [
        f"# {TITLE}",
        "",
        f"`python -m benchmarks.ingest_parse`: batches of {count:,} events of 13 columns, MB of messages"
        f" a second of CPU time, one thread, best of {TRIES}. All of it is measured: from the list of"
        " values to Arrow columns, positions and bad records.",
        "",
        "| messages | bytes each | MB/s a core | goal |",
        "|---|--:|--:|---|",
    ]
    for each in speeds:
        goal = ""
        if each.goal:
            goal = f"{each.goal:.0f}: {'met' if each.megabytes >= each.goal else 'missed'}"
        lines.append(f"| {each.what} | {each.message_bytes} | {each.megabytes:.0f} | {goal} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write this benchmark's part of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "benchmarks-ingest.md")
    options = parser.parse_args()
    pa.set_cpu_count(1)
    replace_part(options.output, TITLE, render(measure_all(options.rows), options.rows))


if __name__ == "__main__":
    main()
