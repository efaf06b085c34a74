"""Attempts of Spark tasks that outlive their commit: none of them adds a file to the table.

Spark runs several attempts of one task (speculation, lost executors), and the Python worker of one that was
killed may go on for seconds. An attempt may make files only while its commit is open, and looks again when
they are finished; what it makes in between, the driver finds by its marker (`commit.complete_commit`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hudisql.errors import WriteConflictError
from hudisql.format.commit_metadata import parse_commit_metadata
from hudisql.write.execution.write_context import WriteContext, WrittenFile
from hudisql.write.transaction.uncommitted_files import delete_uncommitted_files, named_files


def check_commit_is_open(work: WriteContext) -> None:
    """To be called before a file is made. Raises WriteConflictError if the commit is over, StorageError."""
    inflight, completed = work.storage.infos([work.inflight_path, work.completed_path])
    if inflight is None or completed is not None:
        raise _over(work, is_completed=completed is not None)


def fence_late_attempt(work: WriteContext, files: Sequence[WrittenFile]) -> None:
    """To be called when the files are finished: if the commit is over, those that it does not name go.

    Raises WriteConflictError then, StorageError.
    """
    inflight, completed = work.storage.infos([work.inflight_path, work.completed_path])
    if inflight is not None and completed is None:
        return
    named: Collection[str] = ()
    if completed is not None:
        named = named_files(work.base_path, parse_commit_metadata(work.storage.read(work.completed_path)))
    unnamed = [file.path for file in files if file.path not in named]
    delete_uncommitted_files(work.storage, unnamed)
    raise _over(work, is_completed=completed is not None)


def _over(work: WriteContext, *, is_completed: bool) -> WriteConflictError:
    if is_completed:
        return WriteConflictError(
            f"the commit {work.instant_time} on {work.base_path} completed without this attempt of a task, "
            "whose files were deleted"
        )
    return WriteConflictError(
        f"the commit {work.instant_time} on {work.base_path} was rolled back while it was being written",
        hint="run the statement again",
    )
