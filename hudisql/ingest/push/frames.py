"""The frames of the write-ahead log as bytes: one pushed batch of one table each.

A frame is a header, the table's name, the idempotency key and the payload. The checksum covers everything but
itself, so that an incomplete frame is detected. `synced` says up to which offset of its segment the log was
durable when the frame was written: a whole frame after a broken one shows by it whether the broken one had
been acknowledged. Knows no files.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from hudisql.errors import InvalidArgumentError

FRAME_MAGIC: Final = b"hPf1"
MAXIMUM_PAYLOAD_BYTES: Final = 1 << 30
_MAXIMUM_TABLE_BYTES: Final = 1024
MAXIMUM_KEY_BYTES: Final = 255
# magic, checksum | payload length, synced offset, rows, length of the table's name, format, length of the
# key, sequence, milliseconds since 1970
_HEADER: Final = struct.Struct("<4sI")
_FIELDS: Final = struct.Struct("<IIIHBBQQ")
FRAME_OVERHEAD: Final = _HEADER.size + _FIELDS.size


class PayloadFormat(IntEnum):
    """What the bytes of a payload are."""

    NDJSON = 1
    ARROW_STREAM = 2


@dataclass(frozen=True)
class NewFrame:
    """A batch to append: `rows` as counted by the check, `key` the client's idempotency key or empty."""

    table: str
    format: PayloadFormat
    payload: bytes
    rows: int = 0
    key: str = ""

    def __post_init__(self) -> None:
        if not 0 < len(self.table.encode()) <= _MAXIMUM_TABLE_BYTES:
            raise InvalidArgumentError(
                f"a table's name takes 1 to {_MAXIMUM_TABLE_BYTES} bytes, not {self.table!r}"
            )
        if len(self.key.encode()) > MAXIMUM_KEY_BYTES:
            raise InvalidArgumentError(f"an idempotency key takes at most {MAXIMUM_KEY_BYTES} bytes")
        if len(self.payload) > MAXIMUM_PAYLOAD_BYTES:
            raise InvalidArgumentError(
                f"a batch for {self.table} has {len(self.payload)} bytes, more than {MAXIMUM_PAYLOAD_BYTES}",
                hint="push smaller batches",
            )

    @property
    def size(self) -> int:
        """Bytes that the frame takes in the log."""
        return FRAME_OVERHEAD + len(self.table.encode()) + len(self.key.encode()) + len(self.payload)


@dataclass(frozen=True, slots=True)
class FrameHeader:
    """The header of a frame, and its place: `offset` and `size` in its segment.

    `payload_checksum` is 0 for frames without an idempotency key.
    """

    table: str
    format: PayloadFormat
    sequence: int
    rows: int
    key: str
    arrival_ms: int
    payload_bytes: int
    payload_checksum: int
    synced: int
    offset: int
    size: int

    @property
    def payload_offset(self) -> int:
        """Where the payload begins in the segment."""
        return self.offset + self.size - self.payload_bytes


@dataclass(frozen=True, slots=True)
class Frame:
    """A durable batch of the log."""

    header: FrameHeader
    payload: bytes

    @property
    def sequence(self) -> int:
        """The number under which the client's push was acknowledged."""
        return self.header.sequence


def encode_frame(frame: NewFrame, seed: int, *, sequence: int, synced: int, arrival_ms: int) -> list[bytes]:
    """The frame's bytes in parts, the payload uncopied."""
    table, key = frame.table.encode(), frame.key.encode()
    fields = _FIELDS.pack(
        len(frame.payload), synced, frame.rows, len(table), frame.format, len(key), sequence, arrival_ms
    )
    described = fields + table + key
    checksum = zlib.crc32(frame.payload, zlib.crc32(described, seed))
    return [_HEADER.pack(FRAME_MAGIC, checksum) + described, frame.payload]


def decode_frame(data: memoryview, offset: int, seed: int) -> FrameHeader | None:
    """The frame at `offset` of a segment's bytes; None without a whole frame."""
    described_at = offset + _HEADER.size
    start = described_at + _FIELDS.size
    if start > len(data):
        return None
    magic, checksum = _HEADER.unpack_from(data, offset)
    if magic != FRAME_MAGIC:
        return None
    payload_bytes, synced, rows, table_bytes, format_, key_bytes, sequence, arrival_ms = _FIELDS.unpack_from(
        data, described_at
    )
    payload_at = start + table_bytes + key_bytes
    end = payload_at + payload_bytes
    if end > len(data) or zlib.crc32(data[described_at:end], seed) != checksum:
        return None
    return FrameHeader(
        table=bytes(data[start : start + table_bytes]).decode(),
        format=PayloadFormat(format_),
        sequence=sequence,
        rows=rows,
        key=bytes(data[start + table_bytes : payload_at]).decode(),
        arrival_ms=arrival_ms,
        payload_bytes=payload_bytes,
        payload_checksum=zlib.crc32(data[payload_at:end]) if key_bytes else 0,
        synced=synced,
        offset=offset,
        size=end - offset,
    )


def decode_frames(data: memoryview, offset: int, seed: int) -> Iterator[FrameHeader]:
    """The whole frames from `offset` on, up to the first place where none begins."""
    while (header := decode_frame(data, offset, seed)) is not None:
        yield header
        offset += header.size


def acknowledged_after(data: memoryview, broken_at: int, seed: int) -> bool:
    """Whether a whole frame behind the broken one at `broken_at` was written when that one was durable."""
    content = data.obj
    assert isinstance(content, bytes)
    position = content.find(FRAME_MAGIC, broken_at + 1)
    while position >= 0:
        header = decode_frame(data, position, seed)
        if header is not None and header.synced > broken_at:
            return True
        position = content.find(FRAME_MAGIC, position + 1)
    return False
