"""Sort the rows of one task by columns, of which alone all values stay in memory.

The rows beyond 64 MB lie in Arrow files on the task's local disk, which are
memory-mapped while the sorted rows are put together. The order is Spark's: nulls first, NaN last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.write.execution.spillable_change_buffer import SpillableChangeBuffer

_ROWS_A_BATCH: Final = 128 * 1024
_BYTES_A_BATCH: Final = 64 << 20


def can_sort(kind: pa.DataType) -> bool:
    """True if Arrow sorts values of this type as Spark does."""
    return not pa.types.is_nested(kind) and not pa.types.is_null(kind)


def sorted_rows(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The rows of `batches`, which have `schema`, by `columns` one after the other; rows of equal keys stay
    in their order.
    """
    with SpillableChangeBuffer(schema) as buffer:
        keys = []
        for batch in batches:
            keys.append(batch.select(list(columns)))
            buffer.add(0, batch)
        if not keys:
            return
        order = _sort_order(pa.Table.from_batches(keys))
        keys.clear()
        yield from _take(buffer.table(0), order)


def _sort_order(keys: pa.Table) -> np.ndarray:
    columns: dict[str, pa.ChunkedArray] = {}
    for number, column in enumerate(keys.columns):
        if column.null_count:
            columns[f"{number}_is_valid"] = column.is_valid()
        columns[f"{number}"] = column
    names = [(name, "ascending") for name in columns]
    order: np.ndarray = pc.sort_indices(pa.table(columns), sort_keys=names).to_numpy()
    return order.astype(np.int64)


def _take(rows: pa.Table, order: np.ndarray) -> Iterator[pa.RecordBatch]:
    """The rows in the given order. Each part of the table is read by itself, never joined with others."""
    parts = rows.to_batches()
    starts = np.cumsum([0, *(part.num_rows for part in parts)])
    count = max(1, min(_ROWS_A_BATCH, _BYTES_A_BATCH * len(order) // max(1, rows.nbytes)))
    for begin in range(0, len(order), count):
        yield from _take_some(parts, starts, order[begin : begin + count])


def _take_some(
    parts: Sequence[pa.RecordBatch], starts: np.ndarray, wanted: np.ndarray
) -> Iterator[pa.RecordBatch]:
    """Some rows of the parts, which begin at `starts`; in halves where these are far wider than others."""
    by_part = np.argsort(wanted, kind="stable")
    ends = np.searchsorted(wanted[by_part], starts)
    taken = [
        part.take(pa.array(wanted[by_part[ends[number] : ends[number + 1]]] - starts[number]))
        for number, part in enumerate(parts)
        if ends[number] < ends[number + 1]
    ]
    if len(wanted) > 1 and sum(each.nbytes for each in taken) > 2 * _BYTES_A_BATCH:
        taken.clear()
        middle = len(wanted) // 2
        yield from _take_some(parts, starts, wanted[:middle])
        yield from _take_some(parts, starts, wanted[middle:])
        return
    position = np.empty_like(by_part)
    position[by_part] = np.arange(len(by_part))
    yield pa.concat_batches(taken).take(pa.array(position))
