"""Fencing: task attempts that run longer than their commit add no files to the table.

Spark runs several attempts of one task (speculation, lost executors), and the Python worker of a killed
attempt may run on for seconds. An attempt checks that its commit is inflight before it creates a file and
again when the file is complete; the driver finds files created in between by their markers
(`commit.complete_commit`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hudisql.errors import WriteConflictError
from hudisql.format.timeline.commit_metadata import parse_commit_metadata
from hudisql.format.timeline.timeline_layout import instant_path
from hudisql.write.execution.write_context import WriteContext, WrittenFile
from hudisql.write.transaction.timeline_files import InstantStates, timeline_files
from hudisql.write.transaction.uncommitted_files import delete_uncommitted_files, named_files


def check_commit_is_open(write_context: WriteContext) -> None:
    """Call before creating a file. Raises WriteConflictError if the commit is not inflight, StorageError."""
    instant_states = _states(write_context)
    if not instant_states.is_inflight or instant_states.completed is not None:
        raise _over(write_context, is_completed=instant_states.completed is not None)


def fence_late_attempt(write_context: WriteContext, files: Sequence[WrittenFile]) -> None:
    """Call when the files are complete. If the commit is no longer inflight, deletes the files that it does
    not name. Without task attempts `commit_files` does so after an error.

    Raises WriteConflictError then, StorageError.
    """
    if not write_context.has_task_attempts:
        return
    instant_states = _states(write_context)
    completed = instant_states.completed
    if instant_states.is_inflight and completed is None:
        return
    named: Collection[str] = ()
    if completed is not None:
        path = instant_path(write_context.base_path, write_context.layout, completed)
        named = named_files(write_context.base_path, parse_commit_metadata(write_context.storage.read(path)))
    written = [path for file in files for path in (file.path, *file.change_logs)]
    unnamed = [path for path in written if path not in named]
    delete_uncommitted_files(write_context.storage, unnamed, write_context.layout)
    raise _over(write_context, is_completed=completed is not None)


def _states(write_context: WriteContext) -> InstantStates:
    files = timeline_files(write_context.layout)
    return files.states(write_context.storage, write_context.base_path, write_context.instant)


def _over(write_context: WriteContext, *, is_completed: bool) -> WriteConflictError:
    commit = f"the commit {write_context.instant_time} on {write_context.base_path}"
    if is_completed:
        return WriteConflictError(f"{commit} completed without this task attempt, whose files were deleted")
    return WriteConflictError(
        f"{commit} was rolled back while it was being written", hint="run the statement again"
    )
