"""Streams into one table by hudisql's sink and by Hudi's: each knows the other's batches by their numbers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.client import HudiOracle
from tests.spark_versions import needs_spark

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.spark,
    needs_spark("4.1", "streams into Python data sources by Arrow"),
]

WRITE = "hoodie.datasource.write"
COLUMNS = "id BIGINT, ts BIGINT, writer STRING, city STRING"
OPTIONS = {
    "hoodie.table.name": "trips",
    f"{WRITE}.recordkey.field": "id",
    f"{WRITE}.precombine.field": "ts",
    f"{WRITE}.partitionpath.field": "city",
    f"{WRITE}.operation": "upsert",
    f"{WRITE}.streaming.checkpoint.identifier": "trips",
}


def _add_batches(source: Path, writer: str, batches: range) -> None:
    """One file for each batch, with the number of the batch as key."""
    source.mkdir(exist_ok=True)
    for batch in batches:
        row = {"id": batch, "ts": 1, "writer": writer, "city": "oslo"}
        file = source / f"{batch}.json"
        file.write_text(json.dumps(row))
        # Spark takes files by their times.
        os.utime(file, (1_700_000_000 + batch, 1_700_000_000 + batch))


def _stream(spark: Any, directory: Path, path: str) -> None:
    reader = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
    rows = reader.json(str(directory / "source"))
    writer = rows.writeStream.format("hudi").options(**OPTIONS)
    writer = writer.option("checkpointLocation", str(directory / "checkpoint"))
    writer.trigger(availableNow=True).start(path).awaitTermination()


@pytest.mark.soak
def test_hudis_sink_and_ours_do_not_write_the_batches_of_each_other_again(
    oracle_015: HudiOracle, oracle_120: HudiOracle, session: Any, tmp_path: Path
) -> None:
    ours, theirs, path = tmp_path / "ours", tmp_path / "theirs", str(tmp_path / "trips")
    ours.mkdir()
    theirs.mkdir()
    _add_batches(ours / "source", "ours", range(1))
    _stream(session.spark, ours, path)
    _add_batches(theirs / "source", "hudi", range(2))
    oracle_015.request(
        "stream_files",
        source=str(theirs / "source"),
        columns=COLUMNS,
        path=path,
        checkpoint=str(theirs / "checkpoint"),
        options=OPTIONS,
    )
    _add_batches(ours / "source", "ours", range(1, 3))
    _stream(session.spark, ours, path)
    expected = [(0, "ours"), (1, "hudi"), (2, "ours")]
    read = session.spark.read.format("hudi").load(path).select("id", "writer").collect()
    assert sorted(map(tuple, read)) == expected
    for oracle in (oracle_015, oracle_120):
        rows = oracle.read(path, columns=["id", "writer"]).to_pylist()
        assert sorted((row["id"], row["writer"]) for row in rows) == expected
