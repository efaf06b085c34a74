"""Small tables of the metastore that are not parquet, written by Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

COLUMNS = (
    "id string, seq bigint, price decimal(9,2), short varchar(6), code char(3), day date, at timestamp,"
    " dt string"
)
ROWS = (
    "SELECT concat('k', lpad(id, 3, '0')) AS id, id AS seq, CAST(id / 4 AS decimal(9,2)) AS price,"
    " concat('s', id) AS short, CAST(id % 10 AS string) AS code, date_add(date'2024-02-28', CAST(id AS int))"
    " AS day, timestamp'2024-02-28 12:00:00.5' + make_interval(0, 0, 0, 0, CAST(id AS int)) AS at,"
    " concat('2024-03-0', id % 2 + 1) AS dt FROM range(40)"
)
HIVE_CSV = "ROW FORMAT DELIMITED FIELDS TERMINATED BY ','"
FORMATS = {
    "orc": ("", "STORED AS ORC"),
    "avro": ("", "STORED AS AVRO"),
    "text": ("", f"{HIVE_CSV} STORED AS TEXTFILE"),
    "csv": ("USING csv OPTIONS (header 'true')", ""),
    "json": ("USING json", ""),
}


def other_table(session: Any, kind: str, name: str, directory: Path, *, rows: str = ROWS) -> str:
    """A table of that format with two partitions at `directory`; returns its name."""
    provider, stored = FORMATS[kind]
    source = f"{name}_{kind}"
    session.sql("CREATE DATABASE IF NOT EXISTS store")
    external = "" if provider else "EXTERNAL "
    columns = COLUMNS if provider else COLUMNS.removesuffix(", dt string")
    partitioned = "PARTITIONED BY (dt)" if provider else "PARTITIONED BY (dt string)"
    session.spark.sql(
        f"CREATE {external}TABLE {source} ({columns}) {provider} {partitioned} {stored}"
        f" LOCATION '{directory}'"
    )
    session.spark.sql("SET hive.exec.dynamic.partition.mode = nonstrict")
    session.spark.sql(f"INSERT INTO {source} {rows}")
    return source
