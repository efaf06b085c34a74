"""The hash of record keys: xxHash64 whatever the column's form is."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hudisql.errors import InvalidArgumentError
from hudisql.ingest.index.event_key_hashes import key_hashes

# From the specification's implementations (python-xxhash's documentation and tests, xxhsum).
KNOWN = {
    "": 0xEF46DB3751D8E999,
    "a": 0xD24EC4F1A98C6E5B,
    "abc": 0x44BC2CF5AD770999,
    "xxhash": 0x32DD38952C4BC720,
    "Nobody inspects the spammish repetition": 0xFBCEA83C8A378BF1,
}


def test_hashes_are_those_of_the_specification() -> None:
    assert key_hashes(pa.array(KNOWN)).tolist() == list(KNOWN.values())


def test_the_form_of_the_column_does_not_matter() -> None:
    texts = ["x", *KNOWN, "", "k" * 31, "k" * 32, "k" * 100, "ünï"]
    plain = key_hashes(pa.array(texts)).tolist()
    assert key_hashes(pa.array(texts, pa.large_string())).tolist() == plain
    assert key_hashes(pa.array(texts).dictionary_encode()).tolist() == plain
    assert key_hashes(pa.array(texts).slice(2, 6)).tolist() == plain[2:8]
    assert key_hashes(pa.array(texts, pa.large_string()).slice(3)).tolist() == plain[3:]
    assert key_hashes(pa.array([], pa.string())).tolist() == []
    assert key_hashes(pa.array(["", ""])).tolist() == [KNOWN[""]] * 2


def test_null_keys_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="1 of 2 record keys are null"):
        key_hashes(pa.array(["a", None]))
