"""`hoodie.merge.allow.duplicate.on.inserts = false`: inserts replace rows of the small file that takes them.

Where a partition has several small files, Hudi's choice of the file depends on their random names: these
tables have one.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.client import HudiOracle
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

ALLOWED = "hoodie.merge.allow.duplicate.on.inserts"
SETTINGS = {
    "hoodie.spark.sql.insert.into.operation": "insert",
    "hoodie.combine.before.insert": "false",
    "hoodie.compact.inline": "false",
}
BUCKETS = "'hoodie.index.type' = 'BUCKET', 'hoodie.bucket.index.num.buckets' = '1', "
CASES = [
    ("cow", 6, "preCombineField = 'seq', "),
    ("cow", 6, ""),
    ("cow", 9, "preCombineField = 'seq', "),
    ("cow", 6, "preCombineField = 'seq', " + BUCKETS),
    ("mor", 6, "preCombineField = 'seq', "),
    ("mor", 9, ""),
]
FIRST = "('k0', 5L, 'a', 'x'), ('k1', 5L, 'a', 'x'), ('k2', 5L, 'a', 'x'), ('k3', 5L, 'a', 'x')"
INSERTS = (
    # Into a small file: rows of its keys, new ones, and a new key twice.
    "('k0', 1L, 'b', 'x'), ('k1', 9L, 'b', 'x'), ('k2', 5L, 'b', 'x'), ('n0', 1L, 'b', 'x'), "
    "('n1', 1L, 'b', 'x'), ('n1', 2L, 'c', 'x')",
    # Into a new file, all of them, and then into this one.
    "('k0', 1L, 'b', 'y'), ('m0', 1L, 'b', 'y'), ('m1', 2L, 'b', 'y')",
    "('m0', 3L, 'c', 'y'), ('m1', 1L, 'c', 'y')",
)


@pytest.mark.parametrize("case", parameters(range(len(CASES)), in_ci=[0]))
def test_inserts_replace_the_rows_that_they_replace_in_hudi_12(
    oracle_120: HudiOracle, session: Any, tmp_path: Path, case: int
) -> None:
    kind, version, more = CASES[case]
    name, theirs, ours = f"duplicates_{case}", str(tmp_path / "theirs"), str(tmp_path / "ours")
    create = (
        "CREATE TABLE {} (id STRING, seq BIGINT, note STRING, dt STRING) USING hudi PARTITIONED BY (dt) "
        f"TBLPROPERTIES (primaryKey = 'id', {more}type = '{kind}') LOCATION '{{}}'"
    )
    with oracle_120.settings({**SETTINGS, "hoodie.write.table.version": str(version)}):
        oracle_120.sql(create.format(name, theirs))
        oracle_120.sql(f"INSERT INTO {name} VALUES {FIRST}")
        shutil.copytree(theirs, ours)
        session.sql(create.format(f"{name}_ours", ours))
        own = {**SETTINGS, ALLOWED: "false"}
        for key, value in own.items():
            session.sql(f"SET {key}={value}")
        oracle_120.sql(f"SET {ALLOWED}=false")
        for values in INSERTS:
            oracle_120.sql(f"INSERT INTO {name} VALUES {values}")
            session.sql(f"INSERT INTO {name}_ours VALUES {values}")
            read = {place: _rows(oracle_120, place) for place in (theirs, ours)}
            assert read[ours] == read[theirs], values
        for key in own:
            session.sql(f"RESET {key}")
        oracle_120.sql(f"RESET {ALLOWED}")
    assert len(read[ours]) == 4 + 2 + 3


def _rows(oracle: HudiOracle, path: str) -> list[tuple[Any, ...]]:
    columns = ["dt", "id", "seq", "note"]
    return sorted(tuple(row.values()) for row in oracle.read(path, columns=columns).to_pylist())
