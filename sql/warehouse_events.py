"""The changes of one round of the demo of layers, as Debezium sends them of the shop's database.

The same as `warehouse/changes.sql` makes by MERGE: new orders with their line items, orders that are
cancelled, and customers that come into another segment.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

TOPICS: Final = {name: f"shop.public.{name}" for name in ("customer", "orders", "lineitem")}
"""The topic of each table."""
_FIRST_DAY: Final = date(1998, 8, 2)
_EPOCH: Final = date(1970, 1, 1)
_ORDERS_OF_A_ROUND: Final = 100_000_000


def events_of_round(source: Path, number: int) -> dict[str, list[bytes]]:
    """The events of each table; `source` has the tables' parquet files, as they were before all rounds."""
    made = {name: list(_changes(name, source, number)) for name in TOPICS}
    return {name: [_event(number, *change) for change in changes] for name, changes in made.items()}


def _changes(name: str, source: Path, number: int) -> Iterator[tuple[str, Any, Any]]:
    """Debezium's operation, and the row before and after it."""
    import pyarrow.parquet as pq

    rows: Sequence[Mapping[str, Any]] = pq.read_table(source / name).to_pylist()
    if name == "customer":
        for row in rows:
            if row["c_custkey"] % 997 == number:
                yield "u", row, {**row, "c_mktsegment": "MACHINERY"}
    elif name == "orders":
        today = _FIRST_DAY + timedelta(days=number)
        for row in rows:
            if row["o_orderkey"] % 1999 == number:
                yield "d", row, None
            if row["o_orderkey"] % 499 == number:
                new = {"o_orderkey": _new_key(row["o_orderkey"], number), "o_orderstatus": "O"}
                yield "c", None, {**row, **new, "o_orderdate": today}
    else:
        for row in rows:
            if row["l_orderkey"] % 499 == number:
                new = {"l_orderkey": _new_key(row["l_orderkey"], number), "l_returnflag": "N"}
                yield "c", None, {**row, **new}


def _new_key(copied_from: int, number: int) -> int:
    return copied_from + number * _ORDERS_OF_A_ROUND


def _event(number: int, operation: str, before: Any, after: Any) -> bytes:
    source = {"name": "shop", "schema": "public", "lsn": number}
    envelope = {"before": before, "after": after, "source": source, "op": operation, "ts_ms": number}
    return json.dumps(envelope, default=_value).encode()


def _value(value: object) -> object:
    """A value that JSON lacks, as Debezium sends it with `decimal.handling.mode=string`."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, date):
        return (value - _EPOCH).days
    raise TypeError(f"no JSON of {type(value).__name__}")
