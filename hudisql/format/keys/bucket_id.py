"""Hudi's bucket index: which bucket a record key belongs to, and what a bucket's file ids look like.

Follows `BucketIdentifier` and `KeyGenUtils.extractRecordKeysByFields` of Hudi 0.15 and 1.2, whose hash is
that of a Java list of texts. Whole key columns; knows no tables.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.format.keys.bloom_filter import string_buffers

_DIGITS: Final = 8
_FILE_ID = re.compile(r"(\d{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(-\d+)?", re.ASCII)
PLACEHOLDERS: Final = ("__null__", "__empty__")
"""Parts of complex keys that stand for null and for the empty text."""


FIRST_VERSION_OF_1X: Final = 8
"""Tables of this version and later ones are written by Hudi 1.x alone."""


def bucket_ids(
    keys: pa.Array, fields: Sequence[str], count: int, *, version: int = 6
) -> npt.NDArray[np.int32]:
    """The bucket of each record key, of `count`; complex keys are hashed by their parts of `fields`.

    Hudi 1.x takes the parts of keys with colons in another way; `version` is the table's. Null keys go to
    bucket 0; writers refuse them.
    """
    from hudisql.format.keys import bucket_kernels

    offsets, data = string_buffers(keys)
    hashes = np.empty(len(keys), np.uint32)
    names = string_buffers(pa.array(list(fields), pa.string()))
    placeholders = string_buffers(pa.array(list(PLACEHOLDERS), pa.string()))
    room, is_1x = key_parts_room(offsets), version >= FIRST_VERSION_OF_1X
    bucket_kernels.list_hashes(offsets, data, *names, *placeholders, is_1x, *room, hashes)
    ids: npt.NDArray[np.int32] = ((hashes & np.uint32(0x7FFFFFFF)) % np.uint32(count)).astype(np.int32)
    if keys.null_count:
        ids[keys.is_null().to_numpy(zero_copy_only=False)] = 0
    return ids


def key_parts_room(offsets: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Arrays for the places of the parts of one key, and for whether each is the whole key."""
    most = (int(np.diff(offsets).max()) if len(offsets) > 1 else 0) + 1
    return np.empty((2, most), np.int64), np.empty(most, np.bool_)


def bucket_of_file_id(file_id: str) -> int | None:
    """The bucket in a file id; None for other file ids."""
    matched = _FILE_ID.fullmatch(file_id)
    return int(matched[1]) if matched else None


def new_file_id_prefix(bucket: int) -> str:
    """A new file id for a bucket, without the `-0` that its writer adds."""
    return f"{bucket:0{_DIGITS}d}{str(uuid.uuid4())[_DIGITS:]}"
