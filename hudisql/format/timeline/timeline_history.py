"""Archived instants of timeline layout 2: parquet files below `history`, which a manifest names.

Follows `LSMTimeline` and `ArchivedTimelineLoaderV2` of Hudi 1.2: `_version_` holds the number of the current
manifest, and only the files that it names are read; other files belong to earlier versions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from hudisql.errors import CorruptTableError, NoSuchPathError
from hudisql.storage import Storage, join

VERSION_FILE: Final = "_version_"
"""The name of the file with the number of the current manifest."""
MANIFEST_NAME: Final = re.compile(r"manifest_(\d+)", re.ASCII)
"""The names of manifests, with their numbers."""
_FILE_NAME: Final = re.compile(r"(\d{14,17})_(\d{14,17})_(\d+)\.parquet", re.ASCII)
_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """A file of archived instants, requested from `first` to `last`; each merge adds to `layer`.

    `length` is in bytes, as the manifest says.
    """

    path: str
    first: str
    last: str
    layer: int
    length: int = 0


@dataclass(frozen=True, slots=True)
class HistoryInstant:
    """An archived instant; `metadata` is the content of its completed file, `plan` that of its requested one.

    `action` is the completed one. Contents are None if they were not read or do not exist.
    """

    timestamp: str
    completion_time: str
    action: str
    metadata: bytes | None = None
    plan: bytes | None = None


def list_history_files(storage: Storage, directory: str) -> list[HistoryFile]:
    """The files that the newest version of the history names, oldest first; none if there is no history.

    Raises CorruptTableError, StorageError.
    """
    for _ in range(_ATTEMPTS):
        version = latest_history_version(storage, directory)
        if version is None:
            return []
        try:
            return files_of_manifest(storage, directory, version)
        except NoSuchPathError:
            # A newer version has replaced this one, which was then deleted.
            continue
    raise CorruptTableError(f"the manifest that {join(directory, VERSION_FILE)} names does not exist")


def manifest_path(directory: str, version: int) -> str:
    """The path of the manifest of a version."""
    return join(directory, f"manifest_{version}")


def files_of_manifest(storage: Storage, directory: str, version: int) -> list[HistoryFile]:
    """The files that a manifest names, oldest first. Raises NoSuchPathError, CorruptTableError."""
    path = manifest_path(directory, version)
    named = _named_files(storage.read(path), path)
    files = (_file_of(directory, name, length) for name, length in named)
    return sorted(files, key=lambda file: (file.first, file.last))


def latest_history_version(storage: Storage, directory: str) -> int | None:
    """The number of the current manifest; None if there is no history. Raises StorageError."""
    try:
        text = storage.read(join(directory, VERSION_FILE)).decode().strip()
    except NoSuchPathError:
        text = ""
    if text.isdigit():
        return int(text)
    # A writer deletes the file before it creates the new one.
    try:
        entries = storage.list_directory(directory)
    except NoSuchPathError:
        return None
    matches = [matched for entry in entries if (matched := MANIFEST_NAME.fullmatch(entry.name)) is not None]
    return max((int(match[1]) for match in matches), default=None)


def _named_files(content: bytes, path: str) -> list[tuple[str, int]]:
    try:
        return [(str(load["fileName"]), int(load["fileLen"])) for load in json.loads(content)["files"]]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptTableError(f"cannot decode {path}: {error!r}") from error


def _file_of(directory: str, name: str, length: int) -> HistoryFile:
    matched = _FILE_NAME.fullmatch(name)
    if matched is None:
        raise CorruptTableError(f"the history at {directory} names {name}, which is not a history file")
    first, last, layer = matched.groups()
    return HistoryFile(join(directory, name), first, last, int(layer), length)


def read_history(
    storage: Storage,
    files: Sequence[HistoryFile],
    *,
    contents: bool = False,
    actions: Collection[str] | None = None,
) -> list[HistoryInstant]:
    """The instants of the files, by their times; only those of `actions` if given.

    Their metadata and plans are read with `contents`. Raises CorruptTableError, StorageError.
    """
    names = ["instantTime", "completionTime", "action", *(("metadata", "plan") if contents else ())]
    instants: dict[tuple[str, str], HistoryInstant] = {}
    for file in files:
        try:
            with storage.open_input(file.path) as source:
                kept = None if actions is None else [("action", "in", sorted(actions))]
                rows = pq.read_table(source, columns=names, filters=kept)
            for values in zip(*(rows.column(name).to_pylist() for name in names), strict=True):
                instants[values[0], values[2]] = HistoryInstant(*values)
        except (pa.ArrowException, KeyError) as error:
            raise CorruptTableError(f"cannot read the archived instants of {file.path}: {error}") from error
    return [instants[key] for key in sorted(instants)]
