"""A buffer for the changes of a task, until all changes of a slice have arrived.

In memory up to 64 MB, then in Arrow files on the task's local disk, which are memory-mapped when read.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

import pyarrow as pa

_IN_MEMORY_BYTES: Final = 64 << 20


class SpillableChangeBuffer:
    """Buffers changes by bucket: in memory, beyond 64 MB in files."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._in_memory: dict[int, list[pa.RecordBatch]] = {}
        self._spilled: dict[int, list[Path]] = {}
        self._bytes = 0
        self._directory: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> SpillableChangeBuffer:
        return self

    def __exit__(self, *_: object) -> None:
        if self._directory is not None:
            self._directory.cleanup()

    @property
    def numbers(self) -> list[int]:
        """The buckets with changes."""
        return sorted({*self._in_memory, *self._spilled})

    def add(self, number: int, rows: pa.RecordBatch) -> None:
        """Add changes of a bucket."""
        self._in_memory.setdefault(number, []).append(rows)
        self._bytes += rows.nbytes
        if self._bytes >= _IN_MEMORY_BYTES:
            self._spill()

    def table(self, number: int) -> pa.Table:
        """All changes of a bucket; spilled ones are mapped into memory."""
        batches = self._in_memory.get(number, [])
        spilled = self._spilled.get(number, [])
        parts = [pa.ipc.open_file(pa.memory_map(str(path))).read_all() for path in spilled]
        return pa.concat_tables([*parts, pa.Table.from_batches(batches, self._schema)])

    def _spill(self) -> None:
        if self._directory is None:
            self._directory = tempfile.TemporaryDirectory(prefix="hudisql-changes-")
        for number, batches in self._in_memory.items():
            paths = self._spilled.setdefault(number, [])
            path = Path(self._directory.name) / f"{number}-{len(paths)}.arrow"
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, self._schema) as writer:
                # One batch for each file, so that readers take rows from few parts.
                writer.write_table(pa.Table.from_batches(batches, self._schema).combine_chunks())
            paths.append(path)
        self._in_memory, self._bytes = {}, 0
