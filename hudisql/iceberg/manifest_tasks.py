"""Manifests of many new files, written in tasks, which take the files of one after the other.

So the process that publishes holds neither footers nor entries, but one record for each manifest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa

from hudisql.iceberg.iceberg_location import metadata_directory
from hudisql.iceberg.manifest_files import DATA, added_entry
from hudisql.iceberg.metadata_files import delete_unneeded
from hudisql.iceberg.publication_tasks import TaskRunner, table_of_tasks
from hudisql.iceberg.published_files import (
    MisreadFile,
    PublishedFile,
    misread_files,
    read_footers,
    refuse_misread,
)
from hudisql.iceberg.snapshot_manifests import (
    Layout,
    SnapshotNumbers,
    data_file_of,
    in_pieces,
    manifest_of,
    partition_order,
)
from hudisql.iceberg.snapshot_totals import totals_of
from hudisql.storage import join
from hudisql.table.hudi_table import HudiTable

FILES_OF_ONE_PROCESS: Final = 2_000
"""The footers of more new files are read in tasks."""


@dataclass(frozen=True)
class NewManifest:
    """A manifest of new files: its record in the manifest list (None without rows), the totals of its files
    for the summary, their different schemas, and how many of them readers would misread.
    """

    record: Mapping[str, Any] | None
    totals: Mapping[str, str]
    schemas: tuple[pa.Schema, ...]
    misread: MisreadFile | None
    misread_count: int


@dataclass(frozen=True)
class _Piece:
    path: str
    files: Sequence[PublishedFile]


def write_in_tasks(
    run: TaskRunner,
    table: HudiTable,
    files: Sequence[PublishedFile],
    numbers: SnapshotNumbers,
    layout: Layout,
    *,
    dry_run: bool,
) -> list[NewManifest]:
    """Write the manifests of these new files, or none in a dry run; `layout` has the table's columns.

    Raises UnsupportedTableError that names a file that Iceberg readers would misread, and leaves no manifest
    then; CorruptTableError, StorageError.
    """
    ordered = sorted(files, key=lambda file: partition_order(file.values, file.path))
    pieces = [
        _Piece(join(metadata_directory(table), f"{numbers.start}-m{number}.avro"), piece)
        for number, piece in enumerate(in_pieces(ordered))
    ]
    work = partial(_write_pieces, table_of_tasks(table), numbers, layout, dry_run)
    manifests: list[NewManifest] = run(pieces, work, "Reading footers for Iceberg")
    misread = [manifest.misread for manifest in manifests if manifest.misread is not None]
    if misread:
        if not dry_run:
            delete_unneeded(table, [piece.path for piece in pieces])
        refuse_misread(table, misread[0], sum(manifest.misread_count for manifest in manifests))
    return manifests


def _write_pieces(
    table: HudiTable, numbers: SnapshotNumbers, layout: Layout, dry_run: bool, pieces: Iterable[_Piece]
) -> Iterator[NewManifest]:
    for piece in pieces:
        yield _write_piece(table, numbers, layout, piece, dry_run=dry_run)


def _write_piece(
    table: HudiTable, numbers: SnapshotNumbers, layout: Layout, piece: _Piece, *, dry_run: bool
) -> NewManifest:
    footers = read_footers(table, piece.files)
    misread = misread_files(table, piece.files, footers)
    columns = dict.fromkeys(footer.columns for footer in footers)
    schemas = tuple(dict.fromkeys(some.schema for some in columns))
    data_files = [
        data_file_of(table, file, footer, layout)
        for file, footer in zip(piece.files, footers, strict=True)
        if footer.metadata.num_rows
    ]
    record = None
    if data_files and not misread:
        entries = [added_entry(data_file, numbers.snapshot_id) for data_file in data_files]
        content, record = manifest_of(table, numbers, piece.path, DATA, entries, layout)
        if not dry_run:
            table.storage.write(piece.path, content)
    first = misread[0] if misread else None
    return NewManifest(record, totals_of(table, {}, data_files, []), schemas, first, len(misread))
