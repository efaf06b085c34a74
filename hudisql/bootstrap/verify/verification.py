"""Verifies a bootstrapped table against its source, as long as the table reads source files.

Checks the latest slices whose data is still in external files (later commits rewrite some), the bootstrap
index, the source's directories and the listing of the metadata table. Reads only; reports differences and
lets the caller decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Final

from hudisql.bootstrap.blockers import name_some
from hudisql.bootstrap.files.full_record_sources import RewrittenSource, read_full_record_sources
from hudisql.bootstrap.source.source_files import list_source_files
from hudisql.bootstrap.verify.verify_files import (
    SKELETON_MISSING,
    SOURCE_NEW,
    Discrepancy,
    FileToVerify,
    FileVerdict,
    RowsToCompare,
    committed_files,
    verify_files,
)
from hudisql.bootstrap.verify.verify_full_records import verify_full_records
from hudisql.bootstrap.verify.verify_metadata_table import verify_metadata_table
from hudisql.bootstrap.verify.verify_rows import compare_all_rows
from hudisql.errors import HudisqlError, InvalidArgumentError, VerificationFailedError
from hudisql.format.hfile.bootstrap_index import BootstrapMapping, read_bootstrap_mappings
from hudisql.format.paths.file_names import is_hidden
from hudisql.format.paths.ignored_names import is_ignored
from hudisql.format.timeline.instant import METADATA_BOOTSTRAP_INSTANT_TIME
from hudisql.read.scan.scan_plan import ScannedSlice
from hudisql.spark.task_runner import run_on_files
from hudisql.sql_literals import quote_string
from hudisql.storage import FileInfo, is_inside, join, parent_of
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import list_partitions
from hudisql.table.partitions.registered_partitions import registered_partitions
from hudisql.table.partitions.resynced_sources import read_resync_lists
from hudisql.table.properties.version_properties import made_with_key_pairs
from hudisql.table.timeline.replaced_groups import replaced_file_groups

if TYPE_CHECKING:
    from hudisql.context import Context

_SAMPLED_FILES: Final = 20
_LISTED: Final = 10
_NEW_FILE: Final = "written after the bootstrap, or left out of it; CALL resync_bootstrap takes it"
_NEW_OTHER_FILE: Final = "written after the bootstrap, or left out of it; MERGE INTO takes its rows"


class VerifyLevel(StrEnum):
    """How much is read: footers of all files, also one row group of some files, or everything.

    FULL also compares the metadata table's listing with the storage.
    """

    COUNTS = "counts"
    SAMPLE = "sample"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Verification:
    """The scope of a verification and its findings.

    `rewritten_files` are mappings of the bootstrap index whose rows later commits have rewritten: they no
    longer depend on the source.
    """

    base_path: str
    level: VerifyLevel
    files: int
    rows: int
    compared_files: int
    compared_rows: int
    rewritten_files: int
    discrepancies: tuple[Discrepancy, ...]

    @property
    def errors(self) -> tuple[Discrepancy, ...]:
        """What makes the table differ from its source."""
        return tuple(discrepancy for discrepancy in self.discrepancies if discrepancy.is_error)

    @property
    def is_good(self) -> bool:
        """True without errors; new source files alone are not errors."""
        return not self.errors

    def describe(self) -> str:
        """The scope of the verification, in a sentence."""
        text = f"{self.files:,} files with {self.rows:,} rows"
        if self.compared_files:
            text += f", {self.compared_rows:,} rows of {self.compared_files:,} files compared"
        if self.rewritten_files:
            text += f"; {self.rewritten_files:,} files rewritten by later commits were left out"
        return text

    def raise_if_bad(self, name: str) -> None:
        """Raise VerificationFailedError that lists the errors, if there are any."""
        if self.is_good:
            return
        listed = "".join(
            f"\n  - {error.kind}: {error.path} ({error.detail})" for error in self.errors[:_LISTED]
        )
        more = len(self.errors) - _LISTED
        arguments = f"table => {quote_string(name)}, path => {quote_string(self.base_path)}"
        raise VerificationFailedError(
            f"the table {name} is committed, but does not match its source, {len(self.errors):,} findings:"
            + listed
            + (f"\n  - and {more:,} more" if more > 0 else ""),
            hint=f"CALL verify_bootstrap({arguments}) lists all;"
            f" CALL rollback_bootstrap({arguments}) removes the table",
        )


def verify_bootstrap(
    context: Context, table: HudiTable, level: VerifyLevel, *, check_new_source_directories: bool = True
) -> Verification:
    """Compare the table with its source. `check_new_source_directories` also looks for new directories below
    the source.

    Raises InvalidArgumentError if the table was not bootstrapped, CorruptTableError, StorageError, and
    QueryError if the level is FULL and Spark cannot read a file to its end.
    """
    if not table.is_bootstrapped:
        raise InvalidArgumentError(
            f"the Hudi table at {table.base_path} was not bootstrapped: it has no source to compare with"
        )
    # A changed modification time is a separate finding; the rows are compared nevertheless.
    table = replace(table, accepts_changed_sources=True).listed_once()
    storage = table.storage
    latest = _latest_slices(table)
    slices = [
        (replace(file_slice, log_files=()), values)
        for file_slice, values in latest
        if file_slice.is_bootstrapped
    ]
    mappings = list(read_bootstrap_mappings(storage, table.base_path))
    full_record_sources = read_full_record_sources(storage, table.base_path)
    source = _list_source(table, slices, mappings, full_record_sources)
    missing = _missing_skeletons(table, mappings, slices)
    files = _files_to_verify(table, slices, source, level)
    verdicts: list[FileVerdict] = run_on_files(
        context.spark,
        files,
        partial(
            verify_files,
            storage,
            table.full_schema,
            table.properties.record_key_fields,
            made_with_key_pairs(table.properties),
        ),
        weight=partial(_bytes_to_read, level),
        console=context.console,
        label=f"Verifying {table.name}, files",
    )
    discrepancies = [
        *missing,
        *(discrepancy for verdict in verdicts for discrepancy in verdict.discrepancies),
    ]
    if level is VerifyLevel.FULL:
        whole = [
            (file.file_slice, file.partition_values)
            for file, verdict in zip(files, verdicts, strict=True)
            if verdict.is_readable
        ]
        discrepancies += compare_all_rows(context.spark, table, whole)
        discrepancies += verify_metadata_table(table)
    full = verify_full_records(
        context,
        table,
        latest,
        full_record_sources,
        sampled_files={VerifyLevel.COUNTS: 0, VerifyLevel.SAMPLE: _SAMPLED_FILES}.get(level, len(latest)),
        compares_all=level is VerifyLevel.FULL,
    )
    discrepancies += full.discrepancies
    discrepancies += _new_source_files(table, source)
    if check_new_source_directories:
        discrepancies += _new_source_directories(table, source)
    return Verification(
        table.base_path,
        level,
        len(files) + full.files,
        sum(verdict.rows for verdict in verdicts) + full.rows,
        sum(1 for verdict in verdicts if verdict.compared_rows) + full.compared_files,
        sum(verdict.compared_rows for verdict in verdicts) + full.compared_rows,
        len(mappings) - len(slices) - len(missing) + full.rewritten_files,
        tuple(
            sorted(
                discrepancies,
                key=lambda discrepancy: (
                    not discrepancy.is_error,
                    discrepancy.partition_path,
                    discrepancy.path,
                ),
            )
        ),
    )


def _latest_slices(table: HudiTable) -> Sequence[ScannedSlice]:
    """The latest slices with the values of their partition columns."""
    names = [column.name for column in table.partition_columns]
    partitions = list_partitions(table)
    values = {partition.path: dict(zip(names, partition.values, strict=True)) for partition in partitions}
    return [
        (file_slice, values[file_slice.partition_path]) for file_slice in load_file_slices(table, partitions)
    ]


@dataclass(frozen=True, slots=True)
class _ListedSource:
    """The partition paths of the files that the table knows, and the entries of their directories."""

    partition_paths: Mapping[str, str]
    directories: Mapping[str, Mapping[str, FileInfo]]

    def info(self, path: str) -> FileInfo | None:
        """The entry of a file that the table knows, None if it is gone."""
        return self.directories[parent_of(path)].get(path)


def _list_source(
    table: HudiTable,
    slices: Sequence[ScannedSlice],
    mappings: Sequence[BootstrapMapping],
    full_records: Sequence[RewrittenSource],
) -> _ListedSource:
    """The source's directories with files that the table knows, each listed once."""
    known = {
        file_slice.external_file.path: file_slice.partition_path
        for file_slice, _ in slices
        if file_slice.external_file is not None
    }
    known |= {mapping.external_file.path: mapping.partition_path for mapping in mappings}
    known |= {full_record.file.path: full_record.partition_path for full_record in full_records}
    resynced = read_resync_lists(table).taken
    known |= {path: source_file.partition_path for path, source_file in resynced.items()}
    directories = sorted(set(map(parent_of, known)))
    listings = table.storage.list_directories(directories, missing_ok=True)
    return _ListedSource(
        known,
        {
            directory: {entry.path: entry for entry in entries}
            for directory, entries in zip(directories, listings, strict=True)
        },
    )


def _missing_skeletons(
    table: HudiTable,
    mappings: Sequence[BootstrapMapping],
    slices: Sequence[ScannedSlice],
) -> list[Discrepancy]:
    """Mappings without any file in the table, if the timeline shows that none was removed on purpose."""
    commits = table.timeline.commits
    if not any(commit.timestamp == METADATA_BOOTSTRAP_INSTANT_TIME for commit in commits):
        return []
    alive = {file_slice.file_group for file_slice, _ in slices}
    unseen = [mapping for mapping in mappings if (mapping.partition_path, mapping.file_id) not in alive]
    if not unseen:
        return []
    rewritten = {file_slice.file_group for file_slice in load_file_slices(table)}
    rewritten |= replaced_file_groups(table)
    return [
        Discrepancy(
            SKELETON_MISSING,
            bootstrap_mapping.partition_path,
            join(table.base_path, bootstrap_mapping.partition_path, bootstrap_mapping.file_id),
            f"no file of this file group is left; its rows are in {bootstrap_mapping.external_file.path}",
        )
        for bootstrap_mapping in unseen
        if (bootstrap_mapping.partition_path, bootstrap_mapping.file_id) not in rewritten
    ]


def _files_to_verify(
    table: HudiTable, slices: Sequence[ScannedSlice], source: _ListedSource, level: VerifyLevel
) -> list[FileToVerify]:
    stats = committed_files(table, METADATA_BOOTSTRAP_INSTANT_TIME)
    step = max(1, -(-len(slices) // _SAMPLED_FILES))
    files = []
    for number, (file_slice, values) in enumerate(slices):
        external = file_slice.external_file
        rows = RowsToCompare.NONE
        if level is VerifyLevel.FULL:
            rows = RowsToCompare.ALL
        elif level is VerifyLevel.SAMPLE and number % step == 0:
            rows = RowsToCompare.ONE_ROW_GROUP
        stat = stats.get(file_slice.base_file.path) if file_slice.base_file else None
        files.append(
            FileToVerify(
                file_slice,
                values,
                rows,
                None if external is None else source.info(external.path),
                None if stat is None else stat.file_size_in_bytes,
                None if stat is None else stat.num_writes,
            )
        )
    return files


def _bytes_to_read(level: VerifyLevel, file: FileToVerify) -> int:
    external = file.file_slice.external_file
    return external.length if level is VerifyLevel.FULL and external is not None else 0


def _new_source_files(table: HudiTable, source: _ListedSource) -> Iterator[Discrepancy]:
    """Data files beside those that the table knows."""
    ignore = table.properties.bootstrap_ignore
    detail = _NEW_FILE if table.properties.bootstrap_source_kind is None else _NEW_OTHER_FILE
    known = source.partition_paths
    partitions = {parent_of(path): partition_path for path, partition_path in known.items()}
    for directory, entries in source.directories.items():
        for path, entry in entries.items():
            is_data = not entry.is_directory and entry.length > 0 and not is_hidden(entry.name)
            if is_data and path not in known and not is_ignored(entry.name, ignore):
                yield Discrepancy(SOURCE_NEW, partitions[directory], path, detail)


def _new_source_directories(table: HudiTable, listed: _ListedSource) -> Iterator[Discrepancy]:
    """One row for all directories of data files outside of the bootstrap: too many to list each."""
    storage = table.storage
    known = set(listed.directories)
    known |= {partition.directory for partition in registered_partitions(table).by_path.values()}
    source = storage.qualify(table.properties.bootstrap_base_path or "")
    if not storage.exists(source) or is_inside(storage.resolve(table.base_path), storage.resolve(source)):
        return
    try:
        listing = list_source_files(storage, source, table.properties.bootstrap_ignore)
    except HudisqlError as error:
        yield Discrepancy(SOURCE_NEW, "", source, f"its directories cannot be listed: {error.message}")
        return
    new = [
        (directory, len(files))
        for directory, files in listing.directories
        if join(source, directory) not in known
    ]
    if new:
        yield Discrepancy(
            SOURCE_NEW,
            "",
            source,
            f"{sum(count for _, count in new):,} files in directories that the bootstrap did not take,"
            f" {name_some([directory or '.' for directory, _ in new], 'directory')}",
        )
