from __future__ import annotations

import struct
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudisql.errors import InvalidArgumentError
from hudisql.format.keys.key_hashes import Hashes, murmur_hash64, xxhash64

# From the specification's implementations (python-xxhash's documentation and tests, xxhsum).
KNOWN = {
    "": 0xEF46DB3751D8E999,
    "a": 0xD24EC4F1A98C6E5B,
    "abc": 0x44BC2CF5AD770999,
    "xxhash": 0x32DD38952C4BC720,
    "Nobody inspects the spammish repetition": 0xFBCEA83C8A378BF1,
}


def test_xxhash_is_that_of_the_specification() -> None:
    assert xxhash64(pa.array(KNOWN)).tolist() == list(KNOWN.values())


def test_murmur_hash_is_murmur_64a() -> None:
    # From the public reference code (seed 0): of the empty string and of "hello".
    assert murmur_hash64(pa.array(["", "hello"])).tolist() == [0, 0x1E68D17C457BF117]


@given(st.lists(st.text(max_size=40)), st.integers(0, 2**64 - 1))
def test_words_and_tails_of_keys_are_hashed_as_in_the_reference_code(keys: list[str], seed: int) -> None:
    column = pa.array(["left out", *keys], pa.string()).slice(1)
    assert murmur_hash64(column, seed).tolist() == [_murmur_64a(key.encode(), seed) for key in keys]


def _murmur_64a(key: bytes, seed: int) -> int:
    multiplier, low = 0xC6A4A7935BD1E995, (1 << 64) - 1
    hashed = seed ^ len(key) * multiplier & low
    whole = len(key) & ~7
    for (word,) in struct.iter_unpack("<Q", key[:whole]):
        mixed = word * multiplier & low
        hashed = (hashed ^ (mixed ^ mixed >> 47) * multiplier & low) * multiplier & low
    if key[whole:]:
        hashed = (hashed ^ int.from_bytes(key[whole:], "little")) * multiplier & low
    hashed = (hashed ^ hashed >> 47) * multiplier & low
    return hashed ^ hashed >> 47


@pytest.mark.parametrize("hash_keys", [murmur_hash64, xxhash64])
def test_the_form_of_the_column_does_not_matter(hash_keys: Callable[[pa.Array], Hashes]) -> None:
    texts = ["x", *KNOWN, "", "k" * 31, "k" * 32, "k" * 100, "ünï"]
    plain = hash_keys(pa.array(texts)).tolist()
    assert hash_keys(pa.array(texts, pa.large_string())).tolist() == plain
    assert hash_keys(pa.array(texts).dictionary_encode()).tolist() == plain
    assert hash_keys(pa.array(texts).slice(2, 6)).tolist() == plain[2:8]
    assert hash_keys(pa.array(texts, pa.large_string()).slice(3)).tolist() == plain[3:]
    assert hash_keys(pa.array([], pa.string())).tolist() == []
    assert len(set(hash_keys(pa.array(["", ""])).tolist())) == 1


def test_xxhash_refuses_null_keys() -> None:
    with pytest.raises(InvalidArgumentError, match="1 of 2 record keys are null"):
        xxhash64(pa.array(["a", None]))
