"""Converts the timeline of a table to the layout of another table version.

Follows `SevenToEightUpgradeHandler` and `EightToSevenDowngradeHandler` of Hudi 1.2. The new files are written
beside the old ones, which are valid until `hoodie.properties` has the new version; a killed run is started
again. Knows nothing of locks, writers and properties.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from hudisql.errors import UnsupportedTableError
from hudisql.format.timeline.commit_metadata import CommitMetadata, parse_commit_metadata
from hudisql.format.timeline.commit_metadata_avro import render_commit_metadata
from hudisql.format.timeline.instant import (
    BOOTSTRAP_INSTANT_TIMES,
    CLUSTERING,
    COMMIT_ACTIONS,
    REPLACE_COMMIT,
    Instant,
    InstantState,
    instant_time_before,
    moment_of,
)
from hudisql.format.timeline.timeline_layout import LAYOUT_V1, TimelineLayout, TimelineLayoutV2, instant_path
from hudisql.storage import FileInfo, Storage
from hudisql.table.hudi_table import HudiTable
from hudisql.table.timeline.completion_times import completion_times

_FILES_READ: Final = 64


def write_timeline_of_layout_2(table: HudiTable, layout: TimelineLayoutV2) -> None:
    """Write the active instants of a table of version 6 in layout 2.

    Files of an earlier run are deleted first. Raises CorruptTableError, StorageError.
    """
    storage, base_path = table.storage, table.base_path
    delete_timeline(storage, base_path, layout)
    storage.make_directories(layout.history_directory(base_path))
    completions = _completions(table)
    for instant, content in _read(storage, _files_of(storage, base_path, LAYOUT_V1)):
        completed = replace(instant, completion_time=completions.get(instant, ""))
        storage.create(
            instant_path(base_path, layout, completed), _converted(instant, content, render_commit_metadata)
        )


def write_timeline_of_layout_1(table: HudiTable) -> None:
    """Write the active instants of a table of version 8 or 9 in layout 1.

    The modification times of completed files are set to the completion times, since Hudi 1.x reads those.
    Raises UnsupportedTableError if the store does not support that, CorruptTableError, StorageError.
    """
    storage, base_path = table.storage, table.base_path
    delete_timeline(storage, base_path, LAYOUT_V1)
    files = _files_of(storage, base_path, table.timeline.layout)
    completions = completion_times(table, [instant for instant, _ in files if instant.is_completed])
    for instant, content in _read(storage, files):
        action = REPLACE_COMMIT if instant.action == CLUSTERING else instant.action
        named = Instant(instant.timestamp, action, instant.state)
        path = instant_path(base_path, LAYOUT_V1, named)
        storage.create(path, _converted(named, content, CommitMetadata.to_json))
        if instant.is_completed:
            moment = moment_of(completions[instant], table.properties.timeline_timezone)
            is_set = storage.set_modification_time(path, round(moment.timestamp() * 1000))
            if not is_set and table.is_merge_on_read:
                raise UnsupportedTableError(
                    f"the store of {base_path} takes no modification times, by which Hudi 1.x finds the log "
                    "files of a merge-on-read table of version 6",
                    hint="downgrade it with Hudi 1.x, and write it with Hudi 0.15 or hudisql alone",
                )


def has_timeline(storage: Storage, base_path: str, layout: TimelineLayout) -> bool:
    """True if there are active instants' files of this layout. Raises StorageError."""
    return bool(_files_of(storage, base_path, layout))


def delete_timeline(storage: Storage, base_path: str, layout: TimelineLayout) -> None:
    """Delete the active instants' files of this layout. Raises StorageError."""
    storage.delete_files([info.path for _, info in _files_of(storage, base_path, layout)])


def _files_of(storage: Storage, base_path: str, layout: TimelineLayout) -> list[tuple[Instant, FileInfo]]:
    directory = layout.timeline_directory(base_path)
    if not storage.exists(directory):
        return []
    infos = [entry for entry in storage.list_directory(directory) if not entry.is_directory]
    parsed = [(layout.parse_file_name(info.name), info) for info in infos]
    return [(instant, info) for instant, info in parsed if instant is not None]


def _read(storage: Storage, files: Sequence[tuple[Instant, FileInfo]]) -> Iterator[tuple[Instant, bytes]]:
    """The instants with their files' contents, a few of which are in memory at a time."""
    for start in range(0, len(files), _FILES_READ):
        some = files[start : start + _FILES_READ]
        contents = storage.read_files([info.path for _, info in some])
        yield from zip((instant for instant, _ in some), contents, strict=True)


def _completions(table: HudiTable) -> Mapping[Instant, str]:
    """The completion time of each completed instant of a table of version 6, before the next one's request.

    These are modification times, unless the files were copied: an instant must not seem to complete after a
    later base file, to which its log files would belong then.
    """
    times = completion_times(table, table.timeline.completed)
    requests = sorted({instant.timestamp for instant in table.timeline.instants} - BOOTSTRAP_INSTANT_TIMES)
    # The times of bootstraps are constants.
    following = dict(pairwise(requests))
    if requests:
        following |= dict.fromkeys(BOOTSTRAP_INSTANT_TIMES, requests[0])
    return {
        instant: max(instant.timestamp, min(time, instant_time_before(following[instant.timestamp])))
        if instant.timestamp in following
        else time
        for instant, time in times.items()
    }


def _converted(instant: Instant, content: bytes, render: Callable[[CommitMetadata], bytes]) -> bytes:
    """The content of the instant's file; commits are written again without their workload profiles."""
    if instant.action not in COMMIT_ACTIONS:
        return content
    if instant.is_completed:
        return render(_commit_metadata(instant, content))
    is_plan = instant.action == REPLACE_COMMIT and instant.state is InstantState.REQUESTED
    return content if is_plan else b""


def _commit_metadata(instant: Instant, content: bytes) -> CommitMetadata:
    commit_metadata = parse_commit_metadata(content)
    if instant.action == REPLACE_COMMIT and commit_metadata.partition_to_replace_file_ids is None:
        return replace(commit_metadata, partition_to_replace_file_ids={})
    return commit_metadata
