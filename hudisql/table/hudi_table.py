"""An open Hudi table: base path, properties, timeline, schema.

Follows `HoodieTableMetaClient` and `TableSchemaResolver` of Hudi 0.15 for table version 6, of Hudi 1.2 for
versions 8 and 9, and refuses tables that hudisql does not read. Other modules list partitions and file
slices.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from hudisql.errors import (
    CorruptTableError,
    NoSuchPathError,
    NoSuchTableError,
    StorageError,
    UnsupportedTableError,
    WriteConflictError,
)
from hudisql.format.keys.computed_meta import ComputedMeta
from hudisql.format.schema.avro_schema import arrow_from_avro
from hudisql.format.schema.internal_schema import LATEST_SCHEMA_KEY, FileColumns
from hudisql.format.schema.meta_columns import META_SCHEMA, is_meta_column
from hudisql.format.table_properties import (
    COPY_ON_WRITE,
    HFILE_BOOTSTRAP_INDEX,
    INDEX_DEFINITIONS_PATH,
    MERGE_ON_READ,
    PROPERTIES_BACKUP_FILE,
    PROPERTIES_FILE,
    SEVERAL_BASE_FILE_FORMATS,
    TableProperties,
    read_table_properties,
)
from hudisql.format.timeline.active_timeline import load_timeline, timeline_of_names
from hudisql.format.timeline.commit_metadata import INDEXED_COMMITS, SCHEMA_KEY
from hudisql.format.timeline.instant import Instant
from hudisql.format.timeline.timeline_layout import (
    TimelineLayout,
    metadata_directory,
    metadata_table_directory,
    timeline_layout,
)
from hudisql.storage import FileInfo, Storage, ancestors_of, join, parent_of
from hudisql.table.meta_client import TableMetaClient
from hudisql.table.timeline.instant_files import read_extra_metadata
from hudisql.table.timeline.schema_history import file_columns_of
from hudisql.table.timeline.schema_texts import SchemaTexts, keep_schema_texts, known_schema_texts

T = TypeVar("T")
WRITTEN_VERSION = 6
"""The table version that hudisql supports completely, and the default version of new tables."""
LAYOUT_OF_VERSION: Mapping[int, int] = {6: 1, 8: 2, 9: 2}
"""The versions that hudisql reads, and the timeline layout of each."""

# Key generators whose directory names are not the column values.
_TRANSFORMING_KEY_GENERATORS = frozenset(
    {
        "TimestampBasedKeyGenerator",
        "TimestampBasedAvroKeyGenerator",
        "CustomKeyGenerator",
        "CustomAvroKeyGenerator",
    }
)
_TRANSFORMING_KEY_GENERATOR_TYPES = frozenset({"TIMESTAMP", "TIMESTAMP_AVRO", "CUSTOM", "CUSTOM_AVRO"})


class DirectoryLister(Protocol):
    """Lists directories of a table by other means than the storage."""

    def list_directories(self, paths: Sequence[str]) -> list[list[FileInfo]]:
        """The entries of the directories with these paths relative to the base path."""


@dataclass(frozen=True)
class HudiTable(TableMetaClient):
    """A table as it stood when it was opened.

    With `accepts_changed_sources` source files are read whatever their modification times are. `lister` lists
    the directories, None the storage. `listing` caches the table's listings, as Hudi's file system views do;
    None lists each time. `schema_texts` caches the schemas of commits by their keys in the extra metadata.
    With `shows_computed_meta` (statements that change rows) queries see computed meta columns.
    """

    accepts_changed_sources: bool = False
    lister: DirectoryLister | None = field(default=None, compare=False, repr=False)
    listing: dict[str, Any] | None = field(default=None, compare=False, repr=False)
    schema_texts: dict[Instant, SchemaTexts] = field(default_factory=dict, compare=False, repr=False)
    shows_computed_meta: bool = False

    @property
    def name(self) -> str:
        """The name in the table's own properties."""
        return self.properties.name

    @property
    def version(self) -> int:
        """The table version."""
        return self.properties.version

    @property
    def is_merge_on_read(self) -> bool:
        """True if writers may append log files to slices."""
        return self.properties.table_type == MERGE_ON_READ

    @property
    def is_bootstrapped(self) -> bool:
        """True if some file groups may still have their data columns in external files."""
        return self.properties.bootstrap_base_path is not None

    @cached_property
    def schema(self) -> pa.Schema:
        """Data and partition columns in table order, without meta columns, as of the newest commit.

        Raises CorruptTableError if neither a commit nor the properties carry a schema.
        """
        return self.schema_as_of(None)

    def reopened(self, entries: Sequence[FileInfo] | None = None) -> HudiTable:
        """The table as it is now, opened with the same options.

        `entries` are those of `.hoodie` if it was just listed.

        Raises WriteConflictError if the table has another table version by now, NoSuchTableError,
        StorageError.
        """
        opened = open_table(
            self.storage,
            self.base_path,
            accepts_changed_sources=self.accepts_changed_sources,
            entries=entries,
        )
        if opened.version != self.version:
            raise WriteConflictError(
                f"the Hudi table at {self.base_path} has table version {opened.version} now; it had version "
                f"{self.version} when it was opened",
                hint="run the statement again",
            )
        is_same = opened.timeline == self.timeline and opened.properties == self.properties
        is_kept = self.listing is None or (is_same and self.lister is None)
        listing = self.listing if is_kept else {}
        return replace(opened, listing=listing, schema_texts=self.schema_texts)

    def is_current(self) -> bool:
        """True if the timeline is as it was when the table was opened. Raises StorageError."""
        return load_timeline(self.storage, self.base_path, self.timeline.layout) == self.timeline

    def listed_once(self) -> HudiTable:
        """The table with an empty listing, which caches all later listings."""
        return replace(self, listing={})

    def with_listing(self) -> HudiTable:
        """The table itself if it has a `listing`, else `listed_once`."""
        return self if self.listing is not None else self.listed_once()

    def list_once(self, name: str, list_files: Callable[[], T]) -> T:
        """The result of `list_files`, cached under the name if the table has a `listing`."""
        if self.listing is None:
            return list_files()
        if name not in self.listing:
            self.listing[name] = list_files()
        listed: T = self.listing[name]
        return listed

    def with_schema(self, schema: pa.Schema) -> HudiTable:
        """The table as a commit with this schema (without meta columns) will leave it."""
        changed = replace(self)
        changed.__dict__.update(schema=schema, file_columns=self.file_columns)
        return changed

    def at_schema_of(self, as_of: str) -> HudiTable:
        """The table with the schema that it had at an instant time, for reads of that state."""
        listing: dict[str, Any] | None = None if self.listing is None else {}
        changed = replace(self, listing=listing)
        columns = file_columns_of(self, self._schema_metadata(as_of))
        changed.__dict__.update(schema=self.schema_as_of(as_of), file_columns=columns)
        return changed

    @cached_property
    def file_columns(self) -> FileColumns | None:
        """How columns are found in files of older schemas (schema-on-read); None if they have no ids.

        As in Apache Hudi they have none after a commit that carries no internal schema.
        """
        return file_columns_of(self, self._schema_metadata(None))

    @cached_property
    def full_schema(self) -> pa.Schema:
        """`schema` with the five meta columns first, if the table's rows carry them (or computed ones)."""
        has_meta = self.properties.populate_meta_fields or self.shows_computed_meta
        return pa.schema([*(META_SCHEMA if has_meta else ()), *self.schema])

    @cached_property
    def computed_meta(self) -> ComputedMeta | None:
        """Computes the meta columns of rows whose files have none; None if the files have them."""
        if self.properties.populate_meta_fields:
            return None
        fields = self.properties.record_key_fields
        key_columns = {name.split(".")[0] for name in fields}
        return ComputedMeta(
            fields, pa.schema([column for column in self.schema if column.name in key_columns])
        )

    @cached_property
    def partition_columns(self) -> tuple[pa.Field, ...]:
        """The columns whose values are the directory names, outermost first, with their types.

        Empty for a table whose key generator transforms values (dates from timestamps …): its partition
        columns are read from the files.
        """
        if not self._partition_values_in_path:
            return ()
        by_name = {field.name.lower(): field for field in self.schema}
        return tuple(by_name[name.lower()] for name in self.properties.partition_fields)

    @cached_property
    def ordering_fields(self) -> tuple[str, ...]:
        """The ordering columns, by the schema's names where the properties' differ in case.

        Raises CorruptTableError.
        """
        return tuple(self._name_in_schema(name) for name in self.properties.ordering_fields)

    def _name_in_schema(self, name: str) -> str:
        if name in self.schema.names:
            return name
        same_names = [column for column in self.schema.names if column.lower() == name.lower()]
        return same_names[0] if len(same_names) == 1 else name

    def in_files(self, schema: pa.Schema) -> pa.Schema:
        """The columns of `schema` that the table's files have: partition columns may be dropped."""
        return without_columns(schema, self.dropped_columns)

    @property
    def dropped_columns(self) -> tuple[str, ...]:
        """The partition columns that are in directory names alone."""
        return self.properties.partition_fields if self.properties.drop_partition_columns else ()

    def schema_as_of(self, as_of: str | None) -> pa.Schema:
        """Data and partition columns as of an instant time; the newest for None.

        It is the schema of the latest commit with a schema: compactions and deletes of some writers have
        none. Raises CorruptTableError, UnsupportedTableError.
        """
        return self.schema_of(self._schema_text(as_of))

    def schema_of(self, text: str | None) -> pa.Schema:
        """Data and partition columns by the Avro schema of a commit, whose files may lack the latter.

        They are the table's for a commit without a schema. Raises CorruptTableError, UnsupportedTableError.
        """
        if not text:
            return self.schema
        fields = [field for field in arrow_from_avro(text) if not is_meta_column(field.name)]
        known = {field.name.lower() for field in fields}
        for name in self.properties.partition_fields:
            # Dropped partition columns live in directory names only.
            if name.lower() not in known and self._partition_values_in_path:
                fields.append(pa.field(name, pa.string()))
        return pa.schema(fields)

    def _schema_metadata(self, as_of: str | None) -> Mapping[str, str | None]:
        """The extra metadata of the latest commit with a schema up to an instant time; empty if none has."""
        for commit in reversed(self.timeline.commits_until(as_of)):
            texts = self.kept_texts(commit)
            if texts[SCHEMA_KEY]:
                return texts
        return {}

    def kept_texts(self, commit: Instant) -> SchemaTexts:
        """What is cached of a commit's extra metadata, which is read if it is not cached yet.

        Raises TimelineChangedError, CorruptTableError, StorageError.
        """
        texts = self.schema_texts.get(commit) or known_schema_texts(self.base_path, commit)
        if texts is None:
            (extra_metadata,) = read_extra_metadata(self, [commit])
            texts = self.keep_schema_text(commit, extra_metadata)
        return texts

    def keep_schema_text(self, commit: Instant, extra_metadata: Mapping[str, str | None]) -> SchemaTexts:
        """Cache the schemas of a commit from its extra metadata, also for the table as it is reopened."""
        kept = (SCHEMA_KEY, LATEST_SCHEMA_KEY, INDEXED_COMMITS)
        texts = {key: extra_metadata.get(key) for key in kept}
        self.schema_texts[commit] = texts
        keep_schema_texts(self.base_path, commit, texts)
        return texts

    def _schema_text(self, as_of: str | None) -> str:
        if text := self._schema_metadata(as_of).get(SCHEMA_KEY):
            return text
        if self.properties.create_schema:
            return self.properties.create_schema
        raise CorruptTableError(
            f"no commit of the Hudi table at {self.base_path} carries a schema, nor does {PROPERTIES_FILE}",
            hint=f"restore the commit files that are lost below "
            f"{metadata_directory(self.base_path)}; a "
            "table without commits gets its schema with the first commit",
        )

    @cached_property
    def index_definitions_file(self) -> tuple[str, bytes] | None:
        """The path and the content of the file of index definitions, read once; None if there is none.

        Raises StorageError.
        """
        relative = self.properties.get(INDEX_DEFINITIONS_PATH)
        if not relative:
            return None
        path = join(self.base_path, relative)
        try:
            return path, self.storage.read(path)
        except NoSuchPathError:
            return None

    @property
    def _partition_values_in_path(self) -> bool:
        return not transforms_partition_values(self.properties)


def without_columns(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """The schema without the columns of these names, in any case."""
    dropped = {name.lower() for name in names}
    return pa.schema([field for field in schema if field.name.lower() not in dropped])


def find_table_root(storage: Storage, path: str) -> str | None:
    """The base path of the Hudi table at `path` or above it (a partition path was given), or None."""
    qualified = storage.qualify(path)
    for directory in (qualified, *ancestors_of(qualified)):
        candidates = [join(directory, PROPERTIES_FILE), join(directory, PROPERTIES_BACKUP_FILE)]
        if any(info is not None for info in storage.infos(candidates)):
            return directory
    return None


def open_table(
    storage: Storage,
    path: str,
    *,
    accepts_changed_sources: bool = False,
    entries: Sequence[FileInfo] | None = None,
) -> HudiTable:
    """Open the Hudi table at `path`, or the one that has `path` as a partition.

    `entries` are those of `.hoodie` if it was just listed. Where listings have the times of files, properties
    that this process has read before and that are unchanged are not read again.

    Raises NoSuchTableError if there is no table, UnsupportedTableError for tables that hudisql does not read,
    CorruptTableError for damaged properties, StorageError.
    """
    root, properties, entries = _properties_and_entries(storage, path, entries)
    if root.endswith(metadata_table_directory("")):
        raise UnsupportedTableError(
            f"{root} is the metadata table of {parent_of(parent_of(root))}, which is not read on its own"
        )
    layout = check_readable(properties, root)
    if entries is None or layout.timeline_directory(root) != metadata_directory(root):
        timeline = load_timeline(storage, root, layout)
    else:
        names = tuple(entry.name for entry in entries if not entry.is_directory)
        timeline = timeline_of_names(names, layout)
    return HudiTable(root, properties, timeline, storage, accepts_changed_sources)


def _properties_and_entries(
    storage: Storage, path: str, entries: Sequence[FileInfo] | None
) -> tuple[str, TableProperties, Sequence[FileInfo] | None]:
    """The base path, the properties, and the entries of `.hoodie` that go with them; None if not listed."""
    qualified = storage.qualify(path)
    kept = storage.unchanged_files(qualified)
    properties_path = join(qualified, PROPERTIES_FILE)
    listed = entries
    if listed is None and kept is not None and kept.has(properties_path):
        listed = storage.list_directory(metadata_directory(qualified))
    file = next((entry for entry in listed or () if entry.path == properties_path), None)
    if kept is not None and file is not None and (properties := kept.get(file)) is not None:
        return qualified, properties, listed
    begun_ms = time.time() * 1000
    root, properties = _read_properties_above(storage, path)
    if kept is not None and entries is None:
        # Listed after the read: a time that is long past then shows that the file was not changed meanwhile.
        entries = storage.list_directory(metadata_directory(root))
    for entry in entries or ():
        if kept is not None and entry.path == join(root, PROPERTIES_FILE):
            kept.keep(entry, properties, begun_ms)
    return root, properties, entries


def _read_properties_above(storage: Storage, path: str) -> tuple[str, TableProperties]:
    """The base path of the table at the path or above it, and its properties."""
    qualified = storage.qualify(path)
    # Nothing can be read below a file, which local paths and HDFS tell by errors of their own.
    with suppress(NoSuchTableError, StorageError):
        return qualified, read_table_properties(storage, qualified)
    root = find_table_root(storage, path)
    if root is None:
        missing = not storage.exists(qualified)
        raise NoSuchTableError(
            f"no such path: {path}" if missing else f"no Hudi table at {path}, nor in a directory above it",
            hint=f"a Hudi table's directory holds {PROPERTIES_FILE}",
        )
    return root, read_table_properties(storage, root)


def check_readable(properties: TableProperties, base_path: str) -> TimelineLayout:
    """The timeline layout of a table with these properties.

    Raises UnsupportedTableError if hudisql cannot read such a table correctly.
    """
    _check_version(properties.version, base_path)
    layout = timeline_layout(
        properties.timeline_layout_version, properties.timeline_directory, properties.history_directory
    )
    if layout is None or layout.version != LAYOUT_OF_VERSION[properties.version]:
        raise UnsupportedTableError(
            f"the Hudi table at {base_path} has timeline layout {properties.timeline_layout_version}, "
            f"where version {properties.version} has {LAYOUT_OF_VERSION[properties.version]}"
        )
    if properties.table_format != "native":
        raise UnsupportedTableError(
            f"the Hudi table at {base_path} keeps its metadata in the table format "
            f"'{properties.table_format}' (hoodie.table.format); only Hudi's own, 'native', is read"
        )
    if properties.table_type not in (COPY_ON_WRITE, MERGE_ON_READ):
        raise UnsupportedTableError(f"the Hudi table at {base_path} is of type '{properties.table_type}'")
    if properties.base_file_format != "PARQUET":
        raise UnsupportedTableError(
            f"the Hudi table at {base_path} has {properties.base_file_format} files; only parquet is read"
        )
    if properties.has_several_base_file_formats:
        raise UnsupportedTableError(
            f"the Hudi table at {base_path} has base files of several formats "
            f"({SEVERAL_BASE_FILE_FORMATS}=true); only parquet is read"
        )
    if properties.bootstrap_base_path is None:
        return layout
    if properties.bootstrap_index_class != HFILE_BOOTSTRAP_INDEX:
        raise UnsupportedTableError(
            f"the bootstrapped Hudi table at {base_path} has an index of the class "
            f"{properties.bootstrap_index_class}; only HFileBootstrapIndex is known"
        )
    if transforms_partition_values(properties):
        raise UnsupportedTableError(
            f"the bootstrapped Hudi table at {base_path} makes its directory names by "
            f"{properties.key_generator_class or properties.key_generator_type}: its partition columns can "
            "be read neither from the directories nor from the files"
        )
    return layout


def _check_version(version: int, base_path: str) -> None:
    if version in LAYOUT_OF_VERSION:
        return
    known = ", ".join(str(known_version) for known_version in LAYOUT_OF_VERSION)
    if version < WRITTEN_VERSION:
        raise UnsupportedTableError(
            f"the Hudi table at {base_path} has table version {version}; hudisql reads versions {known}",
            hint="a writer of Hudi 0.14 or 0.15 upgrades it at its next write, or run there: "
            "CALL upgrade_table(table => '<table>', to_version => 'SIX')",
        )
    raise UnsupportedTableError(
        f"the Hudi table at {base_path} has table version {version}; hudisql reads versions {known}",
        hint="to go back, run in Spark with the Hudi that wrote it: CALL downgrade_table(table => '<table>', "
        "to_version => 'SIX'); then set hoodie.write.table.version=6 for every 1.x writer of this table",
    )


def check_written_version(version: int, base_path: str) -> None:
    """Raise UnsupportedTableError unless hudisql supports all writes to tables of this version.

    `written_versions` lists the writes to other versions.
    """
    if version != WRITTEN_VERSION:
        raise UnsupportedTableError(
            f"the Hudi table at {base_path} has table version {version}, in which hudisql does not do this. "
            "A Hudi 1.x writer upgrades an older table on its own at its next write "
            "(hoodie.write.auto.upgrade)",
            hint="do this with Apache Hudi 1.x; or CALL downgrade_table(table => '<table>', to_version => "
            "'SIX'), and set hoodie.write.table.version=6 for every 1.x writer of this table",
        )


def transforms_partition_values(properties: TableProperties) -> bool:
    """True if the directory names are not the values of the partition columns."""
    generator = (properties.key_generator_class or "").rsplit(".", 1)[-1]
    nested = any("." in name for name in properties.partition_fields)
    transforms = (
        generator in _TRANSFORMING_KEY_GENERATORS
        or properties.key_generator_type in _TRANSFORMING_KEY_GENERATOR_TYPES
    )
    return bool(properties.partition_fields) and (transforms or nested)
