"""Tables made of ORC, CSV, Avro, JSON and text tables: Apache Hudi reads the source's rows and goes on."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudisql.errors import SourceError
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.other_tables import FORMATS, other_table
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark]


@pytest.fixture(scope="module")
def rewritten(session: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[str, str]]:
    """Path of the table and name of the source by format, each made once for both versions of Apache Hudi."""

    @cache
    def make(kind: str) -> tuple[str, str]:
        directory: Path = tmp_path_factory.mktemp(kind)
        name = f"store.rewritten_{kind}"
        source = other_table(session, kind, name, directory / "source")
        session.sql(
            f"CALL bootstrap_table(table => '{name}', source_table => '{source}', record_key => 'id',"
            f" precombine => 'seq', target_path => '{directory}/table', mode => 'full_record')"
        )
        return f"{directory}/table", source

    return make


def _rows_of(session: Any, source: str) -> pa.Table:
    rows: pa.Table = session.sql(f"SELECT * FROM {source}").arrow()
    return rows


@pytest.mark.parametrize(
    ("kind", "version"),
    parameters(
        [(kind, version) for kind in FORMATS for version in ("015", "120")],
        in_ci=[("orc", "015"), ("orc", "120"), ("csv", "015"), ("csv", "120")],
    ),
)
def test_apache_hudi_reads_the_rows_of_a_source_that_spark_read(
    request: pytest.FixtureRequest,
    session: Any,
    rewritten: Callable[[str], tuple[str, str]],
    kind: str,
    version: str,
) -> None:
    oracle: HudiOracle = request.getfixturevalue(f"oracle_{version}")
    path, source = rewritten(kind)
    expected = _rows_of(session, source)
    theirs = oracle.read(path)
    assert_same_rows(theirs.select(expected.column_names), expected, sort_by=["id"])
    keys = theirs.select(["id", "_hoodie_record_key", "_hoodie_partition_path", "dt"]).to_pylist()
    assert all(row["_hoodie_record_key"] == row["id"] for row in keys)
    assert all(row["_hoodie_partition_path"] == f"dt={row['dt']}" for row in keys)


def test_apache_hudi_upserts_into_a_table_made_of_an_orc_table(
    oracle_015: HudiOracle, session: Any, tmp_path: Path
) -> None:
    source = other_table(session, "orc", "store.upserted", tmp_path / "source")
    session.sql(
        f"CALL bootstrap_table(table => 'store.upserted', source_table => '{source}', record_key => 'id',"
        f" precombine => 'seq', target_path => '{tmp_path}/table', mode => 'full_record')"
    )
    rows = _rows_of(session, source).filter(pc.field("seq") < 10)
    changed = rows.set_column(rows.column_names.index("short"), "short", pa.array(["new"] * len(rows)))
    options = {
        "hoodie.table.name": "upserted",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "seq",
        "hoodie.datasource.write.partitionpath.field": "dt",
        "hoodie.datasource.write.hive_style_partitioning": "true",
    }
    oracle_015.upsert(changed, f"{tmp_path}/table", options)
    theirs = oracle_015.read(f"{tmp_path}/table")
    assert len(theirs) == 40
    assert theirs["short"].to_pylist().count("new") == 10
    ours = session.sql("SELECT * FROM store.upserted").arrow()
    assert_same_rows(ours, theirs, sort_by=["id"])


@pytest.mark.parametrize("version", parameters(["015", "120"], in_ci=["120"]))
def test_apache_hudi_reads_the_table_of_the_statement_in_the_error(
    request: pytest.FixtureRequest, session: Any, tmp_path: Path, version: str
) -> None:
    oracle: HudiOracle = request.getfixturevalue(f"oracle_{version}")
    name = f"store.copied_{version}"
    source = other_table(session, "csv", name, tmp_path / "source")
    with pytest.raises(SourceError) as refused:
        session.sql(
            f"CALL bootstrap_table(table => '{name}', source_table => '{source}', record_key => 'id',"
            f" precombine => 'seq', target_path => '{tmp_path}/table', table_type => 'MERGE_ON_READ')"
        )
    assert refused.value.hint is not None
    session.sql(refused.value.hint[refused.value.hint.index("CREATE TABLE") :])
    expected = _rows_of(session, source)
    assert_same_rows(oracle.read(f"{tmp_path}/table").select(expected.column_names), expected, sort_by=["id"])
