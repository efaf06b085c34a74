"""Columns of cells: written as the plain writer writes them, and read back by blocks."""

from __future__ import annotations

import io
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudisql.errors import CorruptTableError
from hudisql.format.hfile import hfile_cells
from hudisql.format.hfile.hfile import HFileReader, write_hfile
from hudisql.format.hfile.hfile_cells import (
    EncodedCells,
    cells_of,
    cells_with_keys,
    cells_with_prefixes,
    key_order,
    read_cells,
    write_cells,
)

COMPARATOR = "org.apache.hudi.io.storage.HoodieHBaseKVComparator"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
KEYS = st.lists(TEXTS | TEXTS.map("k000000".__add__), unique=True, max_size=60)


def _write(cells: EncodedCells, block_bytes: int = 65536) -> bytes:
    sink = io.BytesIO()
    written = write_cells(cells, {b"a": b"b"}, sink, comparator=COMPARATOR, block_bytes=block_bytes)
    assert written == len(sink.getvalue())
    return sink.getvalue()


def _reader(content: bytes) -> HFileReader:
    return HFileReader(io.BytesIO(content), len(content), "test.hfile")


@settings(deadline=None)
@given(KEYS, st.lists(st.binary(max_size=300), min_size=1, max_size=5), st.sampled_from([1, 100, 65536]))
def test_cells_are_written_as_entries_are_and_read_back(
    keys: list[str], values: list[bytes], block_bytes: int
) -> None:
    numbers = np.arange(len(keys)) % len(values)
    content = _write(EncodedCells(pa.array(keys, pa.string()), numbers, values), block_bytes)
    entries = sorted((key.encode(), values[number]) for key, number in zip(keys, numbers, strict=True))
    plain = io.BytesIO()
    write_hfile(entries, {b"a": b"b"}, plain, comparator=COMPARATOR, block_bytes=block_bytes)
    assert content == plain.getvalue()
    cells = read_cells(_reader(content))
    assert [key.encode() for key in cells.keys.to_pylist()] == [key for key, _ in entries]
    assert cells.values.to_pylist() == [value for _, value in entries]
    wanted = [*keys[::3], "not there"]
    near = cells_with_keys(_reader(content), pa.array(wanted))
    found = list(zip(near.keys.to_pylist(), near.values.to_pylist(), strict=True))
    assert found == [(key.decode(), value) for key, value in entries if key.decode() in wanted]
    prefixes = ("k0", "not there", *(key[:2] for key in keys[::4]))
    beginning = cells_with_prefixes(_reader(content), prefixes)
    assert beginning is not None
    found = list(zip(beginning.keys.to_pylist(), beginning.values.to_pylist(), strict=True))
    assert found == [(key.decode(), value) for key, value in entries if key.decode().startswith(prefixes)]


def test_prefixes_read_only_their_blocks() -> None:
    keys = [f"{letter}{number:04}" for letter in "abcdef" for number in range(600)]
    content = _write(EncodedCells(pa.array(keys), np.zeros(len(keys), np.int64), [b"x" * 200]), 4096)
    source = _CountedSource(content)
    reader = HFileReader(source, len(content))
    opened = source.read_bytes
    cells = cells_with_prefixes(reader, ["c00", "e0599", "x", "A"], most_bytes=100_000)
    assert cells is not None
    assert cells.keys.to_pylist() == [*(f"c00{number:02}" for number in range(100)), "e0599"]
    assert source.read_bytes - opened < len(content) / 10
    opened = source.read_bytes
    assert cells_with_prefixes(reader, ["a", "f"], most_bytes=100_000) is None
    assert source.read_bytes == opened


class _CountedSource(io.BytesIO):
    read_bytes = 0

    def read(self, count: int | None = -1, /) -> bytes:
        data = super().read(count)
        self.read_bytes += len(data)
        return data


@settings(deadline=None)
@given(KEYS)
def test_keys_are_ordered_by_their_bytes(keys: list[str]) -> None:
    ordered = pa.array(keys, pa.string()).take(pa.array(key_order(pa.array(keys, pa.string()))))
    assert ordered.to_pylist() == sorted(keys, key=str.encode)


@settings(deadline=None)
@given(KEYS)
def test_many_long_keys_are_ordered_by_their_bytes_too(keys: list[str]) -> None:
    with mock.patch.object(hfile_cells, "_MOST_TIE_BYTES", -1):
        ordered = pa.array(keys, pa.string()).take(pa.array(key_order(pa.array(keys, pa.string()))))
    assert ordered.to_pylist() == sorted(keys, key=str.encode)


def test_a_key_that_occurs_twice_is_refused() -> None:
    cells = EncodedCells(pa.array(["k1", "k0", "k1"]), np.zeros(3, np.int64), [b""])
    with pytest.raises(ValueError, match="a key occurs twice"):
        _write(cells)


def test_only_the_blocks_of_the_keys_are_read() -> None:
    keys = [f"k{number:06}" for number in range(30_000)]
    content = _write(cells_of({key: key.encode() for key in keys}))
    reads: list[int] = []

    class Counted(io.BytesIO):
        def read(self, count: int | None = -1, /) -> bytes:
            reads.append(count or 0)
            return super().read(count)

    reader = HFileReader(Counted(content), len(content))
    near = cells_with_keys(reader, pa.array(["k000003", "k000004", "k015000"]))
    assert near.keys.to_pylist() == ["k000003", "k000004", "k015000"]
    assert near.values.to_pylist() == [b"k000003", b"k000004", b"k015000"]
    # Of the end of the file and of two blocks.
    assert len(reads) == 3
    assert sum(reads[1:]) < 140_000 < len(content)


def test_a_block_that_is_cut_off_is_an_error() -> None:
    content = bytearray(_write(cells_of({"key": b"value"})))
    content[33 + 3] = 200
    with pytest.raises(CorruptTableError, match="checksum"):
        read_cells(_reader(bytes(content)))


def test_a_root_index_that_is_cut_off_is_an_error() -> None:
    reader = _reader(_write(cells_of({f"k{number}": b"value" for number in range(9)}), 1))
    whole = reader.root_index
    for length in range(len(whole)):
        reader.root_index = whole[:length]
        with pytest.raises(CorruptTableError, match="its root index is cut off"):
            read_cells(reader)
