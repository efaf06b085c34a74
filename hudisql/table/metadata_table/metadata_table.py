"""The metadata table of a table: its file groups, and which of its records count.

Follows `HoodieBackedTableMetadata` and `HoodieTableMetadataUtil.getValidInstantTimestamps` of Hudi 0.15 for
table version 6 and of Hudi 1.2 for versions 8 and 9. Nothing here compares the records with the storage.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from io import BytesIO
from typing import Final

import pyarrow as pa

from hudisql.errors import (
    CorruptTableError,
    InvalidArgumentError,
    NoSuchPathError,
    NoSuchTableError,
    UnsupportedTableError,
)
from hudisql.format.hfile.hfile import HFileReader
from hudisql.format.log_file.log_block import BlockType
from hudisql.format.log_file.log_block_content import decode_delete_records
from hudisql.format.metadata_table.listed_files import ListedFiles, merge_listings
from hudisql.format.metadata_table.metadata_records import (
    ALL_PARTITIONS,
    COLUMN_STATS,
    FILES,
    NON_PARTITIONED,
    READ_INDEXES,
    MetadataRecords,
    deleted_records,
    has_read_records,
    newest_records,
    read_metadata_records,
    sorted_records,
)
from hudisql.format.paths.file_names import HFILE
from hudisql.format.paths.partition_metadata import PARTITION_METADATA_FILE, parse_partition_metadata
from hudisql.format.table_properties import read_table_properties
from hudisql.format.timeline.active_timeline import load_timeline
from hudisql.format.timeline.instant import COMMIT, DELTA_COMMIT, Instant
from hudisql.format.timeline.timeline_layout import metadata_table_directory, timeline_layout
from hudisql.storage import FileInfo, join
from hudisql.table.file_slice import FileSlice
from hudisql.table.hudi_table import HudiTable
from hudisql.table.slicing.committed_blocks import committed_blocks
from hudisql.table.slicing.completion_slicing import completion_slicing
from hudisql.table.slicing.file_groups import FileGroupVersions, group_files
from hudisql.table.slicing.latest_slice import latest_slice

STATISTICS_OF_SOURCES: Final = "hudisql.statistics.of.sources"
"""A property of the metadata tables that hudisql makes, with the types of the columns with statistics.

Their statistics of skeletons are those of the external files.
"""
STATISTICS_INSTANT: Final = "hudisql.statistics.instant"
"""A property of those of version 6: the instant at which the indexes were made.

Of those of versions 8 and 9: that of an index that another writer has made since.
"""
_OWN_INSTANT_DIGITS: Final = 20
_FIRST_INIT_SUFFIX: Final = "010"
_SERVICE_SUFFIXES: Final = frozenset(f"00{number}" for number in range(1, 7))
_BEFORE_ALL: Final = "0" * 14
_WHOLE_BYTES: Final = 32 << 20


@dataclass(frozen=True)
class MetadataTable:
    """The metadata table of `table`; `own` is itself as a table.

    A listing of files of up to 32 MiB is read once, of a larger one the records that are asked for.
    """

    table: HudiTable
    own: HudiTable

    @property
    def indexes(self) -> tuple[str, ...]:
        """The names of its partitions that readers may trust."""
        return self.table.properties.metadata_partitions

    @property
    def is_current(self) -> bool:
        """False if a completed commit of the table has left no instant here, by the names of instants.

        Those of before it was made are in the first listing of files.
        """
        return all(
            self.own.timeline.is_visible(commit.timestamp) or self._is_in_first_listing(commit)
            for commit in self.table.timeline.commits
        )

    @property
    def last_compaction(self) -> str:
        """The instant time of its last active compaction; "" without one."""
        completed = self.own.timeline.completed
        return max((instant.timestamp for instant in completed if instant.action == COMMIT), default="")

    @property
    def has_active_first_listing(self) -> bool:
        """True if commits are active that left no instant here, since the first listing of files has them."""
        return any(map(self._is_in_first_listing, self.table.timeline.commits))

    @property
    def has_later_commits(self) -> bool:
        """True if it may know commits that `table`, as it was opened, does not have."""
        if not self.own.timeline.layout.has_completion_times:
            known = max((instant.timestamp for instant in self.table.timeline.completed), default="")
            return any(
                instant.timestamp > known and not _is_own_instant(instant.timestamp)
                for instant in self.own.timeline.completed
                if instant.action == DELTA_COMMIT
            )
        latest = max((instant.completion_time or "" for instant in self.table.timeline.completed), default="")
        return any(
            (instant.completion_time or "") > latest and not instant.timestamp.startswith(_BEFORE_ALL)
            for instant in self.own.timeline.completed
            if instant.action == DELTA_COMMIT
        )

    @property
    def has_statistics_of_sources(self) -> bool:
        """True if statistics of skeletons are those of their external files: if hudisql made the statistics.

        Another writer that makes an index has an instant of its own for that. In layout 1 the index names it:
        there writers of Hudi 0.15 drop the statistics by default, and those of 1.2 make them again. An
        upgrade to layout 2 by Hudi 1.2 adds statistics of partitions that know no external file. Raises
        CorruptTableError, StorageError.
        """
        properties = self.own.properties
        if not properties.get(STATISTICS_OF_SOURCES):
            return False
        made_at = properties.get(STATISTICS_INSTANT)
        if not self.own.timeline.layout.has_completion_times:
            return made_at is not None and made_at == self._statistics_instant
        return made_at is None and self.unrecorded_index is None

    @property
    def unrecorded_index(self) -> str | None:
        """In layout 2 the instant of an index that another writer has made beside those of hudisql.

        None if STATISTICS_INSTANT has it, which stays when the instant is archived.
        """
        properties, timeline = self.own.properties, self.own.timeline
        if not properties.get(STATISTICS_OF_SOURCES) or properties.get(STATISTICS_INSTANT):
            return None
        if not timeline.layout.has_completion_times:
            return None
        of_indexes = (each for each in timeline.completed if each.timestamp.startswith(_BEFORE_ALL))
        return next((each.timestamp for each in of_indexes if not self._is_first(each)), None)

    @cached_property
    def _statistics_instant(self) -> str | None:
        """The instant at which the index `column_stats` was made; None without it."""
        marker = join(self.own.base_path, COLUMN_STATS, PARTITION_METADATA_FILE)
        try:
            return parse_partition_metadata(self.own.storage.read(marker)).commit_time
        except NoSuchPathError:
            return None

    def list_partitions(self) -> list[str]:
        """The paths of the table's partitions, sorted; "" for a table without partitions.

        Raises CorruptTableError if the metadata table does not list them, as one that is being deleted.
        """
        listed = self._listings([ALL_PARTITIONS]).get(ALL_PARTITIONS)
        if listed is None:
            raise CorruptTableError(
                f"the metadata table of {self.table.base_path} does not list the partitions",
                hint="it may have been dropped meanwhile: run this again; SET hoodie.metadata.enable=false "
                "reads the table without it",
            )
        return sorted(_path_of(name) for name in listed.names.to_pylist())

    def list_files(self, paths: Collection[str] | None = None) -> dict[str, ListedFiles]:
        """The files of the partitions with these paths, by default of all; those without a record are left
        out.
        """
        keys = None if paths is None else [path or NON_PARTITIONED for path in paths]
        listings = self._listings(keys)
        return {_path_of(key): listed for key, listed in listings.items() if key != ALL_PARTITIONS}

    def read_records(self, index: str, keys: Collection[str] | None = None) -> MetadataRecords:
        """The newest records of an index other than `files`, sorted by key; of `keys` only, if given.

        Raises UnsupportedTableError for an index whose records are not read, CorruptTableError, StorageError.
        """
        if not has_read_records(index):
            raise UnsupportedTableError(
                f"the records of the index {index} are not read; those of {', '.join(READ_INDEXES)} are"
            )
        return sorted_records([newest_records(layers) for layers in self._groups(index, keys)])

    def read_layers(self, index: str, prefixes: Collection[str]) -> list[list[MetadataRecords]]:
        """The records whose keys begin with one of `prefixes`, for each file group the oldest layer first.

        Blocks of base files that cannot hold such keys are not read. Raises CorruptTableError, StorageError.
        """
        return self._groups(index, prefixes, are_prefixes=True)

    def read_layers_of_keys(self, index: str, keys: Collection[str]) -> list[list[MetadataRecords]]:
        """As `read_layers`, of these keys alone."""
        return self._groups(index, keys)

    def latest_slices(self, index: str) -> list[FileSlice]:
        """The latest slice of each file group of an index, by file id; empty without such a directory."""
        if index not in self._slices:
            self._slices[index] = self._latest_slices(index)
        return self._slices[index]

    @cached_property
    def _slices(self) -> dict[str, list[FileSlice]]:
        return {}

    def entries(self, index: str) -> Sequence[FileInfo]:
        """The files of an index, committed or not, listed once; empty without such a directory."""
        if index not in self._entries:
            directory = join(self.own.base_path, index)
            (self._entries[index],) = self.own.storage.list_directories([directory], missing_ok=True)
        return self._entries[index]

    @cached_property
    def _entries(self) -> dict[str, list[FileInfo]]:
        return {}

    def _latest_slices(self, index: str) -> list[FileSlice]:
        groups: Mapping[str, FileGroupVersions] = group_files(self.entries(index), HFILE)
        if self.own.timeline.layout.has_completion_times:
            groups = completion_slicing(self.own).slice_partition(index, groups)
        slices = (latest_slice(self.own, index, file_id, groups[file_id]) for file_id in sorted(groups))
        return [file_slice for file_slice in slices if file_slice is not None]

    def counts(self, instant_time: str) -> bool:
        """True if records in log files of this instant are read."""
        if not self.own.timeline.is_visible(instant_time):
            return False
        if self.own.timeline.layout.has_completion_times:
            return instant_time not in self._pending_times
        return instant_time in self._completed_times or _is_own_instant(instant_time)

    @property
    def counted_instants(self) -> tuple[str, ...]:
        """The completed instants on its active timeline whose records are read."""
        completed = (instant.timestamp for instant in self.own.timeline.completed)
        return tuple(timestamp for timestamp in completed if self.counts(timestamp))

    @cached_property
    def _pending_times(self) -> frozenset[str]:
        return frozenset(instant.timestamp for instant in self.table.timeline.pending)

    @cached_property
    def _completed_times(self) -> frozenset[str]:
        return frozenset(instant.timestamp for instant in self.table.timeline.completed)

    def _is_in_first_listing(self, commit: Instant) -> bool:
        if not self.own.timeline.layout.has_completion_times:
            return commit.timestamp <= self._first_listing
        return (commit.completion_time or commit.timestamp) <= self._first_listing

    @cached_property
    def _first_listing(self) -> str:
        """When `files` was made: the completion time, or with layout 1 the instant time; "" if archived.

        It is the first instant of all. A later one makes another index, and lists no files.
        """
        first = next(iter(self.own.timeline.commits), None)
        if first is None or not _is_own_instant(first.timestamp):
            return ""
        if not self.own.timeline.layout.has_completion_times:
            return first.timestamp
        return first.completion_time if self._is_first(first) else ""

    def _is_first(self, instant: Instant) -> bool:
        """True if nothing completed before it, in layout 2.

        An index that is made later has the first instant time, too, once that of `files` is archived.
        """
        times = (other.completion_time for other in self.own.timeline.completed)
        return all(instant.completion_time <= time for time in times if time)

    def _listings(self, keys: Collection[str] | None) -> Mapping[str, ListedFiles]:
        whole = self._small_listing
        if whole is None:
            return self._read_listings(keys)
        return whole if keys is None else {key: whole[key] for key in keys if key in whole}

    @cached_property
    def _small_listing(self) -> Mapping[str, ListedFiles] | None:
        """The whole index `files`, read once; None for a large one, which is asked by its keys."""
        stored = sum(file_slice.length for file_slice in self.latest_slices(FILES))
        return self._read_listings(None) if stored <= _WHOLE_BYTES else None

    def _read_listings(self, keys: Collection[str] | None) -> dict[str, ListedFiles]:
        found: dict[str, ListedFiles] = {}
        for layers in self._groups(FILES, keys):
            found.update(merge_listings(layers))
        return found

    def _groups(
        self, index: str, keys: Collection[str] | None, *, are_prefixes: bool = False
    ) -> list[list[MetadataRecords]]:
        """The records of each file group: those of its base file, then those of its log files in order."""
        read = partial(read_metadata_records, index=index, keys=keys, are_prefixes=are_prefixes)
        return [self._layers(file_slice, read) for file_slice in self.latest_slices(index)]

    def _layers(self, file_slice: FileSlice, read: Callable[..., MetadataRecords]) -> list[MetadataRecords]:
        return [
            read(layer, name=name) if isinstance(layer, HFileReader) else deleted_records(layer)
            for name, layer in self.open_layers(file_slice)
        ]

    def open_layers(
        self, file_slice: FileSlice, *, at_once: bool = False
    ) -> Iterator[tuple[str, HFileReader | pa.Array]]:
        """The base file of a file group of an index, and the blocks of its log files, the oldest first.

        Each with the path of its file; a block is an HFile, too, or an array of deleted keys. A base file is
        open until the next one is asked for, or read `at_once`. Raises UnsupportedTableError for other
        blocks, CorruptTableError, StorageError.
        """
        storage, base_file = self.own.storage, file_slice.base_file
        if base_file is not None and at_once:
            content = storage.read(base_file.path)
            yield base_file.path, HFileReader(BytesIO(content), len(content), base_file.path)
        elif base_file is not None:
            with storage.open_input(base_file.path, base_file.length) as source:
                yield base_file.path, HFileReader(source, base_file.length, base_file.path)
        for log_file, block in committed_blocks(storage, file_slice.log_files, self.counts):
            if block.block_type is BlockType.DELETE:
                yield log_file.path, decode_delete_records(block.content).record_keys
            elif block.block_type is BlockType.HFILE_DATA:
                yield log_file.path, HFileReader(BytesIO(block.content), len(block.content), log_file.path)
            else:
                raise UnsupportedTableError(
                    f"cannot read the log file {log_file.path} of a metadata table: it has a block of the "
                    f"type {block.block_type.name}"
                )


def open_metadata_table(table: HudiTable) -> MetadataTable | None:
    """The metadata table that the table's properties name; None if readers must not use one.

    Raises CorruptTableError if it is missing or is none, UnsupportedTableError, StorageError.
    """
    if FILES not in table.properties.metadata_partitions:
        return None
    base_path = metadata_table_directory(table.base_path)
    try:
        properties = read_table_properties(table.storage, base_path)
        layout = timeline_layout(
            properties.timeline_layout_version, properties.timeline_directory, properties.history_directory
        )
        if layout is None or layout.version != table.timeline.layout.version:
            raise UnsupportedTableError(
                f"the metadata table of {table.base_path} has timeline layout "
                f"{properties.timeline_layout_version}, its table {table.timeline.layout.version}"
            )
        timeline = load_timeline(table.storage, base_path, layout)
    except (NoSuchPathError, NoSuchTableError) as error:
        raise CorruptTableError(
            f"the properties of {table.base_path} name a metadata table, and {base_path} is none",
            hint="the next write of hudisql drops it, and one of Apache Hudi makes a new one",
        ) from error
    return MetadataTable(table, HudiTable(base_path, properties, timeline, table.storage))


def readable_metadata_table(table: HudiTable) -> MetadataTable | None:
    """`open_metadata_table`; None also if it is missing or cannot be read. Raises StorageError."""
    try:
        return open_metadata_table(table)
    except (CorruptTableError, UnsupportedTableError):
        return None


def find_metadata_table(table: HudiTable, name: str = "db.name") -> MetadataTable:
    """`open_metadata_table` of a table that has one; `name` is the table's in the metastore, if known.

    Raises InvalidArgumentError if it has none.
    """
    metadata = open_metadata_table(table)
    if metadata is None:
        raise InvalidArgumentError(
            f"the Hudi table at {table.base_path} has no metadata table",
            hint=f"CALL create_metadata_table(table => '{name}') makes one, and changes keep it",
        )
    return metadata


def _path_of(key: str) -> str:
    return "" if key == NON_PARTITIONED else key


def _is_own_instant(instant_time: str) -> bool:
    """True for instants of a metadata table of version 6 that its table does not have."""
    if instant_time.startswith(_BEFORE_ALL):
        return True
    suffix = instant_time[-3:]
    return len(instant_time) >= _OWN_INSTANT_DIGITS and (
        suffix in _SERVICE_SUFFIXES or suffix >= _FIRST_INIT_SUFFIX
    )
