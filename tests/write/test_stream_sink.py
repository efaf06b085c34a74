"""`df.writeStream.format("hudi")`: every micro batch once, whatever ends the query; and refusals."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from hudisql.table.timeline.instant_files import read_extra_metadata
from tests.opened import open_at
from tests.soak import parameters
from tests.spark_versions import needs_spark

pytestmark = [pytest.mark.spark, needs_spark("4.1", "streams into Python data sources by Arrow")]

WRITE = "hoodie.datasource.write"
SINK_CHECKPOINT = "_hudi_streaming_sink_checkpoint"
COLUMNS = "id BIGINT, ts BIGINT, fare DOUBLE, city STRING"
KEYED = {
    "hoodie.table.name": "trips",
    f"{WRITE}.recordkey.field": "id",
    f"{WRITE}.precombine.field": "ts",
    f"{WRITE}.partitionpath.field": "city",
}


class Trips:
    """A directory of JSON files as the source of streams into one table."""

    def __init__(self, spark: Any, directory: Path) -> None:
        self.spark = spark
        self.source = directory / "source"
        self.source.mkdir()
        self.table = str(directory / "trips")
        self.checkpoint = directory / "checkpoint"

    def add(self, name: str, *rows: tuple[int, int, float, str]) -> None:
        """A file with the rows, for the next micro batch."""
        names = ("id", "ts", "fare", "city")
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
        (self.source / name).write_text("\n".join(lines))

    def run(self, mode: str = "append", **options: str) -> None:
        """Write what is new, a file for each batch, and end."""
        rows = self.spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).json(str(self.source))
        if mode == "complete":
            rows = rows.groupBy("city").count()
        given = {**KEYED, "checkpointLocation": str(self.checkpoint), **options}
        writer = rows.writeStream.queryName("trips").format("hudi").options(**given).outputMode(mode)
        writer.trigger(availableNow=True).start(self.table).awaitTermination()

    def fares(self) -> list[tuple[int, float]]:
        rows = self.spark.read.format("hudi").load(self.table).select("id", "fare").collect()
        return sorted(map(tuple, rows))

    def batches(self) -> list[dict[str, str]]:
        """The sink's checkpoint of each commit."""
        table = open_at(self.table)
        found = read_extra_metadata(table, table.timeline.commits)
        return [json.loads(metadata[SINK_CHECKPOINT] or "{}") for metadata in found]

    def forget_last_acknowledgement(self) -> None:
        """What a driver leaves that is killed behind the commit, before Spark writes its commit log."""
        log = self.checkpoint / "commits"
        last = max(int(path.name) for path in log.iterdir() if path.name.isdigit())
        for path in (log / str(last), log / f".{last}.crc"):
            path.unlink(missing_ok=True)


@pytest.fixture
def trips(spark: Any, tmp_path: Path) -> Trips:
    return Trips(spark, tmp_path)


@pytest.mark.parametrize("operation", parameters(["upsert", "insert"], in_ci=["upsert"]))
def test_each_batch_is_one_commit_and_is_not_written_again(trips: Trips, operation: str) -> None:
    options = {f"{WRITE}.operation": operation}
    trips.add("1.json", (1, 1, 5.0, "lima"), (2, 1, 6.0, "oslo"))
    trips.run(**options)
    trips.add("2.json", (2, 2, 7.0, "oslo") if operation == "upsert" else (3, 2, 7.0, "oslo"))
    trips.run(**options)
    rows = trips.fares()
    assert rows == [(1, 5.0), (2, 7.0)] if operation == "upsert" else [(1, 5.0), (2, 6.0), (3, 7.0)]
    assert trips.batches() == [{"default_single_writer": "0"}, {"default_single_writer": "1"}]
    trips.forget_last_acknowledgement()
    trips.run(**options)
    assert trips.fares() == rows
    assert len(trips.batches()) == 2


# The process that commits batch 1, killed with the data files written and the commit not complete.
_KILLED = """
import json, os, sys
import pyarrow as pa
from pyspark.sql.types import StructType
import pyspark_hudisql.sink as sink
from pyspark_hudisql.stream_sink import HudiStreamWriter

sink.finish_commit = lambda *arguments: os._exit(9)
options, schema, rows = map(json.loads, sys.argv[1:])
sent = pa.Table.from_pylist(rows).to_batches()
writer = HudiStreamWriter(options, StructType.fromJson(schema), False)
writer.commit([sink.SentRows(sink.compressed_rows(sent))], 1)
"""


@pytest.mark.parametrize("operation", parameters(["upsert", "insert"], in_ci=["upsert"]))
def test_a_batch_whose_process_is_killed_before_the_commit_is_written_once(
    trips: Trips, operation: str
) -> None:
    options = {f"{WRITE}.operation": operation}
    trips.add("1.json", (1, 1, 5.0, "lima"))
    trips.run(**options)
    rows = trips.spark.createDataFrame([], COLUMNS)
    given = {**KEYED, **options, "path": trips.table, "checkpointLocation": str(trips.checkpoint)}
    sent = [{"id": 2, "ts": 1, "fare": 6.0, "city": "oslo"}]
    arguments = [json.dumps(given), rows.schema.json(), json.dumps(sent)]
    killed = subprocess.run([sys.executable, "-c", _KILLED, *arguments], check=False)
    assert killed.returncode == 9
    assert list(Path(trips.table).glob("oslo/*.parquet"))
    assert trips.fares() == [(1, 5.0)]
    trips.add("2.json", (2, 1, 6.0, "oslo"))
    trips.run(**options)
    assert trips.fares() == [(1, 5.0), (2, 6.0)]
    assert trips.batches() == [{"default_single_writer": "0"}, {"default_single_writer": "1"}]


def test_a_new_query_with_the_identifier_of_another_is_refused(trips: Trips) -> None:
    trips.add("1.json", (1, 1, 5.0, "lima"))
    trips.run()
    shutil.rmtree(trips.checkpoint)
    with pytest.raises(PySparkException, match="with another or an older checkpoint: nothing was written"):
        trips.run()
    trips.run(**{f"{WRITE}.streaming.checkpoint.identifier": "second"})
    assert trips.fares() == [(1, 5.0)]
    assert trips.batches() == [{"default_single_writer": "0"}, {"second": "0"}]


@pytest.mark.parametrize(
    ("mode", "options", "message"),
    [
        ("complete", {}, "output mode append, not complete"),
        ("append", {f"{WRITE}.operation": "delete"}, "takes upsert, insert, bulk_insert"),
        (
            "append",
            {f"{WRITE}.streaming.ignore.failed.batch": "true"},
            "does not follow .*failed.batch = true",
        ),
        ("append", {f"{WRITE}.streaming.retry.count": "5"}, "does not follow .*retry.count = 5"),
    ],
)
def test_what_the_sink_does_not_follow_is_refused(
    trips: Trips, mode: str, options: dict[str, str], message: str
) -> None:
    trips.add("1.json", (1, 1, 5.0, "lima"))
    with pytest.raises(PySparkException, match=message):
        trips.run(mode, **options)
    assert not Path(trips.table).exists()


def test_a_stream_into_a_table_by_name_is_refused(trips: Trips) -> None:
    trips.add("1.json", (1, 1, 5.0, "lima"))
    rows = trips.spark.readStream.schema(COLUMNS).json(str(trips.source))
    writer = rows.writeStream.format("hudi").options(**KEYED)
    with pytest.raises(PySparkException, match="the option path of a stream into a Hudi table is not set"):
        writer.option("checkpointLocation", str(trips.checkpoint)).toTable(
            "streamed_by_name"
        ).awaitTermination()
    # Spark makes its entry before it asks for a writer.
    trips.spark.sql("DROP TABLE IF EXISTS streamed_by_name")
