"""A feed of a table whose metadata table has a record index: keys are found by it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hudisql.format import table_properties as keys
from hudisql.format.metadata_table.metadata_records import RECORD_INDEX
from hudisql.ingest.index import partition_indexes
from hudisql.ingest.index.rebuild import build_partition_index
from hudisql.table.properties.table_configuration import drop_indexes
from hudisql.write.metadata_table.new_metadata_table import create_metadata_table
from tests.ingest.test_table_feed import Fed, event, events
from tests.opened import open_at, open_kept
from tests.write.metadata_table.kept_indexes import assert_finds_all_keys


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The partitions whose keys were read for an index in memory."""
    paths: list[str] = []

    def build(table, path, index):
        paths.append(path)
        return build_partition_index(table, path, index)

    monkeypatch.setattr(partition_indexes, "build_partition_index", build)
    return paths


def _fed(path: Path, kind: str = keys.MERGE_ON_READ) -> Fed:
    fed = Fed(path, kind)
    fed.flush(*events(range(100), 1))
    create_metadata_table(open_at(path), with_record_index=True)
    fed.take_over()
    return fed


def _check(fed: Fed, ts_of: dict[int, int]) -> None:
    assert sorted(fed.rows()) == sorted(ts_of.values())
    for number in list(ts_of)[:: max(len(ts_of) // 5, 1)]:
        assert fed.rows(number) == [ts_of[number]]
    assert_finds_all_keys(open_kept(fed.path))


def test_keys_are_found_by_the_record_index(tmp_path: Path, built: list[str]) -> None:
    fed = _fed(tmp_path)
    built.clear()
    fed.flush(*events(range(50, 150), 2))
    # The keys of the last flush, too.
    fed.flush(*events(range(140, 160), 3), event(1, 3))
    fed.flush(event(7, 4, _hoodie_is_deleted=True), event(155, 4, _hoodie_is_deleted=True), event(200, 4))
    _check(fed, _expected())
    fed.flush(event(7, 5), event(155, 5), event(155, 6))
    _check(fed, _expected() | {7: 5, 155: 6})
    assert built == []


def _expected() -> dict[int, int]:
    ts_of = dict.fromkeys(range(50), 1) | dict.fromkeys(range(50, 140), 2)
    ts_of |= dict.fromkeys(range(140, 160), 3) | {1: 3, 200: 4}
    return {number: ts for number, ts in ts_of.items() if number not in (7, 155)}


def test_keys_of_other_partitions_have_rows_of_their_own(tmp_path: Path, built: list[str]) -> None:
    """The record index has one place of a key."""
    fed = _fed(tmp_path)
    built.clear()
    fed.flush(event(1, 2, dt="2024-01-01"))
    assert sorted(fed.rows(1)) == [1, 2]
    for ts in (3, 4):
        fed.flush(event(1, ts), event(1, ts, dt="2024-01-01"), event(2, ts))
        assert fed.rows(1) == [ts, ts]
        assert fed.rows(2) == [ts]
    assert len(fed.rows()) == 101
    assert built


@pytest.mark.parametrize("drops_first", [True, False])
def test_an_index_that_is_dropped_and_made_again_leaves_no_key_behind(
    tmp_path: Path, built: list[str], drops_first: bool
) -> None:
    fed = _fed(tmp_path)
    expected = dict.fromkeys(range(100), 1)
    for ts in range(2, 8):
        if (ts % 2 == 0) == drops_first:
            drop_indexes(open_at(fed.path), [RECORD_INDEX])
        else:
            create_metadata_table(open_at(fed.path), with_record_index=True)
        built.clear()
        # Keys that are new in each, those of the flush before, and old ones.
        numbers = [*range(100 * ts, 100 * ts + 20), *range(100 * (ts - 1), 100 * (ts - 1) + 10), *range(5)]
        fed.flush(*events(numbers, ts))
        expected |= dict.fromkeys(numbers, ts)
        assert sorted(fed.rows()) == sorted(expected.values())
        assert bool(built) == (RECORD_INDEX not in open_kept(fed.path).indexes)
    assert len(expected) == len(fed.rows())


def test_copy_on_write_tables_have_an_index_in_memory(tmp_path: Path, built: list[str]) -> None:
    fed = _fed(tmp_path, keys.COPY_ON_WRITE)
    built.clear()
    fed.flush(*events(range(50, 150), 2))
    _check(fed, dict.fromkeys(range(50), 1) | dict.fromkeys(range(50, 150), 2))
    assert built


def test_a_split_partition_goes_by_its_buckets(tmp_path: Path, built: list[str]) -> None:
    fed = Fed(tmp_path, keys.MERGE_ON_READ, split="now")
    fed.flush(*events(range(100), 1))
    create_metadata_table(open_at(tmp_path), with_record_index=True)
    while fed.feed.wants_split:
        fed.feed.split_next()
    built.clear()
    fed.flush(*events(range(50, 150), 2))
    assert sorted(fed.rows()) == [*[1] * 50, *[2] * 100]
    assert built == []
