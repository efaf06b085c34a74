"""A context on the suite's Spark session with a metastore that lives in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions

from hudisql.catalog.metastore_table import HUDI_INPUT_FORMAT, MetastoreColumn, MetastoreTable
from hudisql.context import Context
from tests.spark_versions import frame_of_arrow


@dataclass
class TablesInMemory:
    """As much of the metastore client as queries use; counts how often it is asked."""

    tables: dict[tuple[str, str], MetastoreTable] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def get_table(self, database: str, name: str) -> MetastoreTable | None:
        self.asked.append(f"{database}.{name}")
        return self.tables.get((database, name))

    def find_tables_with_property(self, key: str) -> list[MetastoreTable]:
        return [table for table in self.tables.values() if key in table.parameters]

    def add_hudi_table(self, database: str, name: str, path: str, **serde_properties: str) -> None:
        self.tables[database, name] = MetastoreTable(
            database=database,
            name=name,
            table_type="EXTERNAL_TABLE",
            location=path,
            columns=(),
            input_format=HUDI_INPUT_FORMAT,
            serde_properties={"path": path, **serde_properties},
        )

    def add_hive_view(self, database: str, name: str, text: str, columns: dict[str, str]) -> None:
        """A view as Hive itself stores it: expanded text, no properties of Spark's."""
        self.tables[database, name] = MetastoreTable(
            database=database,
            name=name,
            table_type="VIRTUAL_VIEW",
            location=None,
            columns=tuple(MetastoreColumn(column, kind) for column, kind in columns.items()),
            view_original_text=text,
            view_text=text,
        )


@pytest.fixture
def tables() -> TablesInMemory:
    return TablesInMemory()


@pytest.fixture
def context(spark: Any, tables: TablesInMemory) -> Context:
    return Context(spark, tables)  # type: ignore[arg-type]


@pytest.fixture
def golden_tables(golden: Callable[[str], Any], tables: TablesInMemory) -> TablesInMemory:
    """`db.t`: bootstrapped, partitioned by dt; `db.n`: not partitioned; `db2.t`: two partition columns."""
    tables.add_hudi_table("db", "t", golden("cow_bootstrap_meta").table)
    tables.add_hudi_table("db", "n", golden("cow_bootstrap_meta_nonpart").table)
    tables.add_hudi_table("db2", "t", golden("cow_bootstrap_2part").table)
    return tables


@pytest.fixture(scope="session")
def plain_tables(spark: Any, golden: Callable[[str], Any]) -> Iterator[None]:
    """The same tables with the same names and rows as plain parquet tables, for Spark to answer from."""
    from pyspark.sql.types import StructType

    named = [
        ("db", "t", "cow_bootstrap_meta"),
        ("db", "n", "cow_bootstrap_meta_nonpart"),
        ("db2", "t", "cow_bootstrap_2part"),
    ]
    for database, name, golden_name in named:
        table = golden(golden_name)
        spark.sql(f"CREATE DATABASE IF NOT EXISTS {database}")
        texts = pa.table({"text": [json.dumps(row) for row in table.rows]})
        rows = frame_of_arrow(spark, texts).select(
            functions.from_json("text", StructType.fromJson(table.schema)).alias("row")
        )
        meta = frame_of_arrow(spark, pa.Table.from_pylist(table.meta_rows))
        joined = meta.join(rows, meta["_hoodie_record_key"] == functions.col("row.id"))
        joined.select(*(f"`{column}`" for column in meta.columns), "row.*").coalesce(1).write.saveAsTable(
            f"{database}.{name}", format="parquet", mode="overwrite"
        )
    yield
    for database in ("db", "db2"):
        spark.sql(f"DROP DATABASE {database} CASCADE")
