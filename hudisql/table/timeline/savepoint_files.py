"""Savepoints of a table: their metadata, and the files that they protect from cleans.

Follows `HoodieSavepointMetadata` and `CleanPlanner.getSavepointedDataFiles` of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hudisql.format.avro.avro_container import load_codec
from hudisql.format.timeline.instant import SAVEPOINT
from hudisql.table.meta_client import TableMetaClient
from hudisql.table.timeline.instant_files import read_instants


@dataclass(frozen=True, slots=True)
class SavepointMetadata:
    """Who made a savepoint, when (milliseconds since 1970), and its file names by partition path."""

    user: str
    created_at_ms: int
    comments: str
    files: Mapping[str, tuple[str, ...]]

    def to_avro(self) -> bytes:
        """The content of `<t>.savepoint`."""
        partitions = {
            partition: {"partitionPath": partition, "savepointDataFile": list(names)}
            for partition, names in self.files.items()
        }
        record = {
            "savepointedBy": self.user,
            "savepointedAt": self.created_at_ms,
            "comments": self.comments,
            "partitionMetadata": partitions,
            "version": 1,
        }
        return load_codec("HoodieSavepointMetadata").encode(record)


def parse_savepoint_metadata(content: bytes, path: str) -> SavepointMetadata:
    """The content of a completed savepoint. Raises CorruptTableError."""
    savepoint = load_codec("HoodieSavepointMetadata").decode(content, path)
    return SavepointMetadata(
        str(savepoint["savepointedBy"]),
        int(savepoint["savepointedAt"]),
        str(savepoint["comments"]),
        {
            str(partition): tuple(str(name) for name in record["savepointDataFile"])
            for partition, record in savepoint["partitionMetadata"].items()
        },
    )


def savepointed_files(table: TableMetaClient) -> frozenset[str]:
    """The names of all files of the completed savepoints, without their partitions, as Hudi compares them.

    Raises CorruptTableError, StorageError.
    """
    savepoints = [instant for instant in table.timeline.completed if instant.action == SAVEPOINT]
    return frozenset(
        name
        for instant, content in zip(savepoints, read_instants(table, savepoints), strict=True)
        for names in parse_savepoint_metadata(content, table.instant_path(instant)).files.values()
        for name in names
    )
