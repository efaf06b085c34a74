"""The frames that a write-ahead log holds, read table by table."""

from __future__ import annotations

from collections.abc import Mapping

from hudisql.ingest.push.frames import Frame
from hudisql.ingest.push.write_ahead_log import WriteAheadLog


def all_frames(log: WriteAheadLog, after: Mapping[str, int] | None = None) -> list[Frame]:
    """The durable frames of all tables after each one's sequence number, in the order of the log."""
    committed = after or {}
    frames = [frame for table in log.tables() for frame in log.read(table, committed.get(table, 0), 1 << 40)]
    return sorted(frames, key=lambda frame: frame.sequence)
