"""Log files of hudisql's own in a golden table: Apache Hudi merges them as hudisql does."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudisql.format.log_file.log_block import LogBlock, encode_log_block, rollback_block
from hudisql.format.schema.avro_schema import avro_from_arrow
from hudisql.format.timeline.commit_metadata import CommitMetadata, LogWriteStat, WriteStat
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice, LogFile
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.write.handle.base_file import base_file_avro_schema
from hudisql.write.handle.log_file import (
    LogFileConfig,
    data_blocks,
    delete_block,
    write_log_file,
)
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows, our_rows

pytestmark = pytest.mark.oracle


def _append(table: HudiTable, file_slice: FileSlice, instant_time: str, blocks: list[LogBlock]) -> LogFile:
    """Write the blocks as the next log file and complete a deltacommit of just that."""
    version = len(file_slice.log_files) + 1
    directory = f"{table.base_path}/{file_slice.partition_path}"
    token = f"0-{version}-{version}"
    written = write_log_file(
        table.storage, directory, file_slice.file_id, file_slice.base_instant_time, version, token, blocks
    )
    assert file_slice.base_file is not None
    name = Path(written.path).name
    stat = WriteStat(
        file_id=file_slice.file_id,
        path=f"{file_slice.partition_path}/{name}",
        partition_path=file_slice.partition_path,
        prev_commit=file_slice.base_instant_time,
        num_writes=1,
        num_update_writes=1,
        total_write_bytes=written.length,
        file_size_in_bytes=written.length,
        log_write=LogWriteStat(
            log_version=version,
            log_offset=0,
            base_file=Path(file_slice.base_file.path).name,
            log_files=(name,),
        ),
    )
    metadata = CommitMetadata(
        partition_to_write_stats={file_slice.partition_path: (stat,)},
        extra_metadata={"schema": avro_from_arrow(table.schema, table.name)},
        operation_type="UPSERT",
    )
    timeline = Path(table.base_path) / ".hoodie"
    for state in (".requested", ".inflight"):
        (timeline / f"{instant_time}.deltacommit{state}").write_bytes(b"")
    (timeline / f"{instant_time}.deltacommit").write_bytes(metadata.to_json())
    return written


def _updated(rows: pa.Table, keys: list[str], instant_time: str, note: str, seq: int, file_id: str) -> Any:
    chosen = rows.filter(pc.is_in(rows["_hoodie_record_key"], pa.array(keys)))
    values = {
        "_hoodie_commit_time": instant_time,
        "_hoodie_commit_seqno": [f"{instant_time}_0_{number}" for number in range(len(chosen))],
        "_hoodie_file_name": file_id,
        "note": note,
        "seq": seq,
    }
    for name, value in values.items():
        position = chosen.schema.get_field_index(name)
        column = value if isinstance(value, list) else [value] * len(chosen)
        chosen = chosen.set_column(
            position, chosen.schema.field(name), pa.array(column, chosen.schema.types[position])
        )
    (batch,) = chosen.combine_chunks().to_batches()
    return batch


@pytest.fixture(scope="module")
def table(golden: Callable[[str], Any], tmp_path_factory: pytest.TempPathFactory) -> HudiTable:
    """A golden table with more commits: Avro, parquet, deletes, late rows, a rollback and a torn block."""
    copied = tmp_path_factory.mktemp("logs") / "table"
    shutil.copytree(golden("mor_upsert_only_updates").table, copied)
    storage = Storage()
    schema = base_file_avro_schema(open_table(storage, str(copied)).schema, "mor_upsert_only_updates")

    def current() -> tuple[HudiTable, FileSlice, pa.Table]:
        opened = open_table(storage, str(copied))
        (found,) = [each for each in load_file_slices(opened) if each.has_log_files]
        rows = our_rows(opened)
        return opened, found, rows.filter(pc.equal(rows["_hoodie_partition_path"], found.partition_path))

    def blocks_of(keys: list[str], instant: str, note: str, seq: int, block_format: Any) -> list[LogBlock]:
        opened, found, rows = current()
        batch = _updated(rows, keys, instant, note, seq, found.file_id)
        form = LogFileConfig(block_format)
        return [block for block, _ in data_blocks(batch, opened.schema, schema, instant, form)]

    opened, found, rows = current()
    file_name = Path(found.base_file.path).name if found.base_file else ""
    mine = rows.filter(pc.is_in(rows["_hoodie_file_name"], pa.array([file_name, found.file_id])))
    keys = sorted(mine["_hoodie_record_key"].to_pylist())
    first, second, third, fourth, last = (f"2026112200000000{number}" for number in (1, 2, 3, 4, 6))
    _append(opened, found, first, blocks_of(keys[:10], first, "avro", 500, "avro"))
    opened, found, _ = current()
    _append(opened, found, second, blocks_of(keys[5:15], second, "parquet", 500, "parquet"))
    opened, found, _ = current()
    gone = delete_block(pa.array(keys[12:20]), found.partition_path, schema, third)
    late = blocks_of(keys[:3], third, "late", 1, "avro")
    _append(opened, found, third, [gone, *late])
    opened, found, _ = current()
    written = _append(opened, found, fourth, blocks_of(keys[30:33], fourth, "rolled back", 900, "avro"))
    again = blocks_of(keys[20:22], fourth, "after", 900, "avro")
    content = encode_log_block(rollback_block("20261122000000005", fourth))
    content += b"".join(encode_log_block(block) for block in again)
    torn = encode_log_block(blocks_of(keys[40:42], fourth, "torn", 900, "avro")[0])[:-30]
    with Path(written.path).open("ab") as log:
        log.write(content + torn)
    Path(written.path).with_name(f".{Path(written.path).name}.crc").unlink(missing_ok=True)
    # Hudi reads no block beyond the newest commit, not even a rollback.
    opened, found, _ = current()
    _append(opened, found, last, blocks_of(keys[50:51], last, "last", 900, "avro"))
    return open_table(storage, str(copied))


def test_hudi_015_merges_our_log_files_as_we_do(oracle_015: HudiOracle, table: HudiTable) -> None:
    theirs, ours = oracle_015.read(table.base_path), our_rows(table)
    assert_same_rows(theirs.select(ours.column_names), ours, sort_by=["_hoodie_record_key"])
    notes = ours["note"].to_pylist()
    counted = {"avro": 5, "parquet": 7, "late": 0, "rolled back": 0, "after": 2, "torn": 0, "last": 1}
    assert {note: notes.count(note) for note in counted} == counted
    assert len(notes) == 600 - 8


def test_hudi_120_merges_our_log_files_but_lets_late_rows_win(
    oracle_120: HudiOracle, table: HudiTable
) -> None:
    theirs, ours = oracle_120.read(table.base_path), our_rows(table)
    # 1.x takes OverwriteWithLatestAvroPayload for commit-time ordering, between log records too.
    late = theirs.filter(pc.equal(theirs["note"], "late"))["_hoodie_record_key"]
    assert len(late) == 3
    theirs, ours = (
        each.filter(pc.invert(pc.is_in(each["_hoodie_record_key"], late))) for each in (theirs, ours)
    )
    assert_same_rows(theirs.select(ours.column_names), ours, sort_by=["_hoodie_record_key"])
