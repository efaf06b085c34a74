"""Which source files resyncs have taken: numbered lists in the table's `.aux` directory.

A resync creates its list, which names its instant, before its commit completes; the list is valid only while
that instant is a completed commit, on the active timeline or archived. The list of a rolled back commit or a
killed resync is ignored. Archived commits cannot be rolled back any more: their lists are merged into one
that depends on no instant. Hudi has no such lists, and its readers ignore them. Knows no Spark.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from hudisql.errors import (
    CorruptTableError,
    NoSuchPathError,
    PathExistsError,
    StorageError,
    WriteConflictError,
)
from hudisql.format.paths.external_file import ExternalFile
from hudisql.format.timeline.timeline_layout import METADATA_DIRECTORY
from hudisql.storage import Storage, join
from hudisql.table.hudi_table import HudiTable
from hudisql.table.timeline.archived_timeline import archived_commits

LISTS_DIRECTORY: Final = f"{METADATA_DIRECTORY}/.aux/.hudisql-resync"
_NAME: Final = re.compile(r"(\d{9})\.parquet")
_MERGED: Final = ""
_ATTEMPTS: Final = 10
_SCHEMA: Final = pa.schema(
    [
        ("partition_path", pa.string()),
        ("path", pa.string()),
        ("length", pa.int64()),
        ("modification_time_ms", pa.int64()),
    ]
)
_INSTANT_KEY: Final = b"hudisql.instant"
EMPTY_DIRECTORY: Final = 0
GONE_DIRECTORY: Final = -1


@dataclass(frozen=True, slots=True)
class ResyncedSource:
    """A source file as it was when a resync took it, and the partition path of its rows in the table.

    The directory of a register-only partition that ended without files is an entry, too: its length is
    `EMPTY_DIRECTORY` or `GONE_DIRECTORY`.
    """

    partition_path: str
    file: ExternalFile

    @property
    def is_file(self) -> bool:
        """False if the entry is a directory."""
        return self.file.length > 0


@dataclass(frozen=True, slots=True)
class ResyncList:
    """One list; `instant_time` is that of its resync, empty if the list does not depend on the timeline."""

    number: int
    instant_time: str
    sources: tuple[ResyncedSource, ...]


class ResyncState(Enum):
    """The state of a list's commit."""

    COMMITTED = auto()
    """Completed: on the active timeline, or the list is a merged one."""
    ARCHIVED = auto()
    """Completed, and archived since."""
    PENDING = auto()
    """On the timeline, not completed."""
    GONE = auto()
    """Rolled back: its rows are not in the table."""


@dataclass(frozen=True)
class ResyncLists:
    """All lists of a table with the states of their commits."""

    lists: tuple[ResyncList, ...] = ()
    states: Mapping[int, ResyncState] = field(default_factory=dict)

    @property
    def taken(self) -> dict[str, ResyncedSource]:
        """The source files whose rows completed resyncs have written, by path."""
        return {
            source.file.path: source
            for resync_list in self.lists
            if self.states[resync_list.number] in (ResyncState.COMMITTED, ResyncState.ARCHIVED)
            for source in resync_list.sources
            if source.is_file
        }

    @property
    def last_number(self) -> int:
        """The highest number of a list, 0 if there is none."""
        return max((resync_list.number for resync_list in self.lists), default=0)

    def in_state(self, state: ResyncState) -> tuple[ResyncList, ...]:
        """The lists whose commits are in that state."""
        return tuple(resync_list for resync_list in self.lists if self.states[resync_list.number] is state)


def read_resync_lists(table: HudiTable, *, as_opened: bool = False) -> ResyncLists:
    """The lists as they are now, with the states that their commits have now, or had when `table` was opened.

    Raises CorruptTableError, StorageError.
    """
    lists = _read_lists(table.storage, table.base_path)
    if not lists:
        return ResyncLists()
    # The timeline is loaded after the lists: an instant is created before its list.
    now = table if as_opened else table.reopened()
    committed = {commit.timestamp for commit in now.timeline.commits} | {_MERGED}
    pending = {instant.timestamp for instant in now.timeline.pending}
    absent = {resync_list.instant_time for resync_list in lists} - committed - pending
    archived: Collection[str] = archived_commits(now, now.timeline) if absent else ()
    states = {}
    for resync_list in lists:
        if resync_list.instant_time in committed:
            states[resync_list.number] = ResyncState.COMMITTED
        elif resync_list.instant_time in archived:
            states[resync_list.number] = ResyncState.ARCHIVED
        else:
            is_pending = resync_list.instant_time in pending
            states[resync_list.number] = ResyncState.PENDING if is_pending else ResyncState.GONE
    return ResyncLists(tuple(lists), states)


def record_resync(
    table: HudiTable, instant_time: str, lists: ResyncLists, sources: Sequence[ResyncedSource]
) -> int:
    """Create the list of an inflight commit and clean up older lists; returns the list's number.

    `lists` are those that the resync was planned with, `table` is as its commit began. If two resyncs were
    planned with the same lists, one fails, since both choose the next number. Raises WriteConflictError then,
    and if the commit of a list is still pending; StorageError.
    """
    kept = {instant.timestamp for instant in table.timeline.instants}
    under_way = [
        resync_list for resync_list in lists.in_state(ResyncState.PENDING) if resync_list.instant_time in kept
    ]
    number = lists.last_number + 1
    try:
        if under_way:
            raise _conflict(table)
        _create(table.storage, table.base_path, ResyncList(number, instant_time, tuple(sources)))
    except PathExistsError as error:
        raise _conflict(table) from error
    with suppress(StorageError):  # lists that stay are read again with the same result
        _tidy(table, lists, number + 1)
    return number


def merge_archived_lists(table: HudiTable) -> None:
    """Merge the lists of archived commits, so that readers need not search the archive.

    Raises CorruptTableError, StorageError.
    """
    lists = read_resync_lists(table)
    with suppress(PathExistsError):  # a concurrent resync merges them, too
        _tidy(table, lists, lists.last_number + 1)


def _conflict(table: HudiTable) -> WriteConflictError:
    return WriteConflictError(
        f"another resync of the table at {table.base_path} has begun meanwhile",
        hint="run the call again when it is complete: it then takes the remaining files",
    )


def _tidy(table: HudiTable, lists: ResyncLists, number: int) -> None:
    """Delete lists of commits that were rolled back, and merge those of archived commits into list `number`.

    `number` is higher than the numbers of `lists` and of the resync's own list. The highest list of a table
    is never deleted, so no number is used twice.
    """
    storage, base_path = table.storage, table.base_path
    storage.delete_files(
        [_path(base_path, resync_list.number) for resync_list in lists.in_state(ResyncState.GONE)]
    )
    archived = lists.in_state(ResyncState.ARCHIVED)
    if not archived:
        return
    merged = [*archived, *(resync_list for resync_list in lists.lists if resync_list.instant_time == _MERGED)]
    sources = {source.file.path: source for resync_list in merged for source in resync_list.sources}
    _create(storage, base_path, ResyncList(number, _MERGED, tuple(sources.values())))
    storage.delete_files([_path(base_path, resync_list.number) for resync_list in merged])


def _path(base_path: str, number: int) -> str:
    return join(base_path, LISTS_DIRECTORY, f"{number:09d}.parquet")


def _create(storage: Storage, base_path: str, content: ResyncList) -> None:
    columns = {
        "partition_path": [source.partition_path for source in content.sources],
        "path": [source.file.path for source in content.sources],
        "length": [source.file.length for source in content.sources],
        "modification_time_ms": [source.file.modification_time_ms for source in content.sources],
    }
    rows = pa.table(columns, _SCHEMA.with_metadata({_INSTANT_KEY: content.instant_time.encode()}))
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd")
    path = _path(base_path, content.number)
    storage.make_directories(join(base_path, LISTS_DIRECTORY))
    storage.create(path, sink.getvalue().to_pybytes())


def _read_lists(storage: Storage, base_path: str) -> list[ResyncList]:
    """All lists by number. If a list is merged into another one meanwhile, that one is read."""
    for _ in range(_ATTEMPTS):
        with suppress(NoSuchPathError):
            numbers = _numbers(storage, base_path)
            contents = storage.read_files([_path(base_path, number) for number in numbers])
            return [
                _parse(number, content, base_path) for number, content in zip(numbers, contents, strict=True)
            ]
    raise WriteConflictError(f"the lists in {join(base_path, LISTS_DIRECTORY)} keep changing")


def _numbers(storage: Storage, base_path: str) -> list[int]:
    try:
        entries = storage.list_directory(join(base_path, LISTS_DIRECTORY))
    except NoSuchPathError:
        return []
    matches: Iterable[re.Match[str] | None] = (_NAME.fullmatch(entry.name) for entry in entries)
    return sorted(int(matched[1]) for matched in matches if matched is not None)


def _parse(number: int, content: bytes, base_path: str) -> ResyncList:
    try:
        rows = pq.read_table(pa.BufferReader(content))
        columns = [rows.column(name).to_pylist() for name in _SCHEMA.names]
        instant_time = (rows.schema.metadata or {})[_INSTANT_KEY].decode()
    except (pa.ArrowException, KeyError) as error:
        raise CorruptTableError(f"cannot read {_path(base_path, number)}: {error}") from error
    sources = tuple(
        ResyncedSource(partition_path, ExternalFile(path, length, modified))
        for partition_path, path, length, modified in zip(*columns, strict=True)
    )
    return ResyncList(number, instant_time, sources)
