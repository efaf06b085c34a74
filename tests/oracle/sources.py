"""Parquet sources as Hive or Spark leave them, in the physical types that Apache Hudi and Hive get right.

Decimals are FIXED_LEN_BYTE_ARRAY and timestamps INT64 micros (`spark.sql.parquet.writeLegacyFormat` and
TIMESTAMP_MICROS in Spark). `seq` numbers the rows, so every row can be known again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

START = datetime(2020, 1, 1, 12, 34, 56, 789000, tzinfo=UTC)


def sample_rows(first: int, last: int, note: str = "first") -> pa.Table:
    """Rows `first` to `last` of one endless table with a column of every type that Hudi merges right."""
    numbers = range(first, last)
    fields: Mapping[str, tuple[pa.DataType, Callable[[int], object]]] = {
        "id": (pa.string(), lambda n: f"k{n:06d}"),
        "seq": (pa.int32(), lambda n: n),
        "total": (pa.int64(), lambda n: n * 5_000_000_000),
        "fare": (pa.float64(), lambda n: n * 1.25),
        "price": (pa.decimal128(12, 2), lambda n: Decimal(n * 33).scaleb(-2)),
        "is_even": (pa.bool_(), lambda n: n % 2 == 0),
        "day": (pa.date32(), lambda n: date(2024, 1, 1) + timedelta(days=n % 365)),
        "at": (pa.timestamp("us", "UTC"), lambda n: START + timedelta(seconds=n, microseconds=n)),
        "note": (pa.string(), lambda n: None if n % 5 == 0 else f"{note} 名 {n}"),
        "place": (pa.struct([("a", pa.int64()), ("b", pa.string())]), lambda n: {"a": n, "b": f"s{n}"}),
        "labels": (pa.list_(pa.field("element", pa.int32())), lambda n: [n, n + 1] if n % 3 else None),
        "extra": (pa.map_(pa.string(), pa.string()), lambda n: [("x", str(n))]),
    }
    return pa.table(
        {name: pa.array([make(n) for n in numbers], kind) for name, (kind, make) in fields.items()}
    )


def put_over(stored: pa.Table, changed: pa.Table) -> pa.Table:
    """`stored` with the rows of `changed` in the place of those of the same seq."""
    kept = pc.invert(pc.is_in(stored["seq"], value_set=changed["seq"].combine_chunks()))
    return pa.concat_tables([stored.filter(kept), changed])


def write_source(
    directory: Path, rows: pa.Table, partition_of: Callable[[int], str] | None = None, *, files: int = 2
) -> Path:
    """Write `rows` below `directory` as `files` files in each partition; `partition_of(seq)` names its
    directory.

    Files have several row groups, so that splits and row order are put to the test.
    """
    names = [partition_of(number) if partition_of else "" for number in rows["seq"].to_pylist()]
    for name in dict.fromkeys(names):
        chosen = rows.filter(pa.array([name == each for each in names]))
        place = directory / name
        place.mkdir(parents=True, exist_ok=True)
        size = -(-chosen.num_rows // files)
        for number in range(files):
            part = chosen.slice(number * size, size)
            if part.num_rows:
                write_readable(part, place / f"part-{number:05d}.parquet", row_group_size=max(1, size // 3))
    return directory


def write_readable(rows: pa.Table, path: Path, *, row_group_size: int | None = None) -> None:
    """Write one file in the form that every reader and writer gets right."""
    pq.write_table(
        rows,
        path,
        row_group_size=row_group_size,
        coerce_timestamps="us",
        store_decimal_as_integer=False,
        use_dictionary=True,
        compression="snappy",
    )
