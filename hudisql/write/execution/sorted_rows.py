"""Sort the rows of one task by columns.

Rows beyond 64 MB are stored column by column in files on the task's local disk, which are memory-mapped while
the sorted rows are built. The order is Spark's: nulls first, NaN last.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.write.execution.column_files import ColumnFiles, StoredColumn, is_flat
from hudisql.write.execution.spillable_change_buffer import SpillableChangeBuffer

_ROWS_A_BATCH: Final = 128 * 1024
_BYTES_A_BATCH: Final = 64 << 20


def can_sort(kind: pa.DataType) -> bool:
    """True if Arrow sorts values of this type as Spark does."""
    return not pa.types.is_nested(kind) and not pa.types.is_null(kind)


def sorted_rows(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    columns: Sequence[str],
    encoded: Collection[str] = (),
) -> Iterator[pa.RecordBatch]:
    """The rows of `batches`, which have `schema`, by `columns` one after the other; rows of equal keys stay
    in their order. Texts of the columns `encoded` are dictionaries if values repeat often.
    """
    flat = pa.schema([field for field in schema if is_flat(field.type)])
    nested = pa.schema([field for field in schema if not is_flat(field.type)])
    with (
        ColumnFiles(flat, set(encoded).difference(columns)) as files,
        SpillableChangeBuffer(nested) as buffer,
    ):
        for batch in batches:
            files.add(batch)
            if nested.names:
                buffer.add(0, batch.select(nested.names))
        stored = files.finish()
        order = _sort_order([stored[name].all_values() for name in columns])
        if not len(order):
            return
        rows = _Rows(schema, stored, buffer.table(0).to_batches() if nested.names else [])
        yield from rows.take(order, files.bytes + sum(part.nbytes for part in rows.parts))


def _sort_order(keys: Sequence[pa.Array]) -> np.ndarray:
    columns: dict[str, pa.Array] = {}
    for number, column in enumerate(keys):
        if column.null_count:
            columns[f"{number}_is_valid"] = column.is_valid()
        columns[f"{number}"] = column
    if len(columns) == 1:
        order: np.ndarray = pc.array_sort_indices(keys[0]).to_numpy()
    else:
        names = [(name, "ascending") for name in columns]
        order = pc.sort_indices(pa.table(columns), sort_keys=names).to_numpy()
    return order.astype(np.int64)


class _Rows:
    """All rows of a task: the columns that are not nested, and the parts of the table of the others."""

    def __init__(
        self, schema: pa.Schema, stored: Mapping[str, StoredColumn], parts: Sequence[pa.RecordBatch]
    ) -> None:
        self.parts = parts
        self._schema = schema
        self._stored = stored
        self._starts = np.cumsum([0, *(part.num_rows for part in parts)])

    def take(self, order: np.ndarray, held_bytes: int) -> Iterator[pa.RecordBatch]:
        """The rows in the given order."""
        count = max(1, min(_ROWS_A_BATCH, _BYTES_A_BATCH * len(order) // max(1, held_bytes)))
        for begin in range(0, len(order), count):
            yield from self._take_some(order[begin : begin + count])

    def _take_some(self, wanted: np.ndarray) -> Iterator[pa.RecordBatch]:
        """Some rows, in halves if they are far wider than others."""
        taken = {name: column.take(wanted) for name, column in self._stored.items()}
        if self.parts:
            nested = _take_parts(self.parts, self._starts, wanted)
            taken.update(zip(nested.schema.names, nested.columns, strict=True))
        if len(wanted) > 1 and sum(each.nbytes for each in taken.values()) > 2 * _BYTES_A_BATCH:
            taken.clear()
            middle = len(wanted) // 2
            yield from self._take_some(wanted[:middle])
            yield from self._take_some(wanted[middle:])
            return
        columns = [_narrow(taken[field.name], field.type) for field in self._schema]
        yield pa.RecordBatch.from_arrays(columns, names=self._schema.names)


def _narrow(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind or pa.types.is_dictionary(column.type) else column.cast(kind)


def _take_parts(parts: Sequence[pa.RecordBatch], starts: np.ndarray, wanted: np.ndarray) -> pa.RecordBatch:
    """Rows of the parts, which begin at `starts`. Each part is read separately, never joined with others."""
    by_part = np.argsort(wanted, kind="stable")
    ends = np.searchsorted(wanted[by_part], starts)
    taken = [
        part.take(pa.array(wanted[by_part[ends[number] : ends[number + 1]]] - starts[number]))
        for number, part in enumerate(parts)
        if ends[number] < ends[number + 1]
    ]
    position = np.empty_like(by_part)
    position[by_part] = np.arange(len(by_part))
    return pa.concat_batches(taken).take(pa.array(position))
