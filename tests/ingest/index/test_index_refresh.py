"""An index after commits of others: only changed file groups are read, and a rebuild where that won't do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hudisql.format.keys.key_hashes import xxhash64
from hudisql.format.timeline.active_timeline import Timeline
from hudisql.format.timeline.instant import Instant, InstantState
from hudisql.ingest.index.index_refresh import apply_changes, changes_since, position_of
from hudisql.ingest.index.rebuild import build_partition_index
from hudisql.ingest.index.sorted_index import SortedIndex
from hudisql.storage import Storage
from hudisql.table.partitions.listed_partitions import list_partition_paths
from hudisql.write.index.slice_key_lookup import read_keys
from tests.ingest.index.test_rebuild import KEYS, groups_of, lookups_of
from tests.ingest.small_tables import SmallTable, instant_time
from tests.opened import open_at

PATH = "dt=a"


@pytest.fixture
def table(tmp_path: Path) -> SmallTable:
    table = SmallTable(tmp_path)
    for number, file_id in enumerate(("f1", "f2", "f3")):
        table.commit(
            number + 1, [table.base_file(PATH, file_id, number + 1, KEYS[4 * number : 4 * number + 4])]
        )
    return table


def test_changed_file_groups_are_read_again(table: SmallTable) -> None:
    opened = table.open()
    index, position = build_partition_index(opened, PATH, SortedIndex()), position_of(opened.timeline)
    table.commit(4, [table.log_file(PATH, "f1", 1, 4, [KEYS[0], KEYS[12]], [KEYS[1]])])
    moved = [KEYS[8], KEYS[13]]
    table.commit(
        5,
        [table.base_file(PATH, "f4", 5, moved)],
        action="replacecommit",
        operation="CLUSTER",
        replaced={PATH: ("f3",)},
    )
    table.commit(6, [table.base_file(PATH, "f2", 6, [*KEYS[4:7], KEYS[14]])])
    table.begin(7)
    table.base_file(PATH, "f5", 7, [KEYS[15]])
    # What nothing has changed is not read: its file could be gone.
    opened = table.open()
    changes = changes_since(opened, position)
    assert changes is not None
    changed = changes[PATH]
    assert (changed.replaced, changed.rewritten, changed.appended) == ({"f3"}, {"f2", "f4"}, {"f1"})
    apply_changes(opened, index, changed)
    expected = ["f1"] * 4 + ["f2"] * 3 + [None, "f4", None, None, None, "f1", "f4", "f2"] + [None] * 5
    assert groups_of(index, KEYS) == expected
    rebuilt = build_partition_index(opened, PATH, SortedIndex())
    assert groups_of(rebuilt, KEYS) == expected
    assert len(rebuilt.keys) == len(index.keys)
    assert changes_since(opened, position_of(opened.timeline)) == {}


def test_an_append_is_read_without_the_base_file(table: SmallTable) -> None:
    opened = table.open()
    index, position = build_partition_index(opened, PATH, SortedIndex()), position_of(opened.timeline)
    table.commit(4, [table.log_file(PATH, "f1", 1, 4, [KEYS[12]])])
    for file in (table.path / PATH).glob("*.parquet"):
        file.write_bytes(b"not parquet")
    opened = table.open()
    changes = changes_since(opened, position)
    assert changes is not None
    apply_changes(opened, index, changes[PATH])
    assert groups_of(index, KEYS[:13]) == ["f1"] * 4 + ["f2"] * 4 + ["f3"] * 4 + ["f1"]


def test_own_commits_and_compactions_change_nothing(table: SmallTable) -> None:
    position = position_of(table.open().timeline)
    table.commit(4, [table.log_file(PATH, "f1", 1, 4, [KEYS[12]])])
    table.commit(5, [table.base_file(PATH, "f1", 5, KEYS[:5])], action="commit", operation="COMPACT")
    own = Instant(instant_time(4), "deltacommit", InstantState.COMPLETED)
    assert changes_since(table.open(), position.after(own)) == {}


def test_a_commit_that_was_pending_counts_once_it_is_completed(table: SmallTable) -> None:
    table.begin(4)
    stat = table.base_file(PATH, "f4", 4, [KEYS[12]])
    table.commit(5, [table.base_file(PATH, "f5", 5, [KEYS[13]])])
    position = position_of(table.open().timeline)
    assert changes_since(table.open(), position) == {}
    table.commit(4, [stat])
    changes = changes_since(table.open(), position)
    assert changes is not None
    assert changes[PATH].rewritten == {"f4"}


def _remove(table: SmallTable, *numbers: int) -> None:
    for number in numbers:
        for file in (table.path / ".hoodie").glob(f"{instant_time(number)}.*"):
            file.unlink()


def test_what_the_timeline_no_longer_tells_asks_for_a_rebuild(table: SmallTable) -> None:
    table.begin(4)
    table.commit(5, [])
    position = position_of(table.open().timeline)
    # Archived, as far as the index has it.
    _remove(table, 1)
    assert changes_since(table.open(), position) == {}
    # A commit that the index has is undone.
    content = (table.path / ".hoodie" / f"{instant_time(5)}.deltacommit").read_bytes()
    _remove(table, 5)
    assert changes_since(table.open(), position) is None
    (table.path / ".hoodie" / f"{instant_time(5)}.deltacommit").write_bytes(content)
    # The pending write is gone: rolled back as long as older commits are active, else perhaps archived.
    _remove(table, 4)
    assert changes_since(table.open(), position) == {}
    _remove(table, 2, 3)
    assert changes_since(table.open(), position) is None
    # A write that began before an own commit, and may have been archived before that.
    own = Instant(instant_time(7), "deltacommit", InstantState.COMPLETED)
    table.commit(7, [])
    assert changes_since(table.open(), position_of(table.open().timeline).after(own)) == {}
    before = position_of(table.open().timeline)
    table.commit(8, [])
    _remove(table, 5, 7)
    later = Instant(instant_time(8), "deltacommit", InstantState.COMPLETED)
    assert changes_since(table.open(), before.after(later)) is None
    # Nothing that the index has is left.
    table.commit(9, [])
    _remove(table, 5)
    assert changes_since(table.open(), position_of(table.open().timeline)) == {}
    assert changes_since(table.open(), position) is None


@pytest.mark.parametrize(
    "name",
    [
        "cow_insert_overwrite",
        "cow_bootstrap_then_upsert_delete",
        "mor_compacted",
        "mor_rollback",
        "mor_two_log_generations",
    ],
)
def test_an_index_follows_a_table_of_hudis_from_each_of_its_commits(
    golden: Callable[[str], Any], name: str
) -> None:
    table = open_at(golden(name).table)
    commits = table.timeline.commits
    assert len(commits) > 1
    for last in commits[:-1]:
        instants = tuple(each for each in table.timeline.instants if each.timestamp <= last.timestamp)
        before = replace(table, timeline=Timeline(instants))
        changes = changes_since(table, position_of(before.timeline))
        assert changes is not None
        for path in list_partition_paths(table):
            index = build_partition_index(before, path, SortedIndex())
            if path in changes:
                apply_changes(table, index, changes[path])
            for file_id, lookup in lookups_of(table, path).items():
                for batch in read_keys(Storage(), lookup):
                    hashes = xxhash64(batch.column(0))
                    assert index.file_ids_of(index.keys.look_up(hashes)).to_pylist() == [file_id] * len(
                        hashes
                    )
