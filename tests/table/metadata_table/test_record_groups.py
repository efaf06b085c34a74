"""The file groups of a record index by the names of their files."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudisql.format.metadata_table.metadata_keys import file_groups_of
from hudisql.format.metadata_table.record_locations import NOT_FOUND
from hudisql.table.metadata_table.record_groups import (
    NO_PARTITIONS,
    RecordGroups,
    record_groups,
    rows_by_group,
)

KEYS = pa.array([f"k{number:03}" for number in range(50)])


def _groups(*file_ids: str) -> RecordGroups:
    groups = record_groups(file_ids)
    assert groups is not None
    return groups


def _paths(*paths: str) -> pa.Array:
    """The paths in turn, one for each of the keys."""
    return pa.array([paths[row % len(paths)] for row in range(len(KEYS))]).dictionary_encode()


def test_an_index_of_the_whole_table_knows_no_partitions() -> None:
    groups = _groups(*(f"record-index-{number:04}-0" for number in (2, 0, 1)))
    assert not groups.is_partitioned
    assert groups.numbers_of(KEYS, None).tolist() == file_groups_of(KEYS, 3).tolist()


def test_each_partition_has_groups_of_its_own() -> None:
    names = ["dt%3D1%2F2 %25", "n-0000-0", "n", ""]
    file_ids = [f"record-index-{name}-{number:04}-0" for name in names for number in range(1 + len(name) % 3)]
    groups = _groups(*reversed(file_ids))
    assert groups.is_partitioned
    paths = ["dt=1/2 %", "n-0000-0", "n", "", "new"]
    found = groups.numbers_of(KEYS, _paths(*paths))
    for row, number in enumerate(found):
        place = row % len(paths)
        if paths[place] == "new":
            assert number == NOT_FOUND
            continue
        (of_partition,) = file_groups_of(KEYS.slice(row, 1), 1 + len(names[place]) % 3)
        assert groups.file_ids[number] == f"record-index-{names[place]}-{of_partition:04}-0"


def test_new_partitions_get_groups_by_their_keys() -> None:
    groups = _groups("record-index-a-0000-0").with_new_partitions({"b=1": 2_000_000, "a": 1, "0": 0})
    assert groups.file_ids == (
        *("record-index-0-0000-0", "record-index-a-0000-0"),
        *("record-index-b%3D1-0000-0", "record-index-b%3D1-0001-0"),
    )
    assert [groups.numbers_in(path) for path in ("b=1", "c")] == [range(2, 4), range(0)]
    assert groups.with_new_partitions({"b=1": 9_000_000}) is groups
    assert len(groups.with_new_partitions({"c": 1_000_000_000}).numbers_in("c")) == 10


def test_without_partitions_no_key_has_a_group() -> None:
    assert NO_PARTITIONS.is_partitioned
    assert NO_PARTITIONS.numbers_of(KEYS, _paths("a", "")).tolist() == [NOT_FOUND] * len(KEYS)


@pytest.mark.parametrize(
    "file_ids",
    [
        (),
        ("record-index-0001-0",),
        ("record-index-a-0000-0", "record-index-a-0002-0"),
        ("record-index-0000-0", "record-index-a-0000-0"),
        ("files-0000-0",),
    ],
)
def test_an_index_that_lacks_groups_is_none(file_ids: tuple[str, ...]) -> None:
    assert record_groups(file_ids) is None


@given(st.lists(st.integers(NOT_FOUND, 5)))
def test_rows_are_sorted_into_their_groups(numbers: list[int]) -> None:
    found = rows_by_group(np.array(numbers, np.int64))
    assert {number: rows.tolist() for number, rows in found.items()} == {
        number: [row for row, other in enumerate(numbers) if other == number]
        for number in sorted(set(numbers) - {NOT_FOUND})
    }
