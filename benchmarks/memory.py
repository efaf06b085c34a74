"""How much memory one task takes: the peak of a process that writes a skeleton, then reads the slice back.

`measure_task_memory` runs this module as a child for a file of few and one of many equal row groups. If a
task is bounded by a row group, both peaks are alike.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.lineitem import KEY_COLUMNS
from benchmarks.process_tree import peak_resident_bytes

FEW_ROW_GROUPS, MANY_ROW_GROUPS = 2, 32


@dataclass(frozen=True)
class TaskMemory:
    """Peak resident bytes of a child before it did anything, after the skeleton, after the stitched read."""

    row_groups: int
    file_bytes: int
    rows: int
    idle: int
    after_write: int
    after_read: int


def measure_task_memory(source: Path, directory: Path) -> list[TaskMemory]:
    """Measure a file of few and one of many copies of one row group, of the first file of `source`."""
    rows = pq.read_table(min(source.glob("*.parquet")))
    directory.mkdir(parents=True, exist_ok=True)
    measured = []
    for row_groups in (FEW_ROW_GROUPS, MANY_ROW_GROUPS):
        path = directory / f"{row_groups}-row-groups.parquet"
        with pq.ParquetWriter(path, rows.schema, store_decimal_as_integer=False) as writer:
            for _ in range(row_groups):
                writer.write_table(rows, row_group_size=rows.num_rows)
        child = subprocess.run(
            [sys.executable, "-m", "benchmarks.memory", str(path)],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).resolve().parent.parent,
        )
        size = path.stat().st_size
        measured.append(TaskMemory(row_groups, size, rows.num_rows * row_groups, **json.loads(child.stdout)))
        path.unlink()
    return measured


def _run_task(path: Path) -> dict[str, int]:
    import pyarrow as pa

    from hudisql.bootstrap.files.skeleton import SkeletonFileTask, write_skeleton
    from hudisql.format.paths.external_file import ExternalFile
    from hudisql.format.schema.meta_columns import META_SCHEMA
    from hudisql.read.slice.slice_reader import SliceRead, read_file_slice
    from hudisql.storage import Storage
    from hudisql.table.file_slice import BaseFile, FileSlice

    storage, pid = Storage(), os.getpid()
    schema = pq.read_schema(path)
    idle = peak_resident_bytes(pid)
    external = ExternalFile(str(path), path.stat().st_size, int(path.stat().st_mtime * 1000))
    instant, file_id, token = "00000000000001", "00000000-0000-4000-8000-000000000000", "0-0-0"
    name = f"{file_id}_{token}_{instant}.parquet"
    target = path.with_name(name)
    written = write_skeleton(
        storage,
        SkeletonFileTask(
            source=external,
            target_path=str(target),
            file_id=file_id,
            write_token=token,
            file_name=name,
            partition_path="",
            instant_time=instant,
            task_partition_id=0,
            record_key_fields=KEY_COLUMNS,
            complex_keys=True,
        ),
    )
    after_write = peak_resident_bytes(pid)
    base = BaseFile(str(target), written.bytes, file_id, token, instant)
    file_slice = FileSlice("", file_id, instant, base, external_file=external)
    wanted = pa.schema([*META_SCHEMA, *(field.with_nullable(True) for field in schema)])
    rows = sum(batch.num_rows for batch in read_file_slice(storage, SliceRead(file_slice, wanted)))
    target.unlink()
    if rows != written.rows:
        raise AssertionError(f"read {rows} rows of {written.rows}")
    return {"idle": idle, "after_write": after_write, "after_read": peak_resident_bytes(pid)}


if __name__ == "__main__":
    print(json.dumps(_run_task(Path(sys.argv[1]))))
