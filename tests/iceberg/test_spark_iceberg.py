"""Spark 3.5 with Iceberg's runtime reads published tables by name, as hudisql reads the Hudi tables."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.storage import Storage
from scripts.setup_oracles import install_iceberg, install_oracle_python
from tests.iceberg.readers import publish
from tests.storage.servers import hdfs_cluster

pytestmark = [pytest.mark.spark, pytest.mark.hms, pytest.mark.oracle, pytest.mark.soak]

COLUMNS = "id, name, price, at, tags, inner, day"
CHANGES = (
    "UPDATE {t} SET name = upper(name) WHERE id % 7 = 0 AND day < DATE'2024-01-04'",
    "DELETE FROM {t} WHERE id % 11 = 3 AND day = DATE'2024-01-01'",
    "MERGE INTO {t} t USING (SELECT CAST(id + 290 AS INT) AS id, 'new' AS name, "
    "CAST(1 AS DECIMAL(25, 2)) AS price, TIMESTAMP'2030-01-01 00:00:00' AS at, array('z') AS tags, "
    "named_struct('a', 1, 'b', 'y') AS inner, DATE'2024-01-03' AS day FROM range(30)) s "
    "ON t.id = s.id AND t.day = s.day WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "UPDATE {t} SET price = NULL WHERE id BETWEEN 100 AND 120 AND day = DATE'2024-01-02'",
)
FILTERS = (
    "true",
    "day = DATE'2024-01-01' AND name > 'N'",
    "id = 7",
    "price IS NULL",
    "at > TIMESTAMP'2029-01-01'",
)


def iceberg_rows(metastore_uri: str, queries: Sequence[str]) -> list[list[list[str]]]:
    """The rows of each query, as Spark with Iceberg gives them."""
    command = [str(install_oracle_python()), str(Path(__file__).with_name("spark_reader.py"))]
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "SPARK_HOME")}
    done = subprocess.run(
        [*command, str(install_iceberg()), metastore_uri, *queries],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith("rows ")]
    return [json.loads(line.removeprefix("rows ")) for line in lines]


def write_source(directory: Path) -> None:
    """Four days of 100 rows each."""
    for day in range(1, 5):
        ids = range(100 * (day - 1), 100 * day)
        rows = pa.table(
            {
                "id": pa.array(ids, pa.int32()),
                "name": [f"n{each}" for each in ids],
                "price": pa.array([Decimal(each) / 2 for each in ids], pa.decimal128(25, 2)),
                "at": pa.array([each * 1_000_000_000 for each in ids], pa.timestamp("us", "UTC")),
                "tags": [["a", str(each)] for each in ids],
                "inner": [{"a": each, "b": "x"} for each in ids],
            }
        )
        path = directory / f"day=2024-01-{day:02}"
        path.mkdir(parents=True)
        pq.write_table(rows, path / "part-0.parquet")


def bootstrap(session: Any, root: Path | str, name: str, table_type: str, more: str = "") -> None:
    """Bootstrap `root/t` from `root/source`, which has the files of `write_source`."""
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    kind = "MERGE_ON_READ" if table_type == "mor" else "COPY_ON_WRITE"
    session.sql(
        f"CALL bootstrap_table(table => '{name}', source => '{root}/source', record_key => 'id', "
        f"precombine => 'at', target_path => '{root}/t', table_type => '{kind}'{more})"
    )


@pytest.mark.parametrize("format_version", [2, 3])
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_spark_with_iceberg_reads_what_hudisql_reads(
    session: Any, metastore_uri: str, tmp_path: Path, table_type: str, format_version: int
) -> None:
    name = f"oracle.spark_iceberg_{table_type}_{format_version}"
    write_source(tmp_path / "source")
    bootstrap(session, tmp_path, name, table_type)
    for change in CHANGES:
        session.sql(change.format(t=name))
        published = publish(session, name, f", register => true, format_version => {format_version}")
    assert bool(published["delete_files"]) == (table_type == "mor")
    assert published["source_files"]
    queries = [f"SELECT {COLUMNS} FROM {{t}} WHERE {where}" for where in FILTERS]
    expected = [
        sorted([str(value) for value in row] for row in session.sql(query.format(t=name)).rows)
        for query in queries
    ]
    assert (
        iceberg_rows(metastore_uri, [query.format(t=f"ice.{name}_iceberg") for query in queries]) == expected
    )
    session.sql(f"DROP TABLE {name}")


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_a_table_on_hdfs_is_published_with_each_commit(
    session: Any, metastore_uri: str, tmp_path: Path, table_type: str
) -> None:
    name = f"oracle.hdfs_iceberg_{table_type}"
    write_source(tmp_path / "source")
    with hdfs_cluster(tmp_path) as uri:
        for file in (tmp_path / "source").rglob("*.parquet"):
            Storage().write(f"{uri}/{file.relative_to(tmp_path)}", file.read_bytes())
        bootstrap(session, uri, name, table_type, ", iceberg_sync => true")
        for change in CHANGES:
            session.sql(change.format(t=name))
        published = publish(session, name, ", register => true")
        assert published["result"] == "already published"
        assert published["metadata_file"].startswith(f"{uri}/t/.hoodie/iceberg/metadata/v")
        rows = session.sql(f"SELECT {COLUMNS} FROM {name}").rows
        expected = sorted([str(value) for value in row] for row in rows)
        query = f"SELECT {COLUMNS} FROM ice.{name}_iceberg"
        assert iceberg_rows(metastore_uri, [query]) == [expected]
        # An error of the verification fails the call.
        session.sql(f"CALL verify_iceberg(table => '{name}', level => 'full')")
        session.sql(f"DROP TABLE {name}")
