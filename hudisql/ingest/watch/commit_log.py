"""One line for each commit of a worker: text for people, or a JSON object for log collectors."""

from __future__ import annotations

from hudisql.console import Console, JsonConsole
from hudisql.ingest.offsets import offsets_by_topic
from hudisql.ingest.watch.observer import CommittedEvents, WorkerView


class CommitLog:
    """An observer that writes commits to a console."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def committed(self, commit: CommittedEvents) -> None:
        """Write the line."""
        if isinstance(self._console, JsonConsole):
            self._console.record("commit", _fields_of(commit))
            return
        result = commit.result
        self._console.info(
            f"{commit.table}: commit {result.instant_time}: {result.inserted:,} rows inserted, "
            f"{result.updated:,} updated, {result.deleted:,} deleted, {result.files} files, "
            f"{commit.seconds:.2f} s" + ("" if commit.lag is None else f", lag {commit.lag:,}")
        )

    def failed(self, table: str) -> None:
        """Do nothing: the worker warns itself."""

    def looked(self, view: WorkerView) -> None:
        """Do nothing."""


def _fields_of(commit: CommittedEvents) -> dict[str, object]:
    result = commit.result
    return {
        "table": commit.table,
        "instant": result.instant_time,
        "inserted": result.inserted,
        "updated": result.updated,
        "deleted": result.deleted,
        "files": result.files,
        "written_bytes": result.bytes,
        "events": commit.events.events,
        "event_bytes": commit.events.bytes,
        "bad_records": commit.events.bad,
        "offsets": offsets_by_topic(commit.offsets),
        "seconds": round(commit.seconds, 3),
        "lag": commit.lag,
    }
