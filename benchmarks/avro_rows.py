"""Avro rows of log files, by column against fastavro row by row: CPU seconds of one thread, best of three.

`python -m benchmarks.avro_rows` encodes and decodes rows of lineitem's types, and rows with nested columns.
fastavro is given rows that are Python objects already and leaves such; hudisql takes and gives Arrow columns.
Writes its part of docs/benchmarks-changes.md.
"""

from __future__ import annotations

import argparse
import io
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.pages import replace_part
from hudisql.format.avro.avro_rows import decode_framed_rows, encode_rows
from hudisql.format.schema.avro_schema import avro_from_arrow

ROOT: Final = Path(__file__).resolve().parent.parent
TITLE: Final = "Avro rows of log files"
GOAL: Final = 5.0
ROWS: Final = 50_000
TRIES: Final = 3
_LENGTH: Final = 4


@dataclass(frozen=True)
class Speed:
    """CPU seconds of hudisql and fastavro for the same rows."""

    rows: str
    step: str
    ours: float
    theirs: float


def flat_rows(count: int) -> pa.RecordBatch:
    """Rows with lineitem's types."""
    numbers = np.arange(count)
    money = pc.cast(pa.array(numbers * 7 % 10_000_000), pa.decimal128(19, 0))
    digits = pc.cast(pa.array(numbers), pa.string())
    text = pc.binary_join_element_wise("carefully final deposits ", digits, "")
    is_null = pa.array(numbers % 10 == 0)
    columns: dict[str, pa.Array] = {
        "orderkey": pa.array(numbers),
        "linenumber": pa.array(numbers % 7, pa.int32()),
        **{name: pc.cast(money, pa.decimal128(21, 2)) for name in ("quantity", "price", "discount", "tax")},
        "returnflag": pc.cast(pa.array(numbers % 3), pa.string()),
        "shipdate": pc.cast(pa.array(numbers % 20_000, pa.int32()), pa.date32()),
        "commitdate": pc.cast(pa.array(numbers % 19_000, pa.int32()), pa.date32()),
        "shipped": pa.array(numbers * 1_000_003, pa.timestamp("us", "UTC")),
        "weight": pa.array(numbers / 3),
        "comment": pc.if_else(is_null, pa.scalar(None, pa.string()), text),
    }
    return pa.RecordBatch.from_pydict(columns)


def nested_rows(count: int) -> pa.RecordBatch:
    """Rows with a struct, a list and a map."""
    rows = [
        {
            "id": f"k{number:08d}",
            "place": {"a": number, "b": f"s{number}", "c": {"d": number / 4}},
            "labels": [number, None, number + 1][: number % 4],
            "extra": [("x", f"{number}")],
            "fare": Decimal(number).scaleb(-2),
        }
        for number in range(count)
    ]
    inner = pa.struct([("a", pa.int64()), ("b", pa.string()), ("c", pa.struct([("d", pa.float64())]))])
    schema = pa.schema(
        [
            ("id", pa.string()),
            ("place", inner),
            ("labels", pa.list_(pa.field("element", pa.int32()))),
            ("extra", pa.map_(pa.string(), pa.string())),
            ("fare", pa.decimal128(12, 2)),
        ]
    )
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def measure(name: str, batch: pa.RecordBatch) -> list[Speed]:
    """Both ways of one batch. Raises AssertionError if the bytes differ."""
    text = avro_from_arrow(batch.schema, "t")
    parsed = fastavro.parse_schema(json.loads(text))
    maps = [field.name for field in batch.schema if pa.types.is_map(field.type)]
    rows = [{**row, **{each: dict(row[each]) for each in maps}} for row in batch.to_pylist()]

    def encode_by_row() -> bytes:
        framed = io.BytesIO()
        for row in rows:
            body = io.BytesIO()
            fastavro.schemaless_writer(body, parsed, row)
            framed.write(body.tell().to_bytes(_LENGTH, "big"))
            framed.write(body.getbuffer())
        return framed.getvalue()

    content = encode_rows(batch, text)
    assert encode_by_row() == content

    def decode_by_row() -> list[Any]:
        stream, found = io.BytesIO(content), []
        for _ in range(batch.num_rows):
            stream.seek(_LENGTH, io.SEEK_CUR)
            found.append(fastavro.schemaless_reader(stream, parsed, None))
        return found

    assert decode_by_row() == rows
    return [
        Speed(name, "encode", _cpu(lambda: encode_rows(batch, text)), _cpu(encode_by_row)),
        Speed(
            name,
            "decode",
            _cpu(lambda: decode_framed_rows(content, batch.num_rows, text)),
            _cpu(decode_by_row),
        ),
    ]


def _cpu(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(TRIES):
        started = time.process_time()
        work()
        taken.append(time.process_time() - started)
    return min(taken)


def render(speeds: list[Speed], rows: int) -> str:
    """This benchmark's part of the page."""
    lines = [
        f"# {TITLE}",
        "",
        f"`python -m benchmarks.avro_rows`: {rows:,} rows, CPU seconds of one thread, best of {TRIES}."
        " fastavro gets and gives Python objects (making Arrow columns of them is not in its time), hudisql"
        " Arrow columns; both make the same bytes.",
        "",
        "| rows | | hudisql, s | fastavro, s | ratio | goal |",
        "|---|---|--:|--:|--:|---|",
    ]
    for each in speeds:
        ratio = each.theirs / each.ours
        met = "met" if ratio >= GOAL else "missed"
        lines.append(
            f"| {each.rows} | {each.step} | {each.ours:.3f} | {each.theirs:.2f} | {ratio:.0f} × |"
            f" {GOAL:.0f} ×: {met} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write this benchmark's part of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "benchmarks-changes.md")
    options = parser.parse_args()
    speeds = [
        speed
        for name, make in (("lineitem's types", flat_rows), ("struct, list, map", nested_rows))
        for speed in measure(name, make(options.rows))
    ]
    replace_part(options.output, TITLE, render(speeds, options.rows))


if __name__ == "__main__":
    main()
