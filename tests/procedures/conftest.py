"""Calling procedures through SQL, on sources that are made for one test."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

_NUMBERS = itertools.count()


def sql_literal(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "map(" + ", ".join(f"'{key}', '{entry}'" for key, entry in value.items()) + ")"
    if isinstance(value, list):
        return "array(" + ", ".join(sql_literal(entry) for entry in value) + ")"
    if isinstance(value, str | Path):
        return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"
    return str(value)


@pytest.fixture
def call(session: Any) -> Callable[..., list[dict[str, Any]]]:
    """`call('name', parameter=value)` runs a CALL statement and gives its rows as dictionaries."""

    def run(procedure: str, **arguments: object) -> list[dict[str, Any]]:
        given = ", ".join(f"{name} => {sql_literal(value)}" for name, value in arguments.items())
        return [row.asDict() for row in session.sql(f"CALL {procedure}({given})").rows]

    return run


def write_parquet(path: Path, table: pa.Table, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, store_schema=False, compression="snappy", **options)
    return path


def orders(first: int = 0, rows: int = 20, **columns: pa.Array) -> pa.Table:
    numbers = range(first, first + rows)
    return pa.table(
        {
            "id": [f"k{number:05d}" for number in numbers],
            "seq": pa.array(numbers, pa.int64()),
            "amount": pa.array([number / 4 for number in numbers], pa.float64()),
            **columns,
        }
    )


def fingerprint(directory: Path) -> dict[str, tuple[str, int]]:
    """Every file below the directory with its content's hash and modification time."""
    return {
        str(path.relative_to(directory)): (
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
            path.stat().st_mtime_ns,
        )
        for path in sorted(directory.rglob("*"))
    }


@pytest.fixture
def name() -> str:
    """A table name that no other test has."""
    return f"store.orders_{next(_NUMBERS)}"


@pytest.fixture
def daily_orders(tmp_path: Path) -> Path:
    """Orders in two `dt=` partitions of two files each, 80 rows."""
    directory = tmp_path / "orders"
    for number in range(4):
        write_parquet(
            directory / f"dt=2024-03-0{number // 2 + 1}" / f"part-{number}.parquet", orders(number * 100)
        )
    return directory


@pytest.fixture
def bootstrap(
    call: Callable[..., list[dict[str, Any]]], daily_orders: Path, tmp_path: Path, name: str
) -> Callable[..., list[dict[str, Any]]]:
    """`bootstrap(parameter=value)` makes a table `name` of the daily orders in `t`, unless told otherwise."""

    def make(**more: object) -> list[dict[str, Any]]:
        arguments = {"source": daily_orders, "record_key": "id", "target_path": tmp_path / "t"}
        return call("bootstrap_table", table=name, **{**arguments, **more})

    return make
