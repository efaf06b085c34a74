"""Which snapshots an Iceberg table keeps, and the files that go with the others.

A snapshot stays while the Hudi table's active timeline has its commit, and until a clean deletes a file that
it names. A manifest or a file of a slice is in consecutive snapshots, since one that comes back has another
name: so the kept neighbours of expired snapshots tell what nobody names any more.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

from hudisql.errors import CorruptTableError, StorageError
from hudisql.format.paths.file_names import parse_base_file_name, parse_log_file_name
from hudisql.format.timeline.instant import CLEAN, METADATA_BOOTSTRAP_INSTANT_TIME
from hudisql.iceberg.earlier_manifests import manifest_list_name, manifest_name, read_manifest_records
from hudisql.iceberg.iceberg_location import data_directory, metadata_directory, reader_uri
from hudisql.iceberg.manifest_files import DELETED
from hudisql.iceberg.metadata_files import (
    CLEAN_PROPERTY,
    INSTANT,
    LastMetadata,
    commit_metadata,
    delete_unneeded,
    latest_metadata,
)
from hudisql.storage import join
from hudisql.table.hudi_table import HudiTable

_Snapshot = Mapping[str, Any]


def latest_clean(table: HudiTable) -> str:
    """The time of the newest clean on the active timeline; empty if there is none."""
    return max(
        (instant.timestamp for instant in table.timeline.completed if instant.action == CLEAN), default=""
    )


def kept_snapshots(
    table: HudiTable, last: LastMetadata, removed: Iterable[str], commits: Collection[str]
) -> list[_Snapshot]:
    """The snapshots of the last metadata whose commits are among these instant times.

    `removed` are the files of the last one that the next is without. After a clean that did not know of the
    Iceberg table those that name deleted files are left out. Raises CorruptTableError, StorageError.
    """
    first, known = 0, "" if last.document is None else last.document["properties"].get(CLEAN_PROPERTY, "")
    if latest_clean(table) > known:
        removals = [
            (place, [entry["data_file"]["file_path"] for entry in _removed_entries(table, snapshot)])
            for place, snapshot in enumerate(last.snapshots[1:], 1)
        ]
        for place, uris in (*removals, (len(last.snapshots), removed)):
            if _has_missing(table, uris):
                first = place
    return [snapshot for snapshot in last.snapshots[first:] if snapshot["summary"][INSTANT] in commits]


def _has_missing(table: HudiTable, uris: Iterable[str]) -> bool:
    """True if one of the files is gone; files of slices go with the snapshots alone."""
    own = reader_uri(table, data_directory(table)) + "/"
    paths = [table.storage.qualify(uri) for uri in uris if not uri.startswith(own)]
    return any(info is None for info in table.storage.infos(paths))


def expire_snapshots(table: HudiTable, going: Iterable[str], clean_time: str) -> None:
    """Drop the snapshots of the Iceberg table that name one of the files that the clean of this time deletes.

    With them all before them are dropped; the current snapshot stays. The caller holds the table's lock.
    Raises UnsupportedTableError if another engine has written to the Iceberg table, CorruptTableError,
    StorageError.
    """
    last = latest_metadata(table)
    snapshots = last.snapshots
    first = _first_without(table, snapshots, {reader_uri(table, path) for path in going if _is_named(path)})
    if last.document is None or not first:
        return
    kept = snapshots[first:]
    now = max(time.time_ns() // 1_000_000, last.document["last-updated-ms"] + 1)
    properties = {**last.document["properties"], CLEAN_PROPERTY: clean_time}
    document = {**last.document, **history_of(last.document, kept), "last-updated-ms": now}
    document["properties"] = properties
    commit_metadata(table, last, document)
    delete_expired(table, snapshots, kept)


def history_of(document: Mapping[str, Any], kept: Sequence[_Snapshot]) -> dict[str, Any]:
    """The entries of the metadata that name snapshots, with these snapshots alone."""
    ids = {snapshot["snapshot-id"] for snapshot in kept}
    log = [entry for entry in document["snapshot-log"] if entry["snapshot-id"] in ids]
    return {"snapshots": list(kept), "snapshot-log": log}


def _is_named(path: str) -> bool:
    """True for a file that snapshots may name: no log file, and no skeleton."""
    name = path.rpartition("/")[2]
    base = parse_base_file_name(name)
    if base is None:
        return parse_log_file_name(name) is None
    return base.instant_time != METADATA_BOOTSTRAP_INSTANT_TIME


def _first_without(table: HudiTable, snapshots: Sequence[_Snapshot], uris: set[str]) -> int:
    """The place of the first snapshot that names none of the files, nor does one after it."""
    first, left = 0, set(uris)
    for place, snapshot in enumerate(snapshots[1:], 1):
        if not left:
            break
        removed = {entry["data_file"]["file_path"] for entry in _removed_entries(table, snapshot)}
        if not left.isdisjoint(removed):
            first, left = place, left - removed
    return first


def delete_expired(table: HudiTable, snapshots: Sequence[_Snapshot], kept: Collection[_Snapshot]) -> None:
    """Delete the manifest lists, manifests and files of slices that only expired snapshots name.

    `snapshots` are those kept and those expired, oldest first; the last one is kept. If they cannot be read,
    files stay that nobody needs.
    """
    with suppress(CorruptTableError, StorageError):
        delete_unneeded(table, _files_of_expired(table, snapshots, kept))


def _files_of_expired(
    table: HudiTable, snapshots: Sequence[_Snapshot], kept: Collection[_Snapshot]
) -> list[str]:
    ids = {snapshot["snapshot-id"] for snapshot in kept}
    paths: list[str] = []
    before, expired = None, list[_Snapshot]()
    for snapshot in snapshots:
        if snapshot["snapshot-id"] not in ids:
            expired.append(snapshot)
            continue
        if expired:
            paths += _files_between(table, before, expired, snapshot)
        before, expired = snapshot, []
    return paths


def _files_between(
    table: HudiTable, before: _Snapshot | None, expired: Sequence[_Snapshot], after: _Snapshot
) -> Iterator[str]:
    directory = metadata_directory(table)
    going = [_manifest_names(table, snapshot) for snapshot in expired]
    staying = [_manifest_names(table, some) for some in (before, after) if some is not None]
    needed = frozenset[str]().union(*staying)
    unneeded = [name for name in dict.fromkeys(chain.from_iterable(going)) if name not in needed]
    yield from (join(directory, name) for name in unneeded)
    yield from (join(directory, manifest_list_name(snapshot)) for snapshot in expired)
    if table.is_merge_on_read and (files := _slice_files(table, unneeded)):
        # A snapshot names a file once: none of these is in a manifest that all expired ones have.
        common = frozenset(going[0]).intersection(*going[1:])
        yield from sorted(files - _slice_files(table, needed - common))


def _slice_files(table: HudiTable, manifests: Iterable[str]) -> set[str]:
    """The paths of the files of slices in manifests with these names."""
    own = reader_uri(table, data_directory(table)) + "/"
    files = set[str]()
    for name in manifests:
        for entry in read_manifest_records(table.storage, join(metadata_directory(table), name)):
            path = entry["data_file"]["file_path"]
            if entry["status"] != DELETED and path.startswith(own):
                files.add(join(data_directory(table), path.removeprefix(own)))
    return files


def _removed_entries(table: HudiTable, snapshot: _Snapshot) -> Iterator[Mapping[str, Any]]:
    """The entries of the files that the snapshot's publication has removed."""
    for record in _manifests(table, snapshot):
        if record["added_snapshot_id"] == snapshot["snapshot-id"] and record["deleted_files_count"]:
            for entry in read_manifest_records(
                table.storage, join(metadata_directory(table), manifest_name(record))
            ):
                if entry["status"] == DELETED:
                    yield entry


def _manifests(table: HudiTable, snapshot: _Snapshot) -> list[dict[str, Any]]:
    return read_manifest_records(table.storage, join(metadata_directory(table), manifest_list_name(snapshot)))


def _manifest_names(table: HudiTable, snapshot: _Snapshot) -> list[str]:
    return [manifest_name(record) for record in _manifests(table, snapshot)]
