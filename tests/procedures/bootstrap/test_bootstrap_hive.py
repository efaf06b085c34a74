"""Bootstrapping tables of a real Hive Metastore."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from hudisql.errors import (
    BootstrapBlockedError,
    NoSuchTableError,
    SourceError,
)
from hudisql.format.hfile.bootstrap_index import read_bootstrap_index
from hudisql.format.schema.avro_schema import comment_of
from hudisql.storage import Storage
from hudisql.table.hudi_table import open_table
from tests.sources import fingerprint, orders, write_parquet

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def _hive_orders(session, directory: Path, name: str, *, external: bool, tail: str = "") -> str:
    """Registers a parquet table of two partitions, one of them outside the table's directory."""
    session.sql("CREATE DATABASE IF NOT EXISTS store")
    write_parquet(directory / "table" / "dt=2024-03-01" / "000000_0.parquet", orders())
    write_parquet(directory / "elsewhere" / "000000_0.parquet", orders(100))
    session.spark.sql(
        f"CREATE {'EXTERNAL ' if external else ''}TABLE {name}_src"
        f" (seq bigint COMMENT 'order of changes', id string, amount double{tail})"
        f" PARTITIONED BY (dt date) STORED AS PARQUET LOCATION '{directory / 'table'}'"
    )
    session.spark.sql(
        f"ALTER TABLE {name}_src ADD PARTITION (dt='2024-03-01') LOCATION "
        f"'{directory / 'table/dt=2024-03-01'}'"
    )
    session.spark.sql(
        f"ALTER TABLE {name}_src ADD PARTITION (dt='2024-03-02') LOCATION '{directory / 'elsewhere'}'"
    )
    return f"{name}_src"


def test_a_hive_table_gives_partitions_outside_its_directory_types_order_and_comments(
    call, session, tmp_path, name
):
    source = _hive_orders(session, tmp_path / "s", name, external=True, tail=", later int")
    rows = call(
        "bootstrap_table", table=name, source_table=source, record_key="id", target_path=tmp_path / "t"
    )
    assert [(row["partition"], row["rows"]) for row in rows] == [
        ("dt=2024-03-01", 20),
        ("dt=2024-03-02", 20),
        ("TOTAL", 40),
    ]
    assert "column later int of the metastore is in no file" in rows[-1]["warnings"]
    table = open_table(Storage(), str(tmp_path / "t"))
    assert table.schema.names == ["seq", "id", "amount", "later", "dt"]
    assert table.schema.field("dt").type == pa.date32()
    assert comment_of(table.schema.field("seq")) == "order of changes"
    paths = {file.path for file in read_bootstrap_index(Storage(), str(tmp_path / "t")).values()}
    assert str(tmp_path / "s" / "elsewhere" / "000000_0.parquet") in paths
    for meta in ("", ", min(_hoodie_partition_path)"):
        found = session.sql(
            f"SELECT dt, count(*), count(later), sum(seq){meta} FROM {name} GROUP BY dt ORDER BY dt"
        ).rows
        assert [tuple(row)[:4] for row in found] == [
            (datetime.date(2024, 3, 1), 20, 0, sum(range(20))),
            (datetime.date(2024, 3, 2), 20, 0, sum(range(100, 120))),
        ]


def test_a_hive_tables_partitions_are_filtered_before_their_directories_are_looked_at(
    call, session, tmp_path, name
):
    source = _hive_orders(session, tmp_path / "s", name, external=True)
    (tmp_path / "s" / "elsewhere" / "000000_0.parquet").write_bytes(b"broken")
    rows = call(
        "bootstrap_table",
        table=name,
        source_table=source,
        record_key="id",
        partition_filter="dt < date'2024-03-02'",
        target_path=tmp_path / "t",
        sync=False,
    )
    assert [row["partition"] for row in rows] == ["dt=2024-03-01", "TOTAL"]


def test_a_managed_source_is_a_blocker_until_it_is_protected(call, session, tmp_path, name):
    source = _hive_orders(session, tmp_path / "s", name, external=False)
    metastore = session.context.metastore
    metastore_table = metastore.get_table(*source.split("."))
    if metastore_table.is_external:
        # Spark makes every table with a LOCATION external: make it what Hive would have made.
        from dataclasses import replace

        metastore.alter_table(
            replace(
                metastore_table,
                table_type="MANAGED_TABLE",
                parameters={
                    key: value for key, value in metastore_table.parameters.items() if key != "EXTERNAL"
                },
            )
        )
    arguments = {"table": name, "source_table": source, "record_key": "id", "target_path": tmp_path / "t"}
    with pytest.raises(
        BootstrapBlockedError, match=f"ALTER TABLE {source} SET TBLPROPERTIES\\('EXTERNAL'='TRUE'\\)"
    ):
        call("bootstrap_table", **arguments)
    assert not metastore.get_table(*source.split(".")).is_external
    call("bootstrap_table", **arguments, protect_source=True, dry_run=True)
    assert not metastore.get_table(*source.split(".")).is_external
    call("bootstrap_table", **arguments, protect_source=True)
    protected = metastore.get_table(*source.split("."))
    assert protected.is_external
    assert protected.columns == metastore_table.columns
    before = fingerprint(tmp_path / "s")
    session.spark.sql(f"DROP TABLE {source}")
    assert fingerprint(tmp_path / "s") == before


def test_a_metastore_type_that_does_not_fit_the_files_is_a_named_blocker(call, session, tmp_path, name):
    write_parquet(tmp_path / "s" / "a.parquet", orders(small=pa.array(range(20), pa.int32())))
    database = name.split(".")[0]
    session.sql(f"CREATE DATABASE IF NOT EXISTS {database}")
    session.spark.sql(
        f"CREATE EXTERNAL TABLE {name}_src (id int, seq bigint, amount double, small bigint)"
        f" STORED AS PARQUET LOCATION '{tmp_path / 's'}'"
    )
    rows = call(
        "bootstrap_table",
        table=name,
        source_table=f"{name}_src",
        record_key="id",
        target_path=tmp_path / "t",
        dry_run=True,
    )
    assert [row["blockers"].split(" (")[0] for row in rows if row["blockers"]] == [
        "column id is string in the files but int in the metastore"
    ]
    assert any("column small: int in the files, safely widened" in (row["warnings"] or "") for row in rows)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("CREATE TABLE {0} (id string) STORED AS ORC", "an ORC table"),
        ("CREATE TABLE {0} (id string) STORED AS AVRO", "an Avro table"),
        ("CREATE TABLE {0} (id string) STORED AS TEXTFILE", "a text table"),
        ("CREATE VIEW {0} AS SELECT 1 AS id", "a view"),
    ],
)
def test_metastore_tables_that_are_not_plain_parquet_are_refused_by_name(
    call, session, name, statement, words
):
    session.sql("CREATE DATABASE IF NOT EXISTS store")
    session.spark.sql(statement.format(f"{name}_src"))
    with pytest.raises(SourceError, match=words):
        call("bootstrap_table", table=name, source_table=f"{name}_src", record_key="id")
    session.spark.sql(f"DROP {'VIEW' if 'VIEW' in statement else 'TABLE'} {name}_src")


def test_a_source_table_that_is_not_there_or_hudi_already_is_refused(call, daily_orders, tmp_path, name):
    with pytest.raises(NoSuchTableError, match="no such source"):
        call("bootstrap_table", table=name, source_table="store.nowhere", record_key="id")
    call("bootstrap_table", table=name, source=daily_orders, record_key="id", target_path=tmp_path / "t")
    with pytest.raises(SourceError, match="a Hudi table"):
        call("bootstrap_table", table=f"{name}_2", source_table=name, record_key="id")
    with pytest.raises(BootstrapBlockedError, match=f"the metastore has a table {name} already"):
        call("bootstrap_table", table=name, source=daily_orders, record_key="id", target_path=tmp_path / "t2")
