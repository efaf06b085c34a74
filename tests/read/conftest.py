"""File slices and scan plans made of parquet files that pyarrow writes, and a reader of whole plans."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.format.paths.partition_metadata import PartitionMetadata, render_partition_metadata
from hudisql.format.schema.avro_schema import avro_from_arrow
from hudisql.format.schema.meta_columns import META_SCHEMA
from hudisql.format.table_properties import render_table_properties, table_checksum
from hudisql.format.timeline.commit_metadata import CommitMetadata
from hudisql.read.files.predicates import Predicate
from hudisql.read.files.splits import plan_splits
from hudisql.read.scan.arrow_scan import read_task
from hudisql.read.scan.scan_plan import ScanPlan
from hudisql.storage import Storage
from hudisql.table.file_slice import BaseFile, ExternalFile, FileSlice
from hudisql.table.hudi_table import HudiTable
from tests.opened import open_at

BOOTSTRAP = "00000000000001"

WriteSlice = Callable[..., FileSlice]


@pytest.fixture(scope="session")
def write_slice() -> WriteSlice:
    """Write an external file and its skeleton; record key i is str(i), of the i-th row."""

    def write(
        directory: Path,
        data: pa.Table,
        *,
        name: str = "part-0.parquet",
        row_group_rows: int = 1 << 20,
        skeleton_row_group_rows: int = 1 << 20,
        partition_path: str = "",
    ) -> FileSlice:
        source, target = directory / "source" / partition_path, directory / "table" / partition_path
        source.mkdir(parents=True, exist_ok=True)
        target.mkdir(parents=True, exist_ok=True)
        external = source / name
        pq.write_table(data, external, row_group_size=row_group_rows, store_schema=False)
        file_id = f"{len(list(target.iterdir())):08d}-0000-4000-8000-000000000000"
        skeleton = target / f"{file_id}_0-0-0_{BOOTSTRAP}.parquet"
        rows = data.num_rows
        meta = pa.table(
            [
                pa.array([BOOTSTRAP] * rows, pa.string()),
                pa.array([f"{BOOTSTRAP}_0_{row}" for row in range(rows)], pa.string()),
                pa.array([str(row) for row in range(rows)], pa.string()),
                pa.array([partition_path] * rows, pa.string()),
                pa.array([skeleton.name] * rows, pa.string()),
            ],
            schema=META_SCHEMA,
        )
        pq.write_table(meta, skeleton, row_group_size=skeleton_row_group_rows, store_schema=False)
        return FileSlice(
            partition_path,
            file_id,
            BOOTSTRAP,
            BaseFile(str(skeleton), skeleton.stat().st_size, file_id, "0-0-0", BOOTSTRAP),
            external_file=ExternalFile(
                str(external), external.stat().st_size, external.stat().st_mtime_ns // 1_000_000
            ),
        )

    return write


@pytest.fixture(scope="session")
def read_plan() -> Callable[[ScanPlan], pa.Table]:
    """All rows of a plan by the slice reader alone, without Spark."""

    def read(plan: ScanPlan) -> pa.Table:
        return pa.Table.from_batches(
            [
                batch
                for task in plan.tasks
                for batch in read_task(
                    plan.storage, task, plan.columns, plan.predicate, log_merge_config=plan.log_merge_config
                )
            ],
            plan.columns,
        )

    return read


@pytest.fixture(scope="session")
def open_golden(golden: Callable[[str], Any]) -> Callable[[str], HudiTable]:
    """A golden table by its name, opened."""
    return lambda name: open_at(golden(name).table)


@pytest.fixture(scope="session")
def make_table() -> Callable[[Path, dict[str, int]], Path]:
    """Write a real COW table of base files: how many files (of two rows) in each partition."""

    def make(base: Path, files_in_partition: dict[str, int], partition_field: str = "dt") -> Path:
        base.mkdir(parents=True)
        instant = "20240101000000000"
        first = base / "first.parquet"
        rows = pa.table(
            [pa.array([f"{column}-{row}" for row in range(2)]) for column in range(5)], schema=META_SCHEMA
        )
        pq.write_table(rows.append_column("n", pa.array([1, 2], pa.int32())), first)
        for partition, files in files_in_partition.items():
            directory = base / partition
            directory.mkdir(parents=True, exist_ok=True)
            (directory / ".hoodie_partition_metadata").write_bytes(
                render_partition_metadata(
                    PartitionMetadata(instant, 1 if partition else 0), datetime.datetime.now(datetime.UTC)
                )
            )
            for number in range(files):
                os.link(
                    first, directory / f"{number:08d}-0000-4000-8000-00000000000a-0_0-1-2_{instant}.parquet"
                )
        first.unlink()
        partitioned = any(files_in_partition)
        fields = [
            pa.field("n", pa.int32()),
            *([pa.field(partition_field, pa.string())] if partitioned else []),
        ]
        metadata = CommitMetadata(
            partition_to_write_stats={},
            extra_metadata={"schema": avro_from_arrow(pa.schema(fields), "t")},
            operation_type="BULK_INSERT",
        )
        timeline = base / ".hoodie"
        timeline.mkdir()
        for name in (f"{instant}.commit.requested", f"{instant}.inflight"):
            (timeline / name).write_bytes(b"")
        (timeline / f"{instant}.commit").write_bytes(metadata.to_json())
        properties = {
            "hoodie.table.name": "t",
            "hoodie.table.type": "COPY_ON_WRITE",
            "hoodie.table.version": "6",
            "hoodie.timeline.layout.version": "1",
            "hoodie.table.base.file.format": "PARQUET",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.table.checksum": str(table_checksum(None, "t")),
        }
        if partitioned:
            properties["hoodie.table.partition.fields"] = partition_field
        (timeline / "hoodie.properties").write_bytes(
            render_table_properties(properties, datetime.datetime.now(datetime.UTC))
        )
        return base

    return make


@pytest.fixture(scope="session")
def many_files_table(tmp_path_factory: pytest.TempPathFactory, make_table: Callable[..., Path]) -> HudiTable:
    """10,000 base files in 100 partitions."""
    base = make_table(
        tmp_path_factory.mktemp("many") / "t", {f"dt=2024-{day:03d}": 100 for day in range(100)}
    )
    return open_at(base)


@pytest.fixture(scope="session")
def plan_of() -> Callable[..., ScanPlan]:
    """A plan over given slices and partition values, as `plan_scan` would make it."""

    def make(
        slices: list[tuple[FileSlice, dict[str, object]]],
        data_schema: pa.Schema,
        partition_columns: tuple[pa.Field, ...] = (),
        columns: list[str] | None = None,
        mode: Literal["native", "stitched"] = "stitched",
        predicate: Predicate | None = None,
        max_split_bytes: int = 128 * 1024 * 1024,
    ) -> ScanPlan:
        output = pa.schema([*META_SCHEMA, *data_schema, *partition_columns])
        wanted = output if columns is None else pa.schema([output.field(name) for name in columns])
        return ScanPlan(
            base_path="/table",
            storage=Storage(),
            mode=mode,
            output_schema=output,
            columns=wanted,
            partition_columns=partition_columns,
            predicate=predicate,
            partition_predicate=None,
            partitions_read=1,
            partitions_total=1,
            slices=tuple(slices),
            slices_total=None,
            tasks=plan_splits(
                slices, needs_data=True, parallelism=2, max_split_bytes=max_split_bytes, open_cost_bytes=1
            ),
            splits_total=None,
        )

    return make
