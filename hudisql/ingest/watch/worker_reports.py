"""What a worker reports: a line for each commit, and the states of its tables to its group.

The line is text for people, or a JSON object for log collectors. `hudisql ingest status` and `drain` read the
states.
"""

from __future__ import annotations

from hudisql.console import Console, JsonConsole
from hudisql.ingest.kafka.group_state import FAILED, PAUSED
from hudisql.ingest.offsets import offsets_by_topic
from hudisql.ingest.ownership import Ownership
from hudisql.ingest.watch.observer import CommittedEvents, IngestObserver, WorkerView


class CommitLog(IngestObserver):
    """Writes commits to a console; of failures the worker warns itself."""

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


class GroupReports(IngestObserver):
    """Reports the states of tables, failures with the next look."""

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership

    def looked(self, view: WorkerView) -> None:
        """Report the states. A paused table is reported once the worker has given it up."""
        states = dict.fromkeys(view.paused, PAUSED)
        for table in view.tables:
            states[table.name] = table.state if table.error is None else f"{FAILED}: {table.error}"
        self._ownership.report(states)
