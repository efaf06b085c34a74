"""The segments of a write-ahead log: preallocated files that are written once, sealed and deleted.

A segment is named by the manifest before its first frame, and with its end before its successor's. Sealed
segments are whole up to that end. The last one ends at its last whole frame, and is never appended to by a
later process. Knows no queue and no threads but its lock.
"""

from __future__ import annotations

import secrets
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock
from typing import Final

from hudisql.errors import CorruptWriteAheadLogError, WriteAheadLogError
from hudisql.ingest.push.frames import FrameHeader, acknowledged_after, decode_frames
from hudisql.ingest.push.log_files import LogFiles
from hudisql.ingest.push.manifest import open_manifest

# How many numbers are reserved at once: so many may be skipped when a process starts.
RESERVED_SEQUENCES: Final = 1 << 20
# What the manifest has room for.
_MAXIMUM_SEGMENTS: Final = 8000
_PREFIX: Final = "segment-"
_HEADER: Final = struct.Struct("<4sIQI")
_MAGIC: Final = b"hPs1"


@dataclass
class Segment:
    """A file of frames: `end` is where its durable frames end, `frames` how many are not released.

    A `sealed` one takes no more frames.
    """

    number: int
    descriptor: int
    seed: int
    size: int
    end: int
    sealed: bool = False
    frames: int = 0

    @property
    def name(self) -> str:
        """The file's name in the log's directory."""
        return segment_name(self.number)


def segment_name(number: int) -> str:
    """The file's name of a segment's number."""
    return f"{_PREFIX}{number:010d}"


class SegmentDirectory:
    """The segments of one directory, the last one being written. Raises OSError, WriteAheadLogError."""

    def __init__(self, files: LogFiles) -> None:
        self._files = files
        self._lock = Lock()
        self._manifest = open_manifest(files)
        self.segments: dict[int, Segment] = {}
        self.disk_bytes = 0

    @property
    def log_id(self) -> str:
        """The unique name of this log."""
        return self._manifest.current.log_id

    @property
    def reserved_sequence(self) -> int:
        """The highest sequence number that may be given without a new segment."""
        return self._manifest.current.reserved_sequence

    def load(self) -> Iterator[tuple[Segment, list[FrameHeader]]]:
        """The segments that are there with their frames, in order. Raises CorruptWriteAheadLogError."""
        self._delete_unlisted()
        listed = self._manifest.current.segments
        present = set(self._files.names())
        for number, end in sorted(listed.items()):
            if segment_name(number) not in present:
                raise self._corrupt(number, 0, "the file is missing")
            content = self._files.read(segment_name(number))
            headers, seed, found_end = self._read_segment(number, content, end)
            descriptor = self._files.open(segment_name(number))
            if end is None:
                # What a killed process had not made durable is about to be given to a reader.
                self._files.sync(descriptor)
            segment = Segment(number, descriptor, seed, len(content), found_end, True, len(headers))
            self.segments[number] = segment
            self.disk_bytes += segment.size
            yield segment, headers

    def create_next(self, size: int, next_sequence: int) -> Segment:
        """A new segment of `size` bytes, after all others are sealed where their durable frames end."""
        with self._lock:
            if len(self.segments) >= _MAXIMUM_SEGMENTS:
                raise WriteAheadLogError(
                    f"the write-ahead log {self._files.directory} has too many segments: "
                    f"{len(self.segments)}",
                    hint="let the ingest worker commit the rows, or use larger segments",
                )
            for segment in self.segments.values():
                segment.sealed = True
            number = self._next_number()
            seed = secrets.randbits(32)
            try:
                descriptor = self._create_file(number, size, seed)
            except OSError:
                self._discard(segment_name(number))
                raise
            try:
                self._name_next(number, next_sequence)
            except OSError:
                # The manifest may be on disk in spite of the error: the file has to stay, but not its space.
                self._files.close_file(descriptor)
                with suppress(OSError):
                    self._files.truncate(segment_name(number), _HEADER.size)
                raise
            created = Segment(number, descriptor, seed, size, _HEADER.size)
            self._shorten_sealed()
            self.segments[number] = created
            self.disk_bytes += size
            return created

    def delete_released(self) -> None:
        """Delete sealed segments without frames. The last one stays until it has a successor."""
        with self._lock:
            last = max(self.segments, default=0)
            released = [
                segment
                for segment in self.segments.values()
                if not segment.frames and segment.sealed and segment.number < last
            ]
            if not released:
                return
            current = self._manifest.current
            gone = {segment.number for segment in released}
            self._manifest.write(
                replace(
                    current,
                    segments={number: end for number, end in current.segments.items() if number not in gone},
                )
            )
            for segment in released:
                del self.segments[segment.number]
                self.disk_bytes -= segment.size
                self._files.close_file(segment.descriptor)
                self._discard(segment.name)

    def close(self) -> None:
        """Close all descriptors, and let other processes open the directory."""
        for segment in self.segments.values():
            self._files.close_file(segment.descriptor)
        self.segments.clear()
        self._manifest.close()
        self._files.close()

    def _name_next(self, number: int, next_sequence: int) -> None:
        """Let the manifest name a new segment, and where all others end."""
        ends: dict[int, int | None] = {
            segment_number: segment.end for segment_number, segment in self.segments.items()
        }
        self._manifest.write(
            replace(
                self._manifest.current,
                reserved_sequence=next_sequence - 1 + RESERVED_SEQUENCES,
                segments={**ends, number: None},
            )
        )

    def _next_number(self) -> int:
        # Never one that a failed attempt has used: the manifest of that attempt may be on disk.
        numbers = [int(name.removeprefix(_PREFIX)) for name in self._segment_names()]
        return 1 + max([*numbers, *self._manifest.current.segments], default=0)

    def _segment_names(self) -> Iterable[str]:
        return [name for name in self._files.names() if name.startswith(_PREFIX)]

    def _create_file(self, number: int, size: int, seed: int) -> int:
        header = _HEADER.pack(_MAGIC, seed, number, _header_checksum(seed, number))
        descriptor = self._files.create(segment_name(number), size)
        try:
            self._files.write(descriptor, [header], 0)
            self._files.sync(descriptor)
            self._files.sync_directory()
        except OSError:
            self._files.close_file(descriptor)
            raise
        return descriptor

    def _shorten_sealed(self) -> None:
        """Free the preallocated space of sealed segments."""
        for segment in self.segments.values():
            if segment.size > segment.end:
                with suppress(OSError):
                    self._files.truncate(segment.name, segment.end)
                    self.disk_bytes -= segment.size - segment.end
                    segment.size = segment.end

    def _discard(self, name: str) -> None:
        # A failure only leaves the file to the next opening of the log.
        with suppress(OSError):
            self._files.delete(name)

    def _delete_unlisted(self) -> None:
        """Delete segments that were released, and those that an interrupted `create_next` has made."""
        listed = self._manifest.current.segments
        newest = max(listed, default=0)
        for name in self._segment_names():
            number = int(name.removeprefix(_PREFIX))
            if number in listed:
                continue
            if number > newest and self._has_frames(number):
                raise self._corrupt(number, 0, "it has rows, but the manifest does not name it")
            self._discard(name)

    def _has_frames(self, number: int) -> bool:
        content = self._files.read(segment_name(number))
        seed = _decode_header(content, number)
        return seed is not None and any(decode_frames(memoryview(content), _HEADER.size, seed))

    def _read_segment(
        self, number: int, content: bytes, end: int | None
    ) -> tuple[list[FrameHeader], int, int]:
        """The frames of a segment, the seed of its checksums, and where the frames end."""
        seed = _decode_header(content, number)
        if seed is None:
            raise self._corrupt(number, 0, "its header is damaged")
        whole = memoryview(content)
        headers = list(decode_frames(whole[:end], _HEADER.size, seed))
        found_end = headers[-1].offset + headers[-1].size if headers else _HEADER.size
        if end is not None and found_end != end:
            raise self._corrupt(number, found_end, f"no whole frame begins there, frames end at {end}")
        if end is None and acknowledged_after(whole, found_end, seed):
            raise self._corrupt(number, found_end, "no whole frame begins there, acknowledged ones follow")
        return headers, seed, found_end

    def _corrupt(self, number: int, offset: int, reason: str) -> CorruptWriteAheadLogError:
        return CorruptWriteAheadLogError(
            f"{self._files.directory / segment_name(number)} is damaged at offset {offset}: {reason}",
            hint="restore the file; acknowledged rows may be in it",
        )


def _header_checksum(seed: int, number: int) -> int:
    return zlib.crc32(struct.pack("<4sIQ", _MAGIC, seed, number))


def _decode_header(content: bytes, number: int) -> int | None:
    """The seed of a segment's checksums; None if its header is not that of segment `number`."""
    if len(content) < _HEADER.size:
        return None
    magic, seed, stored_number, checksum = _HEADER.unpack_from(content)
    if magic != _MAGIC or stored_number != number or checksum != _header_checksum(seed, number):
        return None
    return int(seed)
