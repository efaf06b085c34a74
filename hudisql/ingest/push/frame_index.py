"""Which durable frames of each table are not released yet, and where they stand.

Knows no files and no locks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable

from hudisql.ingest.push.frames import FrameHeader
from hudisql.ingest.push.segments import Segment

FrameLocation = tuple[FrameHeader, Segment]


class _TableFrames:
    """Frames in order; those before `start` are released."""

    def __init__(self) -> None:
        self.locations: list[FrameLocation] = []
        self.start = 0
        self.bytes = 0
        self.rows = 0

    def behind(self, sequence: int) -> int:
        """Where the frames behind a sequence number begin."""
        return bisect_right(
            self.locations, sequence, lo=self.start, key=lambda location: location[0].sequence
        )

    def release(self, up_to: int) -> int:
        """Forget frames up to a sequence number. Returns their bytes."""
        end = self.behind(up_to)
        size = 0
        for header, segment in self.locations[self.start : end]:
            segment.frames -= 1
            size += header.size
            self.rows -= header.rows
        self.start = end
        self.bytes -= size
        if self.start > len(self.locations) // 2:
            del self.locations[: self.start]
            self.start = 0
        return size


class FrameIndex:
    """The frames of each table in the order of their sequence numbers."""

    def __init__(self) -> None:
        self._frames: defaultdict[str, _TableFrames] = defaultdict(_TableFrames)
        self.total_bytes = 0

    def add(self, segment: Segment, headers: Iterable[FrameHeader]) -> None:
        """Take in frames that are durable now."""
        for header in headers:
            frames = self._frames[header.table]
            frames.locations.append((header, segment))
            frames.bytes += header.size
            frames.rows += header.rows
            self.total_bytes += header.size

    def release(self, table: str, up_to: int) -> None:
        """Forget a table's frames up to a sequence number; their segments count fewer frames."""
        frames = self._frames.get(table)
        if frames is None:
            return
        self.total_bytes -= frames.release(up_to)
        if not frames.locations:
            del self._frames[table]

    def bytes_of(self, table: str) -> int:
        """Bytes of a table's frames."""
        return self._frames[table].bytes if table in self._frames else 0

    def rows_of(self, table: str) -> int:
        """Rows of a table's frames."""
        return self._frames[table].rows if table in self._frames else 0

    def tables(self) -> dict[str, int]:
        """The tables that have frames, and the last sequence number of each."""
        return {table: frames.locations[-1][0].sequence for table, frames in self._frames.items()}

    def all(self) -> list[FrameLocation]:
        """The frames of all tables, in the order of the log."""
        locations = [location for frames in self._frames.values() for location in frames.locations]
        return sorted(locations, key=lambda location: location[0].sequence)

    def after(self, table: str, sequence: int, maximum_bytes: int) -> list[FrameLocation]:
        """A table's next frames of together at most `maximum_bytes`, at least one if there is any."""
        found: list[FrameLocation] = []
        size = 0
        frames = self._frames.get(table)
        if frames is None:
            return found
        for position in range(frames.behind(sequence), len(frames.locations)):
            location = frames.locations[position]
            size += location[0].payload_bytes
            if found and size > maximum_bytes:
                break
            found.append(location)
        return found
