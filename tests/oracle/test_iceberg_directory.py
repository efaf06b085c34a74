"""Apache Hudi goes on with a table whose directory holds Iceberg metadata, which then has its rows, too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from hudisql.errors import UnsupportedTableError
from tests.iceberg.readers import check_readers, duckdb_rows, hudisql_rows
from tests.oracle.client import HudiOracle
from tests.oracle.shapes import SHAPES, bootstrap_shape, noted_rows
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]


@pytest.mark.parametrize("version", parameters(["0.15", "1.2"], in_ci=["0.15"]))
def test_hudi_goes_on_with_a_published_table(
    session: Any, request: pytest.FixtureRequest, tmp_path: Path, version: str
) -> None:
    oracle: HudiOracle = request.getfixturevalue("oracle_015" if version == "0.15" else "oracle_120")
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    shape = replace(SHAPES[0], name="iceberg_" + version.replace(".", "_"))
    made = bootstrap_shape(session, shape, tmp_path)
    name = f"oracle.{shape.name}"
    session.sql(f"UPDATE {name} SET note = 'ours' WHERE seq IN (3, 14)")
    session.sql(f"CALL sync_iceberg(table => '{name}')")
    options = {"hoodie.write.table.version": "6", "hoodie.metadata.enable": "false"}
    given = {**shape.write_options(), **(options if version == "1.2" else {})}
    oracle.upsert(noted_rows(shape, 115, 125, "theirs"), made.path, given)
    rows = oracle.read(made.path)
    assert (rows.num_rows, pc.sum(pc.equal(rows["note"], "ours")).as_py()) == (125, 2)
    # Hudi writes lists in two levels, and no test shows that all Iceberg readers read these.
    with pytest.raises(UnsupportedTableError, match=r"stored as labels\.array"):
        session.sql(f"CALL sync_iceberg(table => '{name}')")
    session.sql(f"CALL run_clustering(table => '{name}')")
    published = session.sql(f"CALL sync_iceberg(table => '{name}')").rows[0]
    assert published.rows == 125
    assert duckdb_rows(published.metadata_file) == hudisql_rows(session, name)


@pytest.mark.soak
@pytest.mark.parametrize("version", ["0.15", "1.2"])
def test_log_files_of_hudi_are_published(
    session: Any, request: pytest.FixtureRequest, tmp_path: Path, version: str
) -> None:
    oracle: HudiOracle = request.getfixturevalue("oracle_015" if version == "0.15" else "oracle_120")
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    shape = replace(SHAPES[-1], name="iceberg_logs_" + version.replace(".", "_"))
    made = bootstrap_shape(session, shape, tmp_path)
    name = f"oracle.{shape.name}"
    options = {"hoodie.write.table.version": "6", "hoodie.metadata.enable": "false"}
    given = {**shape.write_options(), **(options if version == "1.2" else {})}
    for start, note in ((90, "theirs"), (100, "later")):
        oracle.upsert(noted_rows(shape, start, 120, note), made.path, given)
        published = check_readers(session, name, ("note = 'theirs'", "seq > 95"))
        assert (published["log_row_files"], published["delete_files"]) == (3, 3)
        session.sql(f"DELETE FROM {name} WHERE seq = {start + 1}")
    published = check_readers(session, name)
    rows = oracle.read(made.path)
    assert rows.num_rows == published["rows"] == 118
    assert pc.sum(pc.equal(rows["note"], "later")).as_py() == 19
