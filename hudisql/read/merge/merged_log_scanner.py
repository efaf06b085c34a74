"""Merge the log files of one slice: for each record key its latest row, or a delete.

Follows `HoodieMergedLogRecordScanner` of Hudi 0.15, for tables of versions 8 and 9
`KeyBasedFileGroupRecordBuffer` of Hudi 1.2. Memory: the records of a slice's logs, decoded to the requested
columns, and of the files' bytes one block plus `KEPT_BYTES`. Knows neither base files nor Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import CorruptTableError, UnsupportedTableError
from hudisql.format.avro.avro_program import program_of
from hudisql.format.log_file.log_block import BlockType, HeaderKey, LogBlock
from hudisql.format.log_file.log_block_content import (
    NATURAL_ORDER,
    DeleteRecords,
    decode_data_block,
    decode_delete_records,
)
from hudisql.format.schema.meta_columns import IS_DELETED, META_SCHEMA, OPERATION, RECORD_KEY
from hudisql.read.files.conform import batch_of, conform_array, find_field
from hudisql.read.files.parquet_rows import ParquetRows
from hudisql.read.files.promote import promote_batch
from hudisql.read.merge.merge_mode import DEFAULT_MERGE_MODE, LogMergeConfig, RecordMergeMode
from hudisql.read.merge.partial_update import BoolMatrix, columns_outside, lacking_columns, take_columns
from hudisql.read.merge.precombine import comparable
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice
from hudisql.table.slicing.committed_blocks import committed_blocks

_DELETE_OPERATION = "D"
# Hudi's wrapper of a delete's ordering value for each type. Values compare only if they have the same Java
# class, where Avro gives dates as integers and timestamps as longs; other deletes always win.
_COMPARABLE_WRAPPERS: Mapping[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.date32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
}


@dataclass(frozen=True, slots=True)
class LogRecords:
    """The merged records of a slice's logs.

    `rows` are the latest rows; `row_of_key` gives for each of `keys` its row, or -1 if a delete block holds.
    `is_delete` marks rows that stand for a delete. `ordering_values` has each key's values of the ordering
    fields; `may_yield` marks keys whose records lose against a base row with higher values. `lacks` marks the
    values (rows × columns) that come from the base row; None if all rows are complete.
    """

    keys: pa.Array
    row_of_key: npt.NDArray[np.int64]
    rows: pa.RecordBatch
    is_delete: npt.NDArray[np.bool_]
    ordering_values: tuple[pa.Array, ...]
    may_yield: npt.NDArray[np.bool_]
    lacks: BoolMatrix | None = None


@dataclass(slots=True)
class _Events:
    """One block's records, in its order."""

    keys: pa.Array
    ordering_values: tuple[pa.Array, ...]
    rows: pa.RecordBatch | None = None
    is_delete: npt.NDArray[np.bool_] | None = None
    always: npt.NDArray[np.bool_] | None = None
    lacks: BoolMatrix | None = None


def read_log_records(
    storage: Storage, file_slice: FileSlice, config: LogMergeConfig, schema: pa.Schema
) -> LogRecords:
    """The records of the slice's log files, their rows conformed to `schema` (which has the record key).

    As in the base file the slice's `columns` find columns in blocks of older schemas, and its `computed_meta`
    gives the meta columns of rows without them.

    Raises UnsupportedTableError for unknown blocks, CorruptTableError naming a file whose complete blocks
    cannot be decoded, StorageError.
    """
    from hudisql.read.merge import log_kernels

    mode = config.merge_mode
    events = [
        _events_of(storage, file_slice, log_file.path, block, mode, schema)
        for log_file, block in committed_blocks(storage, file_slice.log_files, config.instant_range.includes)
    ]
    if not events:
        none = np.empty(0, np.int64)
        no_keys = none.astype(np.bool_)
        return LogRecords(pa.array([], pa.string()), none, _no_rows(schema), no_keys, (), no_keys)
    kinds, row_numbers = [], []
    rows_so_far = 0
    for event in events:
        count = len(event.keys)
        if event.rows is not None:
            kinds.append(np.full(count, log_kernels.DATA, np.int64))
            row_numbers.append(np.arange(rows_so_far, rows_so_far + count))
            rows_so_far += count
        else:
            assert event.always is not None
            kinds.append(np.where(event.always, log_kernels.DELETE, log_kernels.ORDERED_DELETE))
            row_numbers.append(np.full(count, -1, np.int64))
    encoded = (
        pa.chunked_array([event.keys for event in events], pa.string()).combine_chunks().dictionary_encode()
    )
    kind_of = np.concatenate(kinds)
    key_numbers = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    ranks = _ranks(events, mode)
    if mode.keeps_equal_rows:
        # Of equal values the earlier row has the higher rank; deletes still hold over rows of their value.
        later = np.where(kind_of == log_kernels.DATA, np.arange(len(ranks)), 0)
        ranks = ranks * (len(ranks) + 1) - later
    sources = base_lacks = None
    has_parts = any(event.lacks is not None for event in events)
    if has_parts and mode.fills_log_records:
        latest, sources = log_kernels.latest_columns(
            key_numbers,
            kind_of,
            ranks,
            _deletes_of(events),
            _lacks_of(events, len(schema)),
            len(encoded.dictionary),
            mode.orders_deletes,
        )
    else:
        latest = log_kernels.latest_events(
            key_numbers, kind_of, ranks, len(encoded.dictionary), mode.orders_deletes
        )
        if has_parts:
            base_lacks = _lacks_of(events, len(schema))[latest]
    may_yield = kind_of[latest] == log_kernels.DATA
    if mode.orders_deletes:
        may_yield |= kind_of[latest] == log_kernels.ORDERED_DELETE
    ordering_values = tuple(each.take(pa.array(latest)) for each in _ordering_of(events, mode))
    numbers = np.concatenate(row_numbers)
    return _chosen(
        encoded.dictionary,
        numbers[latest],
        None if sources is None else np.where(sources >= 0, numbers[sources], -1),
        base_lacks,
        events,
        schema,
        ordering_values,
        may_yield,
    )


def _chosen(
    keys: pa.Array,
    row_numbers: npt.NDArray[np.int64],
    sources: npt.NDArray[np.int64] | None,
    base_lacks: BoolMatrix | None,
    events: Sequence[_Events],
    schema: pa.Schema,
    ordering_values: tuple[pa.Array, ...],
    may_yield: npt.NDArray[np.bool_],
) -> LogRecords:
    """The records of the chosen rows; `sources` has the row of each of their values, -1 for the base row.

    Without `sources` values come from the chosen rows, those that `base_lacks` marks from the base row.
    """
    held = row_numbers >= 0
    row_of_key = np.full(len(keys), -1, np.int64)
    row_of_key[held] = np.arange(np.count_nonzero(held))
    chosen = row_numbers[held]
    batches = [event.rows for event in events if event.rows is not None] or [_no_rows(schema)]
    deletes = [event.is_delete for event in events if event.is_delete is not None]
    is_delete = np.concatenate(deletes)[chosen] if deletes else np.zeros(0, np.bool_)
    all_rows, lacks = pa.concat_batches(batches), None
    if sources is None:
        lacks = None if base_lacks is None else base_lacks[held]
        rows = all_rows.take(pa.array(chosen))
    else:
        lacks = sources[held] < 0
        rows = take_columns(all_rows, np.where(lacks, chosen[:, np.newaxis], sources[held]))
    return LogRecords(keys, row_of_key, rows, is_delete, ordering_values, may_yield, lacks)


def _deletes_of(events: Sequence[_Events]) -> npt.NDArray[np.bool_]:
    return np.concatenate(
        [
            np.ones(len(event.keys), np.bool_) if event.is_delete is None else event.is_delete
            for event in events
        ]
    )


def _lacks_of(events: Sequence[_Events], columns: int) -> BoolMatrix:
    return np.concatenate(
        [
            np.zeros((len(event.keys), columns), np.bool_) if event.lacks is None else event.lacks
            for event in events
        ]
    )


def _events_of(
    storage: Storage,
    file_slice: FileSlice,
    path: str,
    block: LogBlock,
    mode: RecordMergeMode,
    schema: pa.Schema,
) -> _Events:
    try:
        stored = _in_block(schema, file_slice, block)
        computed_meta = file_slice.computed_meta
        key_columns = pa.schema([]) if computed_meta is None else computed_meta.key_columns
        stored_keys = _in_block(key_columns, file_slice, block)
        match block.block_type:
            case BlockType.DELETE:
                return _delete_events(decode_delete_records(block.content), mode)
            case BlockType.AVRO_DATA:
                batch = _avro_rows(block, _names_wanted(mode, stored, stored_keys))
            case BlockType.PARQUET_DATA:
                batch = _parquet_rows(storage, path, block, mode, stored, stored_keys)
            case other:
                raise UnsupportedTableError(f"it has a block of the type {other.name}, which is not read")
        if computed_meta is not None:
            keys = _conformed(batch, stored_keys, key_columns)
            meta = computed_meta.complete(keys, META_SCHEMA, file_slice.partition_path, file_slice.file_id)
            batch = _with_columns(batch, meta)
        return _row_events(batch, mode, schema, stored, is_partial=block.is_partial)
    except (CorruptTableError, UnsupportedTableError) as error:
        raise type(error)(f"cannot read the log file {path}: {error.message}", hint=error.hint) from error
    except pa.ArrowException as error:
        raise CorruptTableError(f"cannot read the log file {path}: {error}") from error


def _in_block(schema: pa.Schema, file_slice: FileSlice, block: LogBlock) -> pa.Schema:
    """The columns with the names and types that they have in the block."""
    columns = file_slice.columns
    return schema if columns is None else columns.in_file(schema, block.instant_time)


def _with_columns(batch: pa.RecordBatch, columns: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with these columns, in place of its own of their names."""
    others = [field for field in batch.schema if field.name not in columns.schema.names]
    arrays = [*columns.columns, *(batch.column(field.name) for field in others)]
    return batch_of(arrays, pa.schema([*columns.schema, *others]), batch.num_rows)


def _names_wanted(mode: RecordMergeMode, *schemas: pa.Schema) -> frozenset[str]:
    names = [*(name for schema in schemas for name in schema.names), RECORD_KEY, IS_DELETED, OPERATION]
    names += [ordering_field.name for ordering_field in mode.ordering_fields]
    if mode.delete_field:
        names.append(mode.delete_field)
    return frozenset(name.lower() for name in names)


def _avro_rows(block: LogBlock, wanted: frozenset[str]) -> pa.RecordBatch:
    text = block.header.get(HeaderKey.SCHEMA, "")
    names = {field.name for field in program_of(text).fields if field.name.lower() in wanted}
    return decode_data_block(block.content, text, names)


def _parquet_rows(
    storage: Storage, path: str, block: LogBlock, mode: RecordMergeMode, *schemas: pa.Schema
) -> pa.RecordBatch:
    content = pa.py_buffer(block.content)
    wanted = _names_wanted(mode, *schemas)
    with ParquetRows(storage, path, pa.schema([]), content=content) as file:
        physical = [field for field in file.physical_schema if field.name.lower() in wanted]
    fields = (*mode.ordering_fields, *(field for schema in schemas for field in schema))
    types = {field.name.lower(): field.type for field in fields}
    found = pa.schema([pa.field(each.name, types.get(each.name.lower(), each.type)) for each in physical])
    with ParquetRows(storage, path, found, content=content) as file:
        batches = list(file.read(file.choose_ranges(None, None)))
    return pa.concat_batches(batches) if batches else _no_rows(found)


def _row_events(
    batch: pa.RecordBatch, mode: RecordMergeMode, schema: pa.Schema, stored: pa.Schema, *, is_partial: bool
) -> _Events:
    rows = _conformed(batch, stored, schema)
    ordering = tuple(_column(batch, field) for field in mode.ordering_fields)
    keys = _column(batch, pa.field(RECORD_KEY, pa.string()))
    if keys.null_count:
        raise CorruptTableError(f"{keys.null_count} of {len(keys)} rows of a block have no record key")
    if is_partial:
        lacks: BoolMatrix | None = columns_outside(batch.schema, stored, batch.num_rows)
    else:
        lacks = lacking_columns(rows, mode)
    return _Events(keys, ordering, rows, deleted_rows(batch, mode), lacks=lacks)


def _conformed(batch: pa.RecordBatch, stored: pa.Schema, schema: pa.Schema) -> pa.RecordBatch:
    """The columns `stored` of the batch as those of `schema`."""
    found = batch_of([_column(batch, field) for field in stored], stored, batch.num_rows)
    return promote_batch(found, schema)


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    index = find_field(batch.schema, field.name)
    if index < 0:
        return pa.nulls(batch.num_rows, field.type)
    return conform_array(batch.column(index), field.type)


def deleted_rows(batch: pa.RecordBatch, mode: RecordMergeMode) -> npt.NDArray[np.bool_]:
    """True for rows that stand for deletes."""
    deleted: Any = np.zeros(batch.num_rows, np.bool_)
    if mode.delete_field:
        marks = _column(batch, pa.field(mode.delete_field, pa.string()))
        deleted |= _true_of(pc.equal(marks, pa.scalar(mode.delete_marker, pa.string())))
    elif (index := find_field(batch.schema, IS_DELETED)) >= 0 and pa.types.is_boolean(
        batch.column(index).type
    ):
        deleted |= _true_of(batch.column(index))
    operations = _column(batch, pa.field(OPERATION, pa.string()))
    return deleted | _true_of(pc.equal(operations, _DELETE_OPERATION))  # type: ignore[no-any-return]


def marked_deletes(rows: pa.Table, mode: RecordMergeMode) -> npt.NDArray[np.bool_]:
    """True for incoming rows that stand for deletes, by the table's mark or by `_hoodie_is_deleted`."""
    if not rows.num_rows:
        return np.zeros(0, np.bool_)
    batch = pa.concat_batches(rows.to_batches())
    return deleted_rows(batch, mode) | deleted_rows(batch, DEFAULT_MERGE_MODE)


def _delete_events(deletes: DeleteRecords, mode: RecordMergeMode) -> _Events:
    count = len(deletes.record_keys)
    fields = mode.ordering_fields
    if len(fields) != 1:
        # With several fields a delete has values for all of them, or the integer 0 for none.
        values = deletes.lists_of_values(len(fields)) if fields else None
        if values is None:
            none = tuple(pa.nulls(count, field.type) for field in fields)
            return _Events(deletes.record_keys, none, always=np.ones(count, np.bool_))
        found = [_values_of(value, field.type, mode) for value, field in zip(values, fields, strict=True)]
        always = np.any([is_always for _, is_always in found], axis=0)
        return _Events(deletes.record_keys, tuple(each for each, _ in found), always=always)
    ordering, always = _values_of(deletes.ordering_values, fields[0].type, mode)
    wrapped = deletes.ordering_values.column("int")
    always |= _true_of(pc.equal(wrapped, NATURAL_ORDER))
    return _Events(deletes.record_keys, (ordering,), always=always)


def _values_of(
    wrapped: pa.RecordBatch, ordering_type: pa.DataType, mode: RecordMergeMode
) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """The deletes' values of an ordering field, and a mask of those that do not compare with rows."""
    count = wrapped.num_rows
    wrapper = _COMPARABLE_WRAPPERS.get(pa.int64() if pa.types.is_timestamp(ordering_type) else ordering_type)
    if mode.orders_deletes and pa.types.is_string(ordering_type):
        wrapper = "string"
    if wrapper is None:
        return pa.nulls(count, ordering_type), np.ones(count, np.bool_)
    values = wrapped.column(wrapper)
    return values.cast(ordering_type), _true_of(pc.is_null(values))


def _ranks(events: Sequence[_Events], mode: RecordMergeMode) -> npt.NDArray[np.int64]:
    """A number for each event, in the order of the ordering values; nulls are lowest."""
    ranks = [_ranks_of(values) for values in _ordering_of(events, mode)]
    if not ranks:
        return np.zeros(sum(len(event.keys) for event in events), np.int64)
    if len(ranks) == 1:
        return ranks[0]
    _, places = np.unique(np.stack(ranks, axis=1), axis=0, return_inverse=True)
    return places.reshape(-1).astype(np.int64)


def _ranks_of(values: pa.Array) -> npt.NDArray[np.int64]:
    encoded = comparable(values).dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    rank_of = np.empty(len(order) + 1, np.int64)
    rank_of[order] = np.arange(len(order))
    rank_of[-1] = -1
    places = pc.fill_null(encoded.indices, len(order)).to_numpy(zero_copy_only=False)
    return np.asarray(rank_of[places])


def _ordering_of(events: Sequence[_Events], mode: RecordMergeMode) -> tuple[pa.Array, ...]:
    return tuple(
        pa.chunked_array([event.ordering_values[place] for event in events], field.type).combine_chunks()
        for place, field in enumerate(mode.ordering_fields)
    )


def _true_of(mask: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    return np.asarray(pc.fill_null(mask, False).to_numpy(zero_copy_only=False))


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return batch_of([pa.array([], field.type) for field in schema], schema, 0)
