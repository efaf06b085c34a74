"""Which durable frames of each table are not released yet, and where they stand.

Knows no files and no locks.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping

from hudisql.ingest.push.frames import FrameHeader
from hudisql.ingest.push.segments import Segment

FrameLocation = tuple[FrameHeader, Segment]


class FrameIndex:
    """The frames of each table in the order of their sequence numbers."""

    def __init__(self) -> None:
        self._frames: defaultdict[str, deque[FrameLocation]] = defaultdict(deque)
        self._bytes: defaultdict[str, int] = defaultdict(int)
        self.total_bytes = 0

    def add(self, segment: Segment, headers: Iterable[FrameHeader]) -> None:
        """Take in frames that are durable now."""
        for header in headers:
            self._frames[header.table].append((header, segment))
            self._bytes[header.table] += header.size
            self.total_bytes += header.size

    def release(self, table: str, up_to: int) -> None:
        """Forget a table's frames up to a sequence number; their segments count fewer frames."""
        frames = self._frames.get(table)
        while frames and frames[0][0].sequence <= up_to:
            header, segment = frames.popleft()
            segment.frames -= 1
            self._bytes[table] -= header.size
            self.total_bytes -= header.size
        if not frames:
            self._frames.pop(table, None)
            self._bytes.pop(table, None)

    def bytes_of(self, table: str) -> int:
        """Bytes of a table's frames."""
        return self._bytes.get(table, 0)

    def tables(self) -> dict[str, int]:
        """The tables that have frames, and the last sequence number of each."""
        return {table: frames[-1][0].sequence for table, frames in self._frames.items()}

    def all_after(self, after: Mapping[str, int]) -> list[FrameLocation]:
        """The frames of all tables behind each one's sequence number, in the order of the log."""
        found = [
            location
            for table, frames in self._frames.items()
            for location in _behind(frames, after.get(table, 0))
        ]
        return sorted(found, key=lambda location: location[0].sequence)

    def after(self, table: str, sequence: int, maximum_bytes: int) -> list[FrameLocation]:
        """A table's next frames of together at most `maximum_bytes`, at least one if there is any."""
        found: list[FrameLocation] = []
        size = 0
        for location in _behind(self._frames.get(table, ()), sequence):
            size += location[0].payload_bytes
            if found and size > maximum_bytes:
                break
            found.append(location)
        return found


def _behind(frames: Iterable[FrameLocation], sequence: int) -> Iterator[FrameLocation]:
    return (location for location in frames if location[0].sequence > sequence)
