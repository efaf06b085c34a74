"""Upserts by a global index and on bucket tables: hudisql and the real Hudi do the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.shapes import SHAPES, Shape
from tests.oracle.sources import sample_rows

pytestmark = [pytest.mark.oracle, pytest.mark.spark]


def _moved(shape: Shape) -> Any:
    """Rows 10 to 39 with the next day as their partition, as a second batch."""
    later = replace(shape, partition_columns={"dt": lambda n: f"2024-03-0{(n + 1) % 3 + 1}"})
    return later.with_partition_columns(sample_rows(10, 40, "second"))


@pytest.mark.parametrize("moves", ["true", "false"])
def test_a_global_upsert_does_what_hudi_015_does(
    oracle_015: HudiOracle, session: Any, tmp_path: Path, moves: str
) -> None:
    shape = SHAPES[0]
    index = {
        "hoodie.index.type": "GLOBAL_BLOOM",
        "hoodie.bloom.index.update.partition.path": moves,
    }
    name = f"oracle.global_{moves}"
    tables = {}
    for who in ("theirs", "ours"):
        path = str(tmp_path / who)
        options = {**shape.write_options(), "hoodie.table.name": f"global_{who}"}
        oracle_015.upsert(shape.with_partition_columns(sample_rows(0, 60)), path, options)
        if who == "theirs":
            oracle_015.upsert(_moved(shape), path, options | index)
        else:
            session.sql(f"CALL hive_sync(table => '{name}', path => '{path}')")
            frame = session.spark.createDataFrame(_moved(shape))
            session.write(frame, name, "upsert", **index)
        tables[who] = oracle_015.read(path)

    columns = [name for name in tables["ours"].column_names if not name.startswith("_hoodie")]
    columns += ["_hoodie_record_key", "_hoodie_partition_path"]
    assert_same_rows(tables["ours"].select(columns), tables["theirs"].select(columns), sort_by=["seq"])
