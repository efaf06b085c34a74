"""File ids of a partition that was split into hash buckets: those of Hudi's bucket index, with the split.

`00000003-0016-2026-1122-213344123f3a-0` is bucket 3 of 16 of the split at the instant 20261122213344123. Hudi
takes eight digits for the bucket (`BucketIdentifier.bucketIdFromFileId`) and the rest for a UUID; where a
random UUID has its version 4 this one has the first digit of a year. The file groups of a table are the only
record of its splits, so that rollbacks and archiving need no extra step for them. Pure text.
"""

from __future__ import annotations

import re
import secrets
from typing import Final, NamedTuple

_FILE_ID = re.compile(r"(\d{8})-(\d{4})-([123]\d{3})-(\d{4})-(\d{9})[0-9a-f]{3}-0", re.ASCII)
_INSTANT = re.compile(r"(\d{4})(\d{4})(\d{9})", re.ASCII)
MOST_BUCKETS: Final = 9_999
"""The numbers of buckets that a partition may be split into."""


class SplitBucket(NamedTuple):
    """One of `buckets` file groups of a partition, written first by the split at `instant_time`."""

    bucket: int
    buckets: int
    instant_time: str


def split_file_id_prefixes(buckets: int, instant_time: str) -> list[str]:
    """New file ids of all buckets, without the `-0` that their writer adds.

    `buckets` is at most MOST_BUCKETS, `instant_time` has 17 digits.
    """
    parts = _INSTANT.fullmatch(instant_time)
    assert parts is not None
    assert 0 < buckets <= MOST_BUCKETS
    year, day, time = parts.groups()
    tail = secrets.token_hex(2)[:3]
    return [f"{bucket:08d}-{buckets:04d}-{year}-{day}-{time}{tail}" for bucket in range(buckets)]


def split_bucket_of(file_id: str) -> SplitBucket | None:
    """The bucket that a file id of a split names; None for other file ids."""
    parts = _FILE_ID.fullmatch(file_id)
    if parts is None:
        return None
    bucket, buckets, year, day, time = parts.groups()
    if int(bucket) >= int(buckets):
        return None
    return SplitBucket(int(bucket), int(buckets), f"{year}{day}{time}")
