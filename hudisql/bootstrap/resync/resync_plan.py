"""The plan of a resync: new source files to commit, and files that changed or are gone.

`plan_resync` lists the source once and reads only the footers of new files. New files become base files of an
ordinary commit, not skeletons: Apache Hudi accepts skeletons only from the bootstrap's own instant
(docs/facts.md). Writes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hudisql.bootstrap.blockers import Finding, PlanWithFindings, blocker, blockers_of, name_some
from hudisql.bootstrap.files.skeleton import KeyCheck
from hudisql.bootstrap.plan import plan_checks as checks
from hudisql.bootstrap.plan.bootstrap_mode import BootstrapMode, PartitionMismatchPolicy, UnsafeTypePolicy
from hudisql.bootstrap.plan.schema_drift import SchemaDrift
from hudisql.bootstrap.plan.type_checks import classify_types
from hudisql.bootstrap.resync.schema_fit import check_columns_fit
from hudisql.bootstrap.resync.source_comparison import (
    ChangedSourceFile,
    changed_sources,
    new_source_files,
    scan_table_source,
    taken_sources,
    unlisted_partitions,
)
from hudisql.bootstrap.source.footers import FileFooter, files_by_schema, read_footers
from hudisql.bootstrap.source.partition_columns import check_partition_values, filter_partitions
from hudisql.bootstrap.source.source_files import PartitionColumn, SourcePartition
from hudisql.errors import InvalidArgumentError
from hudisql.format.paths.external_file import ExternalFile
from hudisql.format.paths.partition_path import parse_partition_value, split_partition_path
from hudisql.format.table_properties import BOOTSTRAP_SOURCE_TABLE
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import reads_escaped
from hudisql.table.partitions.registered_partitions import files_of_registered, registered_partitions
from hudisql.table.partitions.resynced_sources import ResyncLists, read_resync_lists

if TYPE_CHECKING:
    from hudisql.context import Context

KEY_CHECKS: Final = (KeyCheck.UNIQUE.value, KeyCheck.UNIQUE_GLOBAL.value, KeyCheck.NULLS.value)


@dataclass(frozen=True, kw_only=True)
class ResyncRequest:
    """What a user requested of a resync of the table `name` (database.table).

    `source_table` and `partition_filter` are by default those of the bootstrap. With `upserts` rows whose key
    is stored replace the stored rows; else such a row is an error, unless `key_check` is `nulls`. `lift` is a
    SQL predicate over the partition columns: only register-only partitions that match it are read.
    """

    name: str
    source_table: tuple[str, str] | None = None
    partition_filter: str | None = None
    upserts: bool = False
    lift: str | None = None
    key_check: str = KeyCheck.UNIQUE.value
    on_schema_drift: SchemaDrift = SchemaDrift.FAIL
    on_unsafe_type: UnsafeTypePolicy = UnsafeTypePolicy.FAIL
    on_partition_mismatch: PartitionMismatchPolicy = PartitionMismatchPolicy.FAIL

    def __post_init__(self) -> None:
        if self.key_check not in KEY_CHECKS:
            allowed = " or ".join(f"'{choice}'" for choice in KEY_CHECKS)
            raise InvalidArgumentError(
                f"key_check '{self.key_check}' is unknown for a resync", hint=f"it is {allowed}"
            )


@dataclass(frozen=True, slots=True)
class NewFile:
    """A new source file and its number of rows, from its footer."""

    file: ExternalFile
    rows: int


@dataclass(frozen=True, slots=True)
class NewPartitionFiles:
    """The new files of one partition of the source; `values` are those of its partition columns."""

    source: SourcePartition
    values: tuple[object, ...]
    files: tuple[NewFile, ...]

    @property
    def rows(self) -> int:
        """The rows of the new files."""
        return sum(file.rows for file in self.files)

    @property
    def source_bytes(self) -> int:
        """The bytes of the new files."""
        return sum(file.file.length for file in self.files)


@dataclass(frozen=True)
class ResyncPlan(PlanWithFindings):
    """The plan of a resync: the new files by partition, changed and missing files, and the findings.

    `lists` are the table's lists of earlier resyncs as the plan read them.
    """

    request: ResyncRequest
    partitions: tuple[NewPartitionFiles, ...]
    changed: tuple[ChangedSourceFile, ...]
    findings: tuple[Finding, ...]
    lists: ResyncLists = field(default_factory=ResyncLists)

    @property
    def refusal(self) -> str:
        """What the blockers stop."""
        return f"the new files of the source of {self.request.name} cannot be taken"


def plan_resync(context: Context, table: HudiTable, request: ResyncRequest) -> ResyncPlan:
    """Compare the source with the files that the table has, and read the footers of the new files.

    Raises InvalidArgumentError if the table was not bootstrapped or an argument does not fit, SourceError or
    NoSuchTableError if the source is gone, CorruptTableError, StorageError. All other problems are blockers.
    """
    _check_resyncable(table, request)
    source = scan_table_source(context, table, request.source_table, request.partition_filter)
    lists = read_resync_lists(table)
    taken = taken_sources(table, lists)
    findings = list(source.findings)
    is_everything = request.partition_filter is None and bool(taken) and bool(source.partitions)
    paths = (file.path for partition in source.partitions for file in partition.files)
    if is_everything and taken.keys().isdisjoint(paths):
        findings.append(_other_source(source.base_path, len(taken)))
    registered = registered_partitions(table).by_path
    partitions = [partition for partition in source.partitions if partition.path not in registered]
    new = [] if blockers_of(findings) else list(new_source_files(partitions, taken))
    if unlisted := unlisted_partitions(table, [partition.path for partition, _ in new], taken):
        findings.append(_no_list(unlisted))
        new = []
    changed = tuple(changed_sources(table, source.partitions, taken))
    return _plan_files(context, table, request, new, findings, changed, lists)


def plan_lift(
    context: Context, table: HudiTable, request: ResyncRequest, paths: Collection[str] | None = None
) -> ResyncPlan:
    """Plan to write the rows of register-only partitions: those of `paths`, or matching `request.lift`.

    Raises InvalidArgumentError for a bad predicate, SourceChangedError if a directory is gone,
    CorruptTableError, StorageError. All other problems are blockers.
    """
    registered = registered_partitions(table)
    names = [partition_column.name for partition_column in table.partition_columns]
    texts = {
        path: split_partition_path(path, names, url_encode=reads_escaped(table))
        for path in registered.by_path
    }
    if paths is None:
        columns = _columns(table)
        taken = filter_partitions(
            context.spark, request.lift or "true", columns, list(texts.values()), parameter="lift"
        )
        paths = [path for path, is_taken in zip(texts, taken, strict=True) if is_taken]
    chosen = registered.among(paths)
    new = [
        (
            SourcePartition(
                partition.path, partition.path, partition.directory, texts[partition.path], files
            ),
            files,
        )
        for partition, files in zip(chosen, files_of_registered(table, chosen), strict=True)
        if files
    ]
    return _plan_files(context, table, request, new, [], (), read_resync_lists(table))


def _plan_files(
    context: Context,
    table: HudiTable,
    request: ResyncRequest,
    new: list[tuple[SourcePartition, tuple[ExternalFile, ...]]],
    found: list[Finding],
    changed: tuple[ChangedSourceFile, ...],
    lists: ResyncLists,
) -> ResyncPlan:
    """The plan for these files; reads their footers."""
    values = check_partition_values(_columns(table), [partition for partition, _ in new])
    found += values
    if blockers_of(values):
        new = []
    footers = _read_footers(context, table, new)
    found += _check_new_files(table, request, new, footers)
    return ResyncPlan(request, _planned(table, new, footers), changed, tuple(found), lists)


def _check_resyncable(table: HudiTable, request: ResyncRequest) -> None:
    if not table.is_bootstrapped:
        raise InvalidArgumentError(
            f"{request.name} was not bootstrapped: it has no source with new files",
            hint="INSERT INTO … SELECT takes rows from other tables",
        )
    kind = table.properties.bootstrap_source_kind
    if kind is not None:
        source = table.properties.get(BOOTSTRAP_SOURCE_TABLE)
        raise InvalidArgumentError(
            f"{request.name} was made of {kind}, {source}: a resync takes new parquet files alone",
            hint=f"MERGE INTO {request.name} USING {source} … WHEN NOT MATCHED THEN INSERT * takes new rows",
        )
    if request.upserts and table.properties.generates_record_keys:
        raise InvalidArgumentError(
            f"the record keys of {request.name} are generated: new rows match no stored row",
            hint="mode => 'insert' inserts all new rows",
        )


def _columns(table: HudiTable) -> list[PartitionColumn]:
    return [
        PartitionColumn(partition_column.name, partition_column.type)
        for partition_column in table.partition_columns
    ]


def _other_source(base_path: str, taken: int) -> Finding:
    return blocker(
        f"none of the {taken:,} source files that the table was made of is among those of {base_path}: all"
        " files would be new, and their rows twice in the table",
        hint="if the source was moved, move it back; if all of it was written again, bootstrap it as a new"
        " table",
    )


def _no_list(partitions: Sequence[str]) -> Finding:
    return blocker(
        "Apache Hudi has rewritten partitions in the table's bootstrap, and left no list of the source files"
        f" that they were made of: their rows could be twice in the table ({name_some(partitions)})",
        hint="partition_filter leaves these partitions out; INSERT INTO … SELECT takes new rows of them",
    )


def _read_footers(
    context: Context, table: HudiTable, new: Sequence[tuple[SourcePartition, tuple[ExternalFile, ...]]]
) -> list[list[FileFooter]]:
    files = [file for _, some in new for file in some]
    if not files:
        return []
    footers = iter(
        read_footers(
            context.spark,
            table.storage,
            files,
            table.properties.record_key_fields,
            context.console,
            partition_columns=[column.name for column in table.partition_columns],
        )
    )
    return [[next(footers) for _ in some] for _, some in new]


def _check_new_files(
    table: HudiTable,
    request: ResyncRequest,
    new: Sequence[tuple[SourcePartition, tuple[ExternalFile, ...]]],
    by_partition: Sequence[Sequence[FileFooter]],
) -> Iterator[Finding]:
    """The checks of a bootstrap that apply to rewritten rows, for the new files."""
    partitions = [partition for partition, _ in new]
    columns = _columns(table)
    footers = [footer for some in by_partition for footer in some]
    for unreadable in checks.check_footers(footers):
        yield replace(unreadable, ways=())  # a resync takes no such parameters
    if not any(footer.problem is None for footer in footers):
        return
    names = {column.name for column in columns}
    fields = [column for column in table.schema if column.name not in names]
    yield from check_columns_fit(files_by_schema(footers), fields, request.on_schema_drift, request.name)
    yield from checks.check_inside_values(partitions, by_partition, columns, request.on_partition_mismatch)
    modes = [BootstrapMode.FULL_RECORD] * len(partitions)
    yield from classify_types(by_partition, modes, request.on_unsafe_type, table.schema).findings
    record_key = table.properties.record_key_fields
    yield from checks.check_keys_in_files(record_key, footers, pa.schema(fields))
    for statistic in checks.check_key_statistics(tuple(name.lower() for name in record_key), footers):
        yield replace(
            statistic, hint="give these rows a key in the source: a row without one cannot be written"
        )


def _planned(
    table: HudiTable,
    new: Sequence[tuple[SourcePartition, tuple[ExternalFile, ...]]],
    by_partition: Sequence[Sequence[FileFooter]],
) -> tuple[NewPartitionFiles, ...]:
    columns = table.partition_columns
    return tuple(
        NewPartitionFiles(
            partition,
            tuple(
                parse_partition_value(text, column.type)
                for text, column in zip(partition.values, columns, strict=True)
            ),
            tuple(
                NewFile(file, footer.rows)
                for file, footer in zip(files, footers, strict=True)
                if footer.rows  # a file without rows could not be recorded with a commit
            ),
        )
        for (partition, files), footers in zip(new, by_partition, strict=True)
        if any(footer.rows for footer in footers)
    )
