"""Changes that wait for their merge: what is spilled comes back; a merge takes the memory of a row group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hudisql.storage import Storage
from hudisql.table.file_slice import BaseFile, FileSlice
from hudisql.write.changes import OPERATION, RECORD_KEY, RowOperation, change_schema
from hudisql.write.execution import spillable_change_buffer
from hudisql.write.execution.spillable_change_buffer import SpillableChangeBuffer
from hudisql.write.handle import merge_handle
from hudisql.write.handle.base_file import BaseFileConfig, BaseFileWriter, FileNaming, base_file_avro_schema
from hudisql.write.handle.merge_handle import MergeTask, merge_slice

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.binary())])
STORAGE = Storage()


def _changes(numbers: range) -> pa.RecordBatch:
    rows: list[dict[str, Any]] = [
        {OPERATION: int(RowOperation.UPDATE), RECORD_KEY: f"k{number:06d}", "id": f"k{number:06d}"}
        for number in numbers
    ]
    return pa.RecordBatch.from_pylist(rows, schema=change_schema(SCHEMA))


@pytest.mark.parametrize("held_bytes", [1, 3_000, 1 << 30])
def test_changes_are_the_same_whether_they_were_spilled_or_not(
    monkeypatch: pytest.MonkeyPatch, held_bytes: int
) -> None:
    monkeypatch.setattr(spillable_change_buffer, "_IN_MEMORY_BYTES", held_bytes)
    with SpillableChangeBuffer(change_schema(SCHEMA)) as held:
        for start in range(0, 200, 10):
            held.add(start // 10 % 3, _changes(range(start, start + 10)))
        assert held.numbers == [0, 1, 2]
        found = [held.table(number).column("id").to_pylist() for number in held.numbers]
        directory = None if held._directory is None else Path(held._directory.name)
        assert (directory is None) == (held_bytes == 1 << 30)
    expected = [[f"k{n:06d}" for n in range(200) if n // 10 % 3 == number] for number in range(3)]
    assert found == expected
    assert directory is None or not directory.exists()


def test_a_merge_takes_the_memory_of_a_row_group_not_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_handle, "ROW_GROUP_BYTES", 1 << 20)
    monkeypatch.setattr("hudisql.write.handle.base_file.ROW_GROUP_BYTES", 1 << 20)
    avro_schema, rows, row_bytes = base_file_avro_schema(SCHEMA, "t"), 40_000, 500
    file_naming = FileNaming(str(tmp_path), "", "20240101000000000", "f", "0-0-0", 0)
    writer = BaseFileWriter(
        STORAGE, file_naming, SCHEMA, avro_schema, BaseFileConfig(), expected_rows=rows, bytes_per_row=1.0
    )
    values = np.random.default_rng(1)
    for start in range(0, rows, 1_000):
        keys = pa.array([f"k{number:06d}" for number in range(start, start + 1_000)])
        texts = pa.array([values.bytes(row_bytes) for _ in range(1_000)])
        writer.write(keys, pa.record_batch([keys, texts], schema=SCHEMA))
    [file] = writer.finish()
    base = BaseFile(file.path, file.bytes, file.file_id, "0-0-0", "20240101000000000")
    task = MergeTask(
        file_slice=FileSlice("", file.file_id, "20240101000000000", base),
        partition_values={},
        file_naming=FileNaming(str(tmp_path), "", "20240202000000000", "f", "0-0-0", 0),
        schema=SCHEMA,
        avro_schema=avro_schema,
        base_file_config=BaseFileConfig(),
        record_key_fields=("id",),
        complex_keys=False,
    )
    changes = pa.Table.from_batches([_changes(range(0, rows, 100))])
    before, peaks = pa.total_allocated_bytes(), [0]
    inner = merge_handle._merge_batch

    def watched(*arguments: Any) -> Any:
        merged = inner(*arguments)
        peaks.append(pa.total_allocated_bytes() - before)
        return merged

    monkeypatch.setattr(merge_handle, "_merge_batch", watched)
    merged = merge_slice(STORAGE, task, changes)
    assert (merged.rows, merged.updated) == (rows, rows // 100)
    assert len(peaks) > 10
    assert max(peaks) < rows * row_bytes / 2
