"""What the tables of a project say of their last refresh and of their tests, for the pages of `run docs`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.format.timeline.instant import second_of
from hudisql.layers.declared_tests import DataTest
from hudisql.layers.passed_tests import PassedTests
from hudisql.sql.incremental_tables.refresh_checkpoint import CHECKPOINT_KEY
from hudisql.sql.query.target_table import open_hudi_entry
from hudisql.table.timeline.instant_files import read_commit, read_extra_metadata

if TYPE_CHECKING:
    from hudisql.context import Context


@dataclass(frozen=True)
class LastRefresh:
    """The newest commit of a refresh that is on the timeline; counts are those of its files."""

    instant_time: str
    inserted: int
    updated: int
    deleted: int

    @property
    def moment(self) -> str:
        """The instant time, readable, in the time zone of the timeline."""
        return second_of(self.instant_time).strftime("%Y-%m-%d %H:%M:%S")


class DataTestState(Enum):
    """What is known of a test without running it; the value is what a page says."""

    PASSED = "passed on the current rows"
    NOT_PASSED = "failed, or not run since the rows or the test changed"
    UNKNOWN = "runs at each apply"
    NO_TABLE = "not run: a table does not exist yet"


def last_refresh(context: Context, entry: MetastoreTable) -> LastRefresh | None:
    """The last refresh of an incremental table; None if the timeline has none.

    Raises CorruptTableError, NoSuchTableError, StorageError.
    """
    table = open_hudi_entry(context, entry)
    for commit in reversed(table.timeline.commits):
        if CHECKPOINT_KEY not in next(read_extra_metadata(table, [commit])):
            continue
        stats = list(read_commit(table, commit).write_stats)
        return LastRefresh(
            commit.timestamp,
            sum(stat.num_inserts for stat in stats),
            sum(stat.num_update_writes for stat in stats),
            sum(stat.num_deletes for stat in stats),
        )
    return None


def state_of_test(
    passed: PassedTests, test: DataTest, tables: Mapping[str, MetastoreTable | None]
) -> DataTestState:
    """Whether the test has passed on the rows that are there. Raises MetastoreError and StorageError."""
    if any(tables.get(name, True) is None for name in test.reads):
        return DataTestState.NO_TABLE
    fingerprint = passed.fingerprint(test)
    if fingerprint is None:
        return DataTestState.UNKNOWN
    return DataTestState.PASSED if passed.has_passed(test, fingerprint) else DataTestState.NOT_PASSED
