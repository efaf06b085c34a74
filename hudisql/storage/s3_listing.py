"""Listing a bucket by prefix: pages of 1,000 keys, long listings in parallel ranges of keys.

S3 lists page by page, and each page names the next: a quarter of a million files would take 250 sequential
requests. So a listing of more than one page is cut into ranges at the directories below the prefix, and the
ranges are listed in parallel. Many directories are listed together, as ranges of keys, too. Keys come in the
order of their UTF-8 bytes, which is the order of Python's strings.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias

from hudisql.storage.file_system import FileInfo
from hudisql.storage.parallel_reads import READS_AT_ONCE, read_many

_RANGES: Final = READS_AT_ONCE

_GREATEST: Final = "\U0010ffff"

Listed = dict[str, Any]
Listing: TypeAlias = tuple[list[str], list[Listed]]
"""The directories (with their closing slash) and the objects directly below a prefix."""


def list_keys(client: Any, bucket: str, prefix: str) -> list[Listed]:
    """All objects whose key starts with `prefix`, as S3 describes them, in the order of their keys."""
    first = client.list_objects_v2(Bucket=bucket, Prefix=prefix)
    if not first["IsTruncated"]:
        return list(first.get("Contents", ()))
    bounds = _bounds(client, bucket, prefix)
    ranges = list(zip([None, *bounds], [*bounds, None], strict=True))
    parts = read_many(lambda limits: list(_range(client, bucket, prefix, *limits)), ranges)
    return [listed for part in parts for listed in part]


def list_prefix(client: Any, bucket: str, prefix: str) -> Listing:
    """The directories (with their closing slash) and the objects directly below `prefix`."""
    directories: list[str] = []
    objects: list[Listed] = []
    for page in _pages(client, Bucket=bucket, Prefix=prefix, Delimiter="/"):
        directories.extend(directory["Prefix"] for directory in page.get("CommonPrefixes", ()))
        objects.extend(page.get("Contents", ()))
    return directories, objects


def list_prefixes(client: Any, bucket: str, prefixes: Sequence[str]) -> dict[str, Listing]:
    """`list_prefix` of each of many prefixes that end with a slash, in fewer requests.

    Neighbouring directories come in one page. A page that ends between two of the prefixes, or in a directory
    below one, is followed by the next key that is wanted.
    """
    ordered = sorted(set(prefixes))
    is_nested = any(lower.startswith(upper) for upper, lower in pairwise(ordered))
    if is_nested or _lists_in_no_order(bucket):
        listed = read_many(lambda prefix: list_prefix(client, bucket, prefix), ordered)
        return dict(zip(ordered, listed, strict=True))
    step = max(1, -(-len(ordered) // _RANGES))
    chunks = [ordered[start : start + step] for start in range(0, len(ordered), step)]
    found = read_many(lambda chunk: _list_neighbours(client, bucket, chunk), chunks)
    return {prefix: listing for part in found for prefix, listing in part.items()}


def _list_neighbours(client: Any, bucket: str, ordered: Sequence[str]) -> dict[str, Listing]:
    """`list_prefix` of sorted prefixes, none of which begins with another."""
    directories: dict[str, dict[str, None]] = {prefix: {} for prefix in ordered}
    objects: dict[str, list[Listed]] = {prefix: [] for prefix in ordered}
    shared = os.path.commonpath(ordered)
    shared += "/" if shared else ""
    after: str | None = ordered[0]
    while after is not None:
        page = client.list_objects_v2(Bucket=bucket, Prefix=shared, StartAfter=after)
        keys = page.get("Contents", ())
        for listed in keys:
            prefix = _owner(ordered, listed["Key"])
            if prefix is None:
                continue
            name, slash, _ = listed["Key"][len(prefix) :].partition("/")
            if slash:
                directories[prefix][f"{prefix}{name}/"] = None
            elif name:
                objects[prefix].append(listed)
        after = _next_start(ordered, keys[-1]["Key"]) if page["IsTruncated"] else None
    return {prefix: (list(directories[prefix]), objects[prefix]) for prefix in ordered}


def _owner(ordered: Sequence[str], key: str) -> str | None:
    """The prefix with which the key begins."""
    position = bisect_right(ordered, key) - 1
    return ordered[position] if position >= 0 and key.startswith(ordered[position]) else None


def _next_start(ordered: Sequence[str], last: str) -> str | None:
    """The key after which to go on listing, behind the key `last`; None if no prefix is left."""
    prefix = _owner(ordered, last)
    if prefix is None:
        position = bisect_right(ordered, last)
        return ordered[position] if position < len(ordered) else None
    directory, slash, _ = last[len(prefix) :].partition("/")
    return f"{prefix}{directory}/{_GREATEST}" if slash else last


def _lists_in_no_order(bucket: str) -> bool:
    """True for a directory bucket (S3 Express)."""
    return bucket.endswith("--x-s3")


def files_of(objects: list[Listed], prefix: str, root: str) -> list[FileInfo]:
    """The objects as files below `root`, without directory markers."""
    return [
        file_info(root + listed["Key"][len(prefix) :], listed["Size"], listed["LastModified"])
        for listed in objects
        if not listed["Key"].endswith("/")
    ]


def file_info(path: str, length: int, modified: Any) -> FileInfo:
    """An object as a file; `modified` is a datetime."""
    return FileInfo(path, length, int(modified.timestamp() * 1000), False)


def _bounds(client: Any, bucket: str, prefix: str) -> list[str]:
    """Directories below `prefix`, evenly picked; a listing that starts after one misses only its marker."""
    if _lists_in_no_order(bucket):
        return []
    directories, _ = list_prefix(client, bucket, prefix)
    step = max(1, len(directories) // _RANGES)
    return directories[step::step]


def _range(client: Any, bucket: str, prefix: str, lower: str | None, upper: str | None) -> Iterator[Listed]:
    after = {} if lower is None else {"StartAfter": lower}
    for page in _pages(client, Bucket=bucket, Prefix=prefix, **after):
        for listed in page.get("Contents", ()):
            if upper is not None and listed["Key"] >= upper:
                return
            yield listed


def _pages(client: Any, **request: Any) -> Iterator[dict[str, Any]]:
    token: dict[str, str] = {}
    while True:
        page = client.list_objects_v2(**request, **token)
        yield page
        if not page["IsTruncated"]:
            return
        token = {"ContinuationToken": page["NextContinuationToken"]}
