"""A table by path through a Spark Connect session: made, changed, read back and streamed.

`python -m tests.connect.program DIRECTORY` starts a Connect server on this machine and prints one line of
JSON: what each step gave, for a refused one the first line of its error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import hudisql
from hudisql.errors import HudisqlError

WRITE = "hoodie.datasource.write"
SCHEMA = "id BIGINT, ts BIGINT, fare DOUBLE, city STRING"
OPTIONS = {
    "hoodie.table.name": "trips",
    f"{WRITE}.recordkey.field": "id",
    f"{WRITE}.precombine.field": "ts",
    f"{WRITE}.partitionpath.field": "city",
}


def main(directory: str) -> None:
    """Run the steps and print what they gave."""
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    trips = Trips(spark, directory)
    print(json.dumps({step.__name__: step() for step in trips.steps()}, default=str))
    spark.stop()


class Trips:
    """The table, and the steps on it in their order."""

    def __init__(self, spark: SparkSession, directory: str) -> None:
        self.spark = spark
        self.directory = directory
        self.path = f"{directory}/trips"
        self.begin = ""

    def steps(self) -> list[Callable[[], Any]]:
        """The steps; each takes the table as the one before left it."""
        changes = [self.create, self.upsert, self.delete, self.as_of, self.incremental, self.view]
        return [*changes, self.stream, self.null_key, self.unknown_option, self.connect]

    def create(self) -> Any:
        self._save([(1, 1, 5.0, "lima"), (2, 1, 6.0, "oslo"), (3, 1, 7.0, "oslo")], "overwrite")
        self.begin = self._rows().select("_hoodie_commit_time").first()[0]
        return self._fares()

    def upsert(self) -> Any:
        self._save([(2, 2, 60.0, "oslo"), (4, 2, 8.0, "lima")])
        return self._fares()

    def delete(self) -> Any:
        gone = self._rows().where("id = 3")
        gone.write.format("hudi").option(f"{WRITE}.operation", "delete").mode("append").save(self.path)
        return self._fares("city = 'oslo'")

    def as_of(self) -> Any:
        return self._fares(**{"as.of.instant": self.begin})

    def incremental(self) -> Any:
        query = {"hoodie.datasource.query.type": "incremental"}
        return self._fares(**query, **{"hoodie.datasource.read.begin.instanttime": self.begin})

    def view(self) -> Any:
        """A name for SQL."""
        self.spark.sql(f"CREATE TEMPORARY VIEW trips USING hudi OPTIONS (path '{self.path}')")
        rows = self.spark.sql("SELECT id, fare FROM trips WHERE city = 'oslo' AND fare > 6").collect()
        return list(map(list, rows))

    def stream(self) -> Any:
        """The table as a stream into a second one, twice: the other time there is nothing new."""
        copy = f"{self.directory}/copy"
        for _ in range(2):
            rows = self.spark.readStream.format("hudi").load(self.path).select("id", "ts", "fare", "city")
            writer = rows.writeStream.format("hudi").queryName("copies").options(**OPTIONS)
            writer = writer.option("checkpointLocation", f"{self.directory}/checkpoint")
            writer.trigger(availableNow=True).start(copy).awaitTermination()
        return sorted(map(list, self.spark.read.format("hudi").load(copy).select("id", "fare").collect()))

    def null_key(self) -> Any:
        return self._error(lambda: self._save([(None, 3, 1.0, "oslo")]))

    def unknown_option(self) -> Any:
        return self._error(lambda: self._save([(9, 3, 1.0, "oslo")], **{f"{WRITE}.operatio": "upsert"}))

    def connect(self) -> Any:
        return self._error(lambda: hudisql.connect(spark=self.spark))

    def _save(self, rows: list[tuple[Any, ...]], mode: str = "append", **options: str) -> None:
        frame = self.spark.createDataFrame(rows, SCHEMA)
        frame.write.format("hudi").options(**{**OPTIONS, **options}).mode(mode).save(self.path)

    def _rows(self, **options: str) -> Any:
        return self.spark.read.format("hudi").options(**options).load(self.path)

    def _fares(self, condition: str = "true", **options: str) -> list[list[Any]]:
        return sorted(map(list, self._rows(**options).where(condition).select("id", "fare").collect()))

    def _error(self, step: Callable[[], object]) -> str:
        try:
            step()
        except (PySparkException, HudisqlError) as error:
            return str(error)
        return "no error"


if __name__ == "__main__":
    main(sys.argv[1])
