"""Log blocks: the framing of merge-on-read log files, read and written as bytes.

Follows `HoodieLogFormat`, `HoodieLogFileReader` and `HoodieLogBlock` of Hudi 0.15 (log format version 1). A
block that is torn or damaged is skipped, and reading goes on at the next magic, as Hudi does. It must not
know what a block's content means, nor which blocks count.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from hudisql.errors import UnsupportedTableError

MAGIC = b"#HUDI#"
LOG_FORMAT_VERSION = 1
ROLLBACK_BLOCK = "0"
"""Value of the header COMMAND_BLOCK_TYPE: forget what the target instant wrote."""

_LENGTH_BYTES = 8
_SMALLEST_BLOCK = 4 + 4 + 4 + 8 + 4 + _LENGTH_BYTES


class BlockType(IntEnum):
    """What a block holds (Hudi's `HoodieLogBlockType`, by ordinal)."""

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


@dataclass(frozen=True, slots=True)
class LogBlock:
    """One whole block. Header and footer go by ordinal; keys that we don't know are kept."""

    block_type: BlockType
    header: Mapping[int, str]
    content: memoryview | bytes = b""
    footer: Mapping[int, str] = field(default_factory=dict)

    @property
    def instant_time(self) -> str:
        """The instant that wrote the block ("" if its header does not say)."""
        return self.header.get(HeaderKey.INSTANT_TIME, "")

    @property
    def is_rollback(self) -> bool:
        """True if the block takes back what `TARGET_INSTANT_TIME` wrote."""
        return (
            self.block_type is BlockType.COMMAND
            and self.header.get(HeaderKey.COMMAND_BLOCK_TYPE) == ROLLBACK_BLOCK
        )


@dataclass(frozen=True, slots=True)
class CorruptBlock:
    """Bytes [start, stop) of a log file that are no whole block."""

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


def parse_log_blocks(content: bytes, name: str) -> Iterator[LogBlock | CorruptBlock]:
    """The blocks of a log file in order; contents are views into `content`.

    `name` stands in errors. Raises UnsupportedTableError for a log format version or block type that is
    unknown in a block that is whole.
    """
    view = memoryview(content)
    position = 0
    while position < len(content):
        stop = _end_of_block(content, position)
        if stop is None:
            found = content.find(MAGIC, position + 1)
            stop = found if found >= 0 else len(content)
            yield CorruptBlock(position, stop)
        else:
            start = position + len(MAGIC) + _LENGTH_BYTES
            block = _parse_body(view[start : stop - _LENGTH_BYTES], name)
            yield block if block is not None else CorruptBlock(position, stop)
        position = stop


def _end_of_block(content: bytes, position: int) -> int | None:
    """Where the block at `position` ends, or None if it is not whole.

    Whole means: the magic stands before it, both lengths agree, and the file's end or a magic comes after.
    """
    start = position + len(MAGIC)
    if content[position:start] != MAGIC or start + _LENGTH_BYTES > len(content):
        return None
    (length,) = struct.unpack_from(">q", content, start)
    stop = int(start + _LENGTH_BYTES + length)
    if length < _SMALLEST_BLOCK or stop > len(content):
        return None
    (trailing,) = struct.unpack_from(">q", content, stop - _LENGTH_BYTES)
    if trailing != length + len(MAGIC):
        return None
    # Hudi takes what is shorter than a magic for the file's end.
    ends_file = stop + len(MAGIC) > len(content)
    return stop if ends_file or content.startswith(MAGIC, stop) else None


def _parse_body(body: memoryview, name: str) -> LogBlock | None:
    version, kind = struct.unpack_from(">ii", body, 0)
    if version != LOG_FORMAT_VERSION:
        raise UnsupportedTableError(
            f"the log file {name} has a block of log format version {version}; version 1 is read"
        )
    if kind not in BlockType.__members__.values():
        raise UnsupportedTableError(f"the log file {name} has a block of the unknown type {kind}")
    try:
        header, position = _decode_metadata(body, 8)
        (length,) = struct.unpack_from(">q", body, position)
        position += _LENGTH_BYTES
        if length < 0 or position + length > len(body):
            return None
        footer, _ = _decode_metadata(body, position + length)
    except (struct.error, UnicodeDecodeError):
        return None
    return LogBlock(BlockType(kind), header, body[position : position + length], footer)


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
