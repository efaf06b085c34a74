"""Listing a bucket by prefix: pages of 1,000 keys, long listings in parallel ranges of keys.

S3 lists page by page, and each page names the next: a quarter of a million files would take 250 sequential
requests. So a listing of more than one page is cut into ranges at the directories below the prefix, and the
ranges are listed in parallel. Keys come in the order of their UTF-8 bytes, which is the order of Python's
strings.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from hudisql.storage.file_system import FileInfo

_RANGES: Final = 16

Listed = dict[str, Any]


def list_keys(client: Any, bucket: str, prefix: str) -> list[Listed]:
    """All objects whose key starts with `prefix`, as S3 describes them, in the order of their keys."""
    first = client.list_objects_v2(Bucket=bucket, Prefix=prefix)
    if not first["IsTruncated"]:
        return list(first.get("Contents", ()))
    bounds = _bounds(client, bucket, prefix)
    ranges = list(zip([None, *bounds], [*bounds, None], strict=True))
    with ThreadPoolExecutor(_RANGES) as pool:
        parts = pool.map(lambda limits: list(_range(client, bucket, prefix, *limits)), ranges)
        return [listed for part in parts for listed in part]


def list_prefix(client: Any, bucket: str, prefix: str) -> tuple[list[str], list[Listed]]:
    """The directories (with their closing slash) and the objects directly below `prefix`."""
    directories: list[str] = []
    objects: list[Listed] = []
    for page in _pages(client, Bucket=bucket, Prefix=prefix, Delimiter="/"):
        directories.extend(directory["Prefix"] for directory in page.get("CommonPrefixes", ()))
        objects.extend(page.get("Contents", ()))
    return directories, objects


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
    # Directory buckets (S3 Express) list in no order.
    if bucket.endswith("--x-s3"):
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
