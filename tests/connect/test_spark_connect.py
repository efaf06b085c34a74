"""Hudi tables by path in Spark Connect sessions and in declarative pipelines, on a real Connect server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest

from tests.spark_versions import needs_spark

pytestmark = [
    pytest.mark.spark,
    pytest.mark.soak,
    needs_spark("4.1", "streams into Python data sources by Arrow"),
]
ROOT = Path(__file__).parents[2]


def run(command: list[str], directory: Path, **environment: str) -> str:
    """The standard output of a process that finds hudisql here."""
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    directory = tmp_path_factory.mktemp("connect")
    output = run([sys.executable, "-m", "tests.connect.program", str(directory)], directory)
    return directory, json.loads(output.splitlines()[-1])


def test_a_table_is_made_changed_read_and_streamed(answers: tuple[Path, dict[str, Any]], spark: Any) -> None:
    directory, steps = answers
    upserted = [[1, 5.0], [2, 60.0], [3, 7.0], [4, 8.0]]
    assert steps["create"] == [[1, 5.0], [2, 6.0], [3, 7.0]]
    assert steps["upsert"] == upserted
    assert steps["delete"] == steps["view"] == [[2, 60.0]]
    assert steps["as_of"] == steps["create"]
    assert steps["incremental"] == [[2, 60.0], [4, 8.0]]
    assert steps["stream"] == [row for row in upserted if row[0] != 3]
    for name in ("trips", "copy"):
        rows = spark.read.format("hudi").load(str(directory / name)).select("id", "fare").collect()
        assert sorted(map(list, rows)) == steps["stream"]


def test_errors_say_what_to_do(answers: tuple[Path, dict[str, Any]]) -> None:
    _, steps = answers
    assert "1 new row(s) have no record key: id is null or empty" in steps["null_key"]
    assert "did you mean 'hoodie.datasource.write.operation'?" in steps["unknown_option"]
    assert "a Spark Connect session has no names of Hudi tables" in steps["connect"]
    assert "spark.read.format('hudi').load(path)" in steps["connect"]


def test_a_declarative_pipeline_reads_and_feeds_hudi_tables(
    answers: tuple[Path, dict[str, Any]], spark: Any, tmp_path: Path
) -> None:
    directory, steps = answers
    (tmp_path / "definitions").mkdir()
    shutil.copy(Path(__file__).with_name("pipeline.py"), tmp_path / "definitions")
    (tmp_path / "spark-pipeline.yml").write_text(
        f"name: lake\nstorage: file://{tmp_path}/storage\n"
        "libraries:\n  - glob:\n      include: definitions/**\n"
    )
    command = str(Path(sys.executable).with_name("spark-pipelines"))
    home = str(Path(pyspark.__file__).parent)
    run([command, "run"], tmp_path, PIPELINE_DIRECTORY=str(directory), SPARK_HOME=home)
    cities = pq.read_table(tmp_path / "spark-warehouse" / "cities").to_pylist()
    assert {row["city"]: row["count"] for row in cities} == {"lima": 2, "oslo": 1}
    rows = spark.read.format("hudi").load(str(directory / "sink")).select("id", "fare").collect()
    assert sorted(map(list, rows)) == steps["stream"]
