"""A Hive table of the metastore as a bootstrap source: its partitions, wherever they are.

The metastore provides partition values, locations, column order, comments and partition types; the files
provide the columns themselves. Tables that are not plain parquet are refused by name, and a table whose DROP
would delete the data is a blocker with the exact ALTER that prevents it. Knows no Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from hudisql.bootstrap.blockers import Finding, blocker, name_some, warning
from hudisql.bootstrap.source.partition_columns import partition_type
from hudisql.bootstrap.source.source_files import (
    BootstrapSource,
    ChoosePartitions,
    DeclaredColumn,
    PartitionColumn,
    SourceListing,
    SourcePartition,
    check_is_plain_directory,
    describe_left_out,
    external_file,
    list_source_files,
)
from hudisql.bootstrap.source.source_format import other_format
from hudisql.catalog.metastore_table import (
    PROVIDER_PROPERTY,
    MetastorePartition,
    MetastoreTable,
    is_hudi_table,
)
from hudisql.errors import NoSuchTableError, SourceError, StorageError
from hudisql.format.paths.file_names import is_hidden
from hudisql.format.paths.ignored_names import is_ignored
from hudisql.format.paths.partition_path import HIVE_DEFAULT_PARTITION, partition_path
from hudisql.storage import Storage, is_inside, join
from hudisql.storage.parallel_reads import read_many

if TYPE_CHECKING:
    from hudisql.catalog.client import MetastoreClient


@dataclass(frozen=True, slots=True)
class SourceProtection:
    """Table properties that keep DROP TABLE of the source from deleting its files."""

    database: str
    name: str
    properties: tuple[tuple[str, str], ...]

    @property
    def statement(self) -> str:
        """The ALTER TABLE that sets them."""
        pairs = ", ".join(f"'{key}'='{value}'" for key, value in self.properties)
        return f"ALTER TABLE {self.database}.{self.name} SET TBLPROPERTIES({pairs})"


def load_source_table(metastore: MetastoreClient, database: str, name: str) -> MetastoreTable:
    """The source table's entry. Raises NoSuchTableError, or SourceError if it is not plain parquet."""
    table = find_source_table(metastore, database, name)
    found = other_format(table)
    if found is not None:
        raise SourceError(
            f"the source {database}.{name} is {found.kind}",
            hint="query it as it is"
            if is_hudi_table(table)
            else "bootstrap_table takes it with mode => 'full_record', under another name"
            if found.has_files
            else "only plain parquet tables can be bootstrapped in place",
        )
    return table


def find_source_table(metastore: MetastoreClient, database: str, name: str) -> MetastoreTable:
    """The source table's entry, whatever its format. Raises NoSuchTableError."""
    table = metastore.get_table(database, name)
    if table is None:
        raise NoSuchTableError(f"no such source: the metastore has no table {database}.{name}")
    return table


def protection_for(table: MetastoreTable) -> SourceProtection | None:
    """The properties with which DROP TABLE keeps the files; None if it already does."""
    parameters = {key.lower(): (value or "") for key, value in table.parameters.items()}
    wanted: list[tuple[str, str]] = []
    if not table.is_external:
        wanted.append(("EXTERNAL", "TRUE"))
    if parameters.get("external.table.purge", "").lower() == "true":
        wanted.append(("external.table.purge", "false"))
    return SourceProtection(table.database, table.name, tuple(wanted)) if wanted else None


def scan_hive_source(
    storage: Storage,
    metastore: MetastoreClient,
    table: MetastoreTable,
    choose: ChoosePartitions | None = None,
    ignore: Sequence[str] = (),
) -> BootstrapSource:
    """Find the chosen partitions' files of a metastore table, but for names in a pattern of `ignore`.

    Raises SourceError if the table's directory belongs to another format, InvalidArgumentError for an
    unsupported partition type; all other problems are findings.
    """
    location = location_of(table)
    if not location:
        raise SourceError(f"the source {table.database}.{table.name} has no location")
    base_path = storage.qualify(location)
    declared = tuple(DeclaredColumn(column.name, column.type, column.comment) for column in table.columns)
    columns = tuple(
        PartitionColumn(column.name, partition_type(column.type, column.name))
        for column in table.partition_columns
    )
    if storage.exists(base_path):
        check_is_plain_directory(storage, base_path)
    if not columns:
        return _scan_unpartitioned(storage, base_path, declared, ignore)
    partitions = metastore.list_partitions(table.database, table.name)
    values = [_values_of(partition) for partition in partitions]
    names = [column.name for column in columns]
    locations = [
        storage.qualify(partition.location)
        if partition.location
        else join(base_path, partition_path(names, value, hive_style=True, url_encode=True))
        for partition, value in zip(partitions, values, strict=True)
    ]
    everywhere = tuple(locations)
    if choose is not None:
        chosen = choose(columns, values)
        partitions = [partition for partition, taken in zip(partitions, chosen, strict=True) if taken]
        values = [value for value, taken in zip(values, chosen, strict=True) if taken]
        locations = [location for location, taken in zip(locations, chosen, strict=True) if taken]
    findings = list(_check_formats(table, partitions, locations))
    findings += _find_unregistered(storage, base_path, len(columns), frozenset(everywhere), ignore)
    columns = _with_directory_case(columns, base_path, locations)
    source = _scan_partitions(storage, base_path, columns, declared, values, locations, ignore, findings)
    taken_locations = {partition.location for partition in source.partitions}
    others = tuple(location for location in everywhere if location not in taken_locations)
    return replace(source, other_locations=others)


def location_of(table: MetastoreTable) -> str | None:
    """The table's directory; Spark keeps that of a format unknown to Hive as a property."""
    is_of_spark = PROVIDER_PROPERTY in table.parameters and other_format(table) is not None
    return (table.serde_properties.get("path") if is_of_spark else None) or table.location


def _values_of(partition: MetastorePartition) -> tuple[str | None, ...]:
    return tuple(None if value == HIVE_DEFAULT_PARTITION else value for value in partition.values)


def _check_formats(
    table: MetastoreTable, partitions: Sequence[MetastorePartition], locations: Sequence[str]
) -> Iterator[Finding]:
    found = other_format(table)
    other = [
        location
        for partition, location in zip(partitions, locations, strict=True)
        if partition.input_format
        and (
            "parquet" not in partition.input_format.lower()
            if found is None
            else partition.input_format != table.input_format
        )
        # Spark's own tables have a placeholder format on partitions that it never reads through Hive.
        and "SequenceFileInputFormat" not in partition.input_format
    ]
    if other:
        kind = "parquet" if found is None else f"that of {found.kind}"
        yield blocker(f"partitions of another format than {kind}: {name_some(other, 'partition')}")


def _find_unregistered(
    storage: Storage, base_path: str, depth: int, registered: frozenset[str], ignore: Sequence[str]
) -> Iterator[Finding]:
    """A warning for data files below the table's directory that are in no partition of the metastore."""
    level = [base_path] if storage.exists(base_path) else []
    holding: list[str] = []
    for number in range(depth + 1):
        unlisted = [directory for directory in level if number < depth or directory not in registered]
        level = []
        try:
            listings = storage.list_directories(unlisted)
        except StorageError:
            break  # the directory contains nothing of the table: it need not be readable
        for directory, entries in zip(unlisted, listings, strict=True):
            shown = [entry for entry in entries if not is_hidden(entry.name)]
            if directory not in registered and any(
                not entry.is_directory and entry.length and not is_ignored(entry.name, ignore)
                for entry in shown
            ):
                holding.append(directory)
            level += [entry.path for entry in shown if entry.is_directory]
    if holding:
        yield warning(
            f"files in no partition of the metastore, left out: {name_some(holding, 'directory')}",
            hint="Hive and Spark do not read them; MSCK REPAIR TABLE registers directories that belong to it",
        )


def _scan_unpartitioned(
    storage: Storage, base_path: str, declared: tuple[DeclaredColumn, ...], ignore: Sequence[str]
) -> BootstrapSource:
    findings: list[Finding] = []
    partitions: tuple[SourcePartition, ...] = ()
    if not storage.exists(base_path):
        findings.append(blocker(f"the table's directory {base_path} does not exist"))
    else:
        listing = list_source_files(storage, base_path, ignore)
        findings += describe_left_out(storage, base_path, [listing], ignore)
        if not listing.directories:
            findings.append(blocker(f"there are no data files in {base_path}"))
        if deeper := [directory for directory, _ in listing.directories if directory]:
            findings.append(_deeper_than_declared(base_path, deeper))
        else:
            partitions = tuple(
                SourcePartition("", "", base_path, (), tuple(external_file(entry) for entry in files))
                for _, files in listing.directories
            )
    return BootstrapSource(base_path, (), partitions, False, False, declared, tuple(findings))


def _deeper_than_declared(base_path: str, directories: Sequence[str]) -> Finding:
    return blocker(
        f"data files lie deeper than the table's partitions, below {base_path}:"
        f" {name_some(directories, 'directory')}",
        hint="Hive and Spark do not read these files as part of the table; move them away or register them",
    )


def _with_directory_case(
    columns: tuple[PartitionColumn, ...], base_path: str, locations: Sequence[str]
) -> tuple[PartitionColumn, ...]:
    """The columns in the case that all directories use: the metastore only stores lower case."""
    spellings: set[tuple[str, ...]] = set()
    for location in locations:
        parts = location[len(base_path) :].strip("/").split("/") if is_inside(location, base_path) else []
        keys = tuple(part.partition("=")[0] for part in parts)
        if [key.lower() for key in keys] != [column.name.lower() for column in columns]:
            return columns
        spellings.add(keys)
    if len(spellings) != 1:
        return columns
    return tuple(
        PartitionColumn(name, column.type) for name, column in zip(spellings.pop(), columns, strict=True)
    )


def _scan_partitions(
    storage: Storage,
    base_path: str,
    columns: tuple[PartitionColumn, ...],
    declared: tuple[DeclaredColumn, ...],
    values: Sequence[tuple[str | None, ...]],
    locations: Sequence[str],
    ignore: Sequence[str],
    findings: list[Finding],
) -> BootstrapSource:
    findings += _repeated_locations(locations)
    names = [column.name for column in columns]
    missing: list[str] = []
    is_encoded = False
    partitions: list[SourcePartition] = []
    listings = _list_present(storage, locations, ignore)
    findings += describe_left_out(storage, base_path, list(listings.values()), ignore)
    for value, location in zip(values, locations, strict=True):
        plain = partition_path(names, value, hive_style=True, url_encode=False)
        encoded = partition_path(names, value, hive_style=True, url_encode=True)
        is_encoded = is_encoded or plain != encoded
        listing = listings.get(location)
        if listing is None:
            missing.append(location)
            continue
        if deeper := [directory for directory, _ in listing.directories if directory]:
            findings.append(_deeper_than_declared(location, deeper))
            continue
        files = tuple(external_file(entry) for _, entries in listing.directories for entry in entries)
        if not files:
            continue
        inside = is_inside(location, base_path)
        partitions.append(
            SourcePartition(
                encoded,
                location[len(base_path) :].strip("/") if inside else encoded,
                location,
                value,
                files,
            )
        )
    if missing:
        findings.append(
            warning(f"registered partitions without a directory, left out: {name_some(missing, 'directory')}")
        )
    if not partitions and not any(finding.is_blocker for finding in findings):
        findings.append(blocker(f"no chosen partition of the table at {base_path} holds data files"))
    return BootstrapSource(
        base_path,
        columns,
        tuple(sorted(partitions, key=lambda partition: partition.path)),
        True,
        is_encoded,
        declared,
        tuple(findings),
    )


def _repeated_locations(locations: Sequence[str]) -> list[Finding]:
    repeated = sorted(location for location, count in Counter(locations).items() if count > 1)
    if not repeated:
        return []
    named = name_some(repeated, "location")
    return [blocker(f"several partitions share a location, so that rows would double: {named}")]


def _list_present(
    storage: Storage, locations: Sequence[str], ignore: Sequence[str]
) -> dict[str, SourceListing]:
    """The data files of each existing location."""
    infos = storage.infos(list(locations))
    present = [location for location, info in zip(locations, infos, strict=True) if info is not None]
    listed = read_many(partial(list_source_files, storage, ignore=ignore), present)
    return dict(zip(present, listed, strict=True))
