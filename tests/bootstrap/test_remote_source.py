"""Sources in an object store, wholly or in part; the walk over the directories above one ends at the
bucket.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.bootstrap.plan.bootstrap_plan import plan_bootstrap
from hudisql.bootstrap.plan.request import BootstrapRequest
from hudisql.bootstrap.run.plan_execution import run_bootstrap
from hudisql.bootstrap.source.source_files import scan_path_source
from hudisql.bootstrap.verify.verification import VerifyLevel, verify_bootstrap
from hudisql.catalog.metastore_table import (
    PARQUET_INPUT_FORMAT,
    MetastoreColumn,
    MetastorePartition,
    MetastoreTable,
)
from hudisql.context import Context
from hudisql.errors import NoSuchTableError
from hudisql.read.scan.scan_dataframe import scan_to_dataframe
from hudisql.read.scan.scan_plan import ScanRequest
from hudisql.read.scan.table_scan import plan_scan
from hudisql.storage import Storage
from hudisql.table.hudi_table import find_table_root, open_table
from tests.storage.servers import BUCKET


def test_a_directory_of_a_bucket_is_a_source(s3_storage: Storage) -> None:
    s3_storage.write(f"s3a://{BUCKET}/orders/dt=1/a.parquet", b"data")
    source = scan_path_source(s3_storage, f"s3a://{BUCKET}/orders", None)
    assert [partition.location for partition in source.partitions] == [f"s3a://{BUCKET}/orders/dt=1"]


def test_a_path_of_a_bucket_without_a_table_is_no_table(s3_storage: Storage) -> None:
    assert find_table_root(s3_storage, f"s3a://{BUCKET}/orders/dt=1") is None
    with pytest.raises(NoSuchTableError, match="no Hudi table at"):
        open_table(s3_storage, f"s3a://{BUCKET}")


class _Metastore:
    """A table of which parts lie on S3: the real metastore needs S3's classes to take such an entry."""

    def __init__(self, table: MetastoreTable, partitions: list[MetastorePartition]) -> None:
        self.table, self.partitions = table, partitions

    def get_table(self, _database: str, name: str) -> MetastoreTable | None:
        return self.table if name == self.table.name else None

    def find_tables_with_property(self, _key: str) -> list[MetastoreTable]:
        return []

    def list_partitions(self, _database: str, _name: str) -> list[MetastorePartition]:
        return self.partitions


@pytest.mark.spark
def test_partitions_of_a_hive_table_may_lie_on_another_file_system(
    spark: Any, s3_storage: Storage, tmp_path: Path
) -> None:
    locations = [f"{tmp_path}/s/day=1", f"s3a://{BUCKET}/moved/day=2"]
    for number, location in enumerate(locations):
        content = io.BytesIO()
        pq.write_table(pa.table({"id": pa.array([number * 10, number * 10 + 1], pa.int64())}), content)
        s3_storage.write(f"{location}/a.parquet", content.getvalue())
    table = MetastoreTable(
        database="db",
        name="source",
        table_type="EXTERNAL_TABLE",
        location=f"file:{tmp_path}/s",
        columns=(MetastoreColumn("id", "bigint"),),
        partition_columns=(MetastoreColumn("day", "int"),),
        input_format=PARQUET_INPUT_FORMAT,
    )
    partitions = [MetastorePartition((str(day),), location) for day, location in enumerate(locations, 1)]
    metastore: Any = _Metastore(table, partitions)
    context = Context(spark, metastore, s3_storage)
    request = BootstrapRequest(
        database="db",
        name="t",
        record_key=("id",),
        source_table=("db", "source"),
        target_path=f"{tmp_path}/t",
        sync=False,
    )
    run_bootstrap(context, plan_bootstrap(context, request))
    made = open_table(s3_storage, f"{tmp_path}/t")
    rows = scan_to_dataframe(spark, plan_scan(ScanRequest(made, made.full_schema)))
    found = rows.select("id", "day", "_hoodie_record_key", "_hoodie_partition_path").orderBy("id").collect()
    assert [tuple(row) for row in found] == [
        (number, number // 10 + 1, str(number), f"day={number // 10 + 1}") for number in (0, 1, 10, 11)
    ]
    assert verify_bootstrap(context, made, VerifyLevel.SAMPLE).discrepancies == ()
