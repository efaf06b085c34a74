"""The write-ahead log: pushed batches are durable here before their clients are answered.

Any number of threads append; one thread writes what has gathered and makes it durable by one fdatasync, then
resolves the futures. Sequence numbers grow over the whole log, are never given twice, not even after a crash
that lost the end of the log, and skip up to `RESERVED_SEQUENCES` numbers when a process starts. They mean
something together with `log_id` only. Must not know HTTP, Flight, or who reads.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from threading import Condition, Lock, Thread
from typing import Final

from hudisql.errors import (
    CorruptWriteAheadLogError,
    HudisqlError,
    InvalidArgumentError,
    StorageError,
    WriteAheadLogError,
)
from hudisql.ingest.push.frame_index import FrameIndex, FrameLocation
from hudisql.ingest.push.frames import (
    Frame,
    FrameHeader,
    NewFrame,
    PayloadFormat,
    decode_frame,
    encode_frame,
)
from hudisql.ingest.push.log_files import LogFiles
from hudisql.ingest.push.segments import Segment, SegmentDirectory

DEFAULT_SEGMENT_BYTES: Final = 64 << 20
_GROUP_BYTES: Final = 16 << 20
# Header offsets are stored in 32 bits.
_MAXIMUM_SEGMENT_BYTES: Final = 1 << 30
_Appended = tuple[NewFrame, "Future[int]"]


class WriteAheadLog:
    """A log in a local directory, of one process at a time.

    Raises StorageError if the directory cannot be used, WriteAheadLogInUseError if another process has it,
    CorruptWriteAheadLogError if acknowledged frames cannot be read. `is_failing` is True if the last
    batches could not be written.
    """

    def __init__(
        self,
        directory: Path,
        *,
        segment_bytes: int = DEFAULT_SEGMENT_BYTES,
        files: LogFiles | None = None,
    ) -> None:
        if not 4096 <= segment_bytes <= _MAXIMUM_SEGMENT_BYTES:
            raise InvalidArgumentError(
                f"a segment takes 4096 to {_MAXIMUM_SEGMENT_BYTES} bytes, not {segment_bytes}"
            )
        self._segment_bytes = segment_bytes
        self._directory = directory
        self._index = FrameIndex()
        self._queue: deque[_Appended] = deque()
        self._queued_bytes = 0
        self._closing = False
        self.is_failing = False
        self._lock = Lock()
        self._queued = Condition(self._lock)
        self._durable = Condition(self._lock)
        self._segment: Segment | None = None
        self._open(files)
        self._thread = Thread(target=self._run, name="write-ahead-log", daemon=True)
        self._thread.start()

    def _open(self, files: LogFiles | None) -> None:
        try:
            self._files = files or LogFiles(self._directory)
            try:
                self._segments = SegmentDirectory(self._files)
            except BaseException:
                self._files.close()
                raise
            try:
                for segment, headers in self._segments.load():
                    self._index.add(segment, headers)
            except BaseException:
                self._segments.close()
                raise
        except HudisqlError:
            raise
        except OSError as error:
            raise StorageError(
                f"cannot open the write-ahead log {self._directory}: {error}",
                hint="it needs a local directory that this process may write to, on a disk with free space",
            ) from error
        self._next_sequence = self._segments.reserved_sequence + 1

    @property
    def log_id(self) -> str:
        """The unique name of this log: commits name a sequence number together with it."""
        return self._segments.log_id

    @property
    def unreleased_bytes(self) -> int:
        """Bytes that are queued, or durable and not released."""
        with self._lock:
            return self._queued_bytes + self._index.total_bytes

    @property
    def disk_bytes(self) -> int:
        """Bytes of all segments: a segment stays as long as one frame in it is not released."""
        return self._segments.disk_bytes

    def unreleased_bytes_of(self, table: str) -> int:
        """Bytes of one table that are durable and not released."""
        with self._lock:
            return self._index.bytes_of(table)

    def unreleased_rows_of(self, table: str) -> int:
        """Rows of one table that are durable and not released."""
        with self._lock:
            return self._index.rows_of(table)

    def tables(self) -> dict[str, int]:
        """The tables with frames that are not released, and the last durable sequence number of each."""
        with self._lock:
            return self._index.tables()

    def append(
        self, table: str, format: PayloadFormat, payload: bytes, *, rows: int = 0, key: str = ""
    ) -> Future[int]:
        """Queue a batch; the future has its sequence number as soon as it is durable.

        The future raises WriteAheadLogError if the disk is full or fails, or the log is closed.
        """
        frame = NewFrame(table, format, payload, rows, key)
        future: Future[int] = Future()
        with self._lock:
            if self._closing:
                raise WriteAheadLogError(
                    f"the write-ahead log {self._directory} is closed", hint="push to a running process"
                )
            self._queue.append((frame, future))
            self._queued_bytes += frame.size
            self._queued.notify()
        return future

    def headers(self) -> list[FrameHeader]:
        """All durable frames that are not released, in the order of the log, without their payloads."""
        with self._lock:
            return [header for header, _ in self._index.all()]

    def check_committed(self, table: str, sequence: int) -> None:
        """Refuse a committed number that this log has not given yet: it would hide rows to come."""
        with self._lock:
            last = max(self._next_sequence - 1, self._segments.reserved_sequence)
        if sequence > last:
            raise CorruptWriteAheadLogError(
                f"the last commit of {table} names sequence {sequence} of the write-ahead log "
                f"{self._directory}, which ends at {last}",
                hint="the directory was replaced by an older copy: move it away, so that a new log begins",
            )

    def read(self, table: str, after: int, maximum_bytes: int) -> list[Frame]:
        """A table's next durable frames, payloads of at most `maximum_bytes` or one larger one."""
        with self._lock:
            locations = self._index.after(table, after, maximum_bytes)
        return [self._read(location) for location in locations]

    def wait(self, seconds: float) -> None:
        """Until frames have become durable, or the time is over."""
        with self._lock:
            self._durable.wait(seconds)

    def release(self, table: str, up_to: int) -> None:
        """A table's frames up to `up_to` are committed: delete the segments without any other frames."""
        with self._lock:
            self._index.release(table, up_to)
        self._delete_released()

    def close(self) -> None:
        """Write what is queued, then let other processes open the directory."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            self._queued.notify()
        self._thread.join()
        self._segments.close()

    def _delete_released(self) -> None:
        # What could not be deleted now is tried again at the next release.
        with suppress(OSError):
            self._segments.delete_released()

    def _read(self, location: FrameLocation) -> Frame:
        header, segment = location
        try:
            data = self._files.read_at(segment.descriptor, header.size, header.offset)
        except OSError as error:
            raise StorageError(
                f"cannot read the write-ahead log {self._directory / segment.name}: {error}"
            ) from error
        if decode_frame(memoryview(data), 0, segment.seed) is None:
            raise CorruptWriteAheadLogError(
                f"{self._directory / segment.name} is damaged at offset {header.offset}: no whole frame",
                hint="restore the file; acknowledged rows are in it",
            )
        return Frame(header, data[header.payload_offset - header.offset :])

    def _run(self) -> None:
        while (group := self._next_group()) is not None:
            frames = [appended for appended in group if appended[1].set_running_or_notify_cancel()]
            with self._lock:
                self._queued_bytes -= _bytes_of(group) - _bytes_of(frames)
            try:
                while frames:
                    frames = self._write_some(frames)
            except Exception as error:
                self._fail(frames, error)

    def _next_group(self) -> list[_Appended] | None:
        """The queued frames, at most `_GROUP_BYTES` or one larger frame; None after the end."""
        with self._lock:
            while not self._queue and not self._closing:
                self._queued.wait()
            group: list[_Appended] = []
            size = 0
            while self._queue and (not group or size + self._queue[0][0].size <= _GROUP_BYTES):
                group.append(self._queue.popleft())
                size += group[-1][0].size
        return group or None

    def _write_some(self, frames: list[_Appended]) -> list[_Appended]:
        """Make as many frames durable as the segment takes, and resolve their futures. Returns the others."""
        segment = self._segment_for(frames[0][0])
        offset = segment.end
        parts: list[bytes] = []
        headers: list[FrameHeader] = []
        arrival_ms = time.time_ns() // 1_000_000
        for frame, _ in frames:
            sequence = self._next_sequence
            if offset + frame.size > segment.size or sequence > self._segments.reserved_sequence:
                break
            parts += encode_frame(
                frame, segment.seed, sequence=sequence, synced=segment.end, arrival_ms=arrival_ms
            )
            headers.append(_header(frame, sequence, arrival_ms, segment.end, offset))
            offset += frame.size
            self._next_sequence += 1
        try:
            self._files.write(segment.descriptor, parts, segment.end)
            self._files.sync(segment.descriptor)
        except OSError:
            # After a failed fdatasync nobody knows what is on disk: nothing more goes into this segment.
            segment.sealed = True
            raise
        segment.end = offset
        self.is_failing = False
        with self._lock:
            segment.frames += len(headers)
            self._index.add(segment, headers)
            self._queued_bytes -= _bytes_of(frames[: len(headers)])
            self._durable.notify_all()
        for (_, future), header in zip(frames, headers, strict=False):
            future.set_result(header.sequence)
        return frames[len(headers) :]

    def _segment_for(self, frame: NewFrame) -> Segment:
        segment = self._segment
        if (
            segment is None
            or segment.sealed
            or segment.end + frame.size > segment.size
            or self._next_sequence > self._segments.reserved_sequence
        ):
            size = max(self._segment_bytes, frame.size + 4096)
            segment = self._segment = self._segments.create_next(size, self._next_sequence)
            self._delete_released()
        return segment

    def _fail(self, frames: list[_Appended], error: Exception) -> None:
        self.is_failing = True
        with self._lock:
            self._queued_bytes -= _bytes_of(frames)
        for frame, future in frames:
            failure = WriteAheadLogError(
                f"a batch for {frame.table} was not taken: cannot write the log {self._directory}: {error}",
                hint="free space on its disk, then push the batch again",
            )
            failure.__cause__ = error
            future.set_exception(failure)


def _bytes_of(frames: Sequence[_Appended]) -> int:
    return sum(frame.size for frame, _ in frames)


def _header(frame: NewFrame, sequence: int, arrival_ms: int, synced: int, offset: int) -> FrameHeader:
    """The header that `decode_frame` would read."""
    return FrameHeader(
        table=frame.table,
        format=frame.format,
        sequence=sequence,
        rows=frame.rows,
        key=frame.key,
        arrival_ms=arrival_ms,
        payload_bytes=len(frame.payload),
        payload_checksum=0,
        synced=synced,
        offset=offset,
        size=frame.size,
    )
