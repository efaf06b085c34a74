"""Compares the rows of file groups as the slice reader gives them with those of their published files.

By sums of hashes (`row_sums`), one file slice at a time, so that memory follows the batch and not the table.
Works in tasks, without Spark and without the metastore.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from hudisql.errors import HudisqlError
from hudisql.iceberg.file_check import PublishedSlice
from hudisql.iceberg.other_readers import OtherReader, sums_by_group
from hudisql.iceberg.publication_problem import (
    FILE_UNREADABLE,
    ROWS_DIFFER,
    SOURCE_CHANGED,
    PublicationProblem,
)
from hudisql.iceberg.published_rows import IcebergColumns, read_published
from hudisql.iceberg.row_sums import RowSums, group_number, no_rows, sum_rows
from hudisql.read.merge.merge_mode import LogMergeConfig
from hudisql.read.slice.slice_reader import SliceRead, read_file_slice
from hudisql.storage import Storage


@dataclass(frozen=True)
class ComparisonTask:
    """What all slices of a comparison share; `partition_names` are the partition columns.

    Without `reads_iceberg` the published files are left to another reader.
    """

    storage: Storage
    columns: IcebergColumns
    partition_names: tuple[str, ...]
    log_merge_config: LogMergeConfig | None
    reads_iceberg: bool = True


@dataclass(frozen=True)
class SliceSums:
    """The sums of a slice's rows in the Hudi table (None if it cannot be read), and what differs."""

    sums: RowSums | None
    problem: PublicationProblem | None


CompareSlices = Callable[[ComparisonTask, Sequence[PublishedSlice]], Sequence[SliceSums]]
"""Runs `compare_slices`, here or in tasks; the outcomes are in the order of the slices."""


@dataclass(frozen=True)
class PublishedSnapshot:
    """A snapshot for another reader: the metadata file as readers open it, and the id."""

    metadata_file: str
    snapshot_id: int
    reader: OtherReader


@dataclass(frozen=True)
class RowComparison:
    """How many rows of the Hudi table were compared, which reader gave those of the Iceberg table, and what
    differs.
    """

    rows: int
    compared_by: str
    problems: tuple[PublicationProblem, ...]


def compare_by_files(
    task: ComparisonTask, slices: Sequence[PublishedSlice], compare: CompareSlices
) -> RowComparison:
    """Each slice against its published files, which hudisql reads by the Iceberg metadata."""
    return _comparison(compare(task, slices), "hudisql's own reading")


def compare_by_partitions(
    task: ComparisonTask,
    slices: Sequence[PublishedSlice],
    compare: CompareSlices,
    snapshot: PublishedSnapshot,
) -> RowComparison:
    """The rows of each partition as another reader gives them, against those of its slices.

    In partitions that differ hudisql reads the published files too, to name the file.
    """
    outcomes, label = compare(replace(task, reads_iceberg=False), slices), snapshot.reader.label
    compared = _comparison(outcomes, label)
    if compared.problems:
        return compared
    schema, names = task.columns.schema, list(task.partition_names)
    try:
        found = sums_by_group(snapshot.reader, snapshot.metadata_file, snapshot.snapshot_id, schema, names)
    except Exception as error:
        detail = f"{label} cannot read the Iceberg table: {error}"
        problem = PublicationProblem(FILE_UNREADABLE, None, snapshot.metadata_file, detail)
        return replace(compared, problems=(problem,))
    key_schema, nothing = pa.schema([schema.field(name) for name in names]), no_rows(len(schema))
    expected: dict[int, RowSums] = {}
    members: dict[int, list[PublishedSlice]] = defaultdict(list)
    for published_slice, outcome in zip(slices, outcomes, strict=True):
        group = group_number(published_slice.values, key_schema)
        expected[group] = expected.get(group, nothing) + (outcome.sums or nothing)
        members[group].append(published_slice)
    problems: list[PublicationProblem] = []
    for group in [*expected, *(found.keys() - expected.keys())]:
        published, of_table = found.get(group, nothing), expected.get(group, nothing)
        if published == of_table:
            continue
        named = compare_by_files(task, members[group], compare).problems
        partition = members[group][0].file_slice.partition_path if members[group] else None
        detail = f"by {label}: {published.first_difference(of_table, schema.names)}"
        problem = PublicationProblem(ROWS_DIFFER, partition, snapshot.metadata_file, detail)
        problems += named or (problem,)
    return replace(compared, problems=tuple(problems))


def _comparison(outcomes: Sequence[SliceSums], compared_by: str) -> RowComparison:
    rows = sum(outcome.sums.rows for outcome in outcomes if outcome.sums is not None)
    problems = tuple(outcome.problem for outcome in outcomes if outcome.problem is not None)
    return RowComparison(rows, compared_by, problems)


def compare_slices(task: ComparisonTask, slices: Iterable[PublishedSlice]) -> Iterator[SliceSums]:
    """The sums of each slice, compared with those of its published files if the task reads these.

    Raises StorageError.
    """
    for published_slice in slices:
        yield _compare(task, published_slice)


def _compare(task: ComparisonTask, published_slice: PublishedSlice) -> SliceSums:
    partition, names = published_slice.file_slice.partition_path, task.columns.schema.names
    values = dict(zip(task.partition_names, published_slice.values, strict=True))
    read = SliceRead(
        published_slice.file_slice, task.columns.schema, values, log_merge_config=task.log_merge_config
    )
    try:
        of_table = sum_rows(read_file_slice(task.storage, read), len(names))
    except HudisqlError as error:
        kind = SOURCE_CHANGED if published_slice.file_slice.is_bootstrapped else FILE_UNREADABLE
        detail = f"the Hudi table cannot read it: {error.message}"
        return SliceSums(None, PublicationProblem(kind, partition, published_slice.path, detail))
    if not task.reads_iceberg:
        return SliceSums(of_table, None)
    data = [file for file in (published_slice.data, *published_slice.rows) if file is not None]
    try:
        published = sum_rows(
            read_published(task.storage, task.columns, data, published_slice.deletes), len(names)
        )
    except (HudisqlError, pa.ArrowException, KeyError) as error:
        detail = f"an Iceberg reader cannot read its files: {error}"
        return SliceSums(
            of_table, PublicationProblem(FILE_UNREADABLE, partition, published_slice.path, detail)
        )
    problem = None
    if published != of_table:
        detail = f"its published files: {published.first_difference(of_table, names)}"
        problem = PublicationProblem(ROWS_DIFFER, partition, published_slice.path, detail)
    return SliceSums(of_table, problem)
