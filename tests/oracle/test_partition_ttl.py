"""CALL run_ttl: Apache Hudi 0.15, which has no such procedure, takes the commit for a drop of partitions."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from hudisql.table.hudi_table import HudiTable
from tests.opened import open_at
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.shapes import SHAPES, bootstrap_shape, noted_rows

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms, pytest.mark.soak]

FIRST, OLD, THIRD = (f"dt=2024-03-0{day}" for day in (1, 2, 3))
MONTHS_AGO = time.time() - 90 * 24 * 3600
CLEANS = {"hoodie.clean.automatic": "true", "hoodie.cleaner.commits.retained": "1"}
DROPS = {
    "hoodie.datasource.write.operation": "delete_partition",
    "hoodie.datasource.write.partitions.to.delete": THIRD,
}
BY_TYPE = {each.table_type: each for each in SHAPES if list(each.partition_columns) == ["dt"]}


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_hudi_015_goes_on_after_old_partitions_are_dropped(
    oracle_015: HudiOracle, session: Any, tmp_path: Path, table_type: str
) -> None:
    shape = BY_TYPE[table_type]
    path, name = bootstrap_shape(session, shape, tmp_path).path, f"oracle.{shape.name}"

    def seqs_of(*partitions: str) -> set[int]:
        return {each for each in range(shape.rows) if shape.partition_path(each) in partitions}

    def drop_old() -> list[str]:
        rows = session.sql(f"CALL run_ttl(table => '{name}', retain_days => 30)").rows
        return [row["deleted_partitions"] for row in rows]

    def check(seqs: Collection[int]) -> HudiTable:
        theirs = oracle_015.read(path)
        assert sorted(theirs["seq"].to_pylist()) == sorted(seqs)
        assert_same_rows(session.sql(f"SELECT * FROM {name}").arrow(), theirs, sort_by=["seq"])
        return open_at(path)

    session.sql(f"UPDATE {name} SET note = 'ours' WHERE seq < 9 AND dt <> '2024-03-02'")
    assert drop_old() == []
    for file in Path(path, OLD).iterdir():
        os.utime(file, (MONTHS_AGO, MONTHS_AGO))
    assert drop_old() == [OLD]
    assert check(seqs_of(FIRST, THIRD)).timeline.commits[-1].action == "replacecommit"

    # Hudi upserts beside the gap and into it, cleans what was replaced, and drops a partition itself.
    options = {**shape.write_options(), **CLEANS}
    for stop in (3, 5, 7):
        oracle_015.upsert(noted_rows(shape, 0, stop, "theirs"), path, options)
        again = seqs_of(OLD) & set(range(stop))
        assert again
        table = check(seqs_of(FIRST, THIRD) | again)
    assert "clean" in {each.action for each in table.timeline.instants}
    assert not list(Path(path, OLD).glob("*_00000000000001.parquet")), "replaced files that 0.15 left"
    oracle_015.write(noted_rows(shape, 0, 1), path, {**options, **DROPS})
    check(seqs_of(FIRST) | again)
    assert drop_old() == []
