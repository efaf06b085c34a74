"""The metadata of a completed clean: the files it deleted, and the earliest commit that is still readable.

Follows `HoodieCleanMetadata` and `HoodieCleanPartitionMetadata` of Hudi 0.15. Values and bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hudisql.format.avro.avro_container import load_codec
from hudisql.format.timeline.instant import Instant
from hudisql.table.hudi_table import HudiTable
from hudisql.table.timeline.instant_files import read_instant

SAVEPOINTED_TIMESTAMPS: Final = "savepointed_timestamps"
"""Key of the extra metadata: the savepoints that a clean has respected."""
_VERSION: Final = 2


@dataclass(frozen=True, slots=True)
class CleanedPartition:
    """The files of one partition, by name (source files by URI), that were to be deleted."""

    partition_path: str
    policy: str
    patterns: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    is_partition_deleted: bool = False

    def to_record(self) -> dict[str, object]:
        """The Avro record `HoodieCleanPartitionMetadata`."""
        return {
            "partitionPath": self.partition_path,
            "policy": self.policy,
            "deletePathPatterns": list(self.patterns),
            "successDeleteFiles": list(self.deleted),
            "failedDeleteFiles": list(self.failed),
            "isPartitionDeleted": self.is_partition_deleted,
        }


@dataclass(frozen=True, slots=True)
class CleanMetadata:
    """The content of `<t>.clean`; `earliest_retained` is empty if the policy counts file versions.

    `sources` are the external files of bootstrapped slices, which Apache Hudi deletes if configured.
    """

    start_time: str
    milliseconds: int
    earliest_retained: str
    last_completed: str
    partitions: tuple[CleanedPartition, ...]
    sources: tuple[CleanedPartition, ...] = ()
    extra_metadata: Mapping[str, str] | None = field(default=None)
    version: int = _VERSION
    files_deleted: int = 0

    @property
    def savepoints(self) -> frozenset[str]:
        """The savepoints that the clean has respected."""
        text = (self.extra_metadata or {}).get(SAVEPOINTED_TIMESTAMPS) or ""
        return frozenset(part for part in text.split(",") if part)

    def to_avro(self) -> bytes:
        """The content of the completed instant."""
        record = {
            "startCleanTime": self.start_time,
            "timeTakenInMillis": self.milliseconds,
            "totalFilesDeleted": self.files_deleted,
            "earliestCommitToRetain": self.earliest_retained,
            "lastCompletedCommitTimestamp": self.last_completed,
            "partitionMetadata": {
                partition.partition_path: partition.to_record() for partition in self.partitions
            },
            "version": self.version,
            "bootstrapPartitionMetadata": {
                source.partition_path: source.to_record() for source in self.sources
            },
            "extraMetadata": None if self.extra_metadata is None else dict(self.extra_metadata),
        }
        return load_codec("HoodieCleanMetadata").encode(record)


def clean_metadata_of(found: Mapping[str, Any]) -> CleanMetadata:
    """The Avro record of a completed clean."""
    return CleanMetadata(
        start_time=found["startCleanTime"],
        milliseconds=found["timeTakenInMillis"],
        earliest_retained=found["earliestCommitToRetain"] or "",
        last_completed=found.get("lastCompletedCommitTimestamp") or "",
        partitions=tuple(_of_record(record) for record in found["partitionMetadata"].values()),
        sources=tuple(
            _of_record(record) for record in (found.get("bootstrapPartitionMetadata") or {}).values()
        ),
        extra_metadata=found.get("extraMetadata"),
        version=found.get("version") or 1,
        files_deleted=found["totalFilesDeleted"],
    )


def read_clean_metadata(table: HudiTable, instant: Instant) -> CleanMetadata | None:
    """The metadata of a completed clean; None for an empty file, which some writers leave after a crash.

    Raises CorruptTableError, TimelineChangedError, StorageError.
    """
    content = read_instant(table, instant)
    if not content:
        return None
    return clean_metadata_of(load_codec("HoodieCleanMetadata").decode(content, table.instant_path(instant)))


def _of_record(found: Mapping[str, Any]) -> CleanedPartition:
    return CleanedPartition(
        partition_path=found["partitionPath"],
        policy=found["policy"],
        patterns=tuple(found["deletePathPatterns"]),
        deleted=tuple(found["successDeleteFiles"]),
        failed=tuple(found["failedDeleteFiles"]),
        is_partition_deleted=bool(found["isPartitionDeleted"]),
    )
