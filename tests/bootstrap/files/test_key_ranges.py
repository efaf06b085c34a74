"""Ranges of record keys in an order of ours, and which files have to be compared."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudisql.bootstrap.files import key_ranges
from hudisql.bootstrap.files.key_kernels import compare_keys, find_range
from hudisql.bootstrap.files.key_ranges import KeyRange, KeyRangeFinder, group_overlapping, key_order
from hudisql.format.keys.bloom_filter import string_buffers

KEYS = st.lists(st.one_of(st.text("019ab:,", max_size=8), st.text(max_size=30)), min_size=1, max_size=30)


def _range(*batches: list[str]) -> KeyRange | None:
    finder = KeyRangeFinder(sum(map(len, batches)))
    for batch in batches:
        finder.add(pa.array(batch, pa.string()))
    return finder.result()


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


@given(KEYS)
def test_compiled_and_plain_order_agree(keys: list[str]) -> None:
    offsets, data = string_buffers(pa.array(keys, pa.string()))
    offsets = offsets.view(np.uint64)
    orders = [key_order(key) for key in keys]
    for one in range(len(keys)):
        expected = (orders[one] > orders[0]) - (orders[one] < orders[0])
        compared = compare_keys(data, offsets[one], offsets[one + 1], offsets[0], offsets[1])
        assert _sign(compared) == expected
    lowest, highest, is_ascending = find_range(offsets, data)
    assert (orders[lowest], orders[highest]) == (min(orders), max(orders))
    assert is_ascending == all(one < other for one, other in pairwise(orders))


def test_numbers_in_keys_count_as_numbers() -> None:
    ordered = [
        "",
        "-1",
        "2",
        "9",
        "10",
        "a",
        "a:9,b:10",
        "a:10,b:1",
        "a:10,b:9",
        "a:10,b:10",
        "\uffff",
        "\U00010000",
    ]
    assert sorted(ordered, key=key_order) == ordered
    assert key_order("7") == key_order("007")


def test_the_range_of_a_file_spans_its_batches() -> None:
    assert _range(["1", "2"], ["9", "10"]) == KeyRange("1", "10", False)
    assert _range(["9", "10"], ["1", "2"]) == KeyRange("1", "10", True)
    assert _range(["1", "2"], ["2", "3"]) == KeyRange("1", "3", True)
    assert _range([]) is None


def test_keys_out_of_order_are_looked_at_for_repeats_by_their_hashes() -> None:
    assert _range(["b", "a"], ["d", "c"]) == KeyRange("a", "d", False)
    assert _range(["b", "a"], ["d", "b"]) == KeyRange("a", "d", True)


def test_a_large_file_out_of_order_is_left_to_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_ranges, "MOST_ROWS_CHECKED_ALONE", 3)
    assert _range(["b", "a", "c", "d"]) == KeyRange("a", "d", True)
    assert _range(["a", "b", "c", "d"]) == KeyRange("a", "d", False)


@pytest.mark.parametrize(
    ("ranges", "groups"),
    [
        ([("1", "9"), ("10", "20")], []),
        ([("1", "10"), ("10", "20")], [[0, 1]]),
        ([("1", "10"), ("010", "20")], [[0, 1]]),
        ([("5", "6"), ("20", "30"), ("1", "9"), ("8", "12")], [[0, 2, 3]]),
        ([("1", "99"), ("2", "3"), ("50", "60"), ("100", "100")], [[0, 1, 2]]),
        ([("\uffff", "\uffff"), ("\U00010000", "\U00010001")], []),
        ([("\ue000", "\U00010000"), ("\uffff", "\uffff")], [[0, 1]]),
    ],
)
def test_files_are_compared_only_where_ranges_meet(
    ranges: list[tuple[str, str]], groups: list[list[int]]
) -> None:
    assert group_overlapping([("p", KeyRange(*each, may_repeat=False)) for each in ranges]) == groups
    others = [(f"p{number}", KeyRange(*each, may_repeat=False)) for number, each in enumerate(ranges)]
    assert group_overlapping([*others, ("empty", None)]) == []


def test_a_file_alone_that_may_hold_a_key_twice_is_looked_at_again() -> None:
    ranges = [
        ("p", KeyRange("a", "b", True)),
        ("p", KeyRange("c", "d", False)),
        ("q", KeyRange("a", "b", False)),
    ]
    assert group_overlapping(ranges) == [[0]]
