from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hudisql.read.key_table import KeyTable

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
