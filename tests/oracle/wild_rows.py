"""Rows with the values of which Apache Hudi makes ranges that are too narrow, or in another order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random

import pyarrow as pa

LONG_TEXT = "x" * 5000
"""Longer than the bounds in footers may be."""
_TEXTS = ("a", "b", "z", "é", "\ue000x", "\uffff", "\U00010000", "\U0010ffffq", "", "Z", "（", LONG_TEXT)
_FLOATS = (0.0, -0.0, 1.5, -2.25, 1e30, -1e30, 0.1, math.inf, -math.inf, math.nan)
_BYTES = (b"", b"\x00", b"\xff\x01", b"abc", b"\x80", LONG_TEXT.encode())
_PLAIN_FLOATS, _PLAIN_TEXTS = (1.5, 2.25, 7.0, 0.1), ("b", "m", "p")


def wild_rows(random: Random, numbers: Iterable[int]) -> pa.Table:
    """Rows with these `seq`; those of a partition have wild values, or few ones that lie together."""
    chosen = list(numbers)
    is_wild = random.random() < 0.5
    near = random.randrange(-1000, 1000)

    def some(make: Callable[[], object], nulls: float = 0.2) -> list[object]:
        return [None if random.random() < nulls * is_wild else make() for _ in chosen]

    def near_day() -> date:
        return date(random.choice((1850, 2020, 2300)) if is_wild else 2024, 1, random.randrange(1, 28))

    def near_time() -> datetime:
        year = random.choice((1950, 2020, 2200)) if is_wild else 2024
        return datetime(year, 1, 2, 3, 4, 5, random.randrange(10**6), tzinfo=UTC)

    columns: dict[str, tuple[list[object], pa.DataType]] = {
        "id": ([f"k{number:05}" for number in chosen], pa.string()),
        "seq": (list(chosen), pa.int32()),
        "total": (
            some(lambda: random.choice((2**62, -(2**62), 0)) if is_wild else near + random.randrange(20)),
            pa.int64(),
        ),
        "fare": (some(lambda: random.choice(_FLOATS if is_wild else _PLAIN_FLOATS)), pa.float64()),
        "small": (some(lambda: random.choice(_FLOATS if is_wild else _PLAIN_FLOATS)), pa.float32()),
        "price": (some(lambda: Decimal(near + random.randrange(-300, 300)) / 100), pa.decimal128(12, 2)),
        "is_even": (some(lambda: is_wild and random.random() < 0.5), pa.bool_()),
        "day_of": (some(near_day), pa.date32()),
        "at": (some(near_time), pa.timestamp("us", "UTC")),
        "note": (some(lambda: random.choice(_TEXTS if is_wild else _PLAIN_TEXTS), 0.3), pa.string()),
        "raw": (some(lambda: random.choice(_BYTES if is_wild else _BYTES[3:4])), pa.binary()),
        "lonely": ([None] * len(chosen), pa.string()),
        "dt": ([f"p{number % 3}" for number in chosen], pa.string()),
    }
    return pa.table({name: pa.array(values, kind) for name, (values, kind) in columns.items()})


FILTERS = (
    "id = 'k00014'",
    "id >= 'k00120' AND seq < 150",
    "seq IN (3, 77, 1001)",
    "NOT (seq < 200)",
    "total > 100",
    "total < -500 OR total = 0",
    "total IS NULL",
    "fare < -1",
    "fare = 2.25",
    "fare > 1e29",
    "fare <= 0.0 AND seq < 80",
    "NOT (fare = 0.0)",
    "fare = double('NaN')",
    "small < -2 OR small = 7.0",
    "small IS NOT NULL AND small >= 0.0",
    "price < -5",
    "price BETWEEN 1 AND 3.5",
    "is_even",
    "NOT is_even",
    "is_even IS NULL",
    "day_of = date'1850-01-03'",
    "day_of > date'2024-01-20'",
    "day_of < date'2000-01-01' OR seq = 5",
    "at < timestamp'2000-01-01 00:00:00'",
    "at >= timestamp'2024-01-02 03:04:05.5'",
    "note = 'a'",
    "note >= 'z'",
    "note > 'xxxx' AND note < 'y'",
    "note IS NOT NULL",
    "note IS NULL AND seq > 50",
    "note LIKE 'x%'",
    "note LIKE '（%'",
    "raw > X'61'",
    "raw = X'80'",
    "raw < X'41'",
    "raw IS NOT NULL",
    "lonely IS NULL AND seq = 9",
    "lonely = 'x' OR seq = 4",
    "_hoodie_record_key = 'k00033'",
    "_hoodie_commit_time > '2' AND price > 0",
    "_hoodie_partition_path = 'dt=p1' AND seq > 90",
    "dt = 'p2' AND fare > 1",
    "extra_note = 'new' AND seq < 100",
    "extra_note IS NULL AND seq > 100",
)
"""Of columns of every type, with bounds where the wild values are; `extra_note` is added later."""
