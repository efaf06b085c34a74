"""The small files of a bootstrapped table: properties, partition metadata, index, timeline.

They turn skeletons into a table of version 6 or 9. Their order keeps the table invisible until it is
complete: `hoodie.properties` comes last, created atomically. Follows what Hudi 0.15 leaves on disk after a
metadata-only bootstrap; knows no Spark.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from hudisql.bootstrap.files.full_record_sources import RewrittenSource, write_full_record_sources
from hudisql.bootstrap.files.skeleton import SkeletonResult
from hudisql.bootstrap.lease.protected_sources import covering_directories
from hudisql.bootstrap.plan.bootstrap_plan import BootstrapPlan
from hudisql.format import table_properties as keys
from hudisql.format.hfile.bootstrap_index import (
    BootstrapMapping,
    file_id_index_path,
    partition_index_path,
    write_bootstrap_index,
)
from hudisql.format.paths.external_file import ExternalFile
from hudisql.format.paths.partition_metadata import (
    PARTITION_METADATA_FILE,
    PartitionMetadata,
    render_partition_metadata,
)
from hudisql.format.schema.avro_schema import avro_from_arrow
from hudisql.format.schema.sized_text import render_column_lengths
from hudisql.format.timeline.commit_metadata import (
    CommitMetadata,
    RuntimeStats,
    WriteStat,
    new_commit_metadata,
)
from hudisql.format.timeline.instant import (
    COMMIT,
    DELTA_COMMIT,
    FULL_BOOTSTRAP_INSTANT_TIME,
    METADATA_BOOTSTRAP_INSTANT_TIME,
    Instant,
    InstantState,
    new_instant_time,
)
from hudisql.format.timeline.timeline_layout import instant_path, timeline_layout
from hudisql.storage import Storage, join, parent_of
from hudisql.table.hudi_table import LAYOUT_OF_VERSION
from hudisql.table.partitions.registered_partitions import RegisteredPartition, write_registered_partitions
from hudisql.table.properties.new_table import (
    NewTable,
    make_timeline_directories,
    new_table_properties,
    publish_properties,
)
from hudisql.table.properties.table_configuration import COLUMN_STATS_ENABLE
from hudisql.write.transaction.timeline_files import timeline_files

if TYPE_CHECKING:
    from hudisql.bootstrap.files.full_record import FullRecordFile


BOOTSTRAP: Final = "BOOTSTRAP"
BULK_INSERT: Final = "BULK_INSERT"


@dataclass(frozen=True, slots=True)
class WrittenSkeleton:
    """A finished skeleton, its partition (target and source path) and its source file."""

    partition_path: str
    source_partition_path: str
    source: ExternalFile
    result: SkeletonResult

    def source_of(self, row: int) -> tuple[str, int | None]:
        """The source file of a row of this file, and the row's number there."""
        return self.source.path, row


@dataclass(frozen=True, slots=True)
class WrittenFullRecords:
    """A finished base file of a full-record partition."""

    partition_path: str
    result: FullRecordFile

    def source_of(self, row: int) -> tuple[str, int | None]:
        """The source file of a row of this file, and the row's number there; None after a sort."""
        for source in self.result.source_rows:
            if row < source.rows:
                return source.path, None if source.first_row is None else source.first_row + row
            row -= source.rows
        raise IndexError(f"{self.result.path} has no such row")


BootstrapFile = WrittenSkeleton | WrittenFullRecords


def table_property_values(plan: BootstrapPlan) -> Mapping[str, str]:
    """The properties of the new table."""
    request = plan.request
    others = {
        keys.BOOTSTRAP_BASE_PATH: plan.base_path,
        keys.BOOTSTRAP_INDEX_CLASS: keys.HFILE_BOOTSTRAP_INDEX,
        COLUMN_STATS_ENABLE: "false",
    }
    if plan.unsafe_types:
        others[keys.UNSAFE_TYPES] = ";".join(
            f"{column}={','.join(names)}" for column, names in plan.unsafe_types.items()
        )
    if plan.column_lengths:
        others[keys.COLUMN_LENGTHS] = render_column_lengths(plan.column_lengths)
    if plan.register_only_partitions:
        others[keys.REGISTER_ONLY] = "true"
    if request.source_table is not None:
        others[keys.BOOTSTRAP_SOURCE_TABLE] = ".".join(request.source_table)
    if request.partition_filter is not None:
        others[keys.BOOTSTRAP_PARTITION_FILTER] = request.partition_filter
    if plan.read_by_name is not None:
        others[keys.BOOTSTRAP_SOURCE_KIND] = plan.read_by_name.kind
    if request.ignore:
        others[keys.BOOTSTRAP_IGNORE] = ",".join(request.ignore)
    directories = (
        parent_of(file.source.path) for partition in plan.partitions for file in partition.files[:1]
    )
    if outside := covering_directories(plan.base_path, directories)[1:]:
        others[keys.BOOTSTRAP_SOURCE_DIRECTORIES] = json.dumps(outside)
    return new_table_properties(
        NewTable(
            name=request.name,
            database=request.database,
            table_type=request.table_type,
            record_key=tuple(plan.record_key),
            partition_fields=tuple(column.name for column in plan.partition_columns),
            precombine=plan.precombine,
            payload_class=request.payload_class,
            is_hive_style=plan.is_hive_style,
            is_url_encoded=plan.is_url_encoded,
            others=others,
            version=request.table_version,
        )
    )


def commit_metadata(
    plan: BootstrapPlan, files: Sequence[BootstrapFile], operation_type: str = BOOTSTRAP
) -> CommitMetadata:
    """The metadata of a commit of the bootstrap: a write statistic per file and the table's schema."""
    return new_commit_metadata(
        (_write_stat(plan.target_path, file) for file in files),
        avro_from_arrow(plan.schema, plan.request.name),
        operation_type,
    )


def _write_stat(base_path: str, file: BootstrapFile) -> WriteStat:
    result = file.result
    return WriteStat(
        file_id=result.file_id,
        path=result.path[len(base_path) :].lstrip("/"),
        partition_path=file.partition_path,
        num_writes=result.rows,
        num_inserts=result.rows,
        total_write_bytes=result.bytes,
        file_size_in_bytes=result.bytes,
        runtime_stats=RuntimeStats(total_create_time=round(result.seconds * 1000)),
    )


def write_table_files(
    storage: Storage,
    plan: BootstrapPlan,
    skeletons: Sequence[WrittenSkeleton],
    now: datetime,
    full_records: Sequence[WrittenFullRecords] = (),
) -> int:
    """Write everything but `hoodie.properties`; returns the bytes written. Raises StorageError.

    As with Hudi, skeletons are the commit 00000000000001 with an index, full records 00000000000002.
    """
    written = 0
    for instant_time, partitions in (
        (METADATA_BOOTSTRAP_INSTANT_TIME, plan.skeleton_partitions),
        (FULL_BOOTSTRAP_INSTANT_TIME, plan.full_record_partitions),
    ):
        marker = PartitionMetadata(instant_time, len(plan.partition_columns))
        content = render_partition_metadata(marker, now)
        directories = [join(plan.target_path, partition.path) for partition in partitions]
        storage.write_files([join(directory, PARTITION_METADATA_FILE) for directory in directories], content)
        written += len(content) * len(directories)
    make_timeline_directories(storage, plan.target_path, plan.request.table_version)
    if plan.skeleton_partitions:
        written += _write_index(storage, plan, skeletons, now)
        metadata = commit_metadata(plan, skeletons)
        written += _write_instant(storage, plan, METADATA_BOOTSTRAP_INSTANT_TIME, metadata, now)
    if plan.register_only_partitions:
        # Without rows a lift would have nothing to write.
        registered = [
            RegisteredPartition(register_only_partition.path, register_only_partition.source.location)
            for register_only_partition in plan.register_only_partitions
            if register_only_partition.rows
        ]
        written += write_registered_partitions(storage, plan.target_path, registered)
    if plan.full_record_partitions:
        written += write_full_record_sources(
            storage, plan.target_path, _rewritten_sources(plan, full_records)
        )
        metadata = commit_metadata(plan, full_records, BULK_INSERT)
        # Two actions must not have the same completion time.
        later = now + timedelta(milliseconds=1)
        written += _write_instant(storage, plan, FULL_BOOTSTRAP_INSTANT_TIME, metadata, later)
    return written


def _rewritten_sources(
    plan: BootstrapPlan, written: Sequence[WrittenFullRecords]
) -> Iterator[RewrittenSource]:
    rows: Counter[str] = Counter()
    for source in (source for full_records in written for source in full_records.result.source_rows):
        rows[source.path] += source.rows
    for partition in plan.full_record_partitions:
        for file in partition.files:
            known = file.rows if plan.read_by_name is None else rows[file.source.path]
            yield RewrittenSource(partition.path, file.source, known)


def _write_index(
    storage: Storage, plan: BootstrapPlan, skeletons: Sequence[WrittenSkeleton], now: datetime
) -> int:
    write_bootstrap_index(
        storage,
        plan.target_path,
        plan.base_path,
        (
            BootstrapMapping(
                skeleton.partition_path,
                skeleton.result.file_id,
                skeleton.source_partition_path,
                skeleton.source,
            )
            for skeleton in skeletons
        ),
        round(now.timestamp() * 1000),
    )
    infos = storage.infos([partition_index_path(plan.target_path), file_id_index_path(plan.target_path)])
    return sum(0 if info is None else info.length for info in infos)


def _write_instant(
    storage: Storage, plan: BootstrapPlan, instant_time: str, metadata: CommitMetadata, completed_at: datetime
) -> int:
    action = DELTA_COMMIT if plan.request.is_merge_on_read else COMMIT
    layout = timeline_layout(LAYOUT_OF_VERSION[plan.request.table_version])
    assert layout is not None  # every version has one
    commit = timeline_files(layout).commit_content(metadata)
    for state in InstantState:
        instant = Instant(instant_time, action, state)
        if instant.is_completed and layout.has_completion_times:
            instant = replace(instant, completion_time=new_instant_time(None, completed_at))
        path = instant_path(plan.target_path, layout, instant)
        storage.create(path, commit if instant.is_completed else b"")
    return len(commit)


def bootstrap_instant(plan: BootstrapPlan) -> str:
    """The instant time of the bootstrap's first commit."""
    return METADATA_BOOTSTRAP_INSTANT_TIME if plan.skeleton_partitions else FULL_BOOTSTRAP_INSTANT_TIME


def publish_table(storage: Storage, plan: BootstrapPlan, now: datetime) -> int:
    """Create `hoodie.properties`: from here on readers see the table. Returns the bytes written.

    Raises PathExistsError if another table was created first.
    """
    return publish_properties(storage, plan.target_path, table_property_values(plan), now)
