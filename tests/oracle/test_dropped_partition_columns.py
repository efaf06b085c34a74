"""Tables whose files lack the partition columns: hudisql and Apache Hudi change them in turn.

They are copy-on-write: of a merge-on-read table Hudi notes the option as false, and refuses its next write.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.newer_tables import WITHOUT_SKIPPING
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]
SCHEMA = pa.schema([("id", pa.int32()), ("seq", pa.int64()), ("note", pa.string()), ("dt", pa.string())])
Row = tuple[int, int, str, str]


def _theirs(oracle: HudiOracle, path: str, rows: list[Row], options: dict[str, str]) -> None:
    columns = [list(column) for column in zip(*rows, strict=True)]
    oracle.upsert(pa.table(dict(zip(SCHEMA.names, columns, strict=True)), schema=SCHEMA), path, options)


@pytest.mark.soak
@pytest.mark.parametrize("version", parameters([6, 9], in_ci=[6]))
def test_both_write_in_turn(
    request: pytest.FixtureRequest, session: Any, tmp_path: Path, version: int
) -> None:
    oracle = request.getfixturevalue("oracle_015" if version == 6 else "oracle_120")
    name, path = f"dropped_{version}", str(tmp_path / "table")
    options = {
        "hoodie.table.name": name,
        "hoodie.write.table.version": str(version),
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "seq",
        "hoodie.datasource.write.partitionpath.field": "dt",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.drop.partition.columns": "true",
    }
    _theirs(oracle, path, [(number, 1, "first", f"d{number % 3}") for number in range(9)], options)
    session.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    notes = dict.fromkeys(range(9), "first")

    def check(**changes: str | None) -> None:
        for key, note in changes.items():
            notes.pop(int(key[1:]), None)
            if note is not None:
                notes[int(key[1:])] = note
        theirs = oracle.read(path, options=WITHOUT_SKIPPING)
        ours = session.sql(f"SELECT * FROM {name}").arrow()
        assert_same_rows(ours, theirs.select(ours.schema.names), sort_by=["id"])
        assert dict(zip(theirs["id"].to_pylist(), theirs["note"].to_pylist(), strict=True)) == notes
        assert {(row["id"] % 3, row["dt"]) for row in theirs.select(["id", "dt"]).to_pylist()} <= {
            (number, f"d{number}") for number in range(3)
        }

    check()
    session.sql(f"UPDATE {name} SET note = 'ours' WHERE id IN (0, 1)")
    session.sql(f"DELETE FROM {name} WHERE id = 2")
    session.sql(f"INSERT INTO {name} VALUES (9, 1, 'new', 'd0'), (4, 2, 'upserted', 'd1')")
    check(k0="ours", k1="ours", k2=None, k9="new", k4="upserted")
    _theirs(oracle, path, [(0, 3, "theirs", "d0"), (9, 3, "theirs", "d0"), (10, 1, "theirs", "d1")], options)
    check(k0="theirs", k9="theirs", k10="theirs")
    session.sql(
        f"MERGE INTO {name} t USING (SELECT * FROM VALUES (10, 4L, 'merged', 'd1'), (11, 4L, 'merged', 'd2') "
        "AS v(id, seq, note, dt)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    check(k10="merged", k11="merged")
    _theirs(oracle, path, [(11, 5, "theirs", "d2")], options)
    session.sql(f"CALL run_clustering(table => '{name}')")
    check(k11="theirs")
    files = list(Path(path).glob("dt=*/*.parquet"))
    assert files
    assert not [each for each in files if "dt" in pq.read_schema(each).names]
