"""Commit metadata: the write statistics of a completed commit.

Follows `HoodieCommitMetadata`, `HoodieReplaceCommitMetadata` and `HoodieWriteStat` of Hudi 0.15 and writes
their JSON in Jackson's layout, byte for byte. The Avro form of timeline layout 2, with the same fields, is
read here, too. Fields that newer writers add are ignored on reading.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hudisql.errors import CorruptTableError
from hudisql.storage import Storage

SCHEMA_KEY = "schema"
"""Key of `extra_metadata` that holds the table's Avro schema as JSON text."""
SINK_CHECKPOINT_KEY: Final = "_hudi_streaming_sink_checkpoint"
"""Key of `extra_metadata` by which streaming sinks find the batches that are written."""
INDEXED_COMMITS: Final = "hudisql.record.index.commits"
"""Key of `extra_metadata`: with this commit the record index has the keys of these commits, too."""
DELETE_PARTITION = "DELETE_PARTITION"
"""The operation type of a replacecommit that drops whole partitions."""
NO_COMMIT: Final = "null"
"""The earlier commit of a file in a new file group, as Hudi writes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeStats:
    """Milliseconds that a writer spent on one file."""

    total_scan_time: int = 0
    total_upsert_time: int = 0
    total_create_time: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWriteStat:
    """The additional fields of a write into a log file."""

    log_version: int
    log_offset: int
    base_file: str | None
    log_files: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStat:
    """The write of one commit to one file; sizes in bytes, `path` relative to the table's base path."""

    file_id: str
    path: str | None
    partition_path: str | None
    prev_commit: str = NO_COMMIT
    cdc_stats: Mapping[str, int] | None = None
    num_writes: int = 0
    num_deletes: int = 0
    num_update_writes: int = 0
    num_inserts: int = 0
    total_write_bytes: int = 0
    total_write_errors: int = 0
    temp_path: str | None = None
    total_log_records: int = 0
    total_log_files_compacted: int = 0
    total_log_size_compacted: int = 0
    total_updated_records_compacted: int = 0
    total_log_blocks: int = 0
    total_corrupt_log_block: int = 0
    total_rollback_blocks: int = 0
    file_size_in_bytes: int = 0
    min_event_time: int | None = None
    max_event_time: int | None = None
    runtime_stats: RuntimeStats | None = field(default_factory=RuntimeStats)
    log_write: LogWriteStat | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMetadata:
    """The content of a commit, deltacommit or replacecommit file."""

    partition_to_write_stats: Mapping[str, tuple[WriteStat, ...]]
    compacted: bool = False
    extra_metadata: Mapping[str, str | None] = field(default_factory=dict)
    operation_type: str | None = None
    partition_to_replace_file_ids: Mapping[str, tuple[str, ...]] | None = None

    @property
    def schema(self) -> str | None:
        """The table's Avro schema as JSON text, or None if this commit carries none."""
        return self.extra_metadata.get(SCHEMA_KEY) or None

    @property
    def write_stats(self) -> Iterator[WriteStat]:
        """The write statistics of all partitions."""
        for stats in self.partition_to_write_stats.values():
            yield from stats

    def to_json(self) -> bytes:
        """The file's content, laid out as Hudi's Jackson writer does."""
        document: dict[str, Any] = {
            "partitionToWriteStats": dict(self.partition_to_write_stats),
            "compacted": self.compacted,
            "extraMetadata": dict(self.extra_metadata),
            "operationType": self.operation_type,
        }
        if self.partition_to_replace_file_ids is not None:
            document["partitionToReplaceFileIds"] = {
                partition: list(ids) for partition, ids in self.partition_to_replace_file_ids.items()
            }
        content = bytearray()
        for part in _jackson_parts(document, ""):
            content += part.encode()
        return bytes(content)


def new_commit_metadata(
    write_stats: Iterable[WriteStat],
    avro_schema: str,
    operation_type: str,
    replaced: Mapping[str, tuple[str, ...]] | None = None,
    extra_metadata: Mapping[str, str] | None = None,
) -> CommitMetadata:
    """The metadata of a new commit: its write statistics by partition, and the table's schema.

    `replaced` are the file ids that a replacecommit replaces, by partition; `extra_metadata` stands beside
    the schema.
    """
    by_partition: dict[str, list[WriteStat]] = defaultdict(list)
    for stat in write_stats:
        by_partition[stat.partition_path or ""].append(stat)
    return CommitMetadata(
        partition_to_write_stats={path: tuple(stats) for path, stats in by_partition.items()},
        extra_metadata={SCHEMA_KEY: avro_schema, **(extra_metadata or {})},
        operation_type=operation_type,
        partition_to_replace_file_ids=replaced,
    )


def parse_commit_metadata(content: bytes) -> CommitMetadata:
    """Read a commit, deltacommit, replacecommit or an inflight workload profile, as JSON or Avro.

    An empty file (the inflight of a bootstrap) is empty metadata. Raises CorruptTableError.
    """
    if not content:
        return CommitMetadata(partition_to_write_stats={})
    document = parse_commit_document(content)
    replaced = document.get("partitionToReplaceFileIds")
    try:
        return CommitMetadata(
            partition_to_write_stats={
                partition: tuple(_stat_from_json(stat) for stat in stats)
                for partition, stats in (document.get("partitionToWriteStats") or {}).items()
            },
            compacted=bool(document.get("compacted", False)),
            extra_metadata=document.get("extraMetadata") or {},
            operation_type=document.get("operationType"),
            partition_to_replace_file_ids=None
            if replaced is None
            else {partition: tuple(ids) for partition, ids in replaced.items()},
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptTableError(f"commit metadata lacks or misuses a field: {error!r}") from error


def read_commit_metadata(storage: Storage, path: str) -> CommitMetadata:
    """Commit metadata of a completed instant, by its file's path.

    Raises NoSuchPathError, StorageError, and CorruptTableError that names the file.
    """
    return commit_metadata_in(storage.read(path), path)


def commit_metadata_in(content: bytes, path: str) -> CommitMetadata:
    """Commit metadata by its file's content. Raises CorruptTableError that names the file."""
    try:
        return parse_commit_metadata(content)
    except CorruptTableError as error:
        raise CorruptTableError(f"cannot decode {path}: {error.message}") from error


def extra_metadata_in(content: bytes, path: str) -> dict[str, str | None]:
    """Only the key-value pairs of a commit: much cheaper than its thousands of write statistics.

    Raises CorruptTableError that names the file.
    """
    return dict(_member_of(content, path, "extraMetadata"))


# A quote after a backslash is in a text.
_EXTRA_METADATA: Final = re.compile(rb'(?<!\\)"extraMetadata"\s*:\s*\{')


def extra_metadata_at_end(content: bytes) -> dict[str, str | None] | None:
    """The key-value pairs of a commit from the end of its JSON; None if the end does not have them all.

    Hudi writes them after the write statistics. Only a member of the outermost object is followed by
    exactly one closing brace.
    """
    starts = [found.start() for found in _EXTRA_METADATA.finditer(content)]
    if not starts:
        return None
    try:
        return dict(json.loads(b"{" + content[starts[-1] :])["extraMetadata"])
    except ValueError:
        return None


def replaced_file_ids_in(content: bytes, path: str) -> dict[str, list[str]]:
    """Only the file groups that a replacecommit has replaced, as file ids by partition path.

    Raises CorruptTableError that names the file.
    """
    return dict(_member_of(content, path, "partitionToReplaceFileIds"))


def _member_of(content: bytes, path: str, member: str) -> dict[str, Any]:
    if not content:
        return {}
    try:
        if not content.startswith(b"{"):
            # Tasks that write skeletons load no Avro reader.
            from hudisql.format.avro.avro_container import CONTAINER_MAGIC, decode_member

            if content.startswith(CONTAINER_MAGIC):
                return dict(decode_member(content, "commit metadata", member) or {})
        return parse_commit_document(content).get(member) or {}
    except CorruptTableError as error:
        raise CorruptTableError(f"cannot decode {path}: {error.message}") from error


def parse_commit_document(content: bytes) -> dict[str, Any]:
    """The fields of commit metadata by their names in JSON, from JSON or Avro. Raises CorruptTableError."""
    if not content.startswith(b"{"):
        # Tasks that write skeletons load no Avro reader.
        from hudisql.format.avro.avro_container import CONTAINER_MAGIC, decode_container

        if content.startswith(CONTAINER_MAGIC):
            return decode_container(content, "commit metadata")
    try:
        document = json.loads(content)
    except ValueError as error:
        raise CorruptTableError(f"commit metadata is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise CorruptTableError("commit metadata is not a JSON object")
    return document


# JSON name of each plain field of a WriteStat, in the order Hudi writes them.
_STAT_FIELDS = {
    "fileId": "file_id",
    "path": "path",
    "cdcStats": "cdc_stats",
    "prevCommit": "prev_commit",
    "numWrites": "num_writes",
    "numDeletes": "num_deletes",
    "numUpdateWrites": "num_update_writes",
    "numInserts": "num_inserts",
    "totalWriteBytes": "total_write_bytes",
    "totalWriteErrors": "total_write_errors",
    "tempPath": "temp_path",
    "partitionPath": "partition_path",
    "totalLogRecords": "total_log_records",
    "totalLogFilesCompacted": "total_log_files_compacted",
    "totalLogSizeCompacted": "total_log_size_compacted",
    "totalUpdatedRecordsCompacted": "total_updated_records_compacted",
    "totalLogBlocks": "total_log_blocks",
    "totalCorruptLogBlock": "total_corrupt_log_block",
    "totalRollbackBlocks": "total_rollback_blocks",
    "fileSizeInBytes": "file_size_in_bytes",
    "minEventTime": "min_event_time",
    "maxEventTime": "max_event_time",
}


def stat_document(stat: WriteStat) -> dict[str, Any]:
    """The fields of a write statistic by Hudi's names, in its order."""
    document = {name: getattr(stat, attribute) for name, attribute in _STAT_FIELDS.items()}
    runtime = stat.runtime_stats
    document["runtimeStats"] = runtime and {
        "totalScanTime": runtime.total_scan_time,
        "totalUpsertTime": runtime.total_upsert_time,
        "totalCreateTime": runtime.total_create_time,
    }
    if stat.log_write is not None:
        document["logVersion"] = stat.log_write.log_version
        document["logOffset"] = stat.log_write.log_offset
        document["baseFile"] = stat.log_write.base_file
        document["logFiles"] = list(stat.log_write.log_files)
    return document


def _stat_to_json(stat: WriteStat) -> dict[str, Any]:
    document = stat_document(stat)
    if stat.log_write is not None:
        document["recordsStats"] = {"val": None}
    return document


def _stat_from_json(document: Mapping[str, Any]) -> WriteStat:
    values = {
        attribute: document[name]
        for name, attribute in _STAT_FIELDS.items()
        # Avro has null for fields that JSON leaves out.
        if name in document and (document[name] is not None or name in _NULLABLE_STATS)
    }
    runtime = document.get("runtimeStats")
    log_write = None
    if document.get("logVersion") is not None:
        log_write = LogWriteStat(
            log_version=document["logVersion"],
            log_offset=document.get("logOffset") or 0,
            base_file=document.get("baseFile"),
            log_files=tuple(document.get("logFiles") or ()),
        )
    values.setdefault("path", None)
    values.setdefault("partition_path", None)
    return WriteStat(
        **values,
        runtime_stats=runtime
        and RuntimeStats(
            total_scan_time=runtime.get("totalScanTime", 0),
            total_upsert_time=runtime.get("totalUpsertTime", 0),
            total_create_time=runtime.get("totalCreateTime", 0),
        ),
        log_write=log_write,
    )


_NULLABLE_STATS = frozenset(
    {"fileId", "prevCommit", "path", "partitionPath", "cdcStats", "tempPath", "minEventTime", "maxEventTime"}
)
_encode_scalar = json.JSONEncoder(ensure_ascii=False).encode


def _scalar(value: Any) -> str:
    # A bootstrap of thousands of files has millions of plain numbers; the encoder is slow for them.
    if value is None:
        return "null"
    return str(value) if type(value) is int else _encode_scalar(value)


def _jackson_parts(value: Any, indent: str) -> Iterator[str]:
    """`_jackson` in pieces, one write statistic at a time: memory holds only the text of a large commit."""
    if isinstance(value, WriteStat):
        yield _jackson(_stat_to_json(value), indent)
    elif isinstance(value, Mapping) and value:
        inner, before = indent + "  ", "{\n"
        for name, member in value.items():
            yield f"{before}{inner}{_scalar(name)} : "
            yield from _jackson_parts(member, inner)
            before = ",\n"
        yield f"\n{indent}}}"
    elif isinstance(value, tuple | list) and value:
        before = "[ "
        for item in value:
            yield before
            yield from _jackson_parts(item, indent)
            before = ", "
        yield " ]"
    else:
        yield _jackson(list(value) if isinstance(value, tuple) else value, indent)


def _jackson(value: Any, indent: str) -> str:
    """`value` as Jackson's default pretty printer lays it out (objects indented, arrays on one line)."""
    if isinstance(value, Mapping):
        if not value:
            return "{ }"
        inner = indent + "  "
        members = (f"{inner}{_scalar(name)} : {_jackson(member, inner)}" for name, member in value.items())
        return "{\n" + ",\n".join(members) + f"\n{indent}}}"
    if isinstance(value, list):
        return f"[ {', '.join(_jackson(item, indent) for item in value)} ]" if value else "[ ]"
    return _scalar(value)
