"""Column-wise storage of a task's rows, from which rows are taken in any order with one copy.

In memory up to 64 MB, then in files on the task's local disk: each column is one array there, memory-mapped
when rows are taken. Texts with few distinct values can be stored as dictionaries. Columns must not be nested.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_IN_MEMORY_BYTES: Final = 64 << 20
_MOST_VALUES: Final = 4096
"""The most values of a dictionary; a column with more is stored without one."""
_ROWS_A_VALUE: Final = 16
_ROWS_A_STEP: Final = 128 * 1024
_LARGE: Final = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def is_flat(kind: pa.DataType) -> bool:
    """True if columns of this type can be stored here."""
    fixed = pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind)
    return fixed or kind in _LARGE


class StoredColumn:
    """One column: its values as one array, which rows are valid (None: all), and its dictionary, if any."""

    def __init__(
        self, kind: pa.DataType, values: pa.Array, valid: np.ndarray | None, dictionary: pa.Array | None
    ) -> None:
        self._kind = kind
        self._values = values
        self._valid = valid
        self._dictionary = dictionary

    def take(self, rows: np.ndarray) -> pa.Array:
        """The values in these rows: in the column's type (texts with 64-bit offsets) or as a dictionary."""
        values = pc.take(self._values, pa.array(rows), boundscheck=False)
        if self._valid is not None:
            bits = pa.py_buffer(np.packbits(self._valid[rows], bitorder="little"))
            values = pa.Array.from_buffers(values.type, len(values), [bits, *values.buffers()[1:]])
        if self._dictionary is not None:
            return pa.DictionaryArray.from_arrays(values, self._dictionary)
        return values.cast(self._kind) if pa.types.is_boolean(self._kind) else values

    def all_values(self) -> pa.Array:
        """The whole column."""
        if self._valid is None and self._dictionary is None:
            return self._values
        values = self.take(np.arange(len(self._values)))
        return values if self._dictionary is None else values.dictionary_decode()


class ColumnFiles:
    """Rows of `schema`, added batch by batch; a context manager.

    Texts of the columns `encoded` become dictionaries (indices of 16 bits) if values repeat often.
    """

    def __init__(self, schema: pa.Schema, encoded: Collection[str]) -> None:
        self.bytes = 0
        self._columns = {field.name: _Column(field.type, field.name in encoded) for field in schema}
        self._buffered_bytes = 0
        self._directory: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> ColumnFiles:
        return self

    def __exit__(self, *_: object) -> None:
        for column in self._columns.values():
            column.close()
        if self._directory is not None:
            self._directory.cleanup()

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows, columns as in the schema."""
        added = sum(column.add(rows.column(name)) for name, column in self._columns.items())
        self.bytes += added
        self._buffered_bytes += added
        if self._buffered_bytes >= _IN_MEMORY_BYTES:
            if self._directory is None:
                self._directory = tempfile.TemporaryDirectory(prefix="hudisql-rows-")
            for number, column in enumerate(self._columns.values()):
                column.spill(Path(self._directory.name) / str(number))
            self._buffered_bytes = 0

    def finish(self) -> dict[str, StoredColumn]:
        """All rows by column; no further rows can be added."""
        return {name: column.finish() for name, column in self._columns.items()}


class _Stream:
    """Appended bytes: the last ones in memory, the others in a file."""

    def __init__(self) -> None:
        self._pieces: list[Any] = []
        self._file: IO[bytes] | None = None

    def append(self, data: Any) -> None:
        self._pieces.append(data)

    def spill(self, path: Path) -> None:
        if self._file is None:
            self._file = path.open("wb", buffering=0)
        for piece in self._pieces:
            self._write(memoryview(piece).cast("B"))
        self._pieces = []

    def finish(self) -> pa.Buffer:
        if self._file is None:
            return pa.py_buffer(b"".join(self._pieces))
        path = Path(self._file.name)
        self.spill(path)
        self.close()
        return pa.memory_map(str(path)).read_buffer() if path.stat().st_size else pa.py_buffer(b"")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _write(self, data: memoryview) -> None:
        assert self._file is not None
        while data:
            data = data[self._file.write(data) :]


class _Column:
    """One column while rows are added: values, the ends of texts, and which rows are valid."""

    def __init__(self, kind: pa.DataType, encodes: bool) -> None:
        self._kind = kind
        self._stored = pa.uint8() if pa.types.is_boolean(kind) else kind
        self._may_encode = encodes and pa.types.is_string(kind)
        self._dictionary: pa.Array | None = None
        self._values, self._ends, self._valid = _Stream(), _Stream(), _Stream()
        self._ends.append(np.zeros(1, np.int64))
        self._has_nulls = False
        self._rows = 0
        self._end = 0
        self._path: Path | None = None

    def add(self, array: pa.Array) -> int:
        """Add values; returns the bytes that they take."""
        if array.null_count:
            self._add_validity(array.is_valid().cast(pa.uint8()).to_numpy())
        elif self._has_nulls:
            self._valid.append(np.ones(len(array), np.uint8))
        self._rows += len(array)
        if self._may_encode:
            indices = self._encode(array)
            if indices is not None:
                self._values.append(indices)
                return int(indices.nbytes)
            self._decode()
        return self._append(array)

    def spill(self, path: Path) -> None:
        """Write the buffered bytes to files whose names begin with `path`."""
        self._path = path
        kept = path.with_suffix(".texts" if self._dictionary is None else ".indices")
        self._values.spill(kept)
        self._ends.spill(path.with_suffix(".ends"))
        self._valid.spill(path.with_suffix(".valid"))

    def finish(self) -> StoredColumn:
        """The whole column."""
        values, ends, valid = (stream.finish() for stream in (self._values, self._ends, self._valid))
        if self._dictionary is not None:
            kind, buffers = pa.int16(), [None, values]
        elif self._kind in _LARGE:
            kind, buffers = _LARGE[self._kind], [None, ends, values]
        else:
            kind, buffers = self._stored, [None, values]
        return StoredColumn(
            self._kind,
            pa.Array.from_buffers(kind, self._rows, buffers),
            np.frombuffer(valid, np.uint8) if self._has_nulls else None,
            self._dictionary,
        )

    def close(self) -> None:
        """Close the files."""
        for stream in (self._values, self._ends, self._valid):
            stream.close()

    def _add_validity(self, valid: np.ndarray) -> None:
        if not self._has_nulls:
            self._valid.append(np.ones(self._rows, np.uint8))
            self._has_nulls = True
        self._valid.append(valid)

    def _append(self, array: pa.Array) -> int:
        """Store values without a dictionary."""
        if self._kind not in _LARGE:
            values = _fixed_values(array.cast(self._stored))
            self._values.append(values)
            return values.nbytes
        buffers = array.buffers()
        offsets = np.frombuffer(buffers[1], np.int32)[array.offset : array.offset + len(array) + 1]
        first, last = (int(offsets[0]), int(offsets[-1])) if len(array) else (0, 0)
        if last > first:
            self._values.append(memoryview(buffers[2])[first:last])
        self._ends.append(offsets[1:].astype(np.int64) + (self._end - first))
        self._end += last - first
        return last - first + 8 * len(array)

    def _encode(self, array: pa.StringArray) -> np.ndarray | None:
        """The indices of the values; None if there are too many distinct values for a dictionary."""
        dense = array.dictionary_encode()
        if self._dictionary is None:
            if len(dense.dictionary) > max(_ROWS_A_VALUE, len(array) // _ROWS_A_VALUE):
                return None
            self._dictionary = pa.array([""], pa.string())  # the value of rows that are null
        known = pc.is_in(dense.dictionary, self._dictionary)
        if not pc.all(known, min_count=0).as_py():
            self._dictionary = pa.concat_arrays([self._dictionary, dense.dictionary.filter(pc.invert(known))])
        if len(self._dictionary) > _MOST_VALUES:
            return None
        places = pc.index_in(dense.dictionary, self._dictionary).to_numpy().astype(np.int16)
        if not len(places):
            return np.zeros(len(array), np.int16)
        taken: np.ndarray = places[dense.indices.fill_null(0).to_numpy()]
        if array.null_count:
            taken[array.is_null().to_numpy(zero_copy_only=False)] = 0
        return taken

    def _decode(self) -> None:
        """From now on store values without a dictionary, including those of earlier rows."""
        self._may_encode = False
        if self._dictionary is None:
            return
        dictionary, indices = self._dictionary, np.frombuffer(self._values.finish(), np.int16)
        self._dictionary, self._values = None, _Stream()
        for first in range(0, len(indices), _ROWS_A_STEP):
            self._append(dictionary.take(pa.array(indices[first : first + _ROWS_A_STEP])))
            if self._path is not None:
                self.spill(self._path)


def _fixed_values(array: pa.Array) -> memoryview:
    width = array.type.byte_width
    return memoryview(array.buffers()[1])[array.offset * width : (array.offset + len(array)) * width]
