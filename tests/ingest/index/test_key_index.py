"""Key indexes against a model of plain sets, with hashes of so few bits that many keys share one."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from hudisql.errors import InvalidArgumentError
from hudisql.ingest.index.key_index import AMBIGUOUS, UNKNOWN, KeyIndex
from hudisql.ingest.index.rocksdb_index import RocksDbIndex
from hudisql.ingest.index.sorted_index import SortedIndex

BITS = 6
HASHES = some.integers(0, (1 << 64) - 1)
GROUPS = some.integers(0, 5)
STEPS = some.lists(
    some.one_of(
        some.tuples(some.just("add"), some.lists(some.tuples(HASHES, GROUPS), max_size=30)),
        some.tuples(some.just("drop"), some.lists(GROUPS, max_size=3)),
    ),
    max_size=10,
)


def _hashes(values) -> np.ndarray:
    return np.array(list(values), np.uint64)


@given(steps=STEPS, asked=some.lists(HASHES, max_size=20))
def test_an_index_knows_what_a_set_of_pairs_knows(steps, asked: list[int]) -> None:
    _check_against_model(SortedIndex(BITS), steps, asked)


# A database takes a while to open.
@settings(max_examples=settings().max_examples // 4)
@given(steps=STEPS, asked=some.lists(HASHES, max_size=20))
def test_an_index_on_disk_knows_it_too(steps, asked: list[int]) -> None:
    _check_against_model(RocksDbIndex(hash_bits=BITS), steps, asked)


def _check_against_model(index: KeyIndex, steps, asked: list[int]) -> None:
    model: dict[int, set[int]] = defaultdict(set)
    try:
        for action, values in steps:
            if action == "add":
                index.add(
                    _hashes(hashed for hashed, _ in values), np.array([each[1] for each in values], np.int32)
                )
                for hashed, group in values:
                    model[hashed >> (64 - BITS)].add(group)
                    asked.append(hashed)
            else:
                index.drop_groups(np.array(values, np.int32))
                for known in model.values():
                    known.difference_update(values)
        expected = [sorted(model[hashed >> (64 - BITS)]) for hashed in asked]
        answers = [UNKNOWN if not each else each[0] if len(each) == 1 else AMBIGUOUS for each in expected]
        assert index.look_up(_hashes(asked)).tolist() == answers
        rows, groups = index.candidates(_hashes(asked))
        pairs = [(row, group) for row, each in enumerate(expected) for group in each]
        assert list(zip(rows.tolist(), groups.tolist(), strict=True)) == pairs
        if isinstance(index, SortedIndex):
            assert len(index) == sum(len(known) for known in model.values()) == index.nbytes // 8
    finally:
        index.close()


@pytest.mark.parametrize("make", [SortedIndex, RocksDbIndex], ids=["memory", "rocksdb"])
def test_many_batches_of_whole_hashes(make) -> None:
    random = np.random.default_rng(7)
    hashes = random.integers(0, 1 << 64, 60_000, dtype=np.uint64)
    groups = random.integers(0, 1 << 16, len(hashes), dtype=np.int32)
    index = make()
    for start in range(0, len(hashes), 1_000):
        index.add(hashes[start : start + 1_000], groups[start : start + 1_000])
    assert len(index) == len(hashes)
    assert (index.look_up(hashes) == groups).all()
    assert (index.look_up(hashes ^ np.uint64(1 << 40)) == UNKNOWN).all()
    index.drop_groups(np.arange(1 << 15, dtype=np.int32))
    index.add(hashes[:1], np.zeros(1, np.int32))
    expected = np.where(groups < 1 << 15, UNKNOWN, groups)
    assert (index.look_up(hashes[1:]) == expected[1:]).all()
    assert len(index) == int((expected[1:] != UNKNOWN).sum()) + 1 + int(groups[0] >= 1 << 15)
    index.close()


def test_runs_in_memory_are_few_and_take_eight_bytes_a_key() -> None:
    random = np.random.default_rng(7)
    index = SortedIndex()
    for _ in range(200):
        index.add(random.integers(0, 1 << 64, 500, dtype=np.uint64), np.zeros(500, np.int32))
    assert index.nbytes == 8 * len(index) == 8 * 100_000
    assert len(index._runs) <= 4


@pytest.mark.parametrize("make", [SortedIndex, RocksDbIndex], ids=["memory", "rocksdb"])
def test_groups_beyond_the_numbers_are_refused(make) -> None:
    index = make()
    for number in (-1, 1 << 16):
        with pytest.raises(InvalidArgumentError, match="numbered from 0 to 65535"):
            index.add(_hashes([1]), np.array([number], np.int32))
    index.close()


def test_a_database_is_deleted_with_its_index(tmp_path: Path) -> None:
    index = RocksDbIndex(str(tmp_path))
    index.add(_hashes([5]), np.array([1], np.int32))
    assert index.nbytes > 0
    assert len(list(tmp_path.iterdir())) == 1
    index.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bits", [0, 49])
def test_more_bits_than_an_element_has_are_refused(bits: int) -> None:
    with pytest.raises(InvalidArgumentError, match="1 to 48 bits"):
        SortedIndex(bits)
