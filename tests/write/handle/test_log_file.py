from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.format.log_file.log_block import BlockType, HeaderKey, parse_log_blocks, rollback_block
from hudisql.format.paths.file_names import parse_log_file_name
from hudisql.format.schema.meta_columns import META_SCHEMA
from hudisql.read.merge.merge_mode import log_merge_config_of
from hudisql.read.slice.slice_reader import SliceRead, read_file_slice
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.write.handle.base_file import base_file_avro_schema
from hudisql.write.handle.log_file import (
    LogFileConfig,
    data_blocks,
    delete_block,
    next_log_version,
    write_log_file,
)
from tests.opened import open_at

# An instant that the golden table's timeline knows as completed.
INSTANT = "20261120215313869"


@pytest.fixture
def table(golden: Any, tmp_path: Path) -> HudiTable:
    copied = tmp_path / "table"
    shutil.copytree(golden("mor_upsert_only_updates").table, copied)
    return open_at(copied)


def _slice_with_logs(table: HudiTable) -> FileSlice:
    (found,) = [each for each in load_file_slices(table) if each.has_log_files]
    return found


def _rows(table: HudiTable, file_slice: FileSlice) -> pa.Table:
    values = {"dt": file_slice.partition_path.removeprefix("dt=")}
    read = SliceRead(file_slice, table.full_schema, values, log_merge_config=log_merge_config_of(table))
    return pa.Table.from_batches(list(read_file_slice(table.storage, read)), table.full_schema)


@pytest.mark.parametrize("block_format", ["avro", "parquet"])
def test_what_is_appended_is_read(table: HudiTable, block_format: Any) -> None:
    file_slice = _slice_with_logs(table)
    before = _rows(table, file_slice)
    avro_schema = base_file_avro_schema(table.schema, table.name)
    changed = before.slice(0, 40)
    notes = pa.array([f"new {number}" for number in range(40)])
    changed = changed.set_column(changed.schema.get_field_index("note"), "note", notes)
    (batch,) = changed.combine_chunks().to_batches()
    keys = before["_hoodie_record_key"].combine_chunks().slice(40, 10)
    form = LogFileConfig(block_format, max_block_bytes=4000)
    counted = list(data_blocks(batch, table.schema, avro_schema, INSTANT, form))
    assert len(counted) > 2
    assert sum(rows for _, rows in counted) == 40
    blocks = [
        *(block for block, _ in counted),
        delete_block(keys, file_slice.partition_path, avro_schema, INSTANT),
    ]
    assert next_log_version(file_slice, file_slice.base_instant_time) == 3
    directory = f"{table.base_path}/{file_slice.partition_path}"
    written = write_log_file(
        table.storage, directory, file_slice.file_id, file_slice.base_instant_time, 3, "0-1-2", blocks
    )
    assert Path(written.path).stat().st_size == written.length
    found = _slice_with_logs(open_table(table.storage, table.base_path))
    assert found.log_files[-1] == written
    after = _rows(table, found)
    assert after.slice(0, 40)["note"].to_pylist() == notes.to_pylist()
    assert after.drop_columns("note").to_pylist() == (
        pa.concat_tables([before.slice(0, 40), before.slice(50)]).drop_columns("note").to_pylist()
    )


def test_a_rollback_block_takes_back_what_its_target_wrote(table: HudiTable) -> None:
    file_slice = _slice_with_logs(table)
    directory = f"{table.base_path}/{file_slice.partition_path}"
    block = rollback_block("20261121000000000", INSTANT)
    write_log_file(
        table.storage, directory, file_slice.file_id, file_slice.base_instant_time, 3, "1-0-1", [block]
    )
    rows = _rows(table, _slice_with_logs(table))
    assert INSTANT not in rows["_hoodie_commit_time"].to_pylist()
    assert "20261120215312634" in rows["_hoodie_commit_time"].to_pylist()


def test_blocks_are_those_of_apache_hudi(golden: Any) -> None:
    (path,) = [
        each
        for each in Path(golden("mor_upsert_only_updates").table).glob("*/.*.log.2_*")
        if each.suffix != ".crc"
    ]
    (theirs,) = parse_log_blocks(path.read_bytes(), path.name)
    table = open_at(golden("mor_upsert_only_updates").table)
    name = parse_log_file_name(path.name)
    assert name is not None
    rows = _rows(table, _slice_with_logs(table))
    chosen = rows.filter(pa.compute.equal(rows["_hoodie_commit_time"], theirs.instant_time))  # type: ignore[union-attr]
    (batch,) = chosen.combine_chunks().to_batches()
    schema = base_file_avro_schema(table.schema, table.name)
    ((ours, _),) = data_blocks(batch, table.schema, schema, theirs.instant_time)  # type: ignore[union-attr]
    assert ours.header == theirs.header  # type: ignore[union-attr]
    assert ours.block_type is BlockType.AVRO_DATA
    assert len(ours.content) == len(theirs.content)  # type: ignore[union-attr]


def test_parquet_blocks_are_whole_files_with_fixed_decimals(table: HudiTable) -> None:
    rows = _rows(table, _slice_with_logs(table))
    (batch,) = rows.combine_chunks().to_batches()
    schema = base_file_avro_schema(table.schema, table.name)
    ((block, _),) = data_blocks(batch, table.schema, schema, INSTANT, LogFileConfig("parquet"))
    file = pq.ParquetFile(pa.BufferReader(block.content))
    assert file.metadata.schema.column(file.schema_arrow.names.index("price")).physical_type == (
        "FIXED_LEN_BYTE_ARRAY"
    )
    assert file.schema_arrow.names == [*META_SCHEMA.names, *table.schema.names]
    assert file.metadata.metadata[b"parquet.avro.schema"].decode() == block.header[HeaderKey.SCHEMA]
