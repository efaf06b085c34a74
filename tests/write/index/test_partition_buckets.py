"""Stored numbers of buckets by partition: which count, and what rollbacks and other writers do to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hudisql.errors import WriteConflictError
from hudisql.format.keys.bucket_rules import BucketRules
from hudisql.format.timeline.timeline_layout import bucket_rules_directory
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable
from hudisql.write.index.partition_buckets import (
    all_bucket_rules,
    store_bucket_rules,
    stored_bucket_rules,
)
from hudisql.write.transaction.conflicts import check_no_conflict
from hudisql.write.transaction.failed_writes import roll_back_failed_writes
from tests.opened import open_at
from tests.table.conftest import TableDirectory

MakeTable = Callable[..., TableDirectory]
FIRST = BucketRules("a,5", 3)
SECOND = replace(FIRST, expressions="a,7", instant_time="20261122000001000")
THIRD = replace(FIRST, expressions="a,9", instant_time="20261122000002000")


def _open(directory: TableDirectory) -> HudiTable:
    return open_at(directory.path)


def _store(directory: TableDirectory, *rules: BucketRules) -> None:
    for each in rules:
        store_bucket_rules(Storage(), str(directory.path), each)


def _request(directory: TableDirectory, rules: BucketRules) -> None:
    directory.instant(f"{rules.instant_time}.replacecommit.requested")
    directory.instant(f"{rules.instant_time}.replacecommit.inflight")


def test_the_newest_rules_count_whose_instant_is_not_pending(make_table: MakeTable) -> None:
    directory = make_table()
    assert stored_bucket_rules(_open(directory)) is None
    _store(directory, FIRST)
    assert stored_bucket_rules(_open(directory)) == FIRST
    _store(directory, SECOND, THIRD)
    _request(directory, THIRD)
    # The instant of the second is archived.
    assert stored_bucket_rules(_open(directory)) == SECOND
    archive = Path(bucket_rules_directory(str(directory.path), archived=True))
    archive.mkdir()
    configs = Path(bucket_rules_directory(str(directory.path)))
    (configs / f"{FIRST.instant_time}.hashing_config").rename(
        archive / f"{FIRST.instant_time}.hashing_config"
    )
    assert all_bucket_rules(_open(directory)) == [SECOND, FIRST]
    directory.commit(THIRD.instant_time, "replacecommit", replaced={})
    assert all_bucket_rules(_open(directory)) == [SECOND, THIRD, FIRST]


def test_a_rollback_takes_the_rules_of_its_instant_back(make_table: MakeTable) -> None:
    directory = make_table()
    _store(directory, FIRST, SECOND)
    _request(directory, SECOND)
    assert roll_back_failed_writes(_open(directory))
    assert stored_bucket_rules(_open(directory)) == FIRST


def test_a_commit_conflicts_with_a_change_of_the_rules(make_table: MakeTable) -> None:
    directory = make_table()
    _store(directory, FIRST)
    directory.commit("20261122000000000")
    known = _open(directory)
    directory.commit(SECOND.instant_time, "replacecommit", replaced={"dt=a": ("f",)})
    check_no_conflict(known, _open(directory).timeline, {("dt=a", "g")})
    _store(directory, SECOND)
    with pytest.raises(WriteConflictError, match="changed the numbers of buckets"):
        check_no_conflict(known, _open(directory).timeline, {("dt=a", "g")})
