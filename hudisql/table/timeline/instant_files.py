"""The contents of a timeline's instants, even if others archive them meanwhile.

Archiving copies an instant into the archive before it deletes its files: an instant is read from its file, or
else from the archive. Archives of timeline layout 1 keep the path and the counts of each written file, but
not its log files: callers that need these read the instant's file themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hudisql.errors import NoSuchPathError, TimelineChangedError
from hudisql.format.timeline.commit_metadata import (
    CommitMetadata,
    commit_metadata_in,
    extra_metadata_at_end,
    extra_metadata_in,
    replaced_file_ids_in,
)
from hudisql.format.timeline.instant import Instant
from hudisql.retry import retry
from hudisql.table.meta_client import TableMetaClient

_READ_AT_ONCE: Final = 256
_END_BYTES: Final = 256 << 10
_PAUSES: Final = (0.0,) * 9


def read_instant(table: TableMetaClient, instant: Instant) -> bytes:
    """The content of the instant's file. Raises TimelineChangedError, CorruptTableError, StorageError."""
    return next(read_instants(table, [instant]))


def read_instants(table: TableMetaClient, instants: Sequence[Instant]) -> Iterator[bytes]:
    """The contents of the instants' files, read in parallel, some at a time.

    Raises TimelineChangedError if one is no longer on the timeline or in the archive, CorruptTableError,
    StorageError.
    """
    for start in range(0, len(instants), _READ_AT_ONCE):
        some = instants[start : start + _READ_AT_ONCE]
        if len(some) == 1:
            yield _read_anywhere(table, some[0])
            continue
        try:
            yield from table.storage.read_files([table.instant_path(instant) for instant in some])
        except NoSuchPathError:
            yield from [_read_anywhere(table, instant) for instant in some]


def read_commit(table: TableMetaClient, commit: Instant) -> CommitMetadata:
    """The metadata of a completed commit. Raises TimelineChangedError, CorruptTableError, StorageError."""
    return next(read_commits(table, [commit]))


def read_commits(table: TableMetaClient, commits: Sequence[Instant]) -> Iterator[CommitMetadata]:
    """The metadata of each completed commit. Raises TimelineChangedError, CorruptTableError, StorageError."""
    for commit, content in zip(commits, read_instants(table, commits), strict=True):
        yield commit_metadata_in(content, table.instant_path(commit))


def read_extra_metadata(
    table: TableMetaClient, commits: Sequence[Instant]
) -> Iterator[dict[str, str | None]]:
    """The extra metadata of commits, without parsing their thousands of write statistics.

    Of a single commit only the end of the file is read if that has it. Raises TimelineChangedError,
    CorruptTableError, StorageError.
    """
    if len(commits) == 1 and (found := _extra_metadata_at_end(table, commits[0])) is not None:
        yield found
        return
    for commit, content in zip(commits, read_instants(table, commits), strict=True):
        yield extra_metadata_in(content, table.instant_path(commit))


def _extra_metadata_at_end(table: TableMetaClient, commit: Instant) -> dict[str, str | None] | None:
    path = table.instant_path(commit)
    try:
        content, length = table.storage.read_end(path, _END_BYTES)
    except NoSuchPathError:
        return None
    return extra_metadata_in(content, path) if len(content) == length else extra_metadata_at_end(content)


def read_replaced_file_ids(
    table: TableMetaClient, commits: Sequence[Instant]
) -> Iterator[dict[str, list[str]]]:
    """The file groups that each replacecommit has replaced, as file ids by partition path.

    Raises TimelineChangedError, CorruptTableError, StorageError.
    """
    for commit, content in zip(commits, read_instants(table, commits), strict=True):
        yield replaced_file_ids_in(content, table.instant_path(commit))


def _read_anywhere(table: TableMetaClient, instant: Instant) -> bytes:
    path = table.instant_path(instant)
    try:
        return table.storage.read(path)
    except NoSuchPathError as error:
        # Others may merge the files of the archive after they were listed.
        content = retry(
            lambda: _read_archived(table, instant), lambda gone: isinstance(gone, NoSuchPathError), _PAUSES
        )
        if content is None:
            raise TimelineChangedError(
                f"{path} has gone since the timeline was listed, and is not in the archive: another writer "
                f"has undone the {instant.action} {instant.timestamp}",
                hint="run the statement again: it then works on the table as it is now",
            ) from error
        return content


def _read_archived(table: TableMetaClient, instant: Instant) -> bytes | None:
    """The content of an archived instant's file; None if it is not archived."""
    # Most timelines are read without the archive, and skeleton tasks run without Avro.
    from hudisql.table.timeline.archived_timeline import ArchiveReader, archive_paths_of

    reader = ArchiveReader(table)
    contents = (reader.content(instant, path) for path in archive_paths_of(table, instant.timestamp))
    return next((content for content in contents if content is not None), None)
