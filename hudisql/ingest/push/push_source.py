"""Pushed rows as the ingest worker takes them: table by table, behind the sequence of the last commit.

A worker opens a table with the sequence that the table's last commit names for this log (`log_id`), polls
batches into its buffer, and calls `committed` after each commit. Must not know how tables are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from threading import Lock

from hudisql.errors import InvalidArgumentError
from hudisql.ingest.push.frames import Frame, PayloadFormat
from hudisql.ingest.push.write_ahead_log import WriteAheadLog


@dataclass(frozen=True)
class PushedBatch:
    """Rows in the order of their pushes. `pushes` are the sequence numbers and row counts of each push in it.

    NDJSON of several pushes is one payload, each push ending with a line break; an Arrow stream is one push.
    """

    table: str
    format: PayloadFormat
    payload: bytes
    pushes: tuple[tuple[int, int], ...]
    first_arrival_ms: int

    @property
    def last_sequence(self) -> int:
        """The number of the last push: what a commit with these rows names."""
        return self.pushes[-1][0]


@dataclass
class _Position:
    committed: int
    polled: int


class LogPushSource:
    """The pushes of one log. Any thread may call, for one table one thread at a time."""

    def __init__(self, log: WriteAheadLog) -> None:
        self._log = log
        self._lock = Lock()
        self._positions: dict[str, _Position] = {}

    @property
    def log_id(self) -> str:
        """The name of the log in commits, beside the sequence number."""
        return self._log.log_id

    def open_table(self, table: str, committed: int) -> None:
        """Begin behind the last commit. Raises CorruptWriteAheadLogError if the log ends before it."""
        self._log.check_committed(table, committed)
        with self._lock:
            self._positions[table] = _Position(committed, committed)
        self._log.release(table, committed)

    def close_table(self, table: str) -> None:
        """Another worker has the table now; its rows stay in the log."""
        with self._lock:
            self._positions.pop(table, None)

    def ready(self) -> list[str]:
        """The open tables with durable rows that were not polled yet."""
        last = self._log.tables()
        with self._lock:
            return [
                table for table, position in self._positions.items() if last.get(table, 0) > position.polled
            ]

    def wait(self, seconds: float) -> None:
        """Wait until a table has more durable rows, or the time is over."""
        self._log.wait(seconds)

    def poll(self, table: str, max_bytes: int) -> list[PushedBatch]:
        """The next batches. Raises CorruptWriteAheadLogError; InvalidArgumentError if it is not open."""
        position = self._position(table)
        frames = self._log.read(table, position.polled, max_bytes)
        if frames:
            position.polled = frames[-1].sequence
        return list(_join(table, frames))

    def committed(self, table: str, sequence: int) -> None:
        """Release the rows up to a number. Raises InvalidArgumentError if they were not polled."""
        position = self._position(table)
        if sequence > position.polled:
            raise InvalidArgumentError(
                f"sequence {sequence} of {table} cannot be committed: {position.polled} was polled last"
            )
        position.committed = max(position.committed, sequence)
        self._log.release(table, position.committed)

    def _position(self, table: str) -> _Position:
        with self._lock:
            position = self._positions.get(table)
        if position is None:
            raise InvalidArgumentError(
                f"pushes to {table} are not open", hint="open it with the sequence of the table's last commit"
            )
        return position


def _join(table: str, frames: Iterable[Frame]) -> Iterator[PushedBatch]:
    def kind(frame: Frame) -> int:
        # Two Arrow streams cannot be read as one.
        return 0 if frame.header.format is PayloadFormat.NDJSON else frame.sequence

    for _, group in groupby(frames, key=kind):
        joined = list(group)
        parts = [frame.payload for frame in joined]
        if joined[0].header.format is PayloadFormat.NDJSON:
            parts = [part if part.endswith(b"\n") else part + b"\n" for part in parts]
        yield PushedBatch(
            table=table,
            format=joined[0].header.format,
            payload=parts[0] if len(parts) == 1 else b"".join(parts),
            pushes=tuple((frame.sequence, frame.header.rows) for frame in joined),
            first_arrival_ms=joined[0].header.arrival_ms,
        )
