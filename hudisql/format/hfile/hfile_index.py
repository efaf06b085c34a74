"""The index blocks of an HFile: its root, and from 128 KiB of index on the levels below.

Follows `HFileBlockIndex` of HBase 2.4. The root lists its entries one after the other; intermediate and leaf
blocks begin with the offset of each. This module knows nothing of blocks' headers, checksums and compression.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from hudisql.format.encoding.varints import decode_hadoop_varint, encode_hadoop_varint

_PLACE = struct.Struct(">qi")
_LEAST_KEY_BYTES = 2  # the length of the row


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A block: the first key in or below it in the form of the file, its offset and its bytes on disk."""

    key: bytes
    offset: int
    size: int


def decode_root_index(data: bytes, count: int) -> list[IndexEntry]:
    """The entries of a root block, behind which there may be more. Raises ValueError if it is cut off."""
    entries = []
    position = 0
    try:
        for _ in range(count):
            offset, size = _PLACE.unpack_from(data, position)
            length, start = decode_hadoop_varint(data, position + _PLACE.size)
            if length < _LEAST_KEY_BYTES:
                raise ValueError("its root index has a block without a key")
            position = start + length
            entries.append(IndexEntry(data[start:position], offset, size))
    except (struct.error, IndexError) as error:
        raise ValueError("its root index is cut off") from error
    if position > len(data):
        raise ValueError("its root index is cut off")
    return entries


def decode_lower_index(data: bytes) -> list[IndexEntry]:
    """The entries of an intermediate or leaf block. Raises ValueError if it is cut off."""
    try:
        (count,) = struct.unpack_from(">i", data)
        bounds = struct.unpack_from(f">{count + 1}i", data, 4)
    except struct.error as error:
        raise ValueError("an index block is cut off") from error
    first = 4 + 4 * len(bounds)
    if bounds[0] != 0 or first + bounds[-1] > len(data):
        raise ValueError("an index block is cut off")
    entries = []
    for start, stop in pairwise(bounds):
        key_start = first + start + _PLACE.size
        if first + stop < key_start + _LEAST_KEY_BYTES:
            raise ValueError("an index block names a block without a key")
        offset, size = _PLACE.unpack_from(data, first + start)
        entries.append(IndexEntry(data[key_start : first + stop], offset, size))
    return entries


def encode_root_index(entries: Iterable[IndexEntry]) -> bytes:
    """The content of a root block with these entries."""
    return b"".join(
        _PLACE.pack(entry.offset, entry.size) + encode_hadoop_varint(len(entry.key)) + entry.key
        for entry in entries
    )
