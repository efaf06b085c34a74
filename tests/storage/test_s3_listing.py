"""Listing many directories of a bucket in one go, on a store with small pages."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hudisql.storage.s3_listing import Listing, list_prefix, list_prefixes


class Pages:
    """S3's listing of some keys, in pages of `size` keys and directories."""

    def __init__(self, keys: list[str], size: int) -> None:
        self._keys = sorted(set(keys))
        self._size = size
        self.requests = 0

    def list_objects_v2(self, **request: str) -> dict[str, Any]:
        self.requests += 1
        prefix, delimiter = request.get("Prefix", ""), request.get("Delimiter")
        after = max(request.get("StartAfter", ""), request.get("ContinuationToken", ""))
        items: dict[str, str] = {}
        for key in self._keys:
            if key.startswith(prefix) and key > after:
                head, slash, _ = key[len(prefix) :].partition("/")
                is_directory = bool(delimiter and slash)
                items.setdefault(prefix + head + "/" if is_directory else key, key if is_directory else "")
        some = list(items)[: self._size]
        last = ""
        if some:
            # A directory is passed with all of its keys.
            below = [key for key in self._keys if key.startswith(some[-1])]
            last = max(below) if items[some[-1]] else some[-1]
        return {
            "Contents": [{"Key": item} for item in some if not items[item]],
            "CommonPrefixes": [{"Prefix": item} for item in some if items[item]],
            "IsTruncated": len(items) > self._size,
            "NextContinuationToken": last,
        }


names = st.sampled_from(["a", "b", "b0", "b!", "c/", "d/x", "d/y/z", "~", "\U0010fffe"])
directories = st.sampled_from(["t/", "t/a/", "t/b/", "t/b0/", "t/b/c/", "u/", "t/z=1/", "v/w/x/"])


@given(
    st.lists(st.builds("{}{}".format, directories, names), max_size=40),
    st.sets(directories, min_size=1),
    st.integers(1, 4),
)
def test_directories_listed_together_are_those_listed_one_by_one(
    keys: list[str], wanted: set[str], size: int
) -> None:
    client = Pages(keys, size)
    together = list_prefixes(client, "bucket", list(wanted))
    for prefix in wanted:
        assert _files(prefix, together[prefix]) == _files(prefix, list_prefix(client, "bucket", prefix))


def _files(prefix: str, listing: Listing) -> Listing:
    """Without the marker of the directory itself, which is no file."""
    directories, objects = listing
    return directories, [each for each in objects if each["Key"] != prefix]


def test_the_requests_follow_the_keys_and_pass_over_directories_that_are_not_wanted() -> None:
    keys = [f"t/dt={day:04}/{file}" for day in range(3500) for file in range(20)]
    keys += [f"t/dt={day:04}/below/{file}" for day in range(0, 3500, 100) for file in range(2000)]
    client = Pages(keys, 1000)
    every = [f"t/dt={day:04}/" for day in range(3500)]
    assert sum(len(objects) for _, objects in list_prefixes(client, "bucket", every).values()) == 70_000
    assert client.requests <= 70 + 3500 // 100 + 16

    client.requests = 0
    assert len(list_prefixes(client, "bucket", every[7::100])) == 35
    assert client.requests <= 35
