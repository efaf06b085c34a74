"""One table through bootstrap, MERGE, query and compaction, on whatever PySpark and Python run this.

`python -m tests.versions.program DIRECTORY` prints one line of JSON: the versions, and what each step gave.
"""

from __future__ import annotations

import json
import platform
import sys
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROWS = 200
_SUMS = "SELECT city, count(*), sum(fare), max(id) FROM lake.trips GROUP BY city ORDER BY city"
# Enough changed rows for Spark's tasks: few ones are changed on the driver.
STATEMENTS: Mapping[str, str] = {
    "database": "CREATE DATABASE IF NOT EXISTS lake",
    "bootstrap": "CALL bootstrap_table(table => 'lake.trips', source => '${source}', record_key => 'id', "
    "precombine => 'ts', table_type => 'MERGE_ON_READ')",
    "merge": "MERGE INTO lake.trips t USING (SELECT id, 2L AS ts, -1.5D AS fare, city FROM lake.trips "
    "WHERE id % 10 = 0 UNION ALL SELECT 1000L, 2L, 7.25D, 'oslo') s ON t.id = s.id "
    "WHEN MATCHED AND s.id % 20 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET * "
    "WHEN NOT MATCHED THEN INSERT *",
    "merged": _SUMS,
    "trigger": "SET hoodie.compact.inline.max.delta.commits = 1",
    "compaction": "CALL run_compaction(op => 'scheduleAndExecute', table => 'lake.trips')",
    "compacted": _SUMS,
    "create": "CREATE TABLE lake.buckets "
    "(id BIGINT, big BIGINT, at TIMESTAMP, amount DECIMAL(20,2), d STRING) "
    "USING hudi PARTITIONED BY (d) TBLPROPERTIES (primaryKey = 'id,big', "
    "'hoodie.index.type' = 'BUCKET', 'hoodie.bucket.index.num.buckets' = '3')",
    "insert": "INSERT INTO lake.buckets SELECT id, 9007199254740993L + id, timestamp_seconds(id), "
    "cast(id AS DECIMAL(20,2)) AS amount, concat('d', id % 2) FROM range(0, 60000, 1, 2)",
    "update": "UPDATE lake.buckets SET amount = amount + 1 WHERE id % 2 = 0",
    "buckets": "SELECT d, count(*), count(DISTINCT _hoodie_file_name), max(big), sum(amount), "
    "max(at) > timestamp_seconds(0) FROM lake.buckets WHERE id < 50000 GROUP BY d ORDER BY d",
    "create_as": "CREATE TABLE lake.days USING hudi PARTITIONED BY (d) TBLPROPERTIES (primaryKey = 'id') "
    "AS SELECT id, concat('d', id % 2) AS d FROM range(10)",
    "comment": "ALTER TABLE lake.days ALTER COLUMN id COMMENT 'the key'",
    "days": "SELECT d, count(*), count(DISTINCT _hoodie_file_name) FROM lake.days GROUP BY d ORDER BY d",
}
EXPECTED: Mapping[str, object] = {
    "merged": [["oslo", 96, 1124.75, 1000], ["rome", 95, 1117.5, 199]],
    "compacted": [["oslo", 96, 1124.75, 1000], ["rome", 95, 1117.5, 199]],
    "buckets": [
        ["d0", 25_000, 3, 9007199254790991, "625000000.00", True],
        ["d1", 25_000, 3, 9007199254790992, "625000000.00", True],
    ],
    "days": [["d0", 5, 1], ["d1", 5, 1]],
    "by name": [["d0", 5], ["d1", 5], ["d2", 2], ["d3", 1]],
}


def write_source(directory: Path) -> None:
    """Two partitions with half of the rows each."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    half = ROWS // 2
    for start, city in ((0, "oslo"), (half, "rome")):
        (directory / f"city={city}").mkdir(parents=True)
        ids = pa.array(range(start, start + half), pa.int64())
        fares = pa.array([each / 4 for each in range(half)], pa.float64())
        table = pa.table({"id": ids, "ts": pa.array([1] * half, pa.int64()), "fare": fares})
        pq.write_table(table, directory / f"city={city}" / "part-0.parquet")


def lines_by_name(spark: Any) -> list[list[object]]:
    """Lines of plain PySpark, by the names of Hudi tables."""
    import hudisql
    from hudisql.console import SilentConsole

    with hudisql.install(spark, console=SilentConsole()):
        schema = "id BIGINT, d STRING"
        spark.createDataFrame([(20, "d2"), (21, "d2")], schema).write.insertInto("lake.days")
        swapped = spark.createDataFrame([("d3", 30)], "d STRING, id BIGINT")
        swapped.write.mode("append").saveAsTable("lake.days")
        least = spark.sql("SELECT * FROM {days} WHERE id >= :id", {"id": 0}, days=spark.table("lake.days"))
        least.write.format("hudi").partitionBy("d").saveAsTable("lake.saved")
        counts = spark.read.table("lake.saved").groupBy("d").count().orderBy("d").collect()
    return [list(row) for row in counts]


def main(directory: Path) -> None:
    """Run the statements; what they give is printed."""
    import pyspark

    import hudisql
    from hudisql.console import SilentConsole

    write_source(directory / "source")
    told: dict[str, object] = {"pyspark": pyspark.__version__, "python": platform.python_version()}
    settings = {
        "spark.master": "local[1]",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmn256m",
    }
    with (
        warnings.catch_warnings(record=True) as warned,
        hudisql.connect(
            warehouse=str(directory / "warehouse"), conf=settings, console=SilentConsole()
        ) as session,
    ):
        warnings.simplefilter("always")
        for step, text in STATEMENTS.items():
            started = time.monotonic()
            rows = session.sql(text.replace("${source}", str(directory / "source"))).rows
            told[step] = [list(row) for row in rows]
            print(f"{step}: {time.monotonic() - started:.1f} s", file=sys.stderr, flush=True)
        told["by name"] = lines_by_name(session.spark)
    told["warnings"] = [str(each.message) for each in warned if each.category is RuntimeWarning]
    print(json.dumps(told, default=str))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
