"""Random nested columns, changed and merged: Apache Hudi and hudisql read every value as it was given.

The columns follow from a seed, which stands in the test's name; `make soak` takes more of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.sources import put_over, write_readable

pytestmark = [pytest.mark.oracle, pytest.mark.spark]

COLUMNS, ROWS, CHANGED = 14, 30, 12
Values = Callable[[random.Random], Any]
LEAVES: tuple[tuple[pa.DataType, Values], ...] = (
    (pa.string(), lambda chosen: chosen.choice(["", "a", "名", "x'y\"z", " \\ "])),
    (pa.binary(), lambda chosen: chosen.randbytes(chosen.randint(0, 5))),
    (pa.int32(), lambda chosen: chosen.randint(-(2**31), 2**31 - 1)),
    (pa.int64(), lambda chosen: chosen.randint(-(2**63), 2**63 - 1)),
    (pa.float32(), lambda chosen: chosen.randint(-1000, 1000) / 8),
    (pa.float64(), lambda chosen: chosen.uniform(-1e9, 1e9)),
    (pa.bool_(), lambda chosen: chosen.random() < 0.5),
    (pa.decimal128(9, 3), lambda chosen: Decimal(chosen.randint(-(10**9) + 1, 10**9 - 1)).scaleb(-3)),
    (pa.decimal128(38, 10), lambda chosen: Decimal(chosen.randint(-(10**27), 10**27)).scaleb(-10)),
    (pa.date32(), lambda chosen: date(1900, 1, 1) + timedelta(days=chosen.randint(0, 90_000))),
    (
        pa.timestamp("us", "UTC"),
        lambda chosen: datetime(1900, 1, 1, tzinfo=UTC) + timedelta(microseconds=chosen.randint(0, 10**16)),
    ),
)


def _random_type(chosen: random.Random, depth: int) -> tuple[pa.DataType, Values]:
    """A type of at most so many levels, and what makes its values; a third of the inner ones are null."""
    kind = chosen.choice(("leaf", "leaf", "list", "map", "struct")) if depth else "leaf"
    if kind == "leaf":
        return chosen.choice(LEAVES)
    inner, values = _random_type(chosen, depth - 1)
    if kind == "list":
        return pa.list_(pa.field("element", inner)), lambda c: [
            _or_null(c, values) for _ in range(c.randint(0, 3))
        ]
    if kind == "map":
        return pa.map_(pa.string(), inner), lambda c: [
            (key, _or_null(c, values)) for key in sorted(c.sample("abc", c.randint(0, 3)))
        ]
    other, others = _random_type(chosen, depth - 1)
    members = pa.struct([pa.field("a", inner), pa.field("Other", other)])
    return members, lambda c: {"a": _or_null(c, values), "Other": _or_null(c, others)}


def _or_null(chosen: random.Random, values: Values) -> Any:
    return None if chosen.random() < 1 / 3 else values(chosen)


def _tables(seed: int) -> tuple[pa.Table, pa.Table]:
    """Rows, and other values for some of them in every half."""
    chosen = random.Random(seed)
    types = [_random_type(chosen, 3) for _ in range(COLUMNS)]

    def rows(numbers: list[int]) -> pa.Table:
        columns = {
            f"c{at}": pa.array([_or_null(chosen, values) for _ in numbers], kind)
            for at, (kind, values) in enumerate(types)
        }
        keys = {"id": [f"k{number:03d}" for number in numbers], "seq": pa.array(numbers, pa.int32())}
        return pa.table(keys | columns)

    half = ROWS // 2
    changed = sorted(
        [*chosen.sample(range(half), CHANGED // 2), *chosen.sample(range(half, ROWS), CHANGED // 2)]
    )
    return rows(list(range(ROWS))), rows(changed)


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 12))], ids="seed{}".format
)
@pytest.mark.parametrize("kind", ["bootstrapped", "mor"])
def test_values_of_random_nested_columns_come_through_a_merge(
    oracle_015: HudiOracle, session: Any, tmp_path: Path, kind: str, seed: int
) -> None:
    stored, changes = _tables(seed)
    name, path = f"random_{kind}_{seed}", str(tmp_path / "table")
    source = tmp_path / "source"
    source.mkdir()
    for number in range(2):
        write_readable(
            stored.slice(number * ROWS // 2, ROWS // 2), source / f"{number}.parquet", row_group_size=6
        )
    write_readable(changes, tmp_path / "changes.parquet")
    if kind == "bootstrapped":
        # Every file group is merged: nothing is left of what Apache Hudi would read wrong in skeletons.
        session.sql(
            f"CALL bootstrap_table(table => 'default.{name}', source => '{source}', record_key => 'id', "
            f"target_path => '{path}', on_unsafe_type => 'warn')"
        )
    else:
        session.sql(
            f"CREATE TABLE {name} USING hudi LOCATION '{path}' "
            f"TBLPROPERTIES (primaryKey = 'id', type = 'mor') AS SELECT * FROM parquet.`{source}`"
        )
    session.sql(
        f"MERGE INTO {name} t USING parquet.`{tmp_path / 'changes.parquet'}` s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET *"
    )
    assert bool(list(Path(path).rglob("*.log.*"))) == (kind == "mor")
    expected = put_over(stored, changes)
    ours = session.sql(f"SELECT * FROM {name}").arrow()
    assert_same_rows(ours.select(expected.column_names), expected, sort_by=["seq"])
    assert_same_rows(oracle_015.read(path).select(ours.column_names), ours, sort_by=["seq"])
    session.sql(f"DROP TABLE {name} PURGE")
