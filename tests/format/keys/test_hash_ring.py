"""Rings of a consistent hashing index: hashes, buckets, and the content of their files."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from hudisql.errors import CorruptTableError
from hudisql.format.keys.hash_ring import HASH_MASK, HashRing, initial_ring, ring_from_json, ring_hashes

# XXH32 with the seed 0, of the reference implementation.
KNOWN = {
    "": 0x02CC5D05,
    "a": 0x550D7456,
    "abc": 0x32D153FF,
    "Nobody inspects the spammish repetition": 0xE2293B2F,
}


def _hash(text: str, *fields: str) -> int:
    return int(ring_hashes(pa.array([text]), fields)[0])


def test_keys_without_a_colon_are_hashed_as_they_are() -> None:
    hashes = ring_hashes(pa.array([*KNOWN, None]), ["id"])
    assert hashes.tolist() == [known & HASH_MASK for known in [*KNOWN.values(), KNOWN[""]]]
    assert ring_hashes(pa.array([], pa.string()), ["id"]).tolist() == []


def test_parts_of_the_hash_fields_are_joined() -> None:
    assert _hash("a:ab,b:x,c:c", "a", "c") == KNOWN["abc"] & HASH_MASK
    assert _hash("a:x,b:abc", "b") == KNOWN["abc"] & HASH_MASK
    assert _hash("a:__empty__,b:a", "a", "b") == KNOWN["a"] & HASH_MASK
    assert _hash("a:__null__,b:x", "a") == _hash("null")
    assert _hash("x:y", "id") == KNOWN[""] & HASH_MASK


def test_a_hash_goes_to_the_first_bucket_that_reaches_it() -> None:
    ring = HashRing("p", "1", 0, (10, 20, 30), ("a", "b", "c"), 3)
    hashes = np.array([0, 10, 11, 20, 30, 31, HASH_MASK], np.uint32)
    assert ring.buckets_of(hashes).tolist() == [0, 0, 1, 1, 2, 0, 0]
    assert [ring.bucket_of_file_id(each) for each in ("b-0", "b-1", "b", "d-0")] == [1, None, None, None]


def test_a_first_ring_has_hudi_s_file_ids() -> None:
    ring = initial_ring("dt=2024-03-01", 4)
    assert ring.values == (536870912, 1073741824, 1610612736, 2147483647)
    assert ring.file_id_prefixes == (
        "1319c1bb-ac1a-3920-a175-12b6444d142e",
        "cc56bc7d-c0e0-3efd-baa9-5f2a433b9bb0",
        "1e467098-b196-3a2f-935e-2d5e0186d520",
        "4f10745f-248f-321f-9ed9-bc617ca931e8",
    )
    assert ring_from_json(ring.to_json(), "/t/f") == ring


@pytest.mark.parametrize("damage", ["", "[]", '{"nodes": []}', '{"nodes": [{"value": 1}]}'])
def test_damaged_metadata_is_refused(damage: str) -> None:
    with pytest.raises(CorruptTableError, match="/t/f is not valid metadata"):
        ring_from_json(damage.encode(), "/t/f")


def test_nodes_of_an_unfinished_resizing_are_refused() -> None:
    content = json.loads(initial_ring("p", 2).to_json())
    content["nodes"][0]["tag"] = "REPLACE"
    with pytest.raises(CorruptTableError, match="finished resizing"):
        ring_from_json(json.dumps(content).encode(), "/t/f")
