from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudisql.format.keys.key_hashes import murmur_hash64
from hudisql.format.keys.key_table import KeyTable

TEXTS = st.text(max_size=6)


@given(st.sets(TEXTS, max_size=60), st.lists(st.none() | TEXTS, max_size=60), st.integers(0, 5))
def test_keys_are_found_as_a_dictionary_finds_them(
    keys: set[str], wanted: list[str | None], skipped: int
) -> None:
    numbers = {key: number for number, key in enumerate(keys)}
    column = pa.array([*wanted, *keys], pa.string())
    table = KeyTable(pa.array([*list(keys)[:1], *keys], pa.string()).slice(min(1, len(keys))))
    expected = [-1 if key is None else numbers.get(key, -1) for key in column.to_pylist()]
    assert table.find(column).tolist() == expected
    assert table.find(column.slice(skipped)).tolist() == expected[skipped:]


@pytest.mark.parametrize("width", [5, 8, 11, 16, 24, 36])
@pytest.mark.parametrize("is_padded_left", [True, False])
def test_numbered_keys_spread_over_the_table(width: int, is_padded_left: bool) -> None:
    numbers = map(str, range(20_000, 60_000))
    padded = [each.rjust(width, "0") if is_padded_left else each.ljust(width, "x") for each in numbers]
    assert _share_of_slots(padded) > 0.7


def test_short_keys_spread_over_the_table() -> None:
    assert _share_of_slots([f"{number:03}" for number in range(1000)]) > 0.7


def _share_of_slots(keys: list[str]) -> float:
    """How many slots of the table the keys' hashes choose, by key; for random hashes 0.8 or more."""
    hashes = murmur_hash64(pa.array(keys, pa.string()))
    slots = 1 << (2 * len(keys)).bit_length()
    return len(np.unique(hashes & np.uint64(slots - 1))) / len(keys)
