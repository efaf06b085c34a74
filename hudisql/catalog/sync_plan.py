"""Plans a sync: the differences between a Hudi table and its metastore entries.

Changes nothing: `sync_entries.py` defines how an entry should be, `sync.py` applies a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from hudisql.catalog.added_partitions import is_added, without_added_mark
from hudisql.catalog.hive_ddl import column_list, column_text, describe_creation, partition_list, shorten
from hudisql.catalog.hive_types import is_taken_change
from hudisql.catalog.metastore_table import (
    PURGE_PROPERTY,
    MetastoreColumn,
    MetastorePartition,
    MetastoreTable,
    hudi_base_path,
    is_hudi_table,
    loses_files_when_dropped,
)
from hudisql.catalog.sync_changes import (
    COMMIT_PROPERTIES,
    ChangedPartitions,
    changed_partitions,
    is_incremental,
    partitions_changed_since,
)
from hudisql.catalog.sync_entries import (
    CREATE_VERSION_PROPERTY,
    SCHEMA_PROPERTY_PREFIX,
    EntryKind,
    SyncOptions,
    check_distinct,
    check_omitted_columns,
    entry_kinds,
    omits_meta_columns,
    wanted_partition,
    wanted_table,
)
from hudisql.errors import NoSuchDatabaseError, TableExistsError, UnsupportedTableError
from hudisql.format.schema.spark_schema import arrow_from_spark_json
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import (
    TablePartition,
    directory_columns,
)
from hudisql.table.partitions.non_empty_partitions import list_non_empty_partitions
from hudisql.table.timeline.schema_history import has_schema_files

_WRITE_PREFIXES = ("hoodie.", "hudisql.")
# With this property Hive answers count(*) and the like from the results of ANALYZE TABLE.
_ACCURATE_STATISTICS = "COLUMN_STATS_ACCURATE"


@dataclass(frozen=True)
class ExistingEntries:
    """The metastore's current entries of a table's names; `partitions` by entry name."""

    database_exists: bool
    tables: Mapping[str, MetastoreTable]
    partitions: Mapping[str, Sequence[MetastorePartition]]


@dataclass(frozen=True)
class EntrySync:
    """The changes for one name. `table` is the entry after all changes.

    With `replaces_columns` the columns are replaced as a whole, whatever stands in their places.
    """

    table: MetastoreTable
    existing: MetastoreTable | None
    added_columns: tuple[MetastoreColumn, ...] = ()
    changed_columns: tuple[tuple[MetastoreColumn, MetastoreColumn], ...] = ()
    dropped_columns: tuple[MetastoreColumn, ...] = ()
    changed_properties: tuple[str, ...] = ()
    added_partitions: tuple[MetastorePartition, ...] = ()
    changed_partitions: tuple[MetastorePartition, ...] = ()
    dropped_partitions: tuple[tuple[str, ...], ...] = ()
    replaces_columns: bool = False

    @property
    def changes_columns(self) -> bool:
        """True if the partitions' columns have to change, too."""
        changed = self.added_columns or self.changed_columns or self.dropped_columns
        return bool(changed or self.replaces_columns)

    @property
    def is_empty(self) -> bool:
        """True if the entry needs no change."""
        partitions = self.added_partitions or self.changed_partitions or self.dropped_partitions
        return not (self.existing is None or self.changes_columns or self.changed_properties or partitions)

    def describe(self) -> Iterator[str]:
        """The changes as lines of Hive DDL, in the order in which they run."""
        name = self.table.full_name
        if self.existing is None:
            yield from describe_creation(self.table)
        if self.replaces_columns:
            yield f"ALTER TABLE {name} REPLACE COLUMNS ({column_list(self.table.columns)}) CASCADE"
        else:
            yield from self._describe_columns()
        for change in self.changed_properties:
            yield f"ALTER TABLE {name} SET {change}"
        columns = self.table.partition_columns
        for verb, values in (
            ("ADD", [partition.values for partition in self.added_partitions]),
            ("CHANGE", [partition.values for partition in self.changed_partitions]),
            ("DROP", list(self.dropped_partitions)),
        ):
            if values:
                yield f"ALTER TABLE {name} {verb} {len(values)} PARTITIONS: {partition_list(columns, values)}"

    def _describe_columns(self) -> Iterator[str]:
        name = self.table.full_name
        if self.added_columns:
            yield f"ALTER TABLE {name} ADD COLUMNS ({column_list(self.added_columns)}) CASCADE"
        for before, after in self.changed_columns:
            yield f"ALTER TABLE {name} CHANGE COLUMN {before.name} {column_text(after)} CASCADE"
        for column in self.dropped_columns:
            yield f"ALTER TABLE {name} DROP COLUMN {column.name} CASCADE"


@dataclass(frozen=True)
class SyncPlan:
    """All differences between a table and the metastore; `describe` prints them as DDL."""

    database: str
    creates_database: bool
    entries: tuple[EntrySync, ...]

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to do."""
        return not self.creates_database and all(entry.is_empty for entry in self.entries)

    def with_parameters(self, parameters: Mapping[str, str]) -> SyncPlan:
        """The plan with these additional properties for new entries.

        Only the first entry gets the property by which DROP TABLE deletes files: the others are further
        names.
        """
        harmless = {key: value for key, value in parameters.items() if key.lower() != PURGE_PROPERTY}

        def with_properties(table: MetastoreTable) -> MetastoreTable:
            given = parameters if table is self.entries[0].table else harmless
            return replace(table, parameters={**given, **table.parameters})

        return self._with_new_entries(with_properties)

    def with_owner(self, owner: str | None) -> SyncPlan:
        """The plan with `owner` as the owner of new entries; None changes nothing."""
        return self._with_new_entries(lambda table: replace(table, owner=owner)) if owner else self

    def as_managed(self, name: str) -> SyncPlan:
        """The plan in which the entry `name`, if it is new, is a managed table."""

        def managed(table: MetastoreTable) -> MetastoreTable:
            if table.name != name.lower():
                return table
            kept = {key: value for key, value in table.parameters.items() if key != "EXTERNAL"}
            return replace(table, table_type="MANAGED_TABLE", parameters=kept)

        return self._with_new_entries(managed)

    def _with_new_entries(self, change: Callable[[MetastoreTable], MetastoreTable]) -> SyncPlan:
        entries = tuple(
            entry if entry.existing is not None else replace(entry, table=change(entry.table))
            for entry in self.entries
        )
        return replace(self, entries=entries)

    def describe(self) -> list[str]:
        """The plan as lines of Hive DDL, in the order in which it runs; empty if there is nothing to do."""
        lines = [f"CREATE DATABASE {self.database}"] if self.creates_database else []
        for entry in self.entries:
            lines += entry.describe()
        return lines


def plan_sync(
    table: HudiTable,
    database: str,
    name: str,
    existing: ExistingEntries,
    options: SyncOptions | None = None,
    kinds: Sequence[EntryKind] | None = None,
) -> SyncPlan:
    """The differences between the table and the metastore. Reads storage, changes nothing.

    The entries are those of the options, or `kinds`. A new entry beside others of the table copies their
    settings of writes.

    Raises TableExistsError if another table or a view has one of the names, and CorruptTableError or
    UnsupportedTableError for tables that a metastore can't show.
    """
    options = options or SyncOptions()
    check_omitted_columns(options, is_merge_on_read=table.is_merge_on_read)
    if not table.is_merge_on_read:
        options = _with_meta_columns_of(existing, options)
    table = table.with_listing()
    kinds = entry_kinds(table, name, options) if kinds is None else kinds
    if not existing.database_exists and not options.creates_database:
        raise NoSuchDatabaseError(
            f"the metastore has no database {database}, and auto_create_database is false",
            hint=f"CREATE DATABASE {database}",
        )
    partitions = list_non_empty_partitions(table) if _needs_listing(table, existing, options, kinds) else []
    entries = []
    for kind in kinds:
        found = existing.tables.get(kind.name)
        wanted = wanted_table(table, database, kind, options, found)
        if found is None:
            values = [wanted_partition(table, wanted, held) for held in _partitioned(wanted, partitions)]
            check_distinct(values, table.base_path)
            wanted = replace(wanted, parameters={**_settings_of_writes(existing), **wanted.parameters})
            entries.append(EntrySync(wanted, None, added_partitions=tuple(values)))
            continue
        _check_same_table(table, wanted, found)
        other = replace(options, support_timestamp=not options.support_timestamp)
        entry = _plan_entry(wanted, found, wanted_table(table, database, kind, other).columns)
        if table.file_columns is not None or _has_renamed_columns(table, found, wanted):
            entry = _with_columns_in_order(entry, wanted)
        if options.incremental and is_incremental(table, found):
            changed, complete = changed_partitions(table, found), False
        else:
            changed, complete = ChangedPartitions(tuple(_partitioned(wanted, partitions))), True
        entries.append(
            _plan_partitions(table, entry, changed, existing.partitions.get(kind.name, ()), complete=complete)
        )
    return SyncPlan(database.lower(), not existing.database_exists, tuple(entries))


def _with_meta_columns_of(existing: ExistingEntries, options: SyncOptions) -> SyncOptions:
    """The options; where they do not say whether the meta columns are omitted, existing entries do."""
    if options.omits_meta_columns is None and any(map(omits_meta_columns, existing.tables.values())):
        return replace(options, omits_meta_columns=True)
    return options


def _settings_of_writes(existing: ExistingEntries) -> dict[str, str]:
    """The settings of writes in the TBLPROPERTIES of all existing entries, such as locks and indexes."""
    return {
        key: value
        for entry in existing.tables.values()
        for key, value in entry.parameters.items()
        if key.startswith(_WRITE_PREFIXES)
    }


def _needs_listing(
    table: HudiTable, existing: ExistingEntries, options: SyncOptions, kinds: Sequence[EntryKind]
) -> bool:
    if not directory_columns(table):
        return False
    if not options.incremental:
        return True
    entries = [existing.tables.get(kind.name) for kind in kinds]
    return not all(entry is not None and is_incremental(table, entry) for entry in entries)


def _partitioned(entry: MetastoreTable, partitions: list[TablePartition]) -> list[TablePartition]:
    return partitions if entry.partition_columns else []


def _check_same_table(table: HudiTable, wanted: MetastoreTable, found: MetastoreTable) -> None:
    """Refuse an entry that is a view, another table, or partitioned in another way."""
    located = hudi_base_path(found)
    if not is_hudi_table(found) or located is None:
        kind = "a view" if found.is_view else "a table that is not a Hudi table"
        raise TableExistsError(
            f"{found.full_name} is {kind} ({found.location or 'without a location'})",
            hint="sync under another name, or drop that entry first",
        )
    if table.storage.qualify(located) != table.base_path:
        raise TableExistsError(
            f"{found.full_name} is another Hudi table, at {located}, not at {table.base_path}",
            hint="sync under another name, or drop that entry first",
        )
    before = [(column.name, column.type) for column in found.partition_columns]
    after = [(column.name, column.type) for column in wanted.partition_columns]
    if before != after:
        raise TableExistsError(
            f"{found.full_name} is partitioned by {column_list(found.partition_columns)}, the table by "
            f"{column_list(wanted.partition_columns)}, and no metastore can change that in place",
            hint=f"{found.full_name} is a managed table, dropping it would delete the data: first run ALTER "
            f"TABLE {found.full_name} SET TBLPROPERTIES ('EXTERNAL'='TRUE', '{PURGE_PROPERTY}'='false')"
            if loses_files_when_dropped(found)
            else f"drop the entry and sync again; its data stays: DROP TABLE {found.full_name}",
        )


def _plan_entry(
    wanted: MetastoreTable, found: MetastoreTable, other_columns: Sequence[MetastoreColumn]
) -> EntrySync:
    """The differences of the table itself. Columns keep the metastore's order: it checks types by position.

    A timestamp column keeps the declaration of an earlier sync (`other_columns`): the server refuses to
    change a bigint to a timestamp or back.
    """
    other_types = {column.name: column.type for column in other_columns}
    wanted_columns = {column.name: column for column in wanted.columns}
    found_columns = {column.name.lower(): column for column in found.columns}
    stored_columns: list[MetastoreColumn] = []
    changed: list[tuple[MetastoreColumn, MetastoreColumn]] = []
    for name, before in found_columns.items():
        if name not in wanted_columns:
            continue
        after = wanted_columns[name]
        if before.type == other_types[name]:
            after = replace(after, type=before.type)
        # A comment that was set in Hive stays if the table itself has none.
        after = replace(after, comment=after.comment or before.comment)
        if (before.type, before.comment or "") != (after.type, after.comment or ""):
            changed.append((before, after))
        stored_columns.append(after)
    added = tuple(column for name, column in wanted_columns.items() if name not in found_columns)
    dropped = tuple(column for name, column in found_columns.items() if name not in wanted_columns)
    parameters = _merged_parameters(wanted, found)
    serde_properties = {**found.serde_properties, **wanted.serde_properties}
    if "path" in found.serde_properties:
        # _check_same_table compares locations, of which `/a` and `file:/a` are one.
        serde_properties["path"] = found.serde_properties["path"]
    target = replace(
        found,
        columns=(*stored_columns, *added),
        input_format=wanted.input_format,
        output_format=wanted.output_format,
        serde=wanted.serde,
        serde_properties=serde_properties,
        parameters=parameters,
    )
    return EntrySync(target, found, added, tuple(changed), dropped, tuple(_property_changes(found, target)))


def _has_renamed_columns(table: HudiTable, found: MetastoreTable, wanted: MetastoreTable) -> bool:
    """True if the entry has columns that the table lacks since a change of columns by ids was rolled back."""
    names = {column.name.lower() for column in wanted.columns}
    lacks_some = any(column.name.lower() not in names for column in found.columns)
    return lacks_some and has_schema_files(table)


def _with_columns_in_order(entry: EntrySync, wanted: MetastoreTable) -> EntrySync:
    """The entry with its columns in the table's order: columns with ids are moved, dropped and renamed."""
    assert entry.existing is not None
    columns = {column.name: column for column in entry.table.columns}
    ordered = tuple(columns[column.name] for column in wanted.columns)
    before = [column.name.lower() for column in entry.existing.columns]
    is_longer = [column.name for column in ordered][: len(before)] == before
    fits = is_longer and all(is_taken_change(old.type, new.type) for old, new in entry.changed_columns)
    return replace(entry, table=replace(entry.table, columns=ordered), replaces_columns=not fits)


def _merged_parameters(wanted: MetastoreTable, found: MetastoreTable) -> dict[str, str]:
    parameters = dict(found.parameters)
    if _has_new_commits(wanted, found):
        parameters.pop(_ACCURATE_STATISTICS, None)
    new = {
        key: value
        for key, value in wanted.parameters.items()
        if key != "EXTERNAL" and not (key == CREATE_VERSION_PROPERTY and key in found.parameters)
    }
    if _spark_schema(found) == _spark_schema(wanted):
        # Hudi's own sync writes the same schema differently; two syncs must not overwrite each other.
        new = {key: value for key, value in new.items() if not _is_schema_property(key)}
    else:
        parameters = {key: value for key, value in parameters.items() if not _is_schema_property(key)}
    return {**parameters, **new}


def _has_new_commits(wanted: MetastoreTable, found: MetastoreTable) -> bool:
    return any(wanted.parameters.get(key) != found.parameters.get(key) for key in COMMIT_PROPERTIES)


def _is_schema_property(key: str) -> bool:
    return key.startswith(f"{SCHEMA_PROPERTY_PREFIX}.")


def _spark_schema(table: MetastoreTable) -> tuple[pa.Schema, list[str]] | None:
    """The schema and partition columns in Spark's properties, None if they are missing or invalid."""
    prefix, parameters = SCHEMA_PROPERTY_PREFIX, table.parameters
    try:
        parts = [parameters[f"{prefix}.part.{n}"] for n in range(int(parameters[f"{prefix}.numParts"]))]
        columns = range(int(parameters.get(f"{prefix}.numPartCols", "0")))
        schema = arrow_from_spark_json("".join(parts))
        return schema, [parameters[f"{prefix}.partCol.{n}"] for n in columns]
    except (KeyError, ValueError, TypeError, UnsupportedTableError):
        return None


def _property_changes(found: MetastoreTable, target: MetastoreTable) -> Iterator[str]:
    """The changes other than those of columns, as text."""
    for label, before, after in (
        ("INPUTFORMAT", found.input_format, target.input_format),
        ("OUTPUTFORMAT", found.output_format, target.output_format),
        ("SERDE", found.serde, target.serde),
    ):
        if before != after:
            yield f"{label} {before} -> {after}"
    for label, old, new in (
        ("SERDEPROPERTIES", found.serde_properties, target.serde_properties),
        ("TBLPROPERTIES", found.parameters, target.parameters),
    ):
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                yield f"{label} {key}: {shorten(old.get(key))} -> {shorten(new.get(key))}"


def _plan_partitions(
    table: HudiTable,
    entry: EntrySync,
    partitions: ChangedPartitions,
    stored: Sequence[MetastorePartition],
    *,
    complete: bool,
) -> EntrySync:
    """Add the partitions' differences. If `partitions` is complete, all other stored ones are dropped.

    Statistics of partitions that new commits have changed are no longer accurate.
    """
    present = partitions.present
    wanted = [wanted_partition(table, entry.table, partition) for partition in present]
    check_distinct(wanted, table.base_path)
    found = {partition.values: partition for partition in stored}
    columns_before = (
        {(column.name, column.type) for column in entry.existing.columns} if entry.existing else set()
    )
    outdated = _partitions_with_outdated_statistics(table, entry, zip(present, wanted, strict=True), found)
    changed = [
        replace(partition, parameters=_kept_parameters(before, is_outdated=is_outdated), raw=before.raw)
        for partition in wanted
        if (before := found.get(partition.values)) is not None
        and (
            (is_outdated := partition.values in outdated)
            or is_added(before)
            or _differs(table, before, partition, columns_before)
        )
    ]
    names = {partition.values for partition in wanted}
    gone = {wanted_partition(table, entry.table, empty).values for empty in partitions.dropped} - names
    return replace(
        entry,
        added_partitions=tuple(partition for partition in wanted if partition.values not in found),
        changed_partitions=tuple(changed),
        dropped_partitions=tuple(
            values
            for values, before in found.items()
            if values in gone or (complete and values not in names and not is_added(before))
        ),
    )


def _partitions_with_outdated_statistics(
    table: HudiTable,
    entry: EntrySync,
    partitions: Iterable[tuple[TablePartition, MetastorePartition]],
    found: Mapping[tuple[str, ...], MetastorePartition],
) -> set[tuple[str, ...]]:
    """The values of stored partitions that are marked as accurate and that new commits have changed."""
    if entry.existing is None or not _has_new_commits(entry.table, entry.existing):
        return set()
    marked = {values for values, partition in found.items() if _ACCURATE_STATISTICS in partition.parameters}
    changed = partitions_changed_since(table, entry.existing) if marked else None
    return {
        stored.values
        for partition, stored in partitions
        if stored.values in marked and (changed is None or partition.path in changed)
    }


def _kept_parameters(partition: MetastorePartition, *, is_outdated: bool) -> dict[str, str]:
    kept = without_added_mark(partition.parameters)
    return {key: value for key, value in kept.items() if not is_outdated or key != _ACCURATE_STATISTICS}


def _differs(
    table: HudiTable,
    found: MetastorePartition,
    wanted: MetastorePartition,
    columns_before: set[tuple[str, str]],
) -> bool:
    if (found.input_format, found.output_format, found.serde) != (
        wanted.input_format,
        wanted.output_format,
        wanted.serde,
    ):
        return True
    if dict(found.serde_properties) != dict(wanted.serde_properties):
        return True
    # A change of the table's columns reaches its partitions by CASCADE; this finds partitions that missed it.
    if {(column.name, column.type) for column in found.columns} != columns_before:
        return True
    if found.location == wanted.location or found.location is None or wanted.location is None:
        return found.location != wanted.location
    return table.storage.qualify(found.location) != table.storage.qualify(wanted.location)
