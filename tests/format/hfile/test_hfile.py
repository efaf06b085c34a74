from __future__ import annotations

import contextlib
import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudisql.errors import CorruptTableError
from hudisql.format.hfile.bootstrap_index import file_id_index_path, partition_index_path
from hudisql.format.hfile.hfile import HFileReader, write_hfile
from hudisql.format.hfile.hfile_cells import cells_with_keys, cells_with_prefixes, read_cells
from hudisql.format.hfile.hfile_encoding import crc32c
from hudisql.format.hfile.hfile_index import decode_lower_index

COMPARATOR = "org.apache.hudi.common.bootstrap.index.HFileBootstrapIndex$HoodieKVComparator"
_INDEX_LEVELS = Path(__file__).parents[2] / "golden" / "hfile_index"


def _write(entries: list[tuple[bytes, bytes]], block_bytes: int = 65536, **file_info: bytes) -> bytes:
    sink = io.BytesIO()
    info = {name.encode(): value for name, value in file_info.items()}
    written = write_hfile(entries, info, sink, comparator=COMPARATOR, block_bytes=block_bytes)
    assert written == len(sink.getvalue())
    return sink.getvalue()


def _reader(content: bytes) -> HFileReader:
    return HFileReader(io.BytesIO(content), len(content), "test.hfile")


def _plain_crc32c(data: bytes) -> int:
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


@settings(deadline=None)
@given(st.binary(max_size=600))
def test_checksum_equals_the_plain_bitwise_one(data: bytes) -> None:
    assert crc32c(data) == _plain_crc32c(data)


def test_checksum_of_the_standard_check_string_and_of_a_full_chunk() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    for size in (16384, 16383, 129, 128, 127):
        chunk = np.random.default_rng(size).bytes(size)
        assert crc32c(chunk) == _plain_crc32c(chunk)
    with pytest.raises(ValueError, match="at most 16384"):
        crc32c(bytes(16385))


@pytest.mark.parametrize(
    "name", ["cow_bootstrap_meta", "cow_bootstrap_2part", "cow_bootstrap_meta_nonpart", "mor_bootstrap_meta"]
)
@pytest.mark.parametrize("index_path", [partition_index_path, file_id_index_path])
def test_writing_again_what_hbase_wrote_gives_the_same_bytes(golden: Any, name: str, index_path: Any) -> None:
    content = Path(index_path(golden(name).table)).read_bytes()
    reader = _reader(content)
    info = reader.read_file_info()
    assert _write(list(reader.entries()), INDEX_INFO=info[b"INDEX_INFO"]) == content


def test_form_of_the_native_writer_of_hudi_1_2_is_read(golden: Any) -> None:
    content = Path(file_id_index_path(golden("cow_bootstrap_meta_v120").table)).read_bytes()
    assert content[-4:] == bytes([0, 0, 0, 3])
    reader = _reader(content)
    entries = dict(reader.entries())
    assert len(entries) == 6
    assert all(key.startswith(b"part=dt=2024-03-0") and b";fileid=" in key for key in entries)
    assert dict(reader.find(list(entries))) == entries
    assert struct.unpack(">q", reader.read_file_info()[b"hfile.CREATE_TIME_TS"])[0] > 1_700_000_000_000


@pytest.mark.parametrize(
    ("name", "count"), [("two_levels_gzip", 300), ("three_levels", 400), ("four_levels_gzip", 400)]
)
def test_an_index_of_several_levels_that_hbase_wrote_is_read(name: str, count: int) -> None:
    reader = _reader((_INDEX_LEVELS / f"{name}.hfile").read_bytes())
    entries = [(f"key-{number:05d}".encode(), f"value of {number}".encode()) for number in range(count)]
    assert list(reader.entries()) == entries
    some = entries[3::70]
    assert list(reader.find([*dict(some), b"a", b"key-00003x", b"z"])) == some
    assert reader.read_file_info()[b"schema"] == b'"string"'
    cells = read_cells(reader)
    assert (cells.keys.to_pylist()[-1], len(cells.values)) == (f"key-{count - 1:05d}", count)
    found = cells_with_keys(reader, pa.array(["key-00000", "key-00299", "z"]))
    assert found.values.to_pylist() == [b"value of 0", b"value of 299"]
    prefixed = cells_with_prefixes(reader, ["key-0012"])
    assert prefixed is not None
    assert prefixed.keys.to_pylist() == [f"key-0012{digit}" for digit in range(10)]


def test_damaged_levels_of_an_index_are_an_error() -> None:
    content = (_INDEX_LEVELS / "three_levels.hfile").read_bytes()
    for magic in (b"IDXLEAF2", b"IDXINTE2"):
        damaged = bytearray(content)
        damaged[content.index(magic) + 40] ^= 1
        with pytest.raises(CorruptTableError, match=r"the checksum of its block at \d+ is wrong"):
            _reader(bytes(damaged))
    levels = content.rindex(b"\x40\x03")
    for found, missing in ((2, "IDXLEAF2"), (4, "IDXINTE2")):
        with pytest.raises(CorruptTableError, match=f"there is no {missing} block"):
            _reader(content[:levels] + bytes([0x40, found]) + content[levels + 2 :])
    with pytest.raises(CorruptTableError, match="its index has 127 levels"):
        _reader(content[:levels] + bytes([0x40, 127]) + content[levels + 2 :])


def test_an_index_block_that_is_cut_off_is_an_error() -> None:
    content = (_INDEX_LEVELS / "three_levels.hfile").read_bytes()
    start = content.index(b"IDXLEAF2") + 33
    (size,) = struct.unpack_from(">i", content, start - 33 + 12)
    block = content[start : start + size]
    assert len(decode_lower_index(block)) == 7
    for length in range(size):
        with pytest.raises(ValueError, match="an index block is cut off"):
            decode_lower_index(block[:length])
    with pytest.raises(ValueError, match="names a block without a key"):
        decode_lower_index(struct.pack(">iii", 1, 0, 12) + bytes(12))


@settings(deadline=None)
@given(
    st.dictionaries(st.binary(max_size=40), st.binary(max_size=300), max_size=60),
    st.integers(min_value=1, max_value=2000),
    st.lists(st.binary(max_size=40), max_size=5),
)
def test_what_is_written_is_read_and_found(
    pairs: dict[bytes, bytes], block_bytes: int, absent: list[bytes]
) -> None:
    entries = sorted(pairs.items())
    reader = _reader(_write(entries, block_bytes))
    assert list(reader.entries()) == entries
    assert list(reader.find([*pairs, *absent])) == entries


def test_blocks_close_at_the_block_size_and_chain_backwards() -> None:
    entries = [(f"key-{number:05d}".encode(), b"v" * 1000) for number in range(1000)]
    content = _write(entries)
    offset, previous, seen = 0, -1, 0
    while content[offset : offset + 8] == b"DATABLK*":
        after_header, _, chained = struct.unpack(">iiq", content[offset + 8 : offset + 24])
        assert chained == previous
        previous, offset, seen = offset, offset + 33 + after_header, seen + 1
    assert seen == -(-1000 // 65)  # a block takes entries until it holds 65,536 bytes


def test_only_the_blocks_of_the_wanted_keys_are_read() -> None:
    content = _write([(f"key-{number:05d}".encode(), b"v" * 1000) for number in range(1000)])

    class Counting(io.BytesIO):
        bytes_read = 0

        def read(self, count: int | None = -1, /) -> bytes:
            data = super().read(count)
            self.bytes_read += len(data)
            return data

    source = Counting(content)
    reader = HFileReader(source, len(content))
    opened = source.bytes_read
    assert [key for key, _ in reader.find([b"key-00500"])] == [b"key-00500"]
    assert source.bytes_read - opened < 70_000


def test_keys_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="ascend"):
        _write([(b"b", b""), (b"a", b"")])
    with pytest.raises(ValueError, match="ascend"):
        _write([(b"a", b""), (b"a", b"")])


def test_a_flipped_bit_in_a_data_block_is_found() -> None:
    content = bytearray(_write([(b"key", b"value" * 10)]))
    content[60] ^= 1
    with pytest.raises(CorruptTableError, match="checksum of its block at 0"):
        list(_reader(bytes(content)).entries())


@pytest.mark.parametrize("content", [b"", b"PAR1" * 10, bytes(5000)])
def test_bytes_that_are_no_hfile_are_named(content: bytes) -> None:
    with pytest.raises(CorruptTableError, match=r"test\.hfile"):
        _reader(content)


def test_a_cut_off_file_is_an_error() -> None:
    content = _write([(f"k{number:04d}".encode(), b"v" * 500) for number in range(300)])
    with pytest.raises(CorruptTableError):
        list(_reader(content[: len(content) // 2]).entries())
    with pytest.raises(CorruptTableError):
        list(_reader(content[10_000:]).entries())


FUZZED = _write([(f"k{number:03d}".encode(), bytes(number)) for number in range(60)], 300, INDEX_INFO=b"x")


@settings(deadline=None)
@given(st.integers(min_value=0, max_value=len(FUZZED) - 1), st.integers(min_value=1, max_value=255))
def test_a_damaged_byte_is_found_or_without_effect(position: int, change: int) -> None:
    damaged = bytearray(FUZZED)
    damaged[position] ^= change
    sound = _reader(FUZZED)
    with contextlib.suppress(CorruptTableError):
        reader = _reader(bytes(damaged))
        assert list(reader.entries()) == list(sound.entries())
        assert reader.read_file_info() == sound.read_file_info()
