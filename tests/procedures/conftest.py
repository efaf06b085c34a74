"""Calling procedures through SQL, on sources that are made for one test."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.sources import orders, write_parquet

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
def run_bootstrap(
    call: Callable[..., list[dict[str, Any]]], daily_orders: Path, tmp_path: Path, name: str
) -> Callable[..., list[dict[str, Any]]]:
    """Hudi's own procedure on the orders, into the directory `t`, with more or other arguments."""
    given = {"table": name, "table_type": "COPY_ON_WRITE", "bootstrap_path": daily_orders}
    keys = {"rowKey_field": "id", "partition_path_field": "dt"}
    return partial(call, "run_bootstrap", **given, base_path=tmp_path / "t", **keys)


@pytest.fixture
def bootstrap(
    call: Callable[..., list[dict[str, Any]]], daily_orders: Path, tmp_path: Path, name: str
) -> Callable[..., list[dict[str, Any]]]:
    """`bootstrap(parameter=value)` makes a table `name` of the daily orders in `t`, unless told otherwise."""

    def make(**more: object) -> list[dict[str, Any]]:
        arguments = {"source": daily_orders, "record_key": "id", "target_path": tmp_path / "t"}
        return call("bootstrap_table", table=name, **{**arguments, **more})

    return make
