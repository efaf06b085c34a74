"""Trino and Polars read bootstrapped tables with changes, as hudisql reads the Hudi tables."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from hudisql.iceberg.publication import publish
from hudisql.table.hudi_table import open_table
from scripts.maven import SetupError
from scripts.setup_oracles import install_trino
from tests.free_port import find_free_port
from tests.iceberg.readers import hudisql_rows, metadata_of, shown_file, sorted_rows
from tests.iceberg.readers import publish as published_row
from tests.iceberg.test_spark_iceberg import CHANGES, bootstrap, write_source
from tests.iceberg.trino_server import LocalNames, Trino, running_trino

pytestmark = [pytest.mark.spark, pytest.mark.hms, pytest.mark.soak]

COLUMNS = (
    "id, name, CAST(price AS {text}), {micros}(at), array_join(tags, ','), {inner}.a, {inner}.b, "
    "CAST(day AS {text})"
)
SPARK = {"text": "STRING", "micros": "unix_micros", "inner": "inner"}
TRINO = {"text": "VARCHAR", "micros": "to_unixtime", "inner": '"inner"'}
FILTERS = (
    "true",
    "day = '2024-01-01' AND name > 'N'",
    "id = 7",
    "price IS NULL",
    "at > TIMESTAMP '2029-01-01 00:00:00 UTC'",
)


def _merged_table(session: Any, directory: Path, name: str, table_type: str) -> str:
    """A table that was bootstrapped from `write_source` and changed; its path."""
    write_source(directory / "source")
    bootstrap(session, directory, name, table_type)
    for change in CHANGES:
        session.sql(change.format(t=name))
    return str(directory / "t")


@pytest.fixture(scope="module")
def trino(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trino]:
    try:
        installation = install_trino()
    except SetupError as error:
        pytest.skip(str(error))
    with running_trino(installation, tmp_path_factory.mktemp("trino"), find_free_port()) as server:
        yield server


@pytest.mark.oracle
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_trino_reads_what_hudisql_reads(session: Any, trino: Trino, tmp_path: Path, table_type: str) -> None:
    name = f"oracle.trino_{table_type}"
    path = _merged_table(session, tmp_path, name, table_type)
    published = publish(open_table(LocalNames(), path))
    assert published.source_files
    assert published.base_files
    assert bool(published.delete_files) == (table_type == "mor")
    trino.query("CREATE SCHEMA IF NOT EXISTS ice.lake")
    location, _, file = published.metadata_path.rpartition("/metadata/")
    trino.query(
        f"CALL ice.system.register_table(schema_name => 'lake', table_name => '{table_type}', "
        f"table_location => '{location}', metadata_file_name => '{file}')"
    )
    for where in FILTERS:
        rows = session.sql(f"SELECT {COLUMNS.format(**SPARK)} FROM {name} WHERE {where}").rows
        given = trino.query(f"SELECT {COLUMNS.format(**TRINO)} FROM ice.lake.{table_type} WHERE {where}")
        for row in given:
            row[3] = None if row[3] is None else round(row[3] * 1_000_000)
        assert sorted(given) == sorted(list(row) for row in rows), where
        assert given
    session.sql(f"DROP TABLE {name}")


@pytest.mark.skipif(find_spec("polars") is None, reason="Polars is not installed (pip install polars)")
@pytest.mark.parametrize("format_version", [2, 3])
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_polars_reads_what_hudisql_reads(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_type: str, format_version: int
) -> None:
    import polars

    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    name = f"oracle.polars_{table_type}_{format_version}"
    path = _merged_table(session, tmp_path, name, table_type)
    published_row(session, name, f", format_version => {format_version}")
    assert metadata_of(path)["format-version"] == format_version
    rows = polars.scan_iceberg(shown_file(path))
    assert sorted_rows(rows.collect().to_dicts()) == hudisql_rows(session, name)
    chosen = rows.filter((polars.col("id") > 50) & (polars.col("day") < "2024-01-03"))
    expected = hudisql_rows(session, name, "id > 50 AND day < '2024-01-03'")
    assert sorted_rows(chosen.collect().to_dicts()) == expected
    session.sql(f"DROP TABLE {name}")
