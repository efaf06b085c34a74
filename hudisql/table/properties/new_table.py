"""A new table's properties and its empty timeline directory, published in one atomic step.

Follows `HoodieTableMetaClient.PropertyBuilder` and `KeyGenUtils.inferKeyGeneratorType` of Hudi 0.15 for table
version 6, of Hudi 1.2 for version 9. Everything else of a table is written first: without `hoodie.properties`
no reader sees a table. Does not know where a table's definition comes from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from hudisql.format import table_properties as keys
from hudisql.format.paths.partition_metadata import PARTITION_METADATA_FILE
from hudisql.format.payload_classes import LATEST_PAYLOAD
from hudisql.format.timeline.timeline_layout import (
    ARCHIVE_DIRECTORY,
    LAYOUT_V1,
    metadata_directory,
    new_table_directories,
)
from hudisql.storage import Storage, is_inside, join
from hudisql.table.hudi_table import LAYOUT_OF_VERSION, WRITTEN_VERSION, open_table
from hudisql.table.properties.version_properties import KEY_GENERATORS, properties_of_version_9

DEFAULT_PAYLOAD: Final = LATEST_PAYLOAD
_DEFAULT_MERGER: Final = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"


@dataclass(frozen=True)
class NewTable:
    """The definition of a new table.

    Without `record_key` columns the table's record keys are generated. `others` are further table
    configurations, such as those of a bootstrap or of CREATE TABLE. `version` is the table version, 6 or 9.
    """

    name: str
    database: str
    table_type: str
    record_key: tuple[str, ...]
    partition_fields: tuple[str, ...] = ()
    precombine: str | None = None
    payload_class: str | None = None
    key_generator_class: str | None = None
    is_hive_style: bool = True
    is_url_encoded: bool = False
    drops_partition_columns: bool = False
    others: Mapping[str, str] = field(default_factory=dict)
    version: int = WRITTEN_VERSION


def key_generator_class(record_key: Sequence[str], partition_columns: Sequence[object]) -> str:
    """The Java class by which Hudi's writers make the same keys and partition paths."""
    if not partition_columns:
        return f"{KEY_GENERATORS}.NonpartitionedKeyGenerator"
    if len(record_key) < 2 and len(partition_columns) == 1:
        return f"{KEY_GENERATORS}.SimpleKeyGenerator"
    return f"{KEY_GENERATORS}.ComplexKeyGenerator"


def new_table_properties(table: NewTable) -> dict[str, str]:
    """The properties of the new table, in the order that Hudi 0.15 writes them, `others` after its type.

    Raises UnsupportedTableError for key generators that its version does not take.
    """
    values = _properties_of_version_6(table)
    return (
        values if table.version == WRITTEN_VERSION else properties_of_version_9(values, table.payload_class)
    )


def _properties_of_version_6(table: NewTable) -> dict[str, str]:
    values = {keys.TYPE: table.table_type, **table.others}
    if table.table_type == keys.MERGE_ON_READ:
        values[keys.PAYLOAD_CLASS] = table.payload_class or DEFAULT_PAYLOAD
        values.setdefault(keys.MERGER_STRATEGY, _DEFAULT_MERGER)
    elif table.payload_class is not None:
        values[keys.PAYLOAD_CLASS] = table.payload_class
    if table.precombine is not None:
        values[keys.PRECOMBINE_FIELD] = table.precombine
    generator = table.key_generator_class or key_generator_class(table.record_key, table.partition_fields)
    values |= {
        keys.PARTITION_FIELDS: ",".join(table.partition_fields),
        keys.CDC_ENABLED: table.others.get(keys.CDC_ENABLED, "false"),
        keys.ARCHIVE_DIRECTORY: ARCHIVE_DIRECTORY,
        keys.TIMELINE_LAYOUT_VERSION: str(LAYOUT_V1.version),
        keys.DROP_PARTITION_COLUMNS: _flag(table.drops_partition_columns),
        keys.TIMELINE_TIMEZONE: "UTC",
        **({keys.RECORD_KEY_FIELDS: ",".join(table.record_key)} if table.record_key else {}),
        keys.NAME: table.name,
        keys.DATABASE_NAME: table.database,
        keys.PARTITION_METAFILE_USE_BASE_FORMAT: "false",
        keys.HIVE_STYLE_PARTITIONING: _flag(table.is_hive_style),
        keys.POPULATE_META_FIELDS: table.others.get(keys.POPULATE_META_FIELDS, "true"),
        keys.KEY_GENERATOR_CLASS: generator,
        keys.BASE_FILE_FORMAT: "PARQUET",
        keys.URL_ENCODE_PARTITIONING: _flag(table.is_url_encoded),
        keys.VERSION: str(WRITTEN_VERSION),
    }
    return values


def make_timeline_directories(storage: Storage, base_path: str, version: int = WRITTEN_VERSION) -> None:
    """Make the empty directories below `.hoodie` that tables of the version have. Raises StorageError."""
    for directory in new_table_directories(LAYOUT_OF_VERSION[version]):
        storage.make_directories(join(metadata_directory(base_path), directory))


def publish_properties(storage: Storage, base_path: str, values: Mapping[str, str], now: datetime) -> int:
    """Create `hoodie.properties`: from here on readers see the table. Returns the bytes written.

    Raises PathExistsError if another table got there first, StorageError.
    """
    content = keys.render_table_properties(values, now)
    storage.create(join(base_path, keys.PROPERTIES_FILE), content)
    return len(content)


def publish_new_table(storage: Storage, base_path: str, table: NewTable, now: datetime) -> None:
    """Make an empty table. Raises PathExistsError if another table got there first, StorageError."""
    make_timeline_directories(storage, base_path, table.version)
    publish_properties(storage, base_path, new_table_properties(table), now)


def remove_new_table(storage: Storage, base_path: str) -> list[str] | None:
    """Delete a table whose first commit failed: its timeline, partition markers, and empty directories.

    The commit has already deleted its data files. Other files in the directory stay; returns their paths. If
    a commit of the table is complete, nothing is deleted; returns None. Raises StorageError.
    """
    if open_table(storage, base_path).timeline.commits:
        return None
    storage.delete_file(join(base_path, keys.PROPERTIES_FILE))
    storage.delete_directory(metadata_directory(base_path))
    contents = _contents(storage, base_path)
    _delete_markers(storage, contents)
    return contents.others


def remove_partition_markers(storage: Storage, base_path: str) -> None:
    """Delete what a removed table has left: partition markers, and the directories that are then empty.

    A task that outlives its commit makes them. Nothing is deleted if there are other files. Raises
    StorageError.
    """
    contents = _contents(storage, base_path, until_other=True)
    if contents.markers and not contents.others:
        _delete_markers(storage, contents)


@dataclass(frozen=True)
class _Contents:
    """The files of a table's partitions, and its directories, those above others first."""

    others: list[str]
    markers: list[str]
    directories: list[str]


def _contents(storage: Storage, base_path: str, *, until_other: bool = False) -> _Contents:
    """With `until_other` deeper directories are not listed once there is a file that is not a marker."""
    contents = _Contents([], [], [base_path])
    level = [base_path]
    while level and not (until_other and contents.others):
        entries = [entry for listing in storage.list_directories(level) for entry in listing]
        for file in (entry for entry in entries if not entry.is_directory):
            is_marker = file.name.startswith(PARTITION_METADATA_FILE)
            (contents.markers if is_marker else contents.others).append(file.path)
        level = [
            entry.path
            for entry in entries
            if entry.is_directory and is_inside(storage.resolve(entry.path), storage.resolve(base_path))
        ]
        contents.directories.extend(level)
    return contents


def _delete_markers(storage: Storage, contents: _Contents) -> None:
    storage.delete_files(contents.markers)
    for directory in reversed(contents.directories):
        storage.delete_empty_directory(directory)


def _flag(value: bool) -> str:
    return "true" if value else "false"
