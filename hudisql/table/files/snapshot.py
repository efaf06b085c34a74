"""The latest file slices of a table, as of now or of an instant.

Follows `AbstractTableFileSystemView.getLatestMergedFileSlicesBeforeOrOn` of Hudi 0.15: replaced file groups
are hidden. Opens no data file.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hudisql.errors import CorruptTableError
from hudisql.format.hfile.bootstrap_index import read_bootstrap_index
from hudisql.format.timeline.instant import METADATA_BOOTSTRAP_INSTANT_TIME
from hudisql.storage import FileInfo, join
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.committed_slices import FILE_SLICES
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import TablePartition, list_partitions
from hudisql.table.partitions.table_directories import take_files
from hudisql.table.slicing.completion_slicing import completion_slicing
from hudisql.table.slicing.file_groups import FileGroupVersions, group_files
from hudisql.table.slicing.latest_slice import latest_slice
from hudisql.table.timeline.replaced_groups import replaced_file_groups


def load_file_slices(
    table: HudiTable, partitions: Sequence[TablePartition] | None = None, as_of: str | None = None
) -> list[FileSlice]:
    """The latest visible slice of every live file group, sorted by partition and file id.

    Only `partitions` are listed if given, and only once for a table with a `listing`. With `as_of`, slices
    that began after that instant time and later replacements are ignored; the slices' log files may then have
    later blocks. Skeletons carry their external file. Raises CorruptTableError if a skeleton is not in the
    bootstrap index, StorageError.
    """
    chosen = list_partitions(table) if partitions is None else partitions
    paths = sorted({partition.path for partition in chosen})
    return list_file_slices(table, paths, as_of) if as_of is not None else file_slices_at(table, paths)


def file_slices_at(table: HudiTable, paths: Sequence[str]) -> list[FileSlice]:
    """`load_file_slices` of the partitions with these paths, as of now."""
    by_path = table.list_once(FILE_SLICES, dict[str, list[FileSlice]])
    missing = [path for path in paths if path not in by_path]
    if missing:
        found: dict[str, list[FileSlice]] = {path: [] for path in missing}
        named = _grouped(table, missing, take_files(table, missing))
        for file_slice in attach_external_files(table, slices_of_versions(table, named, None)):
            found[file_slice.partition_path].append(file_slice)
        if table.lister is not None:
            table.list_once("sample", lambda: _check_sampled(table, random.choice(missing), found))
        by_path.update(found)
    return [file_slice for path in paths for file_slice in by_path[path]]


def _check_sampled(table: HudiTable, path: str, found: Mapping[str, Sequence[FileSlice]]) -> None:
    """Raise CorruptTableError if the storage has other slices in the partition than the lister."""
    stored = list_file_slices(replace(table, lister=None), [path], None)
    if not _agree(found[path], stored):
        raise CorruptTableError(
            f"the metadata table of {table.base_path} lists other files of partition '{path}' than are there",
            hint="SET hoodie.metadata.enable=false reads the table without it; CALL "
            "validate_metadata_table_files shows the differences",
        )


def _agree(listed: Sequence[FileSlice], stored: Sequence[FileSlice]) -> bool:
    """True if both have the same base files, and the storage the listed log files.

    With timeline layout 1 the storage also has log files of commits that are not completed.
    """
    others = {file_slice.file_id: file_slice for file_slice in stored}
    for file_slice in listed:
        other = others.pop(file_slice.file_id, None)
        if other is None or other.base_file != file_slice.base_file:
            return False
        if not {log.path for log in file_slice.log_files} <= {log.path for log in other.log_files}:
            return False
    return all(other.base_file is None for other in others.values())


def list_file_slices(table: HudiTable, paths: Sequence[str], as_of: str | None) -> list[FileSlice]:
    """`load_file_slices` of the partitions with these paths, read from storage."""
    return attach_external_files(table, slices_of_versions(table, list_file_versions(table, paths), as_of))


FileVersions = dict[str, dict[str, FileGroupVersions]]
"""The files in storage by partition path, file id and base instant, committed or not."""


def list_file_versions(table: HudiTable, paths: Sequence[str]) -> FileVersions:
    """All versions of the file groups of the partitions with these paths, listed once.

    A partition whose directory was deleted by a clean has no versions. With timeline layout 2 log files of
    commits that are not completed are left out.
    """
    directories = [join(table.base_path, path) for path in paths]
    return _grouped(table, paths, table.storage.list_directories(directories, missing_ok=True))


def _grouped(table: HudiTable, paths: Sequence[str], listings: Sequence[Sequence[FileInfo]]) -> FileVersions:
    """The listed files of the partitions; see `list_file_versions`."""
    named = {path: group_files(entries) for path, entries in zip(paths, listings, strict=True)}
    if not table.timeline.layout.has_completion_times:
        return named
    return completion_slicing(table).slice_partitions(named)


def slices_of_versions(table: HudiTable, versions: FileVersions, as_of: str | None) -> list[FileSlice]:
    """`list_file_slices` of listed partitions; skeletons have no external files yet."""
    replaced = replaced_file_groups(table, as_of)
    file_slices = (
        latest_slice(table, path, file_id, groups[file_id], as_of)
        for path, groups in versions.items()
        for file_id in sorted(groups)
        if (path, file_id) not in replaced
    )
    columns, computed_meta = table.file_columns, table.computed_meta
    visible = [file_slice for file_slice in file_slices if file_slice is not None]
    if columns is None and computed_meta is None:
        return visible
    return [replace(file_slice, columns=columns, computed_meta=computed_meta) for file_slice in visible]


def attach_external_files(table: HudiTable, slices: list[FileSlice]) -> list[FileSlice]:
    """The slices, skeletons with their external files. Raises CorruptTableError if the index lacks one."""
    if not table.is_bootstrapped:
        return slices
    skeletons = {file_slice.partition_path for file_slice in slices if _is_skeleton(file_slice)}
    if not skeletons:
        return slices
    external_files = read_bootstrap_index(table.storage, table.base_path, skeletons)
    attached = []
    for file_slice in slices:
        if _is_skeleton(file_slice):
            external_file = external_files.get(file_slice.file_group)
            if external_file is None:
                raise CorruptTableError(
                    f"the bootstrap index of {table.base_path} does not name the external file of "
                    f"{file_slice.base_file.path if file_slice.base_file else file_slice.file_id}",
                    hint="restore .hoodie/.aux/.bootstrap: without it these rows have no data columns",
                )
            file_slice = replace(
                file_slice,
                external_file=external_file,
                accepts_changed_source=table.accepts_changed_sources,
            )
        attached.append(file_slice)
    return attached


def _is_skeleton(file_slice: FileSlice) -> bool:
    base_file = file_slice.base_file
    return base_file is not None and base_file.instant_time == METADATA_BOOTSTRAP_INSTANT_TIME
