"""Tables that statements changed: beeline, Spark 3.5 with Hudi 0.15 and hudisql see the same rows by name."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.hive.engines import Ask, assert_rows
from tests.oracle.shapes import call_bootstrap
from tests.oracle.sources import sample_rows, write_source

pytestmark = [pytest.mark.hive, pytest.mark.spark, pytest.mark.hms]

ROWS = 120


@pytest.fixture(scope="module")
def changed(session: Any, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """`lake.cow` and `lake.mor`, bootstrapped and then changed in the same way; gives their rows."""
    folder = tmp_path_factory.mktemp("changed")
    rows = sample_rows(0, ROWS)
    source = write_source(folder / "source", rows, lambda number: f"part={number % 3}")
    for name in ("cow", "mor"):
        call_bootstrap(
            session,
            {
                "table": f"lake.{name}",
                "source": str(source),
                "record_key": "id",
                "precombine": "seq",
                "table_type": name,
                "partition_by": "part int",
                "target_path": str(folder / name),
            },
        )
        session.sql(f"DELETE FROM lake.{name} WHERE seq < 10")
        session.sql(f"UPDATE lake.{name} SET fare = -1, note = 'changed' WHERE seq IN (30, 60)")
        session.sql(
            f"MERGE INTO lake.{name} t USING (SELECT * FROM lake.{name} WHERE seq = 90) s "
            "ON t.seq = s.seq + 1 "
            "WHEN MATCHED THEN UPDATE SET note = s.note, price = s.price "
            "WHEN NOT MATCHED THEN INSERT (id, seq, part) VALUES ('never', 0, 0)"
        )
        session.sql(f"INSERT INTO lake.{name} (id, seq, price, part) VALUES ('new', 500, 1.25, 7)")
    expected = {row["seq"]: {**row, "part": row["seq"] % 3} for row in rows.to_pylist() if row["seq"] >= 10}
    for seq in (30, 60):
        expected[seq] |= {"fare": -1, "note": "changed"}
    expected[91] |= {"note": expected[90]["note"], "price": expected[90]["price"]}
    empty = dict.fromkeys(rows.column_names)
    price = pa.scalar(125, pa.decimal128(12, 0)).as_py() / 100
    expected[500] = {**empty, "id": "new", "seq": 500, "price": price, "part": 7}
    return list(expected.values())


@pytest.mark.parametrize("name", ["cow", "mor", "mor_rt"])
def test_changed_rows_are_equal(ask: Ask, changed: list[dict[str, Any]], name: str) -> None:
    columns = ["id", "seq", "fare", "price", "note", "part"]
    found = ask(f"SELECT {', '.join(columns)} FROM lake.{name}")
    assert_rows(found, [[row[column] for column in columns] for row in changed])


@pytest.mark.parametrize("name", ["cow", "mor_rt"])
def test_keys_and_partitions_of_changed_rows_are_equal(
    ask: Ask, changed: list[dict[str, Any]], name: str
) -> None:
    statement = (
        "SELECT part, count(*) AS n, count(DISTINCT `_hoodie_record_key`) AS k, "
        f"max(`_hoodie_partition_path`) AS p FROM lake.{name} GROUP BY part"
    )
    counts = {part: sum(row["part"] == part for row in changed) for part in (0, 1, 2, 7)}
    assert_rows(ask(statement), [(part, n, n, f"part={part}") for part, n in counts.items()])
