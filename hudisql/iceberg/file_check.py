"""The files of a snapshot against the file slices of the Hudi table, storage and their own footers.

Reads no rows. What a footer says of a file must be what its manifest says: so a file that was replaced by
another of the same length is found, but for one with the same statistics.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from hudisql.errors import StorageError
from hudisql.format.paths.external_file import is_same_time, utc_text
from hudisql.iceberg.data_file import footer_of, misread
from hudisql.iceberg.iceberg_location import data_directory, reader_uri
from hudisql.iceberg.manifest_files import DATA
from hudisql.iceberg.merged_slices import slice_name_of
from hudisql.iceberg.publication_problem import (
    DELETES_WRONG,
    FILE_CHANGED,
    FILE_MISREAD,
    FILE_MISSING,
    FILE_NOT_IN_TABLE,
    FILE_NOT_PUBLISHED,
    FILE_UNREADABLE,
    PARTITION_WRONG,
    SOURCE_CHANGED,
    PublicationProblem,
)
from hudisql.iceberg.published_files import FileKind, PublishedFile
from hudisql.iceberg.published_rows import read_vector_file
from hudisql.iceberg.snapshot_manifests import Layout, data_file_of
from hudisql.read.files.parquet_rows import read_footer
from hudisql.storage import FileInfo
from hudisql.storage.parallel_reads import read_small
from hudisql.table.file_slice import FileSlice
from hudisql.table.hudi_table import HudiTable

_MAPS: Final = {
    "column_sizes": "sizes of columns",
    "value_counts": "counts of values",
    "null_value_counts": "counts of NULLs",
    "lower_bounds": "least values",
    "upper_bounds": "greatest values",
}

_DataFile = Mapping[str, Any]


@dataclass(frozen=True)
class PublishedSlice:
    """A file slice, the values of its partition, and its files in the snapshot: `data` is the base or source
    file, `rows` are those of its log files, `deletes` what they replace.
    """

    file_slice: FileSlice
    values: tuple[object | None, ...]
    data: _DataFile | None = None
    rows: tuple[_DataFile, ...] = ()
    deletes: tuple[_DataFile, ...] = ()

    @property
    def files(self) -> tuple[_DataFile, ...]:
        """Its files in the snapshot."""
        return (*(() if self.data is None else (self.data,)), *self.rows, *self.deletes)

    @property
    def path(self) -> str:
        """Its base or source file, or else its first log file."""
        external, base = self.file_slice.external_file, self.file_slice.base_file
        file = external or base or next(iter(self.file_slice.log_files), None)
        return self.file_slice.file_id if file is None else file.path


def published_slices(
    table: HudiTable,
    slices: Sequence[FileSlice],
    values_of: Mapping[str, tuple[object | None, ...]],
    files: Iterable[_DataFile],
) -> tuple[list[PublishedSlice], list[_DataFile]]:
    """The slices with their files of the snapshot, and the files that belong to none.

    `values_of` has the values of the partition columns by partition path.
    """
    own = reader_uri(table, data_directory(table)) + "/"
    data: dict[str, _DataFile] = {}
    of_logs: dict[str, list[_DataFile]] = defaultdict(list)
    for file in files:
        path = file["file_path"]
        if path.startswith(own) or file["content"] != DATA:
            of_logs[_group_in_name(slice_name_of(path))].append(file)
        else:
            data[path] = file
    found = []
    for file_slice in slices:
        stored = file_slice.external_file or file_slice.base_file
        group = f"{file_slice.file_id}_{file_slice.base_instant_time}"
        logs = of_logs.pop(group, []) if file_slice.has_log_files else []
        found.append(
            PublishedSlice(
                file_slice,
                values_of[file_slice.partition_path],
                None if stored is None else data.pop(reader_uri(table, stored.path), None),
                tuple(file for file in logs if file["content"] == DATA),
                tuple(file for file in logs if file["content"] != DATA),
            )
        )
    return found, [*data.values(), *(file for some in of_logs.values() for file in some)]


def _group_in_name(slice_name: str) -> str:
    """File id and base instant in the name of a slice's state; see `LogSlice.name`."""
    return slice_name.rpartition("_")[0]


@dataclass(frozen=True)
class FileCheck:
    """What is wrong with files, and the slices that can be read nevertheless."""

    problems: tuple[PublicationProblem, ...]
    readable: tuple[PublishedSlice, ...]


def check_files(
    table: HudiTable,
    layout: Layout,
    slices: Sequence[PublishedSlice],
    others: Sequence[_DataFile],
    *,
    is_complete: bool,
) -> FileCheck:
    """Compare the snapshot's files with the slices, with storage and with their footers.

    `others` are files of no slice; without `is_complete` the snapshot may have files that are not known.
    Raises StorageError.
    """
    problems = [
        PublicationProblem(FILE_NOT_IN_TABLE, None, _path(table, file), "no file slice of the table has it")
        for file in others
    ]
    of_slices = [(published_slice, file) for published_slice in slices for file in published_slice.files]
    paths = sorted({_path(table, file) for file in (*(file for _, file in of_slices), *others)})
    infos = dict(zip(paths, table.storage.infos_by_directory(paths), strict=True))
    for file in others:
        problems += _stored_problems(table, None, file, infos)
    for published_slice in slices:
        problems += _slice_problems(table, published_slice, infos)
    stored = [
        list(_stored_problems(table, published_slice, file, infos)) for published_slice, file in of_slices
    ]
    to_open = [pair for pair, file_problems in zip(of_slices, stored, strict=True) if not file_problems]
    opened = read_small(lambda pair: _footer_problem(table, layout, *pair), to_open, table.base_path)
    problems += [problem for file_problems in stored for problem in file_problems]
    problems += [problem for problem in opened if problem is not None]
    unreadable = {
        id(published_slice)
        for (published_slice, _), file_problems in zip(of_slices, stored, strict=True)
        if file_problems
    } | {
        id(published_slice)
        for (published_slice, _), problem in zip(to_open, opened, strict=True)
        if problem is not None and problem.kind == FILE_UNREADABLE
    }
    if is_complete:
        problems += _not_published(
            table, [published_slice for published_slice in slices if published_slice.data is None]
        )
    return FileCheck(
        tuple(problems),
        tuple(published_slice for published_slice in slices if id(published_slice) not in unreadable),
    )


def _path(table: HudiTable, file: _DataFile) -> str:
    return table.storage.qualify(file["file_path"])


def _stored_problems(
    table: HudiTable,
    published_slice: PublishedSlice | None,
    file: _DataFile,
    infos: Mapping[str, FileInfo | None],
) -> Iterator[PublicationProblem]:
    """A file that is gone, or has another length than its manifest says."""
    path = _path(table, file)
    partition = None if published_slice is None else published_slice.file_slice.partition_path
    info, length = infos[path], file["file_size_in_bytes"]
    if info is None:
        yield PublicationProblem(FILE_MISSING, partition, path, "it is in the snapshot, and is gone")
    elif info.length != length:
        detail = f"it has {info.length:,} bytes, its manifest says {length:,}"
        yield PublicationProblem(FILE_CHANGED, partition, path, detail)


def _slice_problems(
    table: HudiTable, published_slice: PublishedSlice, infos: Mapping[str, FileInfo | None]
) -> Iterator[PublicationProblem]:
    """Files whose manifests say otherwise than the slice, and a source file that is no longer the same."""
    partition = published_slice.file_slice.partition_path
    names = [column.name for column in table.partition_columns]
    expected = dict(zip(names, published_slice.values, strict=True))
    for file in published_slice.files:
        if file["partition"] != expected:
            detail = f"its manifest says {file['partition']}, its directory {expected}"
            yield PublicationProblem(PARTITION_WRONG, partition, _path(table, file), detail)
    target = None if published_slice.data is None else published_slice.data["file_path"]
    for file in published_slice.deletes:
        if file["referenced_data_file"] != target or target is None:
            detail = f"it deletes rows of {file['referenced_data_file']}, its file group has {target}"
            yield PublicationProblem(DELETES_WRONG, partition, _path(table, file), detail)
    for kind, files in (("row", published_slice.rows), ("delete", published_slice.deletes)):
        if len(files) > 1:
            detail = f"its file group has {len(files)} {kind} files"
            yield PublicationProblem(DELETES_WRONG, partition, _path(table, files[1]), detail)
    external = published_slice.file_slice.external_file
    info = None if published_slice.data is None else infos[_path(table, published_slice.data)]
    if external is None or info is None:
        return
    if info.length != external.length:
        detail = f"it has {info.length:,} bytes, and had {external.length:,} when it was bootstrapped"
        yield PublicationProblem(SOURCE_CHANGED, partition, external.path, detail)
    elif not is_same_time(external.modification_time_ms, info.modification_time_ms):
        times = utc_text(info.modification_time_ms), utc_text(external.modification_time_ms)
        detail = f"it was modified at {times[0]}, and at {times[1]} when it was bootstrapped"
        yield PublicationProblem(SOURCE_CHANGED, partition, external.path, detail)


def _not_published(table: HudiTable, slices: Sequence[PublishedSlice]) -> Iterator[PublicationProblem]:
    """Base and source files with rows that are in no manifest."""
    stored = [
        published_slice
        for published_slice in slices
        if published_slice.file_slice.external_file or published_slice.file_slice.base_file
    ]
    rows = read_small(
        lambda published_slice: _row_count(table, published_slice.path), stored, table.base_path
    )
    for published_slice, count in zip(stored, rows, strict=True):
        if count != 0:
            detail = "it has rows" if count else "it cannot be read"
            yield PublicationProblem(
                FILE_NOT_PUBLISHED,
                published_slice.file_slice.partition_path,
                published_slice.path,
                f"{detail}, and no manifest of the snapshot has it",
            )


def _row_count(table: HudiTable, path: str) -> int | None:
    try:
        return int(read_footer(table.storage, path).num_rows)
    except (pa.ArrowException, StorageError):
        return None


def _footer_problem(
    table: HudiTable, layout: Layout, published_slice: PublishedSlice, file: _DataFile
) -> PublicationProblem | None:
    """The first thing that the manifest says otherwise than the file's footer."""
    path, partition = _path(table, file), published_slice.file_slice.partition_path
    if file["file_format"] == "PUFFIN":
        return _vector_problem(table, published_slice, file)
    try:
        footer = footer_of(read_footer(table.storage, path, file["file_size_in_bytes"]))
    except (pa.ArrowException, StorageError) as error:
        return PublicationProblem(FILE_UNREADABLE, partition, path, f"its footer cannot be read: {error}")
    kind = FileKind.BASE if file["content"] == DATA else FileKind.DELETES
    deletes_from = None if kind is FileKind.BASE else table.storage.qualify(file["referenced_data_file"])
    published = PublishedFile(path, file["file_size_in_bytes"], published_slice.values, kind, deletes_from)
    difference = _first_difference(file, data_file_of(table, published, footer, layout), layout)
    if difference is not None:
        return PublicationProblem(FILE_CHANGED, partition, path, difference)
    problem = misread(footer, table.schema) if kind is FileKind.BASE else None
    if problem is not None:
        return PublicationProblem(FILE_MISREAD, partition, path, f"Iceberg readers misread it: {problem}")
    return None


def _vector_problem(
    table: HudiTable, published_slice: PublishedSlice, file: _DataFile
) -> PublicationProblem | None:
    """What the manifest says otherwise than the deletion vector."""
    path, partition = _path(table, file), published_slice.file_slice.partition_path
    try:
        positions = read_vector_file(table.storage, file)
    except (pa.ArrowException, StorageError) as error:
        return PublicationProblem(FILE_UNREADABLE, partition, path, f"it cannot be read: {error}")
    if len(positions) != file["record_count"]:
        detail = f"it has {len(positions):,} positions, its manifest says {file['record_count']:,}"
        return PublicationProblem(FILE_CHANGED, partition, path, detail)
    if (
        len(positions)
        and published_slice.data is not None
        and positions[-1] >= published_slice.data["record_count"]
    ):
        rows = published_slice.data["record_count"]
        detail = f"it deletes row {positions[-1]:,} of a file of {rows:,} rows"
        return PublicationProblem(DELETES_WRONG, partition, path, detail)
    return None


def _first_difference(file: _DataFile, expected: _DataFile, layout: Layout) -> str | None:
    """In words; of columns those are compared of which both know something."""
    if file["record_count"] != expected["record_count"]:
        return f"it has {expected['record_count']:,} rows, its manifest says {file['record_count']:,}"
    if file["content"] != DATA:
        return None
    paths = {column: path for path, column in layout.ids.items()}
    for name, words in _MAPS.items():
        recorded, found = (_as_mapping(entry.get(name)) for entry in (file, expected))
        for column in sorted(recorded.keys() & found.keys()):
            if recorded[column] != found[column]:
                return f"its footer has other {words} of {paths.get(column, column)} than its manifest"
    if file["split_offsets"] != expected["split_offsets"]:
        return "its row groups begin at other places than its manifest says"
    return None


def _as_mapping(entries: Iterable[Mapping[str, Any]] | None) -> dict[int, Any]:
    return {entry["key"]: entry["value"] for entry in entries or ()}
