"""The keys of the statistics in a metadata table, and the file groups that hold them.

Follows `HoodieMetadataPayload.getColumnStatsIndexKey`, `HashID` (XXH64 with Hudi's seed) and
`HoodieTableMetadataUtil.mapRecordKeyToFileGroupIndex` of Hudi 0.15 and 1.2.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.format.keys.key_hashes import xxhash64
from hudisql.format.metadata_table.metadata_records import NON_PARTITIONED

_SEED: Final = 0xFFFFFFFFDABADABA


def key_parts(texts: Sequence[str]) -> dict[str, str]:
    """The part of a key that stands for each name of a column or path of a partition."""
    hashes = xxhash64(pa.array(texts, pa.string()), _SEED)
    return {
        text: base64.b64encode(int(hashed).to_bytes(8, "big")).decode()
        for text, hashed in zip(texts, hashes, strict=True)
    }


def partition_key_part(path: str) -> str:
    """The part of a key for the partition with this path, "" for a table without partitions."""
    name = path or NON_PARTITIONED
    return key_parts([name])[name]


def file_key_part(name: str) -> str:
    """The part of a key that stands for a file."""
    return base64.b64encode(hashlib.md5(name.encode(), usedforsecurity=False).digest()).decode()


def file_groups_of(keys: Sequence[str], groups: int) -> npt.NDArray[np.int64]:
    """The number of the file group, from 0 on, that holds each of the keys, which are ASCII texts."""
    if groups == 1 or not keys:
        return np.zeros(len(keys), np.int64)
    hashes = np.zeros(len(keys), np.int32)
    lengths = np.array([len(key) for key in keys])
    letters = np.array([key.encode("ascii") for key in keys])
    codes = letters.view(np.uint8).reshape(len(keys), -1)
    for position in range(codes.shape[1]):
        following = hashes * np.int32(31) + codes[:, position].astype(np.int32)
        hashes = np.where(position < lengths, following, hashes)
    # Java's abs of the least int is itself, whose remainder is then taken without its sign.
    positive = np.where(hashes == np.iinfo(np.int32).min, hashes, np.abs(hashes)).astype(np.int64)
    return np.abs(np.fmod(positive, groups)).astype(np.int64)
