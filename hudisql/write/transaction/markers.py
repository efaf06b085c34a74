"""Markers: empty files that name the data files a commit is going to write.

Follows Hudi's `DirectWriteMarkers` and, for reading, `TimelineServerBasedWriteMarkers`: a marker is created
before its data file, so that a rollback by hudisql or Apache Hudi finds every file. A rollback deletes marked
files, and anybody with access to the table can write markers, so a path outside of the table's data is
refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hudisql.errors import CorruptTableError, NoSuchPathError
from hudisql.format.timeline.timeline_layout import METADATA_DIRECTORY, temporary_directory
from hudisql.storage import Storage, join

_MARKER: Final = ".marker."
_TYPE_FILE: Final = "MARKERS.type"
_LIST_PREFIX: Final = "MARKERS"


class MarkerKind(StrEnum):
    """The operation on the marked file (Hudi's `IOType`)."""

    CREATE = "CREATE"
    MERGE = "MERGE"
    APPEND = "APPEND"


@dataclass(frozen=True, slots=True, order=True)
class Marker:
    """A marked data file: its partition path, its name, and the kind of write."""

    partition_path: str
    file_name: str
    kind: MarkerKind


def recorded_data_path(base_path: str, partition_path: str, name: str, recorded_in: str) -> str:
    """The path of a data file that the file `recorded_in` names, which is only for the message.

    Raises CorruptTableError if it is not below the table's data directories.
    """
    relative = join("", partition_path, name).lstrip("/")
    parts = relative.split("/")
    if not name or "/" in name or parts[0] == METADATA_DIRECTORY or {".", ".."} & set(parts):
        raise CorruptTableError(
            f"{recorded_in} names the file '{relative}', which is not a data file of the Hudi table at "
            f"{base_path}",
            hint="nothing was deleted; find out who wrote that file, and delete it by hand",
        )
    return join(base_path, relative)


def marker_directory(base_path: str, instant_time: str) -> str:
    """The directory with the markers of one instant."""
    return join(temporary_directory(base_path), instant_time)


def create_marker(storage: Storage, base_path: str, instant_time: str, marker: Marker) -> None:
    """Write a marker, before the data file is created. Raises StorageError."""
    storage.write(_marker_path(base_path, instant_time, marker), b"")


def delete_some_markers(
    storage: Storage, base_path: str, instant_time: str, markers: Sequence[Marker]
) -> None:
    """Remove these markers. Raises StorageError."""
    storage.delete_files([_marker_path(base_path, instant_time, marker) for marker in markers])


def list_markers(storage: Storage, base_path: str, instant_time: str) -> list[Marker]:
    """All markers of the instant, direct or timeline-server-based. Raises StorageError."""
    directory = marker_directory(base_path, instant_time)
    try:
        files = storage.list_files(directory)
    except NoSuchPathError:
        return []
    markers: set[Marker] = set()
    for file in files:
        relative = file.path[len(directory) :].lstrip("/")
        if "/" not in relative and relative.startswith(_LIST_PREFIX) and relative != _TYPE_FILE:
            lines = storage.read(file.path).decode().splitlines()
            markers.update(marker for line in lines if (marker := _parse_marker(line.strip())))
        elif (marker := _parse_marker(relative)) is not None:
            markers.add(marker)
    return sorted(markers)


def marked_files(storage: Storage, base_path: str, instant_time: str) -> dict[str, Marker]:
    """The paths of the instant's marked data files, whether they exist or not, with their markers.

    Raises CorruptTableError for a marker of something outside of the table, StorageError.
    """
    source = f"a marker in {marker_directory(base_path, instant_time)}"
    return {
        recorded_data_path(base_path, marker.partition_path, marker.file_name, source): marker
        for marker in list_markers(storage, base_path, instant_time)
    }


def delete_markers(storage: Storage, base_path: str, instant_time: str) -> None:
    """Remove all markers of the instant. Raises StorageError."""
    storage.delete_directory(marker_directory(base_path, instant_time))


def marked_instants(storage: Storage, base_path: str) -> list[str]:
    """The times of the instants that have markers. Raises StorageError."""
    try:
        entries = storage.list_directory(temporary_directory(base_path))
    except NoSuchPathError:
        return []
    return [entry.name for entry in entries if entry.name.isdigit()]


def _marker_path(base_path: str, instant_time: str, marker: Marker) -> str:
    directory = marker_directory(base_path, instant_time)
    return join(directory, marker.partition_path, f"{marker.file_name}{_MARKER}{marker.kind}")


def _parse_marker(relative: str) -> Marker | None:
    path, separator, kind = relative.rpartition(_MARKER)
    if not separator or kind not in MarkerKind.__members__:
        return None
    partition_path, _, name = path.rpartition("/")
    return Marker(partition_path, name, MarkerKind(kind))
