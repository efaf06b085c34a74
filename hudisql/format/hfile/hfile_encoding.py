"""The encodings inside an HFile: CRC-32C and protobuf fields.

Follows RFC 3720 (CRC-32C) and the protobuf wire format. Knows no HFile structure.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import numpy.typing as npt

from hudisql.format.encoding.varints import decode_protobuf_varint, encode_protobuf_varint

BYTES_PER_CHECKSUM = 16384
_SEGMENT_BYTES = 128


def crc32c(data: bytes | memoryview) -> int:
    """CRC-32C (Castagnoli) of at most 16,384 bytes, the checksum of an HFile's chunk."""
    count = len(data)
    if count > BYTES_PER_CHECKSUM:
        raise ValueError(f"crc32c takes at most {BYTES_PER_CHECKSUM} bytes, not {count}")
    in_segment, past_segments = _crc32c_tables()
    if count < 4:
        register = 0xFFFFFFFF
        for byte in bytes(data):
            register = register >> 8 ^ int(in_segment[-1][(register ^ byte) & 0xFF])
        return register ^ 0xFFFFFFFF
    # A CRC is linear over XOR: a byte adds a value that depends only on it and on its distance from the end.
    # Zeros in front add nothing, and the start value all-ones equals four inverted first bytes.
    segments = -(-count // _SEGMENT_BYTES)
    padded = np.zeros(segments * _SEGMENT_BYTES, dtype=np.uint8)
    padded[-count:] = np.frombuffer(data, dtype=np.uint8)
    padded[len(padded) - count : len(padded) - count + 4] ^= 0xFF
    values = in_segment[np.arange(_SEGMENT_BYTES), padded.reshape(segments, _SEGMENT_BYTES)]
    remainders = np.bitwise_xor.reduce(values, axis=1).astype("<u4")
    last = int(remainders[-1])
    if segments > 1:
        moved = remainders[:-1].view(np.uint8).reshape(segments - 1, 4)
        after = np.arange(segments - 1, 0, -1)[:, None]
        last ^= int(np.bitwise_xor.reduce(past_segments[after, np.arange(4), moved], axis=None))
    return last ^ 0xFFFFFFFF


def checksums_of_chunks(content: bytes | memoryview) -> bytes:
    """The CRC-32C of each chunk of 16,384 bytes as big-endian numbers, by compiled code."""
    from hudisql.format.hfile import hfile_kernels

    found = np.empty(-(-len(content) // BYTES_PER_CHECKSUM), np.uint32)
    data = np.frombuffer(content, np.uint8)
    hfile_kernels.checksums(data, BYTES_PER_CHECKSUM, _chunk_tables(), found)
    return found.astype(">u4").tobytes()


@cache
def _chunk_tables() -> npt.NDArray[np.uint32]:
    from hudisql.format.hfile import hfile_kernels

    tables: npt.NDArray[np.uint32] = hfile_kernels.checksum_tables()
    return tables


@cache
def _crc32c_tables() -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """The CRCs of bytes by position in a segment, and of remaining bytes by the segments behind them."""
    base = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        base = np.where(base & 1, (base >> 1) ^ np.uint32(0x82F63B78), base >> 1).astype(np.uint32)
    in_segment = np.empty((_SEGMENT_BYTES, 256), dtype=np.uint32)
    in_segment[-1] = base
    for position in range(_SEGMENT_BYTES - 2, -1, -1):
        following = in_segment[position + 1]
        in_segment[position] = (following >> np.uint32(8)) ^ base[following & np.uint32(0xFF)]
    past_segments = np.zeros((BYTES_PER_CHECKSUM // _SEGMENT_BYTES, 4, 256), dtype=np.uint32)
    past_segments[1] = in_segment[:4]
    for segment in range(2, len(past_segments)):
        moved = past_segments[segment - 1]
        for byte in range(4):
            past_segments[segment] ^= in_segment[byte][(moved >> np.uint32(8 * byte)) & np.uint32(0xFF)]
    return in_segment, past_segments


def protobuf_bytes(number: int, content: bytes) -> bytes:
    """A length-delimited field."""
    return encode_protobuf_varint(number << 3 | 2) + encode_protobuf_varint(len(content)) + content


def protobuf_fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message as `(number, value)`; ValueError for wire types that HFiles do not use."""
    position = 0
    while position < len(message):
        tag, position = decode_protobuf_varint(message, position)
        if tag & 7 == 0:
            value, position = decode_protobuf_varint(message, position)
            yield tag >> 3, value
        elif tag & 7 == 2:
            size, position = decode_protobuf_varint(message, position)
            yield tag >> 3, message[position : position + size]
            position += size
        else:
            raise ValueError(f"protobuf wire type {tag & 7}")


def as_int(value: int | bytes) -> int:
    """The value of a varint field; ValueError if the field was length-delimited."""
    if isinstance(value, int):
        return value
    raise ValueError("a number was expected")


def as_bytes(value: int | bytes) -> bytes:
    """The value of a length-delimited field; ValueError if the field was a varint."""
    if isinstance(value, bytes):
        return value
    raise ValueError("bytes were expected")
