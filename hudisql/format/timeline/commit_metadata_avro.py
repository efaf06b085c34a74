"""Commit metadata as Avro, as layout 2 of the timeline keeps it.

Follows `CommitMetadataSerDeV2`, `HoodieCommitMetadata` and `HoodieReplaceCommitMetadata` of Hudi 1.2: the
fields of the JSON form, all nullable, in one record of an Avro object container. Values and bytes only.
"""

from __future__ import annotations

from typing import Any

from hudisql.format.avro.avro_container import load_codec
from hudisql.format.timeline.commit_metadata import CommitMetadata, RuntimeStats, WriteStat, stat_document

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
            partition: [_stat_record(stat) for stat in stats]
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


def _stat_record(stat: WriteStat) -> dict[str, Any]:
    runtime = stat.runtime_stats
    record = stat_document(stat)
    record["runtimeStats"] = None if runtime is None else _runtime_record(runtime)
    if stat.log_write is not None:
        record["logVersion"] = stat.log_write.log_version
        record["logOffset"] = stat.log_write.log_offset
        record["baseFile"] = stat.log_write.base_file
        record["logFiles"] = list(stat.log_write.log_files)
    return record


def _runtime_record(runtime: RuntimeStats) -> dict[str, int]:
    return {
        "totalScanTime": runtime.total_scan_time,
        "totalCreateTime": runtime.total_create_time,
        "totalUpsertTime": runtime.total_upsert_time,
    }
