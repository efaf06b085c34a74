"""Records with only some of their columns: the source record of each column of a merged record.

Follows `PartialUpdateHandler`, `PartialMergerWithKeepValues` and `BufferedRecordMergerFactory` of Hudi 1.2:
the winning record takes the top-level columns that it lacks from the other record. Knows values, no files.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.schema.meta_columns import META_COLUMNS
from hudisql.format.table_properties import FILL_UNAVAILABLE, IGNORE_DEFAULTS
from hudisql.read.files.conform import batch_of, find_field
from hudisql.read.merge.merge_mode import RecordMergeMode

BoolMatrix = npt.NDArray[np.bool_]


def lacking_columns(batch: pa.RecordBatch, mode: RecordMergeMode) -> BoolMatrix | None:
    """The values (rows × columns) to take from another record by the mode; None for none."""
    if mode.partial_update_mode is None:
        return None
    lacks = np.zeros((batch.num_rows, batch.num_columns), np.bool_)
    for place, field in enumerate(batch.schema):
        if field.name in META_COLUMNS:
            continue
        values = batch.column(place)
        if mode.partial_update_mode == IGNORE_DEFAULTS:
            lacks[:, place] = values.is_null().to_numpy(zero_copy_only=False)
        elif mode.partial_update_mode == FILL_UNAVAILABLE and mode.unavailable_value is not None:
            lacks[:, place] = _is_text(values, mode.unavailable_value)
    return lacks


def _is_text(values: pa.Array, text: str) -> npt.NDArray[np.bool_]:
    if pa.types.is_string(values.type):
        marker: pa.Scalar = pa.scalar(text, values.type)
    elif pa.types.is_binary(values.type):
        marker = pa.scalar(text.encode(), values.type)
    else:
        return np.zeros(len(values), np.bool_)
    return np.asarray(pc.fill_null(pc.equal(values, marker), False).to_numpy(zero_copy_only=False))


def columns_outside(written: pa.Schema, schema: pa.Schema, rows: int) -> BoolMatrix:
    """The values of `schema` (rows × columns) that a block of the columns `written` lacks."""
    lacks = np.array([find_field(written, name) < 0 for name in schema.names], np.bool_)
    return np.broadcast_to(lacks, (rows, len(lacks)))


def take_columns(rows: pa.RecordBatch, sources: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """Rows whose columns come from the rows numbered by `sources` (rows × columns)."""
    columns = [
        column.take(pa.array(np.ascontiguousarray(sources[:, place])))
        for place, column in enumerate(rows.columns)
    ]
    return batch_of(columns, rows.schema, len(sources))


def fill_from(rows: pa.RecordBatch, lacks: BoolMatrix, others: pa.RecordBatch) -> pa.RecordBatch:
    """`rows` with the values that they lack taken from `others`, row by row."""
    count = rows.num_rows
    columns: Sequence[pa.Array] = [
        column if not lacks[:, place].any() else _chosen(lacks[:, place], others.column(place), column)
        for place, column in enumerate(rows.columns)
    ]
    return batch_of(list(columns), rows.schema, count)


def merge_rows(
    stored: pa.RecordBatch,
    rows: pa.RecordBatch,
    lacks: BoolMatrix,
    is_newer: npt.NDArray[np.bool_],
    mode: RecordMergeMode,
) -> pa.RecordBatch:
    """`rows` with the values that they lack taken from `stored`; where a stored row `is_newer`, that row.

    A newer stored row keeps all its columns, unless the update mode fills some of them.
    """
    replacing = fill_from(rows, lacks, stored)
    stored_lacks = lacking_columns(stored, mode)
    staying = stored if stored_lacks is None else fill_from(stored, stored_lacks & ~lacks, rows)
    return fill_from(replacing, np.repeat(is_newer[:, np.newaxis], rows.num_columns, axis=1), staying)


def fills_rows(mode: RecordMergeMode) -> bool:
    """True if several incoming rows of one key take values from each other."""
    return mode.partial_update_mode is not None and mode.fills_incoming


def fill_groups(rows: pa.Table, starts: npt.NDArray[np.bool_], mode: RecordMergeMode) -> pa.Table:
    """The first row of each group, which takes the values that it lacks from the next row that has them.

    `starts` marks the first rows of the groups.
    """
    first = np.flatnonzero(starts)
    batch = pa.concat_batches(rows.to_batches())
    lacks = lacking_columns(batch, mode)
    assert lacks is not None
    places = np.where(lacks, rows.num_rows, np.arange(rows.num_rows)[:, np.newaxis])
    nearest = np.minimum.reduceat(places, first, axis=0)
    sources = np.where(nearest == rows.num_rows, first[:, np.newaxis], nearest)
    return pa.Table.from_batches([take_columns(batch, sources)])


def _chosen(mask: npt.NDArray[np.bool_], filled: pa.Array, own: pa.Array) -> pa.Array:
    # `if_else` does not support nested types.
    places = np.arange(len(own)) + np.where(mask, len(own), 0)
    return pa.chunked_array([own, filled], own.type).combine_chunks().take(pa.array(places))
