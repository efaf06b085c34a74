"""Settings that begin with a prefix are in the extra metadata of the commits in which Hudi stores them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.storage import Storage
from hudisql.table.hudi_table import open_table
from hudisql.table.timeline.instant_files import read_commits
from tests.oracle.client import HudiOracle
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

PREFIX = "hoodie.datasource.write.commitmeta.key.prefix"
INTO = "hoodie.spark.sql.insert.into.operation"
SESSION = {PREFIX: "hoodie.note.", "hoodie.note.a": "session", "hoodie.note.both": "session"}
STATEMENTS = (
    "INSERT INTO {t} VALUES (0, 1L, 'a', 'x'), (1, 1L, 'a', 'x'), (2, 1L, 'a', 'y')",
    "UPDATE {t} SET note = 'b' WHERE id = 0",
    "DELETE FROM {t} WHERE id = 1",
    "MERGE INTO {t} t USING (SELECT 0 AS id, 5L AS seq, 'm' AS note, 'x' AS dt) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "INSERT OVERWRITE {t} VALUES (2, 2L, 'a', 'x')",
    "ALTER TABLE {t} DROP PARTITION (dt = 'x')",
    "ALTER TABLE {t} ADD COLUMNS (more INT)",
)
CREATE = (
    "CREATE TABLE {name} (id INT, seq BIGINT, note STRING, dt STRING) USING hudi PARTITIONED BY (dt) "
    "TBLPROPERTIES (primaryKey = 'id', preCombineField = 'seq', type = '{kind}', 'hoodie.note.t' = 'table', "
    "'hoodie.note.both' = 'table', '_plain' = 'table', 'hoodie.compact.inline' = 'false') LOCATION '{path}'"
)


def _extra_metadata(path: str) -> list[dict[str, str | None]]:
    """That of all commits, in their order, without the schema."""
    table = open_table(Storage(), path)
    commits = read_commits(table, table.timeline.commits)
    return [{key: text for key, text in each.extra_metadata.items() if key != "schema"} for each in commits]


@pytest.mark.soak
@pytest.mark.parametrize(("version", "kind"), [("015", "cow"), ("120", "cow"), ("120", "mor")])
def test_statements_store_what_hudi_stores(
    request: pytest.FixtureRequest, session: Any, tmp_path: Path, version: str, kind: str
) -> None:
    oracle: HudiOracle = request.getfixturevalue(f"oracle_{version}")
    stored = []
    for run, place in ((oracle.sql, "theirs"), (session.sql, "ours")):
        name, path = f"noted_{version}_{kind}_{place}", str(tmp_path / place)
        run(CREATE.format(name=name, path=path, kind=kind))
        run(STATEMENTS[0].format(t=name))
        for key, value in SESSION.items():
            run(f"SET {key}={value}")
        for operation in ("insert", "bulk_insert"):
            run(f"SET {INTO}={operation}")
            run(f"INSERT INTO {name} VALUES (9, 1L, '{operation}', 'z')")
        run(f"RESET {INTO}")
        for statement in STATEMENTS:
            run(statement.format(t=name))
        made, made_path = f"{name}_as", str(tmp_path / f"{place}_as")
        run(
            f"CREATE TABLE {made} USING hudi TBLPROPERTIES (primaryKey = 'id', 'hoodie.note.q' = 'q') "
            f"LOCATION '{made_path}' AS SELECT 1 AS id, 2L AS seq"
        )
        for key in SESSION:
            run(f"RESET {key}")
        run(f"ALTER TABLE {name} SET TBLPROPERTIES ('{PREFIX}' = 'hoodie.note.t')")
        run(f"INSERT INTO {name} VALUES (0, 3L, 'a', 1, 'x')")
        stored.append((_extra_metadata(path), _extra_metadata(made_path)))
    theirs, ours = stored
    assert ours == theirs
    noted = {"hoodie.note.t": "table", "hoodie.note.both": "session", "hoodie.note.a": "session"}
    assert ours[0] == [{"_plain": "table"}, *[noted] * 8, {}, {"hoodie.note.t": "table"}]
    assert ours[1] == [{"hoodie.note.a": "session", "hoodie.note.both": "session", "hoodie.note.q": "q"}]


@pytest.mark.parametrize("version", parameters(["015", "120"], in_ci=["015"]))
def test_dataframes_store_what_hudi_stores(
    request: pytest.FixtureRequest, session: Any, tmp_path: Path, version: str
) -> None:
    oracle: HudiOracle = request.getfixturevalue(f"oracle_{version}")
    rows = pa.table({"id": [1], "seq": pa.array([1], pa.int64()), "dt": ["x"]})
    frame = session.spark.createDataFrame([(1, 1, "x")], "id BIGINT, seq BIGINT, dt STRING")
    writes: list[tuple[str, dict[str, str]]] = [
        *(
            (operation, {PREFIX: "job_", "job_a": "1", "Job_B": "2"})
            for operation in ("bulk_insert", "insert", "upsert", "insert_overwrite", "delete")
        ),
        ("upsert", {"_under": "3"}),
        ("upsert", {PREFIX: "job_,run_", "job_,run_c": "1"}),
    ]
    name, ours, theirs = f"framed_{version}", str(tmp_path / "ours"), str(tmp_path / "theirs")
    for operation, options in writes:
        chosen = {
            "hoodie.table.name": name,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "seq",
            "hoodie.datasource.write.partitionpath.field": "dt",
            "hoodie.datasource.write.operation": operation,
            **options,
        }
        oracle.write(rows, theirs, chosen)
        session.write(frame, name, path=ours, **chosen)
    assert _extra_metadata(ours) == _extra_metadata(theirs)
    expected = [{"job_a": "1", "job_b": "2"}] * 5 + [{"_under": "3"}, {"job_,run_c": "1"}]
    assert _extra_metadata(ours) == expected
