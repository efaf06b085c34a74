"""Deletion vectors: CRoaring and PyIceberg read what hudisql writes, and hudisql what CRoaring writes."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile
from pyroaring import BitMap64

from hudisql.iceberg.deletion_vectors import BLOB_OFFSET, read_vector, write_puffin, write_vector

_RANGES = st.tuples(
    st.sampled_from([0, 1, 4095, 65_530, 65_536, 200_000, 2**32 - 3, 2**32, 3 * 2**33 + 7]),
    st.sampled_from([1, 2, 5000, 70_000]),
    st.sampled_from([1, 2, 3]),
)


def _positions(ranges: list[tuple[int, int, int]]) -> Any:
    parts = [np.arange(first, first + length, step) for first, length, step in ranges]
    return np.unique(np.concatenate([np.empty(0, np.int64), *parts]))


def _blob(bitmap: bytes) -> bytes:
    body = b"\xd1\xd3\x39\x64" + bitmap
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


@given(st.lists(_RANGES, max_size=4).map(_positions), st.booleans())
def test_bitmaps_are_those_of_croaring(positions: Any, is_optimized: bool) -> None:
    blob = write_vector(positions)
    bitmap = BitMap64.deserialize(blob[8:-4])
    assert list(bitmap) == positions.tolist()
    assert blob == _blob(bitmap.serialize())
    assert read_vector(blob).tolist() == positions.tolist()
    theirs = BitMap64(positions.tolist())
    if is_optimized:
        theirs.run_optimize()
    assert read_vector(_blob(theirs.serialize())).tolist() == positions.tolist()


def test_pyiceberg_reads_the_puffin_file() -> None:
    positions = np.array([0, 3, 70_000, 2**33], np.int64)
    content, length = write_puffin(positions, "file:/a b/x%2Fy.parquet")
    puffin = PuffinFile(content)
    [blob] = puffin.footer.blobs
    assert (blob.offset, blob.length) == (BLOB_OFFSET, length)
    assert (blob.properties["cardinality"], blob.snapshot_id, blob.sequence_number) == ("4", -1, -1)
    [vector] = deletion_vectors_from_puffin_file(puffin)
    assert vector.referenced_data_file == "file:/a b/x%2Fy.parquet"
    assert vector.to_vector().to_pylist() == positions.tolist()
    assert read_vector(content[BLOB_OFFSET : BLOB_OFFSET + length]).tolist() == positions.tolist()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda blob: blob[:-1], "says"),
        (lambda blob: blob[:-6] + b"\0\0" + blob[-4:], "checksum"),
        (lambda blob: b"PAR1" + blob[8:], "is not a deletion vector"),
        (lambda blob: blob[:3], "is not a deletion vector"),
    ],
)
def test_damaged_vectors_are_refused(change: Any, problem: str) -> None:
    blob = write_vector(np.array([1, 2, 300], np.int64))
    with pytest.raises(ValueError, match=problem):
        read_vector(change(blob))
    truncated = blob[4:-6]
    with pytest.raises(ValueError, match="cut short"):
        read_vector(_blob(truncated[4:-2]))
