"""The cells of HFiles as columns: many keys and values at once, without a Python object for each.

The values of a file of an index repeat much, so they are written as numbers of distinct ones. Knows no
file system and nothing of what keys and values mean.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import CorruptTableError
from hudisql.format.hfile.hfile import (
    CELL_SUFFIX,
    DATA_BLOCK_BYTES,
    ByteSink,
    CellBlock,
    HFileReader,
    write_cell_blocks,
)
from hudisql.format.keys.bloom_filter import string_buffers

_Numbers = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]
_HEAD_BYTES = 10  # the lengths of key, value and row
_MVCC = b"\x00"
_MOST_TIE_BYTES = 64 << 20
_BEYOND_ITS_END = "a data block of an HFile has an entry beyond its end"


@dataclass(frozen=True, slots=True)
class Cells:
    """Keys (texts) and values (bytes) in the order of the file."""

    keys: pa.Array
    values: pa.Array


def read_cells(reader: HFileReader) -> Cells:
    """All cells of a file. Raises CorruptTableError."""
    index = _block_index(reader)
    return _cells(reader.cells_of_blocks(index.offsets.tolist(), index.stops.tolist()))


def cells_with_keys(reader: HFileReader, keys: pa.Array) -> Cells:
    """The cells with these keys; only blocks that may hold one are read. Raises CorruptTableError."""
    from hudisql.format.hfile import hfile_kernels

    index = _block_index(reader)
    keys = pc.unique(keys.cast(pa.large_string()))
    keys = keys.take(pa.array(key_order(keys)))
    offsets, data = string_buffers(keys)
    numbers = np.empty(len(keys), np.int64)
    hfile_kernels.numbers_of_blocks(index.key_offsets, index.keys, offsets, data, numbers)
    # The index key of a block may be shorter than its first key but is above all keys before it.
    before = int(np.searchsorted(numbers, 0))
    wanted, firsts = np.unique(numbers[before:], return_index=True)
    bounds = [*(firsts + before).tolist(), len(keys)]
    lengths = np.full(len(keys), -1, np.int64)
    values = []
    blocks = reader.cells_of_blocks(index.offsets[wanted].tolist(), index.stops[wanted].tolist())
    for content, first, stop in zip(blocks, bounds, bounds[1:], strict=False):
        block, out = np.frombuffer(content, np.uint8), np.empty(len(content), np.uint8)
        copied = hfile_kernels.copy_values_of_keys(block, offsets, data, first, stop, lengths, out)
        if copied < 0:
            raise CorruptTableError(_BEYOND_ITS_END)
        values.append(out[:copied].copy())
    is_stored = lengths >= 0
    value_offsets = np.zeros(int(is_stored.sum()) + 1, np.int64)
    np.cumsum(lengths[is_stored], out=value_offsets[1:])
    stored = np.concatenate([np.empty(0, np.uint8), *values])
    return Cells(keys.filter(pa.array(is_stored)), _array(pa.large_binary(), value_offsets, stored))


def cells_with_prefixes(
    reader: HFileReader, prefixes: Collection[str], most_bytes: int | None = None
) -> Cells | None:
    """The cells whose keys begin with one of `prefixes`; only blocks that may hold one are read.

    None if these blocks have more than `most_bytes`. Raises CorruptTableError.
    """
    index = _block_index(reader)
    beginnings = [prefix.encode() for prefix in prefixes]
    wanted = _blocks_with_prefixes(index, beginnings)
    offsets, stops = index.offsets[wanted], index.stops[wanted]
    if most_bytes is not None and int((stops - offsets).sum()) > most_bytes:
        return None
    cells = _cells(reader.cells_of_blocks(offsets.tolist(), stops.tolist()))
    keys = cells.keys.cast(pa.large_binary())
    is_wanted = pa.array(np.zeros(len(keys), np.bool_))
    for length in {len(beginning) for beginning in beginnings}:
        of_length = [beginning for beginning in beginnings if len(beginning) == length]
        found = pc.is_in(pc.binary_slice(keys, 0, length), pa.array(of_length, pa.large_binary()))
        is_wanted = pc.or_(is_wanted, found)
    return Cells(cells.keys.filter(is_wanted), cells.values.filter(is_wanted))


def _blocks_with_prefixes(index: _BlockIndex, beginnings: Sequence[bytes]) -> _Numbers:
    """The numbers of the blocks that may hold keys with one of these beginnings, ascending."""
    from hudisql.format.hfile import hfile_kernels

    # No byte of a text is 0xFF.
    bounds = [bound for beginning in beginnings for bound in (beginning, beginning + b"\xff")]
    numbers = np.empty(len(bounds), np.int64)
    hfile_kernels.numbers_of_blocks(index.key_offsets, index.keys, *_buffers(bounds), numbers)
    blocks = len(index.offsets)
    changes = np.zeros(blocks + 1, np.int64)
    np.add.at(changes, np.maximum(numbers[::2], 0), 1)
    np.add.at(changes, numbers[1::2] + 1, -1)
    return np.flatnonzero(np.cumsum(changes[:blocks]))


@dataclass(frozen=True, slots=True)
class _BlockIndex:
    """The data blocks of a file: the first key of each, as offsets and bytes, and its place in the file."""

    key_offsets: _Numbers
    keys: _Bytes
    offsets: _Numbers
    stops: _Numbers


def _block_index(reader: HFileReader) -> _BlockIndex:
    from hudisql.format.hfile import hfile_kernels

    data, blocks = np.frombuffer(reader.root_index, np.uint8), reader.block_count
    key_offsets = np.zeros(blocks + 1, np.int64)
    keys = np.empty(max(len(data), 1), np.uint8)
    offsets, stops = np.empty(blocks, np.int64), np.empty(blocks, np.int64)
    if not hfile_kernels.read_root_index(data, key_offsets, keys, offsets, stops):
        raise reader.corrupt("its root index is cut off")
    return _BlockIndex(key_offsets, keys, offsets, stops)


def _cells(blocks: Iterable[bytes]) -> Cells:
    from hudisql.format.hfile import hfile_kernels

    found: list[tuple[_Bytes, int, int, int]] = []
    for content in blocks:
        data = np.frombuffer(content, np.uint8)
        counts = hfile_kernels.count_cells(data, len(data))
        if counts[0] < 0:
            raise CorruptTableError(_BEYOND_ITS_END)
        found.append((data, *counts))
    cells, key_bytes, value_bytes = (sum(each[part] for each in found) for part in (1, 2, 3))
    key_offsets, value_offsets = np.zeros(cells + 1, np.int64), np.zeros(cells + 1, np.int64)
    keys, values = np.empty(key_bytes, np.uint8), np.empty(value_bytes, np.uint8)
    first = 0
    for data, count, _, _ in found:
        hfile_kernels.copy_cells(data, len(data), first, key_offsets, keys, value_offsets, values)
        first += count
    try:
        text = _array(pa.large_string(), key_offsets, keys)
        text.validate(full=True)
    except pa.ArrowInvalid as error:
        raise CorruptTableError(f"the keys of an HFile are no texts: {error}") from error
    return Cells(text, _array(pa.large_binary(), value_offsets, values))


def _array(kind: pa.DataType, offsets: _Numbers, data: _Bytes) -> pa.Array:
    return pa.Array.from_buffers(kind, len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _buffers(values: Sequence[bytes]) -> tuple[_Numbers, _Bytes]:
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum([len(value) for value in values], out=offsets[1:])
    return offsets, np.frombuffer(b"".join(values) or b"\0", np.uint8)


@dataclass(frozen=True, slots=True)
class EncodedCells:
    """Keys (texts, each once, in any order), and for each the number of its value among `values`."""

    keys: pa.Array
    numbers: _Numbers
    values: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: _Numbers) -> EncodedCells:
        """Those of these rows."""
        return EncodedCells(self.keys.take(pa.array(rows)), self.numbers[rows], self.values)

    def with_others(self, others: EncodedCells) -> EncodedCells:
        """These and others, whose keys are none of these."""
        keys = pa.concat_arrays([self.keys, others.keys])
        numbers = np.concatenate([self.numbers, others.numbers + len(self.values)])
        return EncodedCells(keys, numbers, [*self.values, *others.values])


def cells_of(entries: Mapping[str, bytes]) -> EncodedCells:
    """Cells of a few values by key."""
    keys = pa.array(list(entries), pa.string())
    return EncodedCells(keys, np.arange(len(entries)), list(entries.values()))


def write_cells(
    cells: EncodedCells,
    file_info: Mapping[bytes, bytes],
    sink: ByteSink,
    *,
    comparator: str,
    block_bytes: int = DATA_BLOCK_BYTES,
) -> int:
    """`write_hfile` of cells, which are sorted here. Raises ValueError if a key occurs twice."""
    blocks = _blocks(cells, block_bytes)
    return write_cell_blocks(blocks, file_info, sink, comparator=comparator)


def _blocks(cells: EncodedCells, block_bytes: int) -> Iterator[CellBlock]:
    from hudisql.format.hfile import hfile_kernels

    if not len(cells):
        return
    offsets, data = string_buffers(cells.keys)
    order = key_order(cells.keys)
    tail_offsets, tails = _buffers([CELL_SUFFIX + value + _MVCC for value in cells.values])
    key_bytes = np.diff(offsets)[order] + 2 + len(CELL_SUFFIX)
    tail_bytes = np.diff(tail_offsets)[cells.numbers[order]]
    ends = np.cumsum(np.diff(offsets)[order] + tail_bytes + _HEAD_BYTES)
    start, written = 0, 0
    while start < len(order):
        stop = min(int(np.searchsorted(ends, written + block_bytes)) + 1, len(order))
        out = np.empty(int(ends[stop - 1]) - written, np.uint8)
        rows = order[start:stop]
        written_cells = (cells.numbers, tail_offsets, tails, len(CELL_SUFFIX), out)
        hfile_kernels.write_cells(offsets, data, rows, *written_cells)
        first, last = rows[0], rows[-1]
        yield CellBlock(
            out.data,
            bytes(data[offsets[first] : offsets[first + 1]]),
            bytes(data[offsets[last] : offsets[last + 1]]),
            len(rows),
            int(key_bytes[start:stop].sum()),
            int(tail_bytes[start:stop].sum()) - len(rows) * (len(CELL_SUFFIX) + 1),
        )
        start, written = stop, int(ends[stop - 1])


def key_order(keys: pa.Array) -> _Numbers:
    """The order of the keys by their bytes, faster than Arrow's. Raises ValueError if one occurs twice."""
    from hudisql.format.hfile import hfile_kernels

    if len(keys) < 2:
        return np.arange(len(keys))
    offsets, data = string_buffers(keys)
    skipped, longest = hfile_kernels.common_start(offsets, data), int(np.diff(offsets).max())
    words = np.empty(len(keys), np.uint64)
    hfile_kernels.words_of(offsets, data, skipped, words)
    order = np.argsort(words, kind="stable")
    ties = words[order][1:] == words[order][:-1]
    if not ties.any():
        return order
    is_tied = np.zeros(len(keys), np.bool_)
    is_tied[1:] |= ties
    is_tied[:-1] |= ties
    rows = order[is_tied]
    tied = keys.take(pa.array(rows))
    offsets, data = string_buffers(tied)
    if len(tied) * (longest - skipped) > _MOST_TIE_BYTES:
        # A few long keys would take their length for each of the others, too.
        sorted_ties = pc.array_sort_indices(tied.cast(pa.large_binary())).to_numpy().astype(np.int64)
    else:
        sorted_ties = _order_of_ties(offsets, data, words[rows], skipped, longest)
    if not hfile_kernels.rises_strictly(offsets, data, sorted_ties):
        raise ValueError("HFile keys must ascend: a key occurs twice")
    order[is_tied] = rows[sorted_ties]
    return order


def _order_of_ties(
    offsets: _Numbers, data: _Bytes, words: npt.NDArray[np.uint64], skipped: int, longest: int
) -> _Numbers:
    """The order of keys whose first words are known. Memory: the longest key's bytes for each of them."""
    from hudisql.format.hfile import hfile_kernels

    further = [words]
    for start in range(skipped + 8, longest, 8):
        word = np.empty(len(words), np.uint64)
        hfile_kernels.words_of(offsets, data, start, word)
        further.append(word)
    # Zeros stand behind short keys.
    further.append(np.diff(offsets).astype(np.uint64))
    return np.lexsort(further[::-1])
