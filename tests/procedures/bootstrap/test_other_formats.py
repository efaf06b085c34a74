"""Source tables that are not parquet: ORC, CSV, JSON, Avro and text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import SourceError
from tests.sources import fingerprint

pytestmark = [pytest.mark.spark, pytest.mark.hms]

_COLUMNS = (
    "id string, seq bigint, price decimal(9,2), short varchar(6), code char(3), day date, at timestamp,"
    " dt string"
)
_ROWS = (
    "SELECT concat('k', lpad(id, 3, '0')) AS id, id AS seq, CAST(id / 4 AS decimal(9,2)) AS price,"
    " concat('s', id) AS short, CAST(id % 10 AS string) AS code, date_add(date'2024-02-28', CAST(id AS int))"
    " AS day, timestamp'2024-02-28 12:00:00.5' + make_interval(0, 0, 0, 0, CAST(id AS int)) AS at,"
    " concat('2024-03-0', id % 2 + 1) AS dt FROM range(40)"
)
_HIVE_CSV = "ROW FORMAT DELIMITED FIELDS TERMINATED BY ','"
FORMATS = {
    "orc": ("", "STORED AS ORC"),
    "avro": ("", "STORED AS AVRO"),
    "text": ("", f"{_HIVE_CSV} STORED AS TEXTFILE"),
    "csv": ("USING csv OPTIONS (header 'true')", ""),
    "json": ("USING json", ""),
}


def other_table(session: Any, kind: str, name: str, directory: Path, *, rows: str = _ROWS) -> str:
    """A table of that format with two partitions at `directory`; returns its name."""
    provider, stored = FORMATS[kind]
    source = f"{name}_{kind}"
    session.sql("CREATE DATABASE IF NOT EXISTS store")
    external = "" if provider else "EXTERNAL "
    columns = _COLUMNS if provider else _COLUMNS.removesuffix(", dt string")
    partitioned = "PARTITIONED BY (dt)" if provider else "PARTITIONED BY (dt string)"
    session.spark.sql(
        f"CREATE {external}TABLE {source} ({columns}) {provider} {partitioned} {stored}"
        f" LOCATION '{directory}'"
    )
    session.spark.sql("SET hive.exec.dynamic.partition.mode = nonstrict")
    session.spark.sql(f"INSERT INTO {source} {rows}")
    return source


def rows_of(session: Any, table: str) -> list[tuple[Any, ...]]:
    columns = "id, seq, price, short, code, day, at, dt"
    return [tuple(row) for row in session.sql(f"SELECT {columns} FROM {table} ORDER BY id").rows]


@pytest.mark.parametrize("kind", FORMATS)
def test_the_statement_that_the_error_names_copies_the_rows(
    call: Callable[..., Any], session: Any, tmp_path: Path, name: str, kind: str
) -> None:
    source = other_table(session, kind, name, tmp_path / "s")
    with pytest.raises(SourceError) as refused:
        call(
            "bootstrap_table",
            table=name,
            source_table=source,
            record_key="id",
            precombine="seq",
            target_path=tmp_path / "t",
            partition_filter="dt > '2024-03-01'",
            options={"hoodie.parquet.max.file.size": "100000"},
        )
    assert refused.value.hint is not None
    assert refused.value.hint.startswith("mode => 'full_record' rewrites its rows")
    session.sql(refused.value.hint.split(": ", 1)[1])
    assert rows_of(session, name) == [row for row in rows_of(session, source) if row[-1] == "2024-03-02"]
    assert len(rows_of(session, name)) == 20
    assert "hoodie.table.recordkey.fields=id" in (tmp_path / "t/.hoodie/hoodie.properties").read_text()


@pytest.mark.parametrize("kind", FORMATS)
def test_spark_reads_the_rows_once_and_they_become_base_files(
    call: Callable[..., Any], session: Any, tmp_path: Path, name: str, kind: str
) -> None:
    source = other_table(session, kind, name, tmp_path / "s")
    before = fingerprint(tmp_path / "s")
    arguments = {
        "table": name,
        "source_table": source,
        "record_key": "id",
        "precombine": "seq",
        "target_path": tmp_path / "t",
        "mode": "full_record",
    }
    planned = call("bootstrap_table", **arguments, dry_run=True)
    assert [(row["partition"], row["rows"]) for row in planned[:3]] == [
        ("dt=2024-03-01", None),
        ("dt=2024-03-02", None),
        ("TOTAL", None),
    ]
    done = call("bootstrap_table", **arguments)
    assert [(row["partition"], row["mode"], row["rows"]) for row in done] == [
        ("dt=2024-03-01", "full_record", 20),
        ("dt=2024-03-02", "full_record", 20),
        ("TOTAL", "full_record", 40),
    ]
    assert rows_of(session, name) == rows_of(session, source)
    types = dict(session.sql(f"SELECT * FROM {name}").df.dtypes)
    assert (types["price"], types["day"], types["at"]) == ("decimal(9,2)", "date", "timestamp")
    found = session.sql(f"SELECT DISTINCT _hoodie_commit_time, _hoodie_partition_path FROM {name}").rows
    assert {tuple(row) for row in found} == {("00000000000002", f"dt=2024-03-0{day}") for day in (1, 2)}
    assert call("verify_bootstrap", table=name, level="full")[-1]["severity"] == "ok"
    assert "nothing was done" in call("bootstrap_table", **arguments)[0]["warnings"]
    assert fingerprint(tmp_path / "s") == before
    session.sql(f"UPDATE {name} SET seq = 1000 WHERE id = 'k001'")
    assert session.sql(f"SELECT sum(seq) FROM {name}").rows[0][0] == sum(range(40)) + 999
