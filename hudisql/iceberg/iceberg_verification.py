"""Verifies the Iceberg table of a Hudi table: its metadata, its files and its rows at the published instant.

Reads only, in two levels: `metadata` opens no rows, `full` compares those of both readings as multisets. The
rows are compared by the caller, who may have tasks for it (`compare_slices`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from hudisql.errors import InvalidArgumentError, NoSuchPathError, UnsupportedTableError
from hudisql.iceberg.file_check import check_files, published_slices
from hudisql.iceberg.iceberg_location import metadata_directory, reader_uri
from hudisql.iceberg.iceberg_schema import assign_ids
from hudisql.iceberg.metadata_files import INSTANT, LastMetadata, latest_metadata, metadata_path
from hudisql.iceberg.other_readers import IcebergReader, choose_reader
from hudisql.iceberg.publication import partition_fields
from hudisql.iceberg.publication_problem import (
    BEHIND,
    FILE_NOT_IN_TABLE,
    FOREIGN,
    METADATA_MOVED,
    NOT_COMPARED,
    PublicationProblem,
)
from hudisql.iceberg.published_rows import iceberg_columns
from hudisql.iceberg.published_table import PublishedTable, published_table
from hudisql.iceberg.recent_files import forget_contents
from hudisql.iceberg.row_comparison import (
    CompareSlices,
    ComparisonTask,
    PublishedSnapshot,
    compare_by_files,
    compare_by_partitions,
)
from hudisql.iceberg.snapshot_contents import metadata_problems, read_snapshot
from hudisql.iceberg.snapshot_manifests import Layout
from hudisql.read.merge.merge_mode import log_merge_config_for
from hudisql.table.hudi_table import HudiTable


class IcebergLevel(StrEnum):
    """How much is read: metadata and footers, or also all rows."""

    METADATA = "metadata"
    FULL = "full"


@dataclass(frozen=True)
class IcebergVerification:
    """The scope of a verification and what it has found; `compared_by` names the reader of the Iceberg table.

    `metadata_file` is the newest one that hudisql has written, as readers open it.
    """

    level: IcebergLevel
    metadata_file: str
    instant: str
    files: int
    rows: int
    compared_rows: int
    compared_by: str
    problems: tuple[PublicationProblem, ...]

    @property
    def errors(self) -> tuple[PublicationProblem, ...]:
        """What makes the Iceberg table differ from the published state of the Hudi table."""
        return tuple(problem for problem in self.problems if problem.is_error)

    def with_problems(self, problems: Iterable[PublicationProblem]) -> IcebergVerification:
        """The verification with further problems, errors first."""
        ordered = sorted((*self.problems, *problems), key=lambda problem: not problem.is_error)
        return replace(self, problems=tuple(ordered))

    def describe(self) -> str:
        """The scope of the verification, in a sentence."""
        text = f"{self.files:,} files with {self.rows:,} rows of instant {self.instant or 'none'}"
        if self.compared_by:
            text += f", {self.compared_rows:,} rows compared by {self.compared_by}"
        return text


def is_published(table: HudiTable) -> bool:
    """True if the table has metadata of an Iceberg table. Raises StorageError."""
    try:
        names = table.storage.list_file_names(metadata_directory(table))
    except NoSuchPathError:
        return False
    return any(name.endswith(".metadata.json") for name in names)


def verify_iceberg_table(
    table: HudiTable, level: IcebergLevel, reader: IcebergReader, compare: CompareSlices
) -> IcebergVerification:
    """Compare the newest publication with the table at the published instant.

    `compare` runs `compare_slices`, here or in tasks. Raises InvalidArgumentError if the table is not
    published, UnsupportedTableError for a reader that cannot be used, the errors of `published_table`.
    """
    # What is compared are the files as they are now, not as this process has written them.
    forget_contents()
    try:
        last = latest_metadata(table)
    except UnsupportedTableError as error:
        return _stopped(
            table, level, PublicationProblem(FOREIGN, None, metadata_directory(table), error.message)
        )
    if not last.version:
        raise InvalidArgumentError(
            f"the Hudi table at {table.base_path} is not published as an Iceberg table",
            hint="CALL sync_iceberg(table => …) publishes it",
        )
    path = metadata_path(table, last.version)
    if last.document is None:
        detail = "it has the files of the place that the table was moved or copied from: publish it again"
        return _stopped(table, level, PublicationProblem(METADATA_MOVED, None, path, detail))
    # Opened after the metadata: no commit that this shows is missing in the timeline. A changed source is a
    # problem of its own, and its rows are compared nevertheless.
    table = replace(table.reopened().listed_once(), accepts_changed_sources=True)
    published = None if last.state is None else published_table(table, last.state)
    return _verify(table, last, published, level, reader, compare)


def _stopped(table: HudiTable, level: IcebergLevel, problem: PublicationProblem) -> IcebergVerification:
    path = reader_uri(table, problem.path)
    return IcebergVerification(level, path, "", 0, 0, 0, "", (problem,))


def _verify(
    table: HudiTable,
    last: LastMetadata,
    published: PublishedTable | None,
    level: IcebergLevel,
    reader: IcebergReader,
    compare: CompareSlices,
) -> IcebergVerification:
    then = table if published is None else published.table
    layout = _layout(then, last)
    contents = read_snapshot(table, last, layout.partition)
    problems = [*metadata_problems(then, last, layout), *contents.problems]
    metadata_file = reader_uri(table, metadata_path(table, last.version))
    scope = IcebergVerification(
        level,
        metadata_file,
        last.summary[INSTANT],
        len(contents.files),
        sum(file["record_count"] * (-1 if file["content"] else 1) for file in contents.files),
        0,
        "",
        (),
    )
    if published is not None and published.behind:
        detail = f"{published.behind}: CALL sync_iceberg publishes the present state"
        problems.append(PublicationProblem(BEHIND, None, table.base_path, detail))
    if published is None or published.gone:
        why = "its state is unknown" if published is None else published.gone
        detail = f"the Hudi table no longer has the published state: {why}"
        problems.append(PublicationProblem(NOT_COMPARED, None, table.base_path, detail))
        checked = check_files(then, layout, [], contents.files, is_complete=False)
        missing = [problem for problem in checked.problems if problem.kind != FILE_NOT_IN_TABLE]
        return scope.with_problems([*problems, *missing])
    values = {partition.path: partition.values for partition in published.partitions}
    slices, others = published_slices(then, published.slices, values, contents.files)
    if published.has_new_sources:
        slices = [
            published_slice
            for published_slice in slices
            if published_slice.data or not published_slice.file_slice.is_register_only
        ]
    checked = check_files(then, layout, slices, others, is_complete=contents.is_complete)
    problems += checked.problems
    if level is IcebergLevel.METADATA:
        return scope.with_problems(problems)
    if not contents.is_complete:
        detail = "rows are not compared, since manifests are missing"
        return scope.with_problems(
            [*problems, PublicationProblem(NOT_COMPARED, None, table.base_path, detail)]
        )
    # Other readers read all files or none.
    is_whole = len(checked.readable) == len(slices) and not others
    task = ComparisonTask(
        then.storage,
        iceberg_columns(last.document or {}, then.schema),
        tuple(column.name for column in then.partition_columns),
        log_merge_config_for(then, published.slices),
    )
    other = choose_reader(reader, metadata_file, then.schema)
    if other is None or not is_whole:
        compared = compare_by_files(task, checked.readable, compare)
    else:
        snapshot = PublishedSnapshot(metadata_file, last.snapshots[-1]["snapshot-id"], other)
        compared = compare_by_partitions(task, slices, compare, snapshot)
    scope = replace(scope, compared_rows=compared.rows, compared_by=compared.compared_by)
    return scope.with_problems([*problems, *compared.problems])


def _layout(table: HudiTable, last: LastMetadata) -> Layout:
    ids = assign_ids(last.ids, [table.schema])
    return Layout(ids, {}, partition_fields(table, ids))
