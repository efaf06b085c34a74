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

from hudisql.format.keys.key_hashes import java_hashes, xxhash64
from hudisql.format.metadata_table.metadata_records import NON_PARTITIONED

_SEED: Final = 0xFFFFFFFFDABADABA

Counts = int | npt.NDArray[np.int64]
"""A number for all keys, or one for each."""


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


def file_groups_of(keys: pa.Array, groups: Counts) -> npt.NDArray[np.int64]:
    """The number of the file group, from 0 on, that holds each of the keys (texts), among so many."""
    hashes = java_hashes(keys).view(np.int32).astype(np.int64)
    # Java's abs of the least int is itself, whose remainder is then taken without its sign: as here.
    return np.remainder(np.abs(hashes), groups, dtype=np.int64)
