"""Engines that answer by name, and the comparison of what they say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from tests.hive.server import HiveServer
from tests.oracle.client import HudiOracle

Ask = Callable[[str], list[tuple[Any, ...]]]


def ask_beeline(server: HiveServer) -> Ask:
    return lambda statement: [tuple(row.values()) for row in server.query(statement)]


def ask_oracle(oracle: HudiOracle) -> Ask:
    return lambda statement: [tuple(row.values()) for row in oracle.sql(statement).to_pylist()]


def ask_hudisql(session: Any) -> Ask:
    return lambda statement: [tuple(row) for row in session.sql(statement).rows]


def _same(found: object, expected: object) -> bool:
    # Beeline prints text, and decimals without closing zeros: numbers are compared as numbers.
    if found is None or expected is None:
        return found is expected
    if isinstance(expected, int | float | Decimal) and not isinstance(expected, bool):
        return Decimal(str(found)) == Decimal(str(expected))
    return str(found).lower() == str(expected).lower()


def assert_rows(found: Sequence[Sequence[Any]], expected: Sequence[Sequence[Any]]) -> None:
    def in_order(rows: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
        return sorted(rows, key=lambda row: str(row[0]))

    pairs = list(zip(in_order(found), in_order(expected), strict=True))
    differing = [(a, b) for a, b in pairs if len(a) != len(b) or not all(map(_same, a, b))]
    assert not differing, f"{len(differing)} of {len(pairs)} rows differ, first {differing[0]}"
