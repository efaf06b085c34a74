"""Which state of a Hudi table a publication shows, and which partitions have changed since.

The commits since the last publication name the partitions. Where the timeline does not tell, since commits
were archived, rolled back or restored meanwhile, the table is looked at as a whole.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from hudisql.format import table_properties as keys
from hudisql.format.paths.partition_path import escape_partition_value, split_partition_path
from hudisql.format.timeline.instant import COMMIT_ACTIONS
from hudisql.table.files.changed_partitions import partitions_of_commits
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import TablePartition, reads_escaped
from hudisql.table.properties.table_configuration import COLUMN_STATS_ENABLE

# Properties that change while the rows that readers get stay.
_OF_NO_ROWS: Final = frozenset(
    {
        *(keys.CHECKSUM, keys.NAME, keys.DATABASE_NAME),
        *(keys.METADATA_PARTITIONS, keys.METADATA_PARTITIONS_INFLIGHT),
        *(COLUMN_STATS_ENABLE, keys.WRITE_VERSION),
    }
)


@dataclass(frozen=True)
class PublishedState:
    """The instant times of the completed and the pending commits on the active timeline, a hash of the
    columns and properties, by which files are read, and the sum of the files of register-only partitions
    (`registered_files`).
    """

    completed: tuple[str, ...]
    pending: tuple[str, ...]
    columns: str
    registered: str = ""

    def of_same_values(self) -> PublishedState:
        """The state of a table whose directories may have the same values: the next one looks at them all."""
        return replace(self, columns="")

    @property
    def instant(self) -> str:
        """The time of the newest commit; empty if there is none."""
        return max(self.completed, default="")

    def is_in(self, other: PublishedState) -> bool:
        """True if the other state shows all commits of this one, and the same register-only partitions."""
        return set(self.completed) <= set(other.completed) and self.registered == other.registered

    def to_text(self) -> str:
        """The state as a property of the Iceberg table."""
        parts = [self.completed, self.pending, self.columns, *([self.registered] if self.registered else [])]
        return json.dumps(parts, separators=(",", ":"))


def state_of(table: HudiTable) -> PublishedState:
    """The state of the table as it stands, but for its register-only partitions."""
    timeline, values = table.timeline, table.properties.values
    completed = sorted(commit.timestamp for commit in timeline.commits)
    pending = sorted(
        instant.timestamp for instant in timeline.pending if instant.completed_action in COMMIT_ACTIONS
    )
    properties = sorted((name, value) for name, value in values.items() if name not in _OF_NO_ROWS)
    columns = hashlib.sha256(f"{table.schema}\n{properties}".encode()).hexdigest()
    return PublishedState(tuple(completed), tuple(pending), columns)


def state_from(text: str) -> PublishedState | None:
    """The state in a property; None if it is none."""
    try:
        completed, pending, *texts = json.loads(text)
        return PublishedState(tuple(completed), tuple(pending), *map(str, texts))
    except (ValueError, TypeError):
        return None


def tell_apart_by_values(table: HudiTable, partitions: Iterable[TablePartition]) -> bool:
    """True if the directories have the names that writers give them, so that no two have the same values.

    False for `month=01` of an int column: a writer that does not know it makes `month=1`.
    """
    names, is_escaped = [column.name for column in table.partition_columns], reads_escaped(table)
    for partition in partitions:
        texts = split_partition_path(partition.path, names, url_encode=False)
        for text, value in zip(texts, partition.values, strict=True):
            if text is not None and text != _text_of(value, is_escaped=is_escaped) and "/" not in text:
                return False
    return True


def _text_of(value: object, *, is_escaped: bool) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return escape_partition_value(text) if is_escaped else text


def changed_partitions(table: HudiTable, then: PublishedState, now: PublishedState) -> frozenset[str] | None:
    """The paths of the partitions that commits since then have changed; None if any may have.

    Raises TimelineChangedError, CorruptTableError, StorageError.
    """
    timeline = table.timeline
    first, known = timeline.first_active_time, set(then.completed)
    if first is None or then.instant not in now.completed or then.columns != now.columns:
        return None
    if then.instant < first:
        # A savepoint keeps it on the timeline, while later commits may be archived.
        return None
    active = {instant.timestamp for instant in timeline.instants}
    # Archived instants are older than the active timeline; others that are gone have been undone.
    undone = any(instant_time >= first for instant_time in known - active)
    if undone or any(instant_time < first for instant_time in set(then.pending) - active):
        return None
    new = [commit for commit in timeline.commits if commit.timestamp not in known]
    return frozenset[str]().union(*(partition.changed for partition in partitions_of_commits(table, new)))
