"""Deletion vectors of format version 3: the positions of deleted rows of a data file, in a puffin file.

Follows the Puffin spec, "deletion-vector-v1" and "File structure", and the portable serialization of Roaring
bitmaps with its 64-bit extension (RoaringFormatSpec). Written are containers of arrays and of bits; runs are
read, too. Bytes only.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

_PUFFIN_MAGIC: Final = b"PFA1"
_VECTOR_MAGIC: Final = b"\xd1\xd3\x39\x64"
_ROW_POSITION: Final = 2147483645
"""The spec's field id of the position of a row, of which the blob tells."""
_WITHOUT_RUNS: Final = 12346
_WITH_RUNS: Final = 12347
_MOST_IN_ARRAY: Final = 4096
_BITMAP_BYTES: Final = 8192
_FEWEST_WITH_OFFSETS: Final = 4
BLOB_OFFSET: Final = len(_PUFFIN_MAGIC)
"""Where the only blob of a puffin file of hudisql begins."""

Positions = npt.NDArray[np.int64]


def write_puffin(positions: Positions, data_uri: str) -> tuple[bytes, int]:
    """A puffin file with one deletion vector, of rows of this data file, and the length of its blob.

    `positions` ascend and are different.
    """
    blob = write_vector(positions)
    described = {
        "type": "deletion-vector-v1",
        "fields": [_ROW_POSITION],
        # The spec's marks of a vector, which takes both from its manifest.
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": BLOB_OFFSET,
        "length": len(blob),
        "properties": {"referenced-data-file": data_uri, "cardinality": str(len(positions))},
    }
    payload = json.dumps({"blobs": [described], "properties": {"created-by": "hudisql"}}).encode()
    footer = _PUFFIN_MAGIC + payload + struct.pack("<iI", len(payload), 0) + _PUFFIN_MAGIC
    return _PUFFIN_MAGIC + blob + footer, len(blob)


def write_vector(positions: Positions) -> bytes:
    """The blob of a deletion vector; `positions` ascend and are different."""
    keys, starts = np.unique(positions >> 32, return_index=True)
    parts = [_VECTOR_MAGIC, struct.pack("<Q", len(keys))]
    for key, of_key in zip(keys, np.split(positions, starts[1:]), strict=False):
        parts += [struct.pack("<I", int(key)), _write_bitmap((of_key & 0xFFFFFFFF).astype(np.uint32))]
    body = b"".join(parts)
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def read_vector(blob: bytes) -> Positions:
    """The positions in the blob of a deletion vector, ascending. Raises ValueError for another content."""
    if len(blob) < 20 or blob[4:8] != _VECTOR_MAGIC:
        raise ValueError("it is not a deletion vector")
    body, length = blob[4:-4], struct.unpack(">I", blob[:4])[0]
    if length != len(body):
        raise ValueError(f"the deletion vector has {len(body)} bytes, and says {length}")
    if zlib.crc32(body) != struct.unpack(">I", blob[-4:])[0]:
        raise ValueError("the checksum of the deletion vector is wrong")
    try:
        return np.concatenate([np.empty(0, np.int64), *_read_bitmaps(body)])
    except (struct.error, ValueError) as error:
        raise ValueError(f"the deletion vector is cut short: {error}") from error


def _write_bitmap(values: npt.NDArray[np.uint32]) -> bytes:
    """A 32-bit bitmap of the values, which ascend."""
    keys, starts, counts = np.unique(values >> 16, return_index=True, return_counts=True)
    containers = [
        _write_container((values[start : start + count] & 0xFFFF).astype("<u2"))
        for start, count in zip(starts, counts, strict=True)
    ]
    described = np.stack([keys, counts - 1], axis=1).astype("<u2").tobytes()
    first = 8 + len(described) + 4 * len(containers)
    offsets = np.cumsum([first, *(len(container) for container in containers[:-1])]).astype("<u4")
    return (
        struct.pack("<II", _WITHOUT_RUNS, len(containers))
        + described
        + offsets.tobytes()
        + b"".join(containers)
    )


def _write_container(low: npt.NDArray[np.uint16]) -> bytes:
    if len(low) <= _MOST_IN_ARRAY:
        return low.tobytes()
    bits = np.zeros(1 << 16, np.bool_)
    bits[low] = True
    return np.packbits(bits, bitorder="little").tobytes()


def _read_bitmaps(body: bytes) -> Iterator[Positions]:
    (count,) = struct.unpack_from("<Q", body, 4)
    at = 12
    for _ in range(count):
        (key,) = struct.unpack_from("<I", body, at)
        at += 4
        described, runs, at = _read_header(body, at)
        for number, (high, last) in enumerate(described):
            low, at = _read_container(body, at, int(last) + 1, is_run=number in runs)
            yield (np.int64(key) << 32) + (np.int64(high) << 16) + low.astype(np.int64)


def _read_header(body: bytes, at: int) -> tuple[Any, frozenset[int], int]:
    """The key and the last place of each container, the numbers of those with runs, and where they begin."""
    (cookie,) = struct.unpack_from("<I", body, at)
    at += 4
    runs = frozenset[int]()
    if cookie == _WITHOUT_RUNS:
        (size,) = struct.unpack_from("<I", body, at)
        at += 4
    elif cookie & 0xFFFF == _WITH_RUNS:
        size = (cookie >> 16) + 1
        marks = np.frombuffer(body, np.uint8, (size + 7) // 8, at)
        runs = frozenset(np.flatnonzero(np.unpackbits(marks, bitorder="little")).tolist())
        at += len(marks)
    else:
        raise ValueError(f"the bitmap begins with {cookie}")
    described = np.frombuffer(body, "<u2", 2 * size, at).reshape(size, 2)
    at += 4 * size
    has_offsets = cookie == _WITHOUT_RUNS or size >= _FEWEST_WITH_OFFSETS
    return described, runs, at + (4 * size if has_offsets else 0)


def _read_container(body: bytes, at: int, count: int, *, is_run: bool) -> tuple[Any, int]:
    """The low halves of the values of a container, and where the next one begins."""
    if is_run:
        (runs,) = struct.unpack_from("<H", body, at)
        pairs = np.frombuffer(body, "<u2", 2 * runs, at + 2).reshape(runs, 2).astype(np.int64)
        values = [np.arange(start, start + length + 1) for start, length in pairs]
        return np.concatenate(values), at + 2 + 4 * runs
    if count <= _MOST_IN_ARRAY:
        return np.frombuffer(body, "<u2", count, at), at + 2 * count
    bits = np.frombuffer(body, np.uint8, _BITMAP_BYTES, at)
    return np.flatnonzero(np.unpackbits(bits, bitorder="little")), at + _BITMAP_BYTES
