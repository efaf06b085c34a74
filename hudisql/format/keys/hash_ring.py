"""Hudi's consistent hashing bucket index: the ring of a partition, and the bucket of each record key in it.

Follows `HoodieConsistentHashingMetadata`, `ConsistentBucketIdentifier` and `HashID.getXXHash32` of Hudi 0.15.
A bucket holds the keys whose hash is above the bucket before it, up to its own value. Whole key columns;
knows no tables.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.errors import CorruptTableError
from hudisql.format.keys.bloom_filter import string_buffers
from hudisql.format.keys.bucket_id import FIRST_VERSION_OF_1X, PLACEHOLDERS, key_parts_room

INITIAL_INSTANT: Final = "00000000000000"
"""The instant of the metadata that the first write into a partition makes."""
HASH_MASK: Final = 0x7FFFFFFF


@dataclass(frozen=True)
class RingNode:
    """A change of a ring: the bucket up to `value` gets a new file group.

    Without `file_id_prefix` the bucket goes, and the next one takes its keys.
    """

    value: int
    file_id_prefix: str | None


@dataclass(frozen=True)
class HashRing:
    """The buckets of one partition: the i-th holds hashes up to `values[i]`, in a file group whose id begins
    with `file_id_prefixes[i]`.

    The values rise. `number` counts the resizings of the partition.
    """

    partition_path: str
    instant_time: str
    number: int
    values: tuple[int, ...]
    file_id_prefixes: tuple[str, ...]
    buckets_at_first: int

    def buckets_of(self, hashes: npt.NDArray[np.uint32]) -> npt.NDArray[np.int32]:
        """The bucket (its place in the ring) of each hash; hashes above the last value go to the first."""
        at = np.searchsorted(np.asarray(self.values, np.int64), hashes.astype(np.int64), side="left")
        return (at % len(self.values)).astype(np.int32)

    def bucket_of_file_id(self, file_id: str) -> int | None:
        """The bucket with this file group; None if there is none."""
        return self._by_file_id.get(file_id)

    def file_id(self, bucket: int) -> str:
        """The id of the bucket's file group."""
        return f"{self.file_id_prefixes[bucket]}-0"

    def middle(self, bucket: int) -> int | None:
        """The value that halves the bucket; None if it is too narrow."""
        before, value = self.values[bucket - 1], self.values[bucket]
        total = before + value + (0 if before < value else HASH_MASK + 1)
        middle = (total >> 1) & HASH_MASK
        return None if middle in (before, value) else middle

    def resized(self, instant_time: str, nodes: Sequence[RingNode]) -> HashRing:
        """The ring that a resizing makes of this one."""
        prefixes = dict(zip(self.values, self.file_id_prefixes, strict=True))
        for node in nodes:
            if node.file_id_prefix is None:
                prefixes.pop(node.value, None)
            else:
                prefixes[node.value] = node.file_id_prefix
        values, file_id_prefixes = zip(*sorted(prefixes.items()), strict=True)
        return replace(
            self,
            instant_time=instant_time,
            number=self.number + 1,
            values=values,
            file_id_prefixes=file_id_prefixes,
        )

    @cached_property
    def _by_file_id(self) -> dict[str, int]:
        return {self.file_id(bucket): bucket for bucket in range(len(self.values))}

    def to_json(self) -> bytes:
        """The content of its metadata file."""
        nodes = [
            {"value": value, "fileIdPrefix": prefix, "tag": "NORMAL"}
            for value, prefix in zip(self.values, self.file_id_prefixes, strict=True)
        ]
        content = {
            "version": 0,
            "partitionPath": self.partition_path,
            "instant": self.instant_time,
            "numBuckets": self.buckets_at_first,
            "seqNo": self.number,
            "nodes": nodes,
        }
        return json.dumps(content, indent=2, ensure_ascii=False).encode()


def nodes_to_json(nodes: Sequence[RingNode]) -> str:
    """The form of nodes in the plan of a resizing."""
    return json.dumps(
        [
            {
                "value": node.value,
                "fileIdPrefix": node.file_id_prefix,
                "tag": "DELETE" if node.file_id_prefix is None else "REPLACE",
            }
            for node in nodes
        ]
    )


def nodes_from_json(text: str, path: str) -> tuple[RingNode, ...]:
    """The nodes of a plan; `path` is for errors. Raises CorruptTableError."""
    try:
        return tuple(
            RingNode(int(node["value"]), str(node["fileIdPrefix"]) if node["tag"] == "REPLACE" else None)
            for node in json.loads(text)
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptTableError(f"{path} has no valid nodes of a ring: {error}") from error


def initial_ring(partition_path: str, count: int) -> HashRing:
    """The ring of a new partition: `count` equal ranges, whose file ids follow from path and range."""
    step = (HASH_MASK + count - 1) // count
    values = [min(step * number, HASH_MASK) for number in range(1, count + 1)]
    starts = [0, *values[:-1]]
    prefixes = tuple(
        _name_uuid(start.to_bytes(8, "big") + stop.to_bytes(8, "big") + partition_path.encode())
        for start, stop in zip(starts, values, strict=True)
    )
    return HashRing(partition_path, INITIAL_INSTANT, 0, tuple(values), prefixes, count)


def ring_from_json(content: bytes, path: str) -> HashRing:
    """The ring of a metadata file; `path` is for errors. Raises CorruptTableError."""
    try:
        parsed: dict[str, Any] = json.loads(content)
        # As in Hudi, of nodes with one value the last counts.
        nodes = sorted({int(node["value"]): str(node["fileIdPrefix"]) for node in parsed["nodes"]}.items())
        if not nodes or any(node.get("tag", "NORMAL") != "NORMAL" for node in parsed["nodes"]):
            raise ValueError("its nodes are not those of a finished resizing")
        values, prefixes = zip(*nodes, strict=True)
        return HashRing(
            str(parsed["partitionPath"]),
            str(parsed["instant"]),
            int(parsed["seqNo"]),
            values,
            prefixes,
            int(parsed["numBuckets"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptTableError(
            f"{path} is not valid metadata of a consistent hashing index: {error}"
        ) from error


def ring_hashes(keys: pa.Array, fields: Sequence[str], *, version: int = 6) -> npt.NDArray[np.uint32]:
    """The hash of each record key; complex keys are hashed by their parts of `fields`, joined.

    `version` is the table's, as for `bucket_ids`. Null keys have the hash of the empty text; writers refuse
    them.
    """
    from hudisql.format.keys import ring_kernels

    offsets, data = string_buffers(keys)
    hashes = np.empty(len(keys), np.uint32)
    names = string_buffers(pa.array(list(fields), pa.string()))
    placeholders = string_buffers(pa.array(list(PLACEHOLDERS), pa.string()))
    longest = int(np.diff(offsets).max()) if len(keys) else 0
    room, is_1x = key_parts_room(offsets), version >= FIRST_VERSION_OF_1X
    joined = np.empty(max(longest, 4), np.uint8)
    ring_kernels.joined_hashes(offsets, data, *names, *placeholders, is_1x, *room, joined, hashes)
    return hashes & np.uint32(HASH_MASK)


def _name_uuid(name: bytes) -> str:
    """Java's `UUID.nameUUIDFromBytes`."""
    return str(uuid.UUID(bytes=hashlib.md5(name, usedforsecurity=False).digest(), version=3))
