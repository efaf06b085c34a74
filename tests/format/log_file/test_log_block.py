from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudisql.errors import CorruptTableError, UnsupportedTableError
from hudisql.format.log_file.log_block import (
    LENGTHS_WITHOUT_ROWS,
    LOG_WITHOUT_ROWS,
    MAGIC,
    ROLLBACK_BLOCK,
    BlockType,
    CorruptBlock,
    HeaderKey,
    LogBlock,
    LogBlockHead,
    encode_log_block,
    parse_log_blocks,
    rollback_block,
    scan_log_blocks,
)
from hudisql.format.log_file.log_block_content import (
    decode_data_block,
    decode_delete_records,
    encode_data_block,
    encode_delete_records,
)

GOLDEN_WITH_LOGS = ("mor_compacted", "mor_parquet_log", "mor_rollback", "mor_upsert_only_updates")


def _log_files(golden: Any) -> list[Path]:
    found = [
        each for name in GOLDEN_WITH_LOGS for each in sorted(Path(golden(name).table).glob("*/.*.log.*_*"))
    ]
    return [each for each in found if not each.name.endswith(".crc")]


def _data_block(instant_time: str, content: bytes = b"rows") -> LogBlock:
    return LogBlock(
        BlockType.AVRO_DATA, {HeaderKey.INSTANT_TIME: instant_time, HeaderKey.SCHEMA: "{}"}, content
    )


def test_golden_logs_are_written_again_byte_for_byte(golden: Any) -> None:
    paths = _log_files(golden)
    assert len(paths) >= 9
    for path in paths:
        content = path.read_bytes()
        blocks = list(parse_log_blocks(content, path.name))
        assert all(isinstance(block, LogBlock) for block in blocks)
        assert b"".join(encode_log_block(block) for block in blocks) == content  # type: ignore[arg-type]


def test_contents_of_golden_blocks_are_written_again_byte_for_byte(golden: Any) -> None:
    seen = set()
    for path in _log_files(golden):
        for block in parse_log_blocks(path.read_bytes(), path.name):
            assert isinstance(block, LogBlock)
            seen.add(block.block_type)
            if block.block_type is BlockType.AVRO_DATA:
                schema = block.header[HeaderKey.SCHEMA]
                rows = decode_data_block(block.content, schema)
                rows.validate(full=True)
                assert encode_data_block(rows, schema) == bytes(block.content)
            elif block.block_type is BlockType.DELETE:
                deletes = decode_delete_records(block.content)
                (partition,) = set(deletes.partition_paths.to_pylist())
                assert encode_delete_records(deletes.record_keys, partition) == bytes(block.content)
    assert seen == {BlockType.AVRO_DATA, BlockType.DELETE, BlockType.COMMAND, BlockType.PARQUET_DATA}


def test_a_log_file_without_rows_has_one_block_that_rolls_back_no_instant() -> None:
    (block,) = parse_log_blocks(LOG_WITHOUT_ROWS, "log")
    assert isinstance(block, LogBlock)
    assert block.is_rollback
    assert int(block.instant_time) == int(block.header[HeaderKey.TARGET_INSTANT_TIME]) == 0
    nothing = encode_delete_records(pa.array([], pa.string()), "")
    # As of data tables, and of metadata tables, whose services number their instants.
    for time in ("20240301080000", "20240301080000123", "20240301080000123001"):
        without_deletes = LogBlock(BlockType.DELETE, {HeaderKey.INSTANT_TIME: time}, nothing)
        for block in (rollback_block(time, time), without_deletes):
            assert len(encode_log_block(block)) not in LENGTHS_WITHOUT_ROWS


def test_a_rollback_block_of_apache_hudi_is_known(golden: Any) -> None:
    (path,) = [
        each for each in Path(golden("mor_rollback").table).glob("*/.*.log.3_*") if each.suffix != ".crc"
    ]
    (block,) = parse_log_blocks(path.read_bytes(), path.name)
    assert isinstance(block, LogBlock)
    assert block.is_rollback
    assert block.header[HeaderKey.COMMAND_BLOCK_TYPE] == ROLLBACK_BLOCK
    assert block.header[HeaderKey.TARGET_INSTANT_TIME] == "20261120215343888"


@given(st.data())
def test_blocks_around_a_damaged_one_are_found(data: st.DataObject) -> None:
    first, second, third = (encode_log_block(_data_block(f"2026010100000000{n}")) for n in range(3))
    kind = data.draw(st.sampled_from(["torn", "trailing length", "leading length"]))
    if kind == "torn":
        damaged = second[: data.draw(st.integers(len(MAGIC), len(second) - 1))]
    elif kind == "trailing length":
        damaged = second[:-1] + bytes([second[-1] ^ 1])
    else:
        at = len(MAGIC) + data.draw(st.integers(0, 7))
        damaged = second[:at] + bytes([second[at] ^ data.draw(st.integers(1, 255))]) + second[at + 1 :]
    found = list(parse_log_blocks(first + damaged + third, "x.log.1"))
    whole = [each for each in found if isinstance(each, LogBlock)]
    assert [each.instant_time for each in whole] == ["20260101000000000", "20260101000000002"]
    corrupt = [each for each in found if isinstance(each, CorruptBlock)]
    assert sum(each.stop - each.start for each in corrupt) == len(damaged)


@given(st.data())
def test_a_file_read_through_a_small_window_has_the_same_blocks(data: st.DataObject) -> None:
    blocks = [
        encode_log_block(_data_block(f"2026010100000000{n}", b"r" * data.draw(st.integers(0, 90))))
        for n in range(data.draw(st.integers(0, 4)))
    ]
    content = bytearray(b"".join(blocks))
    for _ in range(data.draw(st.integers(0, 3)) if content else 0):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] ^= data.draw(st.integers(1, 255))
    del content[len(content) - data.draw(st.integers(0, min(20, len(content)))) :]
    window_bytes = data.draw(st.integers(16, 300))

    def outcome(blocks: Iterator[LogBlock | LogBlockHead | CorruptBlock]) -> list[object]:
        found: list[object] = []
        try:
            for each in blocks:
                if isinstance(each, LogBlockHead):
                    contents = bytes(content[each.start : each.stop])
                    each = LogBlock(each.block_type, each.header, contents, each.footer)
                found.append(each)
        except UnsupportedTableError as error:
            found.append(error.message)
        return found

    source = pa.BufferReader(bytes(content))
    seen = outcome(scan_log_blocks(source, "x.log.1", window_bytes=window_bytes))
    assert seen == outcome(parse_log_blocks(bytes(content), "x.log.1"))


def test_a_header_of_any_length_is_read_and_a_content_is_not() -> None:
    class Counted:
        def __init__(self, content: bytes) -> None:
            self.content, self.read = content, 0

        def size(self) -> int:
            return len(self.content)

        def read_at(self, nbytes: int, offset: int) -> bytes:
            self.read += nbytes
            return self.content[offset : offset + nbytes]

    header: dict[int, str] = {
        HeaderKey.INSTANT_TIME: "20260101000000000",
        HeaderKey.SCHEMA: "x" * 300_000,
    }
    block = encode_log_block(LogBlock(BlockType.AVRO_DATA, header, b"r" * 20_000_000))
    source = Counted(block * 2)
    heads = list(scan_log_blocks(source, "x.log.1"))
    assert [each.header for each in heads if isinstance(each, LogBlockHead)] == [header, header]
    assert source.read < 4_000_000


@given(st.integers(0, 200))
def test_a_torn_end_leaves_the_blocks_before_it(cut: int) -> None:
    whole = encode_log_block(_data_block("20260101000000000"))
    torn = encode_log_block(_data_block("20260102000000000", b"x" * 200))
    found = [each for each in parse_log_blocks(whole + torn[:cut], "x.log.1") if isinstance(each, LogBlock)]
    assert [each.instant_time for each in found] == ["20260101000000000"]


@pytest.mark.parametrize(("field", "said"), [(14, "log format version 2"), (18, "unknown type 2560")])
def test_blocks_of_unknown_versions_and_types_are_refused_by_name(field: int, said: str) -> None:
    content = bytearray(encode_log_block(_data_block("20260101000000000")))
    content[field : field + 4] = (2 if field == 14 else 2560).to_bytes(4, "big")
    with pytest.raises(UnsupportedTableError, match=said):
        list(parse_log_blocks(bytes(content), "x.log.1"))


def test_a_delete_takes_any_number_of_keys_of_any_text() -> None:
    for keys in ([], ["a"], [f"k{number}é" for number in range(1000)]):
        found = decode_delete_records(encode_delete_records(pa.array(keys, pa.string()), "dt=1"))
        assert found.record_keys.to_pylist() == keys
        assert found.ordering_values.column("int").to_pylist() == [0] * len(keys)
        assert found.ordering_values.column("long").null_count == len(keys)


def test_damaged_contents_are_named_corrupt() -> None:
    content = encode_delete_records(pa.array(["a", "b"]), "")
    for cut in (3, 9, len(content) - 1):
        with pytest.raises(CorruptTableError, match=r"cut short|does not match the block's schema"):
            decode_delete_records(content[:cut])
    with pytest.raises(UnsupportedTableError, match="delete block of version 2"):
        decode_delete_records(b"\x00\x00\x00\x02" + content[4:])
    with pytest.raises(UnsupportedTableError, match="unknown version 9"):
        decode_data_block(b"\x00\x00\x00\x09\x00\x00\x00\x00", "{}")
