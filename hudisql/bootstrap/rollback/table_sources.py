"""The source files that a bootstrapped table names, and those that are missing or changed.

Skeletons name theirs in the bootstrap index (RFC-12), rewritten partitions in a list that only hudisql
writes. Reads only; knows no Spark.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass

from hudisql.bootstrap.blockers import name_some
from hudisql.bootstrap.files.full_record_sources import SOURCES_FILE, read_full_record_sources
from hudisql.errors import CorruptTableError, NoSuchPathError
from hudisql.format.hfile.bootstrap_index import read_bootstrap_mappings
from hudisql.format.paths.external_file import ExternalFile, is_same_time
from hudisql.format.timeline.instant import FULL_BOOTSTRAP_INSTANT_TIME
from hudisql.storage import FileInfo, Storage, join, parent_of
from hudisql.table.hudi_table import HudiTable


@dataclass(frozen=True, slots=True)
class TableSources:
    """The source files a table names; `unnamed` describes rows without a named source file, if any."""

    files: tuple[ExternalFile, ...]
    unnamed: str | None = None


def read_table_sources(table: HudiTable) -> TableSources:
    """The source files in index and list, if they are readable. Raises StorageError."""
    storage, base_path = table.storage, table.base_path
    files: list[ExternalFile] = []
    # Without its index a table's skeletons have no rows that could be lost.
    with contextlib.suppress(CorruptTableError):
        files += [mapping.external_file for mapping in read_bootstrap_mappings(storage, base_path)]
    list_path = join(base_path, SOURCES_FILE)
    try:
        rewritten = read_full_record_sources(storage, base_path)
    except CorruptTableError:
        return TableSources(tuple(files), f"rewritten partitions: the list {list_path} is damaged")
    files += [rewritten_source.file for rewritten_source in rewritten]
    is_rewritten = any(commit.timestamp == FULL_BOOTSTRAP_INSTANT_TIME for commit in table.timeline.commits)
    if is_rewritten and not rewritten:
        return TableSources(tuple(files), f"rewritten partitions: there is no list {list_path}")
    return TableSources(tuple(files))


def describe_lost_sources(storage: Storage, sources: TableSources) -> str | None:
    """Why the table may have the only copy of rows: source files are missing, changed or unknown.

    None if all are unchanged. Lists directories instead of asking for each file. Raises StorageError.
    """
    there = list_source_directories(storage, sources.files)
    lost = [file.path for file in sources.files if not is_unchanged(file, there.get(file.path))]
    if lost:
        return f"source files were removed or changed: {name_some(lost)}"
    if sources.unnamed is not None:
        return f"it names no source files for its {sources.unnamed}"
    return None


def list_source_directories(storage: Storage, files: Iterable[ExternalFile]) -> dict[str, FileInfo]:
    """The current files in these directories, by path; none for missing directories. Raises StorageError."""
    directories = list({parent_of(file.path): None for file in files})
    try:
        listings = storage.list_directories(directories)
    except NoSuchPathError:
        infos = storage.infos(directories)
        present = [directory for directory, info in zip(directories, infos, strict=True) if info is not None]
        listings = storage.list_directories(present)
    return {entry.path: entry for listing in listings for entry in listing if not entry.is_directory}


def is_unchanged(file: ExternalFile, entry: FileInfo | ExternalFile | None) -> bool:
    """True if the file has the recorded length and modification time."""
    return (
        entry is not None
        and entry.length == file.length
        and is_same_time(file.modification_time_ms, entry.modification_time_ms)
    )
