"""Log blocks: the framing of merge-on-read log files, read and written as bytes.

Follows `HoodieLogFormat`, `HoodieLogFileReader` and `HoodieLogBlock` of Hudi 0.15 (log format version 1). A
block that is torn or damaged is skipped, and reading goes on at the next magic, as Hudi does. Does not
interpret contents, and does not decide which blocks are merged.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Protocol

from hudisql.errors import UnsupportedTableError

MAGIC = b"#HUDI#"
LOG_FORMAT_VERSION = 1
ROLLBACK_BLOCK = "0"
"""Value of the header COMMAND_BLOCK_TYPE: forget what the target instant wrote."""

_LENGTH_BYTES = 8
_HEAD_BYTES = 64 * 1024
_SEARCHED_BYTES = 1024 * 1024
_SMALLEST_BLOCK = 4 + 4 + 4 + 8 + 4 + _LENGTH_BYTES


class BlockType(IntEnum):
    """The kind of a block's content (Hudi's `HoodieLogBlockType`, by ordinal)."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6


class HeaderKey(IntEnum):
    """Keys of a block's header (Hudi's `HeaderMetadataType`, by ordinal)."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


class _Described:
    """The header of a block."""

    __slots__ = ()
    block_type: BlockType
    header: Mapping[int, str]

    @property
    def instant_time(self) -> str:
        """The instant that wrote the block ("" if its header does not say)."""
        return self.header.get(HeaderKey.INSTANT_TIME, "")

    @property
    def is_partial(self) -> bool:
        """True if its rows hold a part of the columns, those of its schema, and keep the others."""
        return self.header.get(HeaderKey.IS_PARTIAL, "").lower() == "true"

    @property
    def is_rollback(self) -> bool:
        """True if the block rolls back what `TARGET_INSTANT_TIME` wrote."""
        return (
            self.block_type is BlockType.COMMAND
            and self.header.get(HeaderKey.COMMAND_BLOCK_TYPE) == ROLLBACK_BLOCK
        )


@dataclass(frozen=True, slots=True)
class LogBlock(_Described):
    """One whole block. Header and footer are keyed by ordinal; unknown keys are kept."""

    block_type: BlockType
    header: Mapping[int, str]
    content: memoryview | bytes = b""
    footer: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LogBlockHead(_Described):
    """A whole block without its content, which is bytes [start, stop) of the log file."""

    block_type: BlockType
    header: Mapping[int, str]
    start: int
    stop: int
    footer: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CorruptBlock:
    """Bytes [start, stop) of a log file that are not a complete block."""

    start: int
    stop: int


def encode_log_block(block: LogBlock) -> bytes:
    """The block's bytes from its magic to its trailing length."""
    content = bytes(block.content)
    body = b"".join(
        (
            struct.pack(">ii", LOG_FORMAT_VERSION, block.block_type),
            _encode_metadata(block.header),
            struct.pack(">q", len(content)),
            content,
            _encode_metadata(block.footer),
        )
    )
    length = len(body) + _LENGTH_BYTES
    return b"".join((MAGIC, struct.pack(">q", length), body, struct.pack(">q", length + len(MAGIC))))


def rollback_block(instant_time: str, target_instant_time: str) -> LogBlock:
    """A block by which readers ignore the earlier blocks of `target_instant_time` in the slice's logs."""
    header: Mapping[int, str] = {
        HeaderKey.COMMAND_BLOCK_TYPE: ROLLBACK_BLOCK,
        HeaderKey.INSTANT_TIME: instant_time,
        HeaderKey.TARGET_INSTANT_TIME: target_instant_time,
    }
    return LogBlock(BlockType.COMMAND, header)


def parse_log_blocks(content: bytes, name: str) -> Iterator[LogBlock | CorruptBlock]:
    """The blocks of a log file in order; contents are views into `content`.

    `name` stands in errors. Raises UnsupportedTableError if a complete block has an unknown log format
    version or block type.
    """
    view = memoryview(content)
    for corrupt_block in _scan(lambda start, count: view[start : start + count], len(content), name):
        if isinstance(corrupt_block, CorruptBlock):
            yield corrupt_block
        else:
            yield LogBlock(
                corrupt_block.block_type,
                corrupt_block.header,
                view[corrupt_block.start : corrupt_block.stop],
                corrupt_block.footer,
            )


def scan_log_blocks(
    source: RandomAccess, name: str, *, window_bytes: int = 256 * 1024
) -> Iterator[LogBlockHead | CorruptBlock]:
    """The blocks of an open log file in order, without their contents: memory is bounded by the window.

    Makes about one read a block. Raises UnsupportedTableError, StorageError.
    """
    return _scan(_Window(source, window_bytes).peek, source.size(), name)


class RandomAccess(Protocol):
    """The methods of pyarrow's NativeFile that a scan uses."""

    def size(self) -> int:
        """The file's length in bytes."""

    def read_at(self, nbytes: int, offset: int) -> bytes:
        """Bytes from `offset` on, fewer at the file's end."""


class _Window:
    """The part of a file that was read last."""

    def __init__(self, source: RandomAccess, window_bytes: int) -> None:
        self._source = source
        self._window_bytes = window_bytes
        self._start = 0
        self._bytes = memoryview(b"")

    def peek(self, start: int, count: int) -> memoryview:
        """Bytes [start, start + count), fewer at the file's end."""
        if start < self._start or start + count > self._start + len(self._bytes):
            # A block's footer lies before its end, which is read first.
            self._start = max(0, start - self._window_bytes // 16)
            wanted = max(start + count - self._start, self._window_bytes)
            self._bytes = memoryview(self._source.read_at(wanted, self._start))
        return self._bytes[start - self._start : start - self._start + count]


_Peek = Callable[[int, int], memoryview]


def _scan(peek: _Peek, length: int, name: str) -> Iterator[LogBlockHead | CorruptBlock]:
    position = 0
    while position < length:
        stop = _end_of_block(peek, length, position)
        if stop is None:
            stop = _next_magic(peek, length, position + 1)
            yield CorruptBlock(position, stop)
        else:
            start = position + len(MAGIC) + _LENGTH_BYTES
            head = _head_of(peek, start, stop - _LENGTH_BYTES, name)
            yield head if head is not None else CorruptBlock(position, stop)
        position = stop


def _end_of_block(peek: _Peek, length: int, position: int) -> int | None:
    """The end of the block at `position`, or None if the block is not complete.

    A complete block follows the magic, has two equal lengths, and is followed by the file's end or a magic.
    """
    start = position + len(MAGIC) + _LENGTH_BYTES
    opening = bytes(peek(position, len(MAGIC) + _LENGTH_BYTES))
    if start > length or not opening.startswith(MAGIC):
        return None
    (body,) = struct.unpack_from(">q", opening, len(MAGIC))
    stop = int(start + body)
    if body < _SMALLEST_BLOCK or stop > length:
        return None
    closing = bytes(peek(stop - _LENGTH_BYTES, _LENGTH_BYTES + len(MAGIC)))
    (trailing,) = struct.unpack_from(">q", closing, 0)
    if trailing != body + len(MAGIC):
        return None
    # Hudi treats bytes shorter than a magic as the file's end.
    ends_file = stop + len(MAGIC) > length
    return stop if ends_file or closing.endswith(MAGIC) else None


def _next_magic(peek: _Peek, length: int, position: int) -> int:
    """Where the next magic stands, else the file's end."""
    while position < length:
        found = bytes(peek(position, _SEARCHED_BYTES)).find(MAGIC)
        if found >= 0:
            return position + found
        # A magic may lie across two windows.
        position += _SEARCHED_BYTES - len(MAGIC) + 1
    return length


def _head_of(peek: _Peek, start: int, stop: int, name: str) -> LogBlockHead | None:
    """The head of the block whose body is bytes [start, stop); None if it is not valid."""
    taken = min(stop - start, _HEAD_BYTES)
    body = peek(start, taken)
    version, kind = struct.unpack_from(">ii", body, 0)
    if version != LOG_FORMAT_VERSION:
        raise UnsupportedTableError(
            f"the log file {name} has a block of log format version {version}; version 1 is read"
        )
    if kind not in BlockType.__members__.values():
        raise UnsupportedTableError(f"the log file {name} has a block of the unknown type {kind}")
    while True:
        try:
            header, position = _decode_metadata(body, 8)
            (length,) = struct.unpack_from(">q", body, position)
            break
        except UnicodeDecodeError:
            return None
        except struct.error:
            # A long schema may reach beyond the bytes read so far.
            if taken == stop - start:
                return None
            taken = min(stop - start, taken * 8)
            body = peek(start, taken)
    first = start + position + _LENGTH_BYTES
    if length < 0 or first + length > stop:
        return None
    try:
        footer, _ = _decode_metadata(peek(first + length, stop - first - length), 0)
    except (struct.error, UnicodeDecodeError):
        return None
    return LogBlockHead(BlockType(kind), header, first, first + length, footer)


def _encode_metadata(entries: Mapping[int, str]) -> bytes:
    parts = [struct.pack(">i", len(entries))]
    for key, value in entries.items():
        text = value.encode()
        parts.append(struct.pack(">ii", key, len(text)) + text)
    return b"".join(parts)


def _decode_metadata(body: memoryview, position: int) -> tuple[dict[int, str], int]:
    (count,) = struct.unpack_from(">i", body, position)
    position += 4
    entries: dict[int, str] = {}
    for _ in range(count):
        key, length = struct.unpack_from(">ii", body, position)
        position += 8
        if length < 0 or position + length > len(body):
            raise struct.error("a header value reaches beyond its block")
        entries[key] = bytes(body[position : position + length]).decode()
        position += length
    return entries, position


NO_INSTANT: Final = "00000000000000"
"""Older than each instant (Hudi's `HoodieTimeline.INIT_INSTANT_TS`)."""

# Hudi 0.15 stops reading a slice's logs at a block that is later than the latest commit, so this one is not
# of the commit that wrote the file; and that commit may have other blocks in the slice, which count.
LOG_WITHOUT_ROWS: Final = encode_log_block(rollback_block(NO_INSTANT, "0"))
"""The content of a log file that has lost its rows: a block that rolls back nothing.

No other log file has its length: rows and deletes take more, Hudi's rollback blocks name longer instants, and
its delete blocks without deletes, in metadata tables, are shorter.
"""

LENGTHS_WITHOUT_ROWS: Final = frozenset({0, len(LOG_WITHOUT_ROWS)})
"""The lengths in bytes of log files that have lost their rows; 0 as of a writer that died."""
