"""The offsets up to which a table has the events of its sources; a commit has both offsets and rows.

The newest commit that has offsets counts. Before it completes, a commit compares them under the table's lock
with those at its begin: if two workers both believe that they own the table, only one of them commits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hudisql.errors import CorruptTableError, WriteConflictError
from hudisql.table.hudi_table import HudiTable
from hudisql.write.transaction.rows_checkpoint import find_newest

OFFSETS_KEY: Final = "hudisql.ingest.offsets"
"""Key of the extra metadata."""

SourcePartition = tuple[str, int]
"""A topic and the number of one of its partitions."""


@dataclass(frozen=True, slots=True)
class TableOffsets:
    """The next offset of each source partition, and the ownership under which they were committed.

    `epoch` grows by one each time a worker takes the table; `owner` names the worker.
    """

    offsets: Mapping[SourcePartition, int] = field(default_factory=dict)
    epoch: int = 0
    owner: str = ""

    def to_text(self) -> str:
        """The value of OFFSETS_KEY."""
        topics = offsets_by_topic(self.offsets)
        return json.dumps({"offsets": topics, "epoch": self.epoch, "owner": self.owner})


def offsets_by_topic(offsets: Mapping[SourcePartition, int]) -> dict[str, dict[str, int]]:
    """The offsets for JSON: by topic, then by the partition's number as text."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return topics


NO_OFFSETS: Final = TableOffsets()


def find_offsets(table: HudiTable) -> TableOffsets:
    """The offsets of the newest commit with offsets; NO_OFFSETS without one.

    Raises CorruptTableError, UnsupportedTableError, StorageError.
    """
    table_offsets = find_newest(table, OFFSETS_KEY, lambda text: offsets_of_text(text, table.base_path))
    return NO_OFFSETS if table_offsets is None else table_offsets


def offsets_of_text(text: str, base_path: str) -> TableOffsets:
    """The offsets of a value of OFFSETS_KEY. Raises CorruptTableError."""
    try:
        values: dict[str, Any] = json.loads(text)
        offsets = {
            (topic, int(partition)): int(offset)
            for topic, partitions in values["offsets"].items()
            for partition, offset in partitions.items()
        }
        return TableOffsets(offsets, int(values["epoch"]), str(values["owner"]))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CorruptTableError(
            f"a commit of {base_path} has offsets '{text}' that cannot be read: {error}"
        ) from error


@dataclass(frozen=True, slots=True)
class OffsetsCheckpoint:
    """The offsets `reached` of a commit that began at `previous`."""

    previous: TableOffsets
    reached: TableOffsets

    @property
    def extra_metadata(self) -> Mapping[str, str]:
        """The entry of the commit's extra metadata."""
        return {OFFSETS_KEY: self.reached.to_text()}

    def check(self, target: HudiTable) -> None:
        """Raise WriteConflictError if another worker has committed since, or offsets would go backwards."""
        table_offsets = find_offsets(target)
        if table_offsets != self.previous:
            raise WriteConflictError(
                f"another worker, '{table_offsets.owner}' of epoch {table_offsets.epoch}, writes to "
                f"{target.base_path}: this one, '{self.reached.owner}' of epoch {self.reached.epoch}, "
                "has lost it, and nothing was written",
                hint="the events are taken again from the offsets of the table's last commit",
            )
        behind = [
            partition
            for partition, offset in self.previous.offsets.items()
            if self.reached.offsets[partition] < offset
        ]
        if behind:
            raise WriteConflictError(f"the offset of {behind[0]} would go backwards in {target.base_path}")
