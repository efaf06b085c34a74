"""The oracle's own process: the real Apache Hudi on PySpark 3.5, or Delta, told what to do by lines of JSON.

Runs in the oracle's virtual environment (never in the project's), so it imports PySpark and pyarrow alone.
One request a line on standard input, `{"command": …}`, one answer a line on standard output,
`{"ok": true, …}` or `{"ok": false, "error": …}`; rows travel as Arrow IPC files, rows to write come as
parquet files. `tests/oracle/client.py` is the other end.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import traceback
from collections.abc import Callable
from typing import Any, TextIO

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import from_json
from pyspark.sql.types import StructType


def start_session(config: dict[str, str]) -> SparkSession:
    """A Spark session with the settings given."""
    builder = SparkSession.builder
    for name, value in config.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


# Hudi 0.15 turns this off for its whole session when it reads the changes of a table ('cdc').
CHANGED_BY_HUDI = ("spark.sql.parquet.enableVectorizedReader",)


class Oracle:
    """Answers requests; every public method is a command, its arguments are the request's fields."""

    def __init__(self, spark: SparkSession, write_defaults: dict[str, str]) -> None:
        self.spark = spark
        self.write_defaults = write_defaults
        self.held: Any = None

    def sql(self, text: str, output: str | None = None) -> dict[str, Any]:
        return self._answer(self.spark.sql(text), output)

    def read(
        self,
        path: str,
        output: str,
        options: dict[str, str],
        columns: list[str] | None = None,
        where: str | None = None,
        format: str = "hudi",
    ) -> dict[str, Any]:
        frame = self.spark.read.format(format).options(**options).load(path)
        if where is not None:
            frame = frame.where(where)
        if columns is not None:
            frame = frame.select(*columns)
        return self._answer(frame, output)

    def stream(
        self, path: str, output: str, rows: str, checkpoint: str, options: dict[str, str]
    ) -> dict[str, Any]:
        """Run a stream until it has read all there is; answers its new rows, for which it uses `rows`."""
        frame = self.spark.readStream.format("hudi").options(**options).load(path)
        writer = frame.writeStream.format("parquet").option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start(rows).awaitTermination()
        # The log of the file sink says that earlier batches lie here, too.
        shutil.rmtree(f"{rows}/_spark_metadata")
        return self._answer(self.spark.read.schema(frame.schema).parquet(rows), output)

    def stream_topic(
        self,
        servers: str,
        topic: str,
        columns: str,
        path: str,
        checkpoint: str,
        most: int,
        options: dict[str, str],
    ) -> dict[str, Any]:
        """Upsert a Kafka topic's JSON events by a stream until the topic's end, up to `most` a batch."""
        source = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
        source["maxOffsetsPerTrigger"] = str(most)
        events = self.spark.readStream.format("kafka").options(**source).load()
        rows = events.select(from_json(events["value"].cast("string"), columns).alias("event")).select(
            "event.*"
        )
        writer = rows.writeStream.format("hudi").options(**{**self.write_defaults, **options})
        writer = writer.option("checkpointLocation", checkpoint).outputMode("append")
        writer.trigger(availableNow=True).start(path).awaitTermination()
        return {}

    def stream_files(
        self, source: str, columns: str, path: str, checkpoint: str, options: dict[str, str]
    ) -> dict[str, Any]:
        """Write the JSON files of a directory by a stream, a file for each batch."""
        rows = self.spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).json(source)
        writer = rows.writeStream.format("hudi").options(**{**self.write_defaults, **options})
        writer = writer.option("checkpointLocation", checkpoint).outputMode("append")
        writer.trigger(availableNow=True).start(path).awaitTermination()
        return {}

    def view(self, name: str, path: str, options: dict[str, str], format: str = "hudi") -> dict[str, Any]:
        self.spark.read.format(format).options(**options).load(path).createOrReplaceTempView(name)
        return {}

    def save(
        self, path: str, options: dict[str, str], mode: str, input: str | None = None, format: str = "hudi"
    ) -> dict[str, Any]:
        # A bootstrap is saved from a frame without rows and columns: its own schema would become the table's.
        frame = self.spark.read.parquet(input) if input else self.spark.createDataFrame([], StructType([]))
        chosen = {**self.write_defaults, **options} if format == "hudi" else options
        frame.write.format(format).options(**chosen).mode(mode).save(path)
        return {}

    def restore_settings(self) -> None:
        """Take back what Hudi changes of the session, so that no request depends on those before it."""
        for name in CHANGED_BY_HUDI:
            self.spark.conf.unset(name)

    def lock(self, path: str) -> dict[str, Any]:
        """Take Hudi's own file-system lock of the table at `path`; `unlock` gives it back."""
        jvm: Any = self.spark.sparkContext._jvm
        properties = jvm.java.util.Properties()
        for key, value in {
            "hoodie.base.path": path,
            "hoodie.write.lock.filesystem.expire": "0",
        }.items():
            properties.setProperty(key, value)
        configuration = self.spark.sparkContext._jsc.hadoopConfiguration()
        self.held = jvm.org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider(
            jvm.org.apache.hudi.common.config.LockConfiguration(properties),
            jvm.org.apache.hudi.storage.hadoop.HadoopStorageConfiguration(configuration),
        )
        return {"locked": self.held.tryLock(1, jvm.java.util.concurrent.TimeUnit.SECONDS)}

    def unlock(self) -> dict[str, Any]:
        self.held.unlock()
        return {}

    def save_query(self, query: str, path: str, options: dict[str, str]) -> dict[str, Any]:
        frame = self.spark.sql(query)
        frame.write.format("hudi").options(**{**self.write_defaults, **options}).mode("append").save(path)
        return {}

    def program(self, text: str) -> dict[str, Any]:
        """Run lines of PySpark with the name `spark`, and with `answers`, a dictionary that is returned."""
        answers: dict[str, Any] = {}
        exec(text, {"spark": self.spark, "answers": answers})
        return {"answers": answers}

    def _answer(self, frame: DataFrame, output: str | None) -> dict[str, Any]:
        described = {"schema": frame.schema.jsonValue()}
        if output is None:
            frame.collect()
            return described
        schema, batches = _as_arrow(frame)
        with pa.OSFile(output, "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        return described


def _as_arrow(frame: DataFrame) -> tuple[pa.Schema, list[pa.RecordBatch]]:
    # PySpark 3.5 has no DataFrame.toArrow yet; this is what its toPandas stands on.
    from pyspark.sql.pandas.types import to_arrow_schema

    collect: Any = frame._collect_as_arrow
    batches = collect()
    return (batches[0].schema if batches else to_arrow_schema(frame.schema)), batches


def _shorten(text: str) -> str:
    """A Java stack trace without its frames: the messages and their causes are what tells."""
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(("at ", "...")))


def serve(oracle: Oracle, requests: TextIO, answers: TextIO) -> None:
    """Answer requests until their stream ends."""
    for line in requests:
        request = json.loads(line)
        command: Callable[..., dict[str, Any]] = getattr(oracle, request.pop("command"))
        try:
            answer = {"ok": True, **command(**request)}
        except Exception as error:
            answer = {"ok": False, "error": _shorten(str(error)), "trace": _shorten(traceback.format_exc())}
        oracle.restore_settings()
        print(json.dumps(answer), file=answers, flush=True)


def main() -> None:
    """Start Spark with the settings of the first line, say so, then serve."""
    # The JVM prints on standard output too: keep that stream for answers and send all else to the log.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    setup = json.loads(sys.stdin.readline())
    spark = start_session(setup["config"])
    spark.sparkContext.setLogLevel("WARN")
    for name, value in setup["hoodie"].items():
        spark.sql(f"set {name}={value}")
    print(json.dumps({"ok": True, "spark": spark.version, "pid": os.getpid()}), file=answers, flush=True)
    serve(Oracle(spark, setup["hoodie"]), sys.stdin, answers)
    spark.stop()


if __name__ == "__main__":
    main()
