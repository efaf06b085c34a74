"""Commit metadata as Avro, as layout 2 of the timeline keeps it.

Follows `CommitMetadataSerDeV2`, `HoodieCommitMetadata` and `HoodieReplaceCommitMetadata` of Hudi 1.2: the
fields of the JSON form, all nullable, in one record of an Avro object container. Values and bytes only.
"""

from __future__ import annotations

from typing import Any

from hudisql.format.avro.avro_container import load_codec
from hudisql.format.timeline.commit_metadata import CommitMetadata, stat_document

COMMIT_RECORD = "HoodieCommitMetadata"
"""The Avro record of commits and deltacommits."""
REPLACE_RECORD = "HoodieReplaceCommitMetadata"
"""The Avro record of replacecommits."""


def render_commit_metadata(metadata: CommitMetadata) -> bytes:
    """The content of a completed commit; replaced file groups make it that of a replacecommit.

    Entries of `extra_metadata` without a value are left out, since Avro's map has no null.
    """
    record: dict[str, Any] = {
        "partitionToWriteStats": {
            partition: [stat_document(stat) for stat in stats]
            for partition, stats in metadata.partition_to_write_stats.items()
        },
        "compacted": metadata.compacted,
        "extraMetadata": {key: text for key, text in metadata.extra_metadata.items() if text is not None},
        "version": 1,
        "operationType": metadata.operation_type,
    }
    replaced = metadata.partition_to_replace_file_ids
    if replaced is None:
        return load_codec(COMMIT_RECORD).encode(record)
    record["partitionToReplaceFileIds"] = {partition: list(ids) for partition, ids in replaced.items()}
    return load_codec(REPLACE_RECORD).encode(record)
