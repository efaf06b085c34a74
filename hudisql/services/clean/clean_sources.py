"""Source files of a bootstrap that a confirmed clean deletes with their skeletons.

Follows `CleanPlanner` and `CleanActionExecutor` of Hudi 0.15 with its setting
`hoodie.cleaner.delete.bootstrap.base.file`. Hudi deletes the source file of each skeleton that a clean
deletes; hudisql keeps files that are still in use, and also deletes those whose skeleton an earlier clean has
deleted. The caller provides what it needs to know of other tables.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from hudisql.format.hfile.bootstrap_index import BootstrapMapping, read_bootstrap_mappings
from hudisql.format.paths.external_file import is_same_time
from hudisql.format.paths.file_names import FileGroup, parse_base_file_name
from hudisql.format.timeline.instant import CLEAN, METADATA_BOOTSTRAP_INSTANT_TIME
from hudisql.services.clean.clean_metadata import CleanMetadata, clean_metadata_of, read_clean_metadata
from hudisql.storage import FileInfo, Storage, is_inside, join, parent_of
from hudisql.table.files.snapshot import list_file_versions
from hudisql.table.hudi_table import HudiTable
from hudisql.table.timeline.archived_timeline import archived_cleans_after


@dataclass(frozen=True)
class SourceDeletion:
    """The confirmation that a clean may delete source files.

    `named_elsewhere` returns the paths that another table of the metastore uses, each with that table;
    `tell_kept` receives the source files that stay although their skeletons are deleted, each with the
    reason.
    """

    named_elsewhere: Callable[[Collection[str]], Mapping[str, str]]
    tell_kept: Callable[[Mapping[str, str]], None]


def plan_source_files(
    table: HudiTable, planned: Mapping[str, Collection[str]], deletion: SourceDeletion
) -> dict[str, tuple[str, ...]]:
    """The source files (paths) to delete by partition path, if a clean deletes the files `planned`.

    Raises MetastoreError, CorruptTableError, StorageError.
    """
    if not table.is_bootstrapped:
        return {}
    going = {(partition, file_id) for partition, paths in planned.items() for file_id in _skeletons(paths)}
    groups = going | _cleaned_before(table)
    wanted = {
        mapping.external_file.path: mapping.partition_path
        for mapping in (read_bootstrap_mappings(table.storage, table.base_path) if groups else ())
        if (mapping.partition_path, mapping.file_id) in groups
    }
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(deletable_sources(table, wanted, deletion, going)):
        found[wanted[path]].append(path)
    return {partition: tuple(paths) for partition, paths in found.items()}


def deletable_sources(
    table: HudiTable,
    wanted: Collection[str],
    deletion: SourceDeletion,
    going: Collection[FileGroup] = frozenset(),
) -> frozenset[str]:
    """The source files of `wanted` (paths) that are not needed without the skeletons of `going`.

    They exist unchanged since the bootstrap, and neither another skeleton of the table nor another table uses
    them.
    """
    resolve = _file_resolver(table.storage)
    mappings: dict[str, list[BootstrapMapping]] = {resolve(path): [] for path in wanted}
    for mapping in read_bootstrap_mappings(table.storage, table.base_path) if mappings else ():
        if (some := mappings.get(resolve(mapping.external_file.path))) is not None:
            some.append(mapping)
    needed = _present_skeletons(
        table, {skeleton.partition_path for some in mappings.values() for skeleton in some}
    )
    needed -= set(going)
    paths, kept, free = sorted(wanted), {}, []
    for path, info in zip(paths, table.storage.infos(paths), strict=True):
        if info is not None and (why := _reason_to_keep(table, path, info, mappings[resolve(path)], needed)):
            kept[path] = why
        elif info is not None:
            free.append(path)
    kept |= {path: f"{who} names it" for path, who in deletion.named_elsewhere(free).items()} if free else {}
    if kept:
        deletion.tell_kept(kept)
    return frozenset(free).difference(kept)


def _reason_to_keep(
    table: HudiTable,
    path: str,
    info: FileInfo,
    mappings: Collection[BootstrapMapping],
    needed: Collection[FileGroup],
) -> str:
    """Why the table itself keeps a source file; empty if it does not."""
    if not mappings:
        return "the bootstrap index does not name it"
    if is_inside(path, table.base_path):
        return "it lies in the directory of the table"
    for mapping in mappings:
        if (mapping.partition_path, mapping.file_id) in needed:
            return f"the skeleton of the file group {mapping.file_id} is there"
        taken = mapping.external_file
        if info.length != taken.length or not is_same_time(
            taken.modification_time_ms, info.modification_time_ms
        ):
            return "it has changed since the bootstrap"
    return ""


def _skeletons(names: Iterable[str]) -> Iterator[str]:
    """The file ids of the skeletons among files, given by name or path."""
    for name in names:
        parsed = parse_base_file_name(name.rpartition("/")[2])
        if parsed is not None and parsed.instant_time == METADATA_BOOTSTRAP_INSTANT_TIME:
            yield parsed.file_id


def _present_skeletons(table: HudiTable, partitions: Collection[str]) -> set[FileGroup]:
    return {
        (partition, file_id)
        for partition, groups in list_file_versions(table, sorted(partitions)).items()
        for file_id, versions in groups.items()
        if METADATA_BOOTSTRAP_INSTANT_TIME in versions
        and versions[METADATA_BOOTSTRAP_INSTANT_TIME].base_files
    }


def _cleaned_before(table: HudiTable) -> set[FileGroup]:
    """The file groups whose skeleton a completed clean, possibly an archived one, has deleted."""
    return {
        (partition.partition_path, file_id)
        for metadata in _completed_cleans(table)
        for partition in metadata.partitions
        for file_id in _skeletons(partition.deleted)
    }


def _completed_cleans(table: HudiTable) -> Iterator[CleanMetadata]:
    for instant in table.timeline.completed:
        if instant.action == CLEAN and (metadata := read_clean_metadata(table, instant)) is not None:
            yield metadata
    for entry in archived_cleans_after(table, ""):
        if (record := entry.record.get("hoodieCleanMetadata")) is not None:
            yield clean_metadata_of(record)


def _file_resolver(storage: Storage) -> Callable[[str], str]:
    """A function that returns a file's path in comparable form; resolves each directory once."""
    resolve = cache(storage.resolve)
    return lambda path: join(resolve(parent_of(path)), path.rpartition("/")[2])
