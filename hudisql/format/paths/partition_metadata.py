"""`.hoodie_partition_metadata`: the small file that marks a directory as a partition.

Follows `HoodiePartitionMetadata` of Hudi 0.15. Only its text; other modules list and write it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from hudisql.errors import CorruptTableError
from hudisql.format.table_properties import parse_properties, render_properties

PARTITION_METADATA_FILE = ".hoodie_partition_metadata"


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """First commit of a partition and how many directories it lies below the base path (0: not
    partitioned).
    """

    commit_time: str
    partition_depth: int


def render_partition_metadata(metadata: PartitionMetadata, now: datetime) -> bytes:
    """The file's content."""
    values = {"commitTime": metadata.commit_time, "partitionDepth": str(metadata.partition_depth)}
    return render_properties(values, "partition metadata", now)


def parse_partition_metadata(content: bytes) -> PartitionMetadata:
    """Read the file's content. Raises CorruptTableError."""
    values = parse_properties(content)
    try:
        return PartitionMetadata(values["commitTime"], int(values["partitionDepth"]))
    except (KeyError, ValueError) as error:
        raise CorruptTableError(f"{PARTITION_METADATA_FILE} lacks {error}") from error
