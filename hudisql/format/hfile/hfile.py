"""HFile version 3: sorted key-value files with a root index, as Hudi's indexes and metadata tables have them.

Written in the form of HBase's own writer (v3.3, CRC32C checksums, one Put cell per key), which HBase's reader
and Hudi's native reader both read. Files of Hudi 1.x's native writer are read, too (v3.0, no checksums, bare
keys in the index), and blocks compressed by gzip. Follows the HBase book's HFile appendix and Hudi's HFile
format page. This module knows nothing of what the keys and values mean, and of no file system.
"""

from __future__ import annotations

import struct
import sys
import zlib
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from hudisql.errors import CorruptTableError, UnsupportedTableError
from hudisql.format.encoding.varints import (
    decode_hadoop_varint,
    decode_protobuf_varint,
    encode_protobuf_varint,
)
from hudisql.format.hfile.hfile_encoding import (
    BYTES_PER_CHECKSUM,
    as_bytes,
    as_int,
    checksums_of_chunks,
    crc32c,
    protobuf_bytes,
    protobuf_fields,
)
from hudisql.format.hfile.hfile_index import (
    IndexEntry,
    decode_lower_index,
    decode_root_index,
    encode_root_index,
)

_DATA_MAGIC = b"DATABLK*"
_INDEX_MAGIC = b"IDXROOT2"
_INTERMEDIATE_INDEX_MAGIC = b"IDXINTE2"
_LEAF_INDEX_MAGIC = b"IDXLEAF2"
_MOST_INDEX_LEVELS = 16
_FILE_INFO_MAGIC = b"FILEINF2"
_TRAILER_MAGIC = b'TRABLK"$'
_PROTOBUF_MAGIC = b"PBUF"
_BLOCK_HEADER = struct.Struct(">8siiqBii")
_TRAILER_BYTES = 4096
_CHECKSUM_CRC32C = 2
_VERSION = 3 << 24 | 3  # minor 3 in the high byte, major 3 in the low three
_COMPRESSION_GZIP = 1
_COMPRESSION_NONE = 2
_GZIP_WINDOW = 31  # zlib's number for the gzip format
CELL_SUFFIX = b"\x00" + b"\x7f" + b"\xff" * 7 + b"\x04"  # no family, latest timestamp, type Put
_MVCC = b"\x00"
DATA_BLOCK_BYTES = 65536
_TAIL_BYTES = 131072
_FEW_CHUNKS = 3
# Loading compiled code takes longer than few checksums without it.
_KERNELS = "hudisql.format.hfile.hfile_kernels"
_MOST_BLOCKS_AT_ONCE = 64


class ByteSink(Protocol):
    """The output of an HFile: bytes are appended and never read again."""

    def write(self, data: bytes, /) -> object:
        """Append bytes."""


class SeekableSource(Protocol):
    """The input of an HFile: a seekable file."""

    def seek(self, position: int, /) -> object:
        """Move to an absolute position."""

    def read(self, count: int, /) -> bytes:
        """Read that many bytes."""


@dataclass(frozen=True, slots=True)
class _Trailer:
    load_on_open_offset: int
    file_info_offset: int
    index_entries: int
    index_levels: int
    is_compressed: bool


@dataclass(frozen=True, slots=True)
class CellBlock:
    """The cells of one data block: their bytes, the first and the last key, how many there are, and the bytes
    of their keys in the form of cells and of their values.
    """

    cells: bytes | bytearray | memoryview
    first_key: bytes
    last_key: bytes
    count: int
    key_bytes: int
    value_bytes: int


def write_hfile(
    entries: Iterable[tuple[bytes, bytes]],
    file_info: Mapping[bytes, bytes],
    sink: ByteSink,
    *,
    comparator: str,
    block_bytes: int = DATA_BLOCK_BYTES,
) -> int:
    """Write sorted `(key, value)` pairs; returns how many bytes went to `sink`.

    A data block is closed once it holds `block_bytes`; only one block and the root index (one entry a block)
    are in memory. `file_info` is added to the fields that HBase itself writes. `comparator` is the Java class
    named in the trailer. Raises ValueError if keys are not strictly ascending.
    """
    return write_cell_blocks(_blocks_of(entries, block_bytes), file_info, sink, comparator=comparator)


def _blocks_of(entries: Iterable[tuple[bytes, bytes]], block_bytes: int) -> Iterator[CellBlock]:
    block = bytearray()
    first_key = last_key = b""
    total = count = key_bytes = value_bytes = 0
    for key, value in entries:
        if total and key <= last_key:
            raise ValueError(f"HFile keys must ascend: {key!r} after {last_key!r}")
        if len(block) >= block_bytes:
            yield CellBlock(block, first_key, last_key, count, key_bytes, value_bytes)
            block, count, key_bytes, value_bytes = bytearray(), 0, 0, 0
        if not block:
            first_key = key
        cell_key = _cell_key(key)
        block += struct.pack(">ii", len(cell_key), len(value)) + cell_key + value + _MVCC
        total, count, last_key = total + 1, count + 1, key
        key_bytes, value_bytes = key_bytes + len(cell_key), value_bytes + len(value)
    if block:
        yield CellBlock(block, first_key, last_key, count, key_bytes, value_bytes)


def write_cell_blocks(
    blocks: Iterable[CellBlock], file_info: Mapping[bytes, bytes], sink: ByteSink, *, comparator: str
) -> int:
    """`write_hfile` of data blocks whose cells stand there already."""
    writer = _BlockWriter(sink)
    index: list[tuple[bytes, int, int]] = []
    last_key = b""
    count = key_bytes = value_bytes = data_bytes = 0
    for block in blocks:
        index.append((block.first_key, *writer.write_block(_DATA_MAGIC, block.cells)))
        data_bytes += len(block.cells) + _BLOCK_HEADER.size
        count, last_key = count + block.count, block.last_key
        key_bytes, value_bytes = key_bytes + block.key_bytes, value_bytes + block.value_bytes

    root = encode_root_index(IndexEntry(_cell_key(key), offset, size) for key, offset, size in index)
    load_on_open, _ = writer.write_block(_INDEX_MAGIC, root)
    writer.write_block(_INDEX_MAGIC, b"")
    info = _file_info_block(
        {
            b"KEY_VALUE_VERSION": struct.pack(">i", 1),
            b"MAX_MEMSTORE_TS_KEY": bytes(8),
            b"hfile.AVG_KEY_LEN": struct.pack(">i", key_bytes // max(count, 1)),
            b"hfile.AVG_VALUE_LEN": struct.pack(">i", value_bytes // max(count, 1)),
            b"hfile.CREATE_TIME_TS": bytes(8),
            **({b"hfile.LASTKEY": _cell_key(last_key)} if count else {}),
            **file_info,
        }
    )
    file_info_offset, _ = writer.write_block(_FILE_INFO_MAGIC, info)
    # As HBase computes it: with the trailer and without the root index.
    uncompressed = data_bytes + 2 * _BLOCK_HEADER.size + len(info) + _TRAILER_BYTES
    writer.write(
        _encode_trailer(
            {
                1: file_info_offset,
                2: load_on_open,
                3: len(root),
                4: uncompressed,
                5: len(index),
                6: 0,
                7: count,
                8: 1,
                9: index[0][1] if index else 0,
                10: index[-1][1] if index else 0,
            },
            comparator,
        )
    )
    return writer.position


class _BlockWriter:
    """Writes blocks with header and checksums, keeping the chain of earlier blocks of the same kind."""

    def __init__(self, sink: ByteSink) -> None:
        self._sink = sink
        self._previous: dict[bytes, int] = {}
        self.position = 0

    def write(self, data: bytes) -> None:
        self._sink.write(data)
        self.position += len(data)

    def write_block(self, magic: bytes, data: bytes | bytearray | memoryview) -> tuple[int, int]:
        """Write one block; returns its offset and its size on disk with header and checksums."""
        offset = self.position
        on_disk = _BLOCK_HEADER.size + len(data)
        chunks = -(-on_disk // BYTES_PER_CHECKSUM)
        header = _BLOCK_HEADER.pack(
            magic,
            len(data) + 4 * chunks,
            len(data),
            self._previous.get(magic, -1),
            _CHECKSUM_CRC32C,
            BYTES_PER_CHECKSUM,
            on_disk,
        )
        content = b"".join((header, data))
        self.write(content)
        self.write(_checksums(content))
        self._previous[magic] = offset
        return offset, self.position - offset


def _checksums(content: bytes | memoryview) -> bytes:
    if len(content) > _FEW_CHUNKS * BYTES_PER_CHECKSUM or _KERNELS in sys.modules:
        return checksums_of_chunks(content)
    view = memoryview(content)
    starts = range(0, len(content), BYTES_PER_CHECKSUM)
    return b"".join(struct.pack(">I", crc32c(view[start : start + BYTES_PER_CHECKSUM])) for start in starts)


def _cell_key(key: bytes) -> bytes:
    return struct.pack(">h", len(key)) + key + CELL_SUFFIX


def _file_info_block(file_info: Mapping[bytes, bytes]) -> bytes:
    pairs = b""
    for name, value in sorted(file_info.items()):
        pair = protobuf_bytes(1, name) + protobuf_bytes(2, value)
        pairs += protobuf_bytes(1, pair)
    return _PROTOBUF_MAGIC + encode_protobuf_varint(len(pairs)) + pairs


def _encode_trailer(numbers: Mapping[int, int], comparator: str) -> bytes:
    message = b"".join(
        encode_protobuf_varint(number << 3) + encode_protobuf_varint(value)
        for number, value in numbers.items()
    )
    message += protobuf_bytes(11, comparator.encode())
    message += encode_protobuf_varint(12 << 3) + encode_protobuf_varint(_COMPRESSION_NONE)
    trailer = _TRAILER_MAGIC + encode_protobuf_varint(len(message)) + message
    return trailer.ljust(_TRAILER_BYTES - 4, b"\x00") + struct.pack(">I", _VERSION)


def _runs(offsets: Sequence[int], stops: Sequence[int]) -> Iterator[range]:
    """The numbers of neighbouring blocks, at most a few together."""
    first = 0
    for number in range(1, len(offsets) + 1):
        is_next = number < len(offsets) and offsets[number] == stops[number - 1]
        if not is_next or number - first == _MOST_BLOCKS_AT_ONCE:
            yield range(first, number)
            first = number


class HFileReader:
    """Reads keys and values of one HFile block by block, and verifies checksums if the file has them.

    Reads files without compression or compressed by gzip; of an index with several levels all blocks, at
    once. Raises UnsupportedTableError for other compressions, CorruptTableError for other files and for
    damaged bytes; both name `name`.
    """

    def __init__(self, source: SeekableSource, length: int, name: str = "HFile") -> None:
        self._source = source
        self._name = name
        if length < _TRAILER_BYTES:
            raise CorruptTableError(f"{name} is not an HFile: {length} bytes are less than its trailer")
        # One read for the trailer, the file info and the index of all but very large files.
        self._ahead = self._tail = self._part(max(0, length - _TAIL_BYTES), length)
        self._trailer = self._read_trailer(length - _TRAILER_BYTES)
        self._body_bytes = length - _TRAILER_BYTES
        _, root = self._read_block(self._trailer.load_on_open_offset, _INDEX_MAGIC)
        # An index of several levels in the form of one: as if its root named all data blocks.
        self.root_index, self.block_count = root, self._trailer.index_entries
        if self._trailer.index_levels > 1:
            lowest = self._lowest_entries(root)
            self.root_index, self.block_count = encode_root_index(lowest), len(lowest)

    @cached_property
    def _blocks(self) -> list[tuple[bytes, int, int]]:
        """The first key of each data block, where it begins, and its bytes."""
        blocks = []
        for entry in self._decoded(decode_root_index, self.root_index, self.block_count):
            row_bytes = int.from_bytes(entry.key[:2], signed=True)
            blocks.append((entry.key[2 : 2 + row_bytes], entry.offset, entry.size))
        return blocks

    @cached_property
    def _first_keys(self) -> list[bytes]:
        return [key for key, _, _ in self._blocks]

    def read_file_info(self) -> dict[bytes, bytes]:
        """The file-info block as a mapping."""
        _, data = self._read_block(self._trailer.file_info_offset, _FILE_INFO_MAGIC)
        if data[:4] != _PROTOBUF_MAGIC:
            raise self.corrupt("its file info is not a protobuf message")
        file_info = {}
        try:
            size, position = decode_protobuf_varint(data, 4)
            for _, pair in protobuf_fields(data[position : position + size]):
                (_, key), (_, value) = protobuf_fields(as_bytes(pair))
                file_info[as_bytes(key)] = as_bytes(value)
        except (IndexError, ValueError) as error:
            raise self.corrupt("its file info cannot be decoded") from error
        return file_info

    def cells_of_blocks(self, offsets: Sequence[int], stops: Sequence[int]) -> Iterator[bytes]:
        """The cells of the data blocks between these places, which ascend; neighbours are read at once."""
        return self._contents(offsets, stops, _DATA_MAGIC)

    def _contents(self, offsets: Sequence[int], stops: Sequence[int], magic: bytes) -> Iterator[bytes]:
        for run in _runs(offsets, stops):
            self._ahead = self._part(offsets[run.start], stops[run.stop - 1])
            for number in run:
                yield self._read_block(offsets[number], magic)[1]

    def entries(self) -> Iterator[tuple[bytes, bytes]]:
        """All `(key, value)` pairs in key order."""
        for _, offset, _ in self._blocks:
            yield from self._entries_of_block(offset)

    def find(self, keys: Collection[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """The pairs whose key is in `keys`, in key order; reads only the blocks that may hold them."""
        wanted: dict[int, set[bytes]] = {}
        for key in keys:
            # The index key of a block may be shorter than its first key but is above all keys before it.
            wanted.setdefault(bisect_right(self._first_keys, key) - 1, set()).add(key)
        for number in sorted(wanted):
            if number >= 0:
                block_keys = wanted[number]
                for key, value in self._entries_of_block(self._blocks[number][1]):
                    if key in block_keys:
                        yield key, value

    def _lowest_entries(self, root: bytes) -> list[IndexEntry]:
        """The data blocks that the leaves below the root name, in key order."""
        if self._trailer.index_levels > _MOST_INDEX_LEVELS:
            raise self.corrupt(f"its index has {self._trailer.index_levels:,} levels")
        entries = self._decoded(decode_root_index, root, self._trailer.index_entries)
        for level in range(self._trailer.index_levels - 1, 0, -1):
            magic = _LEAF_INDEX_MAGIC if level == 1 else _INTERMEDIATE_INDEX_MAGIC
            below: list[IndexEntry] = []
            offsets = [entry.offset for entry in entries]
            for content in self._contents(offsets, [entry.offset + entry.size for entry in entries], magic):
                below += self._decoded(decode_lower_index, content)
                if len(below) * _BLOCK_HEADER.size > self._body_bytes:
                    raise self.corrupt("its index names more blocks than it has bytes for")
            entries = below
        return entries

    def _decoded(self, decode: Callable[..., list[IndexEntry]], *arguments: object) -> list[IndexEntry]:
        try:
            return decode(*arguments)
        except ValueError as error:
            raise self.corrupt(str(error)) from error

    def _read_trailer(self, offset: int) -> _Trailer:
        data = self._read(offset, _TRAILER_BYTES)
        (version,) = struct.unpack(">I", data[-4:])
        if data[:8] != _TRAILER_MAGIC or version & 0xFFFFFF != 3:
            raise self.corrupt("it has no trailer of HFile version 3")
        try:
            size, position = decode_protobuf_varint(data, 8)
            fields = dict(protobuf_fields(data[position : position + size]))
            compression = as_int(fields.get(12, _COMPRESSION_NONE))
            trailer = _Trailer(
                load_on_open_offset=as_int(fields[2]),
                file_info_offset=as_int(fields[1]),
                index_entries=as_int(fields[5]),
                index_levels=as_int(fields[8]),
                is_compressed=compression == _COMPRESSION_GZIP,
            )
        except (KeyError, IndexError, ValueError) as error:
            raise self.corrupt("its trailer cannot be decoded") from error
        if compression not in (_COMPRESSION_NONE, _COMPRESSION_GZIP):
            raise UnsupportedTableError(
                f"cannot read {self._name}: its blocks have HBase's compression {compression}; gzip (1) and "
                "none (2) are read"
            )
        return trailer

    def _entries_of_block(self, offset: int) -> Iterator[tuple[bytes, bytes]]:
        _, data = self._read_block(offset, _DATA_MAGIC)
        position = 0
        while position < len(data):
            try:
                key_bytes, value_bytes, row_bytes = struct.unpack_from(">iih", data, position)
            except struct.error as error:
                raise self.corrupt(f"its data block at {offset} is cut off") from error
            value_start = position + 8 + key_bytes
            if not (0 <= row_bytes <= key_bytes and 0 <= value_bytes <= len(data) - value_start - 1):
                raise self.corrupt(f"its data block at {offset} has an entry beyond its end")
            row_start = position + 10
            yield data[row_start : row_start + row_bytes], data[value_start : value_start + value_bytes]
            _, position = decode_hadoop_varint(data, value_start + value_bytes)

    def _read_block(self, offset: int, magic: bytes) -> tuple[int, bytes]:
        header = self._read(offset, _BLOCK_HEADER.size)
        found, after_header, data_bytes, _, checksum_type, per_checksum, with_header = _BLOCK_HEADER.unpack(
            header
        )
        is_compressed = self._trailer.is_compressed
        stored_bytes = with_header - _BLOCK_HEADER.size if is_compressed else data_bytes
        if found != magic or not 0 <= stored_bytes <= after_header <= self._body_bytes - offset:
            raise self.corrupt(f"there is no {magic.decode()} block at {offset}")
        block = self._read(offset, _BLOCK_HEADER.size + after_header)
        stop = _BLOCK_HEADER.size + stored_bytes
        has_checksums = checksum_type == _CHECKSUM_CRC32C and per_checksum == BYTES_PER_CHECKSUM
        if has_checksums and _checksums(memoryview(block)[:stop]) != block[stop:]:
            raise self.corrupt(f"the checksum of its block at {offset} is wrong")
        data = block[_BLOCK_HEADER.size : stop]
        if is_compressed:
            data = self._decompressed(data, data_bytes, offset)
        return offset + _BLOCK_HEADER.size + after_header, data

    def _decompressed(self, data: bytes, length: int, offset: int) -> bytes:
        try:
            decompressed = zlib.decompress(data, _GZIP_WINDOW, max(length, 1))
        except zlib.error as error:
            raise self.corrupt(f"its block at {offset} cannot be decompressed") from error
        if len(decompressed) != length:
            raise self.corrupt(f"its block at {offset} has {len(decompressed)} bytes, its header {length}")
        return decompressed

    def _read(self, offset: int, count: int) -> bytes:
        if offset < 0:
            raise self.corrupt(f"it points to offset {offset}")
        for start, content in (self._ahead, self._tail):
            if start <= offset and offset + count <= start + len(content):
                return content[offset - start : offset - start + count]
        self._source.seek(offset)
        data = self._source.read(count)
        if len(data) != count:
            raise self.corrupt(f"it ends within the block at {offset}")
        return data

    def _part(self, start: int, stop: int) -> tuple[int, bytes]:
        """The bytes from `start` to `stop`, less if the file ends before."""
        self._source.seek(start)
        return start, self._source.read(stop - start)

    def corrupt(self, what: str) -> CorruptTableError:
        """The error that the file is damaged."""
        return CorruptTableError(
            f"cannot read {self._name}: {what}",
            hint="the file is damaged; restore it from a copy of the table",
        )
