"""The state of a table that decides which readers read it, from properties and timeline.

The active commits tell which file groups are still bootstrapped and which have log files. Only a table whose
commits are partly archived is listed. Footers and log files are sampled. This module does not know Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from hudisql.bootstrap.source.footers import FileFooter, read_few_footers
from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.errors import HudisqlError
from hudisql.format.hfile.bootstrap_index import read_bootstrap_index
from hudisql.format.log_file.log_block import BlockType, CorruptBlock, parse_log_blocks
from hudisql.format.paths.external_file import ExternalFile
from hudisql.format.paths.file_names import FileGroup, is_log_file
from hudisql.format.table_properties import TableProperties
from hudisql.format.timeline.commit_metadata import CommitMetadata
from hudisql.format.timeline.instant import BOOTSTRAP_INSTANT_TIMES
from hudisql.storage import Storage, join
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.metadata_table import readable_metadata_table
from hudisql.table.partitions.registered_partitions import registered_partitions
from hudisql.table.properties.table_configuration import COLUMN_STATS_ENABLE
from hudisql.table.timeline.archived_timeline import list_archive_files
from hudisql.table.timeline.instant_files import read_commits

_SAMPLED_FILES: Final = 8
_MAX_LOG_BYTES: Final = 64 * 1024 * 1024
_STATISTICS: Final = frozenset({"column_stats", "partition_stats"})
_Value = TypeVar("_Value")


@dataclass(frozen=True, kw_only=True)
class ReaderState:
    """The state of a table that decides which readers read it.

    `version_problem` says why hudisql cannot open the table; everything from the timeline is then empty.
    `bootstrapped` counts file groups whose data is still in source files, `with_logs` those with log files,
    `register_only` partitions without a file of Hudi's, `has_column_ids` says that columns were changed by
    schema-on-read. `has_own_statistics` says that the metadata table has statistics of the skeletons
    themselves, `has_statistics_of_sources` those of their external files, `makes_statistics` what the
    properties tell Hudi's writers about them. `entries` are the metastore's entries, the main one first;
    `looked_at` names the sources of this state.
    """

    version: int
    is_merge_on_read: bool
    is_partitioned: bool
    has_own_statistics: bool
    has_statistics_of_sources: bool = False
    makes_statistics: bool | None = None
    entries: tuple[MetastoreTable, ...] = ()
    version_problem: str | None = None
    bootstrapped: int = 0
    register_only: int = 0
    with_logs: int = 0
    newest_commit_wrote_base_files: bool = False
    has_column_ids: bool = False
    log_blocks: frozenset[BlockType] = frozenset()
    footers: tuple[FileFooter, ...] = ()
    looked_at: str = "hoodie.properties"

    @property
    def codecs(self) -> frozenset[str]:
        """The codecs of the sampled source files."""
        return frozenset(codec for footer in self.footers for codec in footer.codecs)

    def columns_with(self, incompatibility: str) -> tuple[str, ...]:
        """The columns that have this incompatibility in a sampled source file, sorted."""
        return tuple(
            sorted(
                {
                    column.name
                    for footer in self.footers
                    for column in footer.schema.columns
                    if incompatibility in column.incompatibilities
                }
            )
        )


def state_of_properties(
    properties: TableProperties, entries: Sequence[MetastoreTable], problem: HudisqlError
) -> ReaderState:
    """The state of a table that hudisql cannot open."""
    return ReaderState(
        version=properties.version,
        is_merge_on_read=properties.table_type == "MERGE_ON_READ",
        is_partitioned=bool(properties.partition_fields),
        has_own_statistics=_has_statistics(properties),
        makes_statistics=_makes_statistics(properties),
        entries=tuple(entries),
        version_problem=problem.message,
    )


def read_reader_state(table: HudiTable, entries: Sequence[MetastoreTable]) -> ReaderState:
    """The state of a table. Raises CorruptTableError, StorageError."""
    groups = _groups_of_timeline(table) if not list_archive_files(table) else _groups_of_listing(table)
    source_files = _spread(list(groups.bootstrapped.values()))
    has_right = _has_statistics_of_sources(table)
    log_files = _spread([path for paths in groups.logs.values() for path in paths])
    return ReaderState(
        version=table.version,
        is_merge_on_read=table.is_merge_on_read,
        is_partitioned=bool(table.partition_columns),
        has_own_statistics=_has_statistics(table.properties) and not has_right,
        has_statistics_of_sources=has_right,
        makes_statistics=_makes_statistics(table.properties),
        entries=tuple(entries),
        bootstrapped=len(groups.bootstrapped),
        register_only=len(registered_partitions(table).by_path),
        with_logs=len(groups.logs),
        newest_commit_wrote_base_files=groups.newest_wrote_base_files,
        has_column_ids=table.file_columns is not None,
        log_blocks=frozenset(_block_types(table.storage, log_files)),
        footers=tuple(read_few_footers(table.storage, source_files)),
        looked_at=f"hoodie.properties, {groups.looked_at}, footers of {len(source_files)} source files, "
        f"{len(log_files)} log files",
    )


@dataclass(frozen=True)
class _Groups:
    bootstrapped: dict[FileGroup, ExternalFile]
    logs: dict[FileGroup, list[str]]
    newest_wrote_base_files: bool
    looked_at: str


def _groups_of_timeline(table: HudiTable) -> _Groups:
    bootstrapped = dict(read_bootstrap_index(table.storage, table.base_path)) if table.is_bootstrapped else {}
    logs: dict[FileGroup, list[str]] = {}
    commits = [commit for commit in table.timeline.commits if commit.timestamp not in BOOTSTRAP_INSTANT_TIMES]
    wrote_base = bool(bootstrapped)
    for metadata in read_commits(table, commits):
        wrote_base = _apply_commit(table, metadata, bootstrapped, logs)
    return _Groups(bootstrapped, logs, wrote_base, f"the bootstrap index and {len(commits)} commits")


def _apply_commit(
    table: HudiTable,
    metadata: CommitMetadata,
    bootstrapped: dict[FileGroup, ExternalFile],
    logs: dict[FileGroup, list[str]],
) -> bool:
    """Apply one commit to both sets; True if it wrote base files."""
    wrote_base = False
    for partition, file_ids in (metadata.partition_to_replace_file_ids or {}).items():
        for file_id in file_ids:
            bootstrapped.pop((partition, file_id), None)
            logs.pop((partition, file_id), None)
    for stat in metadata.write_stats:
        group = (stat.partition_path or "", stat.file_id)
        if stat.path is None:
            continue
        if is_log_file(stat.path.rpartition("/")[2]):
            logs.setdefault(group, []).append(join(table.base_path, stat.path))
            continue
        wrote_base = True
        bootstrapped.pop(group, None)
        logs.pop(group, None)
    return wrote_base


def _groups_of_listing(table: HudiTable) -> _Groups:
    slices = load_file_slices(table)
    newest = table.timeline.latest_commit
    wrote_base = False
    if newest is not None and newest.timestamp not in BOOTSTRAP_INSTANT_TIMES:
        for metadata in read_commits(table, [newest]):
            wrote_base = _apply_commit(table, metadata, {}, {})
    return _Groups(
        {
            file_slice.file_group: file_slice.external_file
            for file_slice in slices
            if file_slice.external_file is not None
        },
        {
            file_slice.file_group: [log.path for log in file_slice.log_files]
            for file_slice in slices
            if file_slice.has_log_files
        },
        wrote_base,
        "a listing of all partitions, since commits are archived",
    )


def _has_statistics_of_sources(table: HudiTable) -> bool:
    metadata = readable_metadata_table(table) if _has_statistics(table.properties) else None
    return metadata is not None and metadata.has_statistics_of_sources


def _makes_statistics(properties: TableProperties) -> bool | None:
    text = properties.get(COLUMN_STATS_ENABLE)
    return None if text is None else text.strip().lower() == "true"


def _has_statistics(properties: TableProperties) -> bool:
    return bool(_STATISTICS & set(properties.metadata_partitions))


def _block_types(storage: Storage, paths: Iterable[str]) -> Iterator[BlockType]:
    for path in paths:
        info = storage.info(path)
        if info is None or not 0 < info.length <= _MAX_LOG_BYTES:
            continue
        for block in parse_log_blocks(storage.read(path), path):
            if not isinstance(block, CorruptBlock):
                yield block.block_type


def _spread(values: Sequence[_Value]) -> list[_Value]:
    """At most `_SAMPLED_FILES` values, evenly spread."""
    step = max(1, -(-len(values) // _SAMPLED_FILES))
    return list(values[::step])
