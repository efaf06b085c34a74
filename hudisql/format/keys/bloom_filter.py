"""Hudi's dynamic bloom filter (type code DYNAMIC_V0) over record keys, byte for byte.

Follows Hudi's `HoodieDynamicBoundedBloomFilter` and `InternalDynamicBloomFilter`: a matrix of equally sized
bit rows, Hadoop's chained Murmur hashes, base64 of the big-endian serialisation in the parquet footer. Whole
key columns are hashed by compiled code over Arrow's buffers, loaded when a filter is first used. This module
knows no parquet.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import CorruptTableError

TYPE_CODE = "DYNAMIC_V0"
DEFAULT_MAX_ENTRIES = 100_000
_SERIAL_VERSION = -1
_MURMUR = 1
_ROW_HEADER = struct.Struct(">iibi")
_MATRIX_HEADER = struct.Struct(">iii")
_LARGEST_VECTOR = 2**31 - 1

_Bytes = npt.NDArray[np.uint8]
_Offsets = npt.NDArray[np.int64]


class BloomFilter:
    """A growing filter: `add` key columns, ask `might_contain`, `to_base64` for the footer.

    Sized for `entries` keys at false-positive rate `fpp`. More keys add bit rows up to `max_entries`; further
    keys go to these rows in turn, and the rate rises, as in Hudi.
    """

    def __init__(self, entries: int, fpp: float, max_entries: int = DEFAULT_MAX_ENTRIES) -> None:
        vector_size = vector_bits(entries, fpp)
        self.entries_per_row = entries
        self.vector_size = vector_size
        self.hash_count = math.ceil(math.log(2) * vector_size / entries)
        self.rows: list[_Bytes] = [self._empty_row()]
        self.keys_in_current_row = 0
        self._max_entries = max_entries
        self._is_full = False
        self._next_row = 0

    def add(self, keys: pa.Array | pa.ChunkedArray) -> None:
        """Add a column of string keys; nulls are left out."""
        for chunk in _chunks(keys):
            start = 0
            while start < len(chunk):
                start += self._add_run(chunk.slice(start))

    def might_contain(self, keys: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
        """For each key False if it was certainly never added; True for null keys, as in Hudi."""
        from hudisql.format.keys.bloom_kernels import test_bits

        found = []
        for chunk in keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]:
            offsets, data = string_buffers(chunk)
            answer = np.zeros(len(chunk), dtype=np.bool_)
            for row in self.rows:
                answer |= test_bits(offsets, data, row, self.vector_size, self.hash_count)
            if chunk.null_count:
                answer |= chunk.is_null().to_numpy(zero_copy_only=False)
            found.append(answer)
        return np.concatenate(found) if found else np.zeros(0, dtype=np.bool_)

    def to_base64(self) -> str:
        """The filter as Hudi stores it in the footer key `org.apache.hudi.bloomfilter`."""
        row_header = _ROW_HEADER.pack(_SERIAL_VERSION, self.hash_count, _MURMUR, self.vector_size)
        parts = [
            row_header,
            _MATRIX_HEADER.pack(self.entries_per_row, self.keys_in_current_row, len(self.rows)),
        ]
        for row in self.rows:
            parts += [row_header, row.tobytes()]
        return base64.b64encode(b"".join(parts)).decode("ascii")

    def _add_run(self, keys: pa.Array) -> int:
        """Add the leading keys of the same row (in a full matrix all keys); returns their number."""
        if self._is_full:
            for number in range(len(self.rows)):
                row = self.rows[(self._next_row + number) % len(self.rows)]
                if len(self.rows) == 1:
                    self._set_bits(keys, row)
                else:
                    self._set_bits(keys.take(pa.array(np.arange(number, len(keys), len(self.rows)))), row)
            self._next_row += len(keys)
            self.keys_in_current_row += len(keys)
            return len(keys)
        if self.keys_in_current_row < self.entries_per_row:
            count = min(self.entries_per_row - self.keys_in_current_row, len(keys))
            row = self.rows[-1]
        elif len(self.rows) * self.entries_per_row < self._max_entries:
            self.rows.append(self._empty_row())
            self.keys_in_current_row = 0
            return 0
        else:
            # Hudi puts the first key after the matrix is full into row 0, and the next keys into the rows in
            # turn.
            self._is_full = True
            count, row = 1, self.rows[0]
        self._set_bits(keys.slice(0, count), row)
        self.keys_in_current_row += count
        return count

    def _set_bits(self, keys: pa.Array, row: _Bytes) -> None:
        from hudisql.format.keys.bloom_kernels import set_bits

        offsets, data = string_buffers(keys)
        set_bits(offsets, data, row, self.vector_size, self.hash_count)

    def _empty_row(self) -> _Bytes:
        return np.zeros((self.vector_size + 7) // 8, dtype=np.uint8)


def vector_bits(entries: int, fpp: float) -> int:
    """Bits of a filter row for `entries` keys at rate `fpp`; ValueError beyond what Hudi can store."""
    if entries < 1 or not 0 < fpp < 1:
        raise ValueError(f"a bloom filter needs entries >= 1 and 0 < fpp < 1, not {entries} and {fpp}")
    bits = math.ceil(entries * (-math.log(fpp) / (math.log(2) * math.log(2))))
    if bits > _LARGEST_VECTOR:
        raise ValueError(f"a bloom filter of {entries} entries at fpp {fpp} has more than 2^31 bits")
    return bits


def parse_bloom_filter(text: str | bytes) -> BloomFilter:
    """The filter stored in a footer. Raises CorruptTableError if it is not one of type DYNAMIC_V0."""
    try:
        content = base64.b64decode(text, validate=True)
        version, hash_count, hash_type, vector_size = _ROW_HEADER.unpack_from(content)
        entries, keys_in_current_row, row_count = _MATRIX_HEADER.unpack_from(content, _ROW_HEADER.size)
    except (binascii.Error, struct.error, ValueError) as error:
        raise CorruptTableError(f"not a bloom filter: {error}") from error
    row_bytes = (vector_size + 7) // 8
    position = _ROW_HEADER.size + _MATRIX_HEADER.size
    is_sound = (
        (version, hash_type) == (_SERIAL_VERSION, _MURMUR)
        and vector_size > 0
        and row_count > 0
        and len(content) == position + row_count * (_ROW_HEADER.size + row_bytes)
    )
    if not is_sound:
        raise CorruptTableError(
            f"not a bloom filter of type {TYPE_CODE}: version {version}, hash type {hash_type}, "
            f"{vector_size} bits, {row_count} rows in {len(content)} bytes"
        )
    bloom_filter = BloomFilter.__new__(BloomFilter)
    bloom_filter.__dict__.update(
        entries_per_row=entries,
        vector_size=vector_size,
        hash_count=hash_count,
        keys_in_current_row=keys_in_current_row,
        _max_entries=DEFAULT_MAX_ENTRIES,
        _is_full=False,
        _next_row=0,
    )
    bloom_filter.rows = []
    for _ in range(row_count):
        position += _ROW_HEADER.size
        bloom_filter.rows.append(np.frombuffer(content, np.uint8, row_bytes, position).copy())
        position += row_bytes
    return bloom_filter


def _chunks(keys: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    chunks = keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]
    return [chunk.drop_null() if chunk.null_count else chunk for chunk in chunks]


def string_buffers(keys: pa.Array) -> tuple[_Offsets, _Bytes]:
    """Offsets (one more than keys) and bytes of a string column, without copying the bytes."""
    if pa.types.is_dictionary(keys.type) or not (
        pa.types.is_string(keys.type) or pa.types.is_large_string(keys.type)
    ):
        keys = pc.cast(keys, pa.string())
    _, offset_buffer, data_buffer = keys.buffers()
    if len(keys) == 0 or offset_buffer is None:
        return np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.uint8)
    offset_type = np.int64 if pa.types.is_large_string(keys.type) else np.int32
    offsets = np.frombuffer(offset_buffer, dtype=offset_type)[keys.offset : keys.offset + len(keys) + 1]
    data = np.zeros(0, dtype=np.uint8) if data_buffer is None else np.frombuffer(data_buffer, dtype=np.uint8)
    return offsets.astype(np.int64), data
