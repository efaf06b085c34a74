"""Cut the files of a scan into splits of about equal size.

A split is a byte range of the driving file, as in Spark's own file scans. The task reads the row groups whose
middle lies in the range, so planning opens no file. Several small reads share one task. Pure values: no
storage, no Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hudisql.table.file_slice import FileSlice

DEFAULT_MAX_SPLIT_BYTES = 128 * 1024 * 1024
DEFAULT_OPEN_COST_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Split:
    """Bytes [start, start + length) of the file that drives the read of a slice."""

    start: int
    length: int

    def holds(self, position: int) -> bool:
        """True if the byte at `position` belongs to this split."""
        return self.start <= position < self.start + self.length


@dataclass(frozen=True, slots=True)
class SliceWork:
    """One file slice, or one split of it, with the typed values of its partition columns."""

    file_slice: FileSlice
    partition_values: Mapping[str, object]
    split: Split | None = None


@dataclass(frozen=True, slots=True)
class ScanTask:
    """What one task reads, in this order."""

    works: tuple[SliceWork, ...]


def driving_file_bytes(file_slice: FileSlice, *, needs_data: bool) -> int:
    """Length in bytes of the driving file: the external file if its columns are read."""
    if file_slice.external_file is not None and (needs_data or file_slice.is_register_only):
        return file_slice.external_file.length
    return file_slice.base_file.length if file_slice.base_file is not None else 0


def plan_splits(
    slices: Iterable[tuple[FileSlice, Mapping[str, object]]],
    *,
    needs_data: bool,
    parallelism: int,
    max_split_bytes: int = DEFAULT_MAX_SPLIT_BYTES,
    open_cost_bytes: int = DEFAULT_OPEN_COST_BYTES,
) -> tuple[ScanTask, ...]:
    """Cut and pack slices into tasks so that `parallelism` cores are busy with pieces of similar size.

    Follows Spark's `FilePartition`: a piece is at most `max_split_bytes`, less if that leaves cores idle, and
    opening a file counts as reading `open_cost_bytes`. Every byte of every slice is in exactly one piece; a
    slice with log files, whose records may belong to any row of it, is one piece.
    """
    sized = [(work, values, _bytes_to_read(work, needs_data)) for work, values in slices]
    total_bytes = sum(size + open_cost_bytes for _, _, size in sized)
    piece_bytes = min(max_split_bytes, max(open_cost_bytes, total_bytes // max(parallelism, 1)))
    pieces: list[tuple[int, SliceWork]] = []
    for file_slice, values, size in sized:
        if size <= piece_bytes or file_slice.has_log_files:
            pieces.append((size, SliceWork(file_slice, values)))
            continue
        for start in range(0, size, piece_bytes):
            length = min(piece_bytes, size - start)
            pieces.append((length, SliceWork(file_slice, values, Split(start, length))))
    pieces.sort(key=lambda piece: -piece[0])
    return _pack(pieces, piece_bytes, open_cost_bytes)


def _bytes_to_read(file_slice: FileSlice, needs_data: bool) -> int:
    logs = file_slice.log_length
    return driving_file_bytes(file_slice, needs_data=needs_data) + logs


def _pack(
    pieces: Sequence[tuple[int, SliceWork]], piece_bytes: int, open_cost_bytes: int
) -> tuple[ScanTask, ...]:
    tasks: list[ScanTask] = []
    current: list[SliceWork] = []
    filled = 0
    for size, work in pieces:
        if current and filled + size > piece_bytes:
            tasks.append(ScanTask(tuple(current)))
            current, filled = [], 0
        current.append(work)
        filled += size + open_cost_bytes
    if current:
        tasks.append(ScanTask(tuple(current)))
    return tuple(tasks)
