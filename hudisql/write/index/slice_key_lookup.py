"""Look record keys up in one file slice: the footer first, then the key column.

Follows `HoodieBloomIndex` and `HoodieKeyLookupHandle` of Hudi 0.15: the footer's key range and bloom filter
may exclude a file, then an exact look-up decides. Log files are searched, too, since other writers' indexes
put new rows there. Works on whole columns inside one task; knows no Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudisql.errors import CorruptTableError
from hudisql.format.keys.bloom_filter import parse_bloom_filter
from hudisql.format.keys.key_table import KeyTable
from hudisql.format.schema import meta_columns
from hudisql.read.merge.merge_mode import LogMergeConfig
from hudisql.read.slice.slice_reader import SliceRead, read_file_slice
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice


@dataclass(frozen=True, slots=True)
class SliceLookup:
    """A slice to search. `columns` are further columns of the table to return with the found keys."""

    file_slice: FileSlice
    partition_values: Mapping[str, object] = field(default_factory=dict)
    columns: pa.Schema = field(default_factory=lambda: pa.schema([]))
    log_merge_config: LogMergeConfig | None = None


def base_file_lookup(file_slice: FileSlice) -> SliceLookup:
    """The search for keys that the slice's base file has, deleted by log files or not."""
    return SliceLookup(replace(file_slice, external_file=None, log_files=()))


@dataclass(frozen=True, slots=True)
class KeyFooterValues:
    """The record keys in a base file's footer; missing parts are None."""

    min_key: str | None
    max_key: str | None
    bloom_filter: str | None


def find_keys(
    storage: Storage, lookup: SliceLookup, keys: pa.StringArray, *, prunes_by_footer: bool
) -> Iterator[pa.RecordBatch]:
    """Those of `keys` (distinct) that are in the slice, each once, with `lookup.columns`.

    With `prunes_by_footer` the base file is read only if its footer does not exclude all keys. Raises
    UnsupportedTableError, SourceChangedError, CorruptTableError, StorageError.
    """
    file_slice = lookup.file_slice
    wanted = keys
    if prunes_by_footer and file_slice.base_file is not None:
        candidates = possible_keys(read_key_footer(storage, file_slice.base_file.path), keys)
        if not file_slice.has_log_files:
            wanted = candidates
        elif not len(candidates):
            # No key is in the base file, so only the log files can have it.
            lookup = replace(lookup, file_slice=replace(file_slice, base_file=None, external_file=None))
    if not len(wanted):
        return
    known = KeyTable(wanted)
    seen = np.zeros(len(wanted), np.bool_)
    for batch in _read(storage, lookup):
        found = known.find(batch.column(0))
        rows = np.flatnonzero(found >= 0)
        numbers, first = np.unique(found[rows], return_index=True)
        rows = rows[first[~seen[numbers]]]
        seen[numbers] = True
        if len(rows):
            yield batch.take(pa.array(rows))


def read_keys(storage: Storage, lookup: SliceLookup) -> Iterator[pa.RecordBatch]:
    """All record keys of the slice, each once, with `lookup.columns`.

    Memory: the slice's keys. Raises UnsupportedTableError, SourceChangedError, CorruptTableError,
    StorageError.
    """
    batches = list(_read(storage, lookup))
    if not batches:
        return
    rows = pa.Table.from_batches(batches).combine_chunks()
    encoded = rows.column(0).combine_chunks().dictionary_encode()
    if len(encoded.dictionary) < len(encoded):
        _, first = np.unique(encoded.indices.to_numpy(), return_index=True)
        rows = rows.take(pa.array(first))
    yield from rows.to_batches()


def _read(storage: Storage, lookup: SliceLookup) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([meta_columns.META_SCHEMA.field(meta_columns.RECORD_KEY), *lookup.columns])
    values = {name: lookup.partition_values[name] for name in schema.names if name in lookup.partition_values}
    return read_file_slice(
        storage, SliceRead(lookup.file_slice, schema, values, log_merge_config=lookup.log_merge_config)
    )


def read_key_footer(storage: Storage, path: str) -> KeyFooterValues:
    """Read the record keys in the base file's footer. Raises CorruptTableError, StorageError."""
    try:
        with storage.open_input(path) as stream:
            found = pq.read_metadata(stream).metadata or {}
    except pa.ArrowException as error:
        raise CorruptTableError(f"cannot read {path}: {error}") from error
    texts = [
        found.get(key.encode())
        for key in (
            meta_columns.FOOTER_MIN_RECORD_KEY,
            meta_columns.FOOTER_MAX_RECORD_KEY,
            meta_columns.FOOTER_BLOOM_FILTER,
        )
    ]
    is_known = (
        found.get(meta_columns.FOOTER_BLOOM_FILTER_TYPE.encode()) == meta_columns.BLOOM_FILTER_TYPE.encode()
    )
    min_key, max_key, bloom_filter = (None if text is None else text.decode() for text in texts)
    return KeyFooterValues(min_key, max_key, bloom_filter if is_known else None)


def possible_keys(footer: KeyFooterValues, keys: pa.StringArray) -> pa.StringArray:
    """Those of `keys` that the footer does not exclude."""
    if footer.min_key is not None and footer.max_key is not None and _is_same_order(footer, keys):
        inside = pc.and_(pc.greater_equal(keys, footer.min_key), pc.less_equal(keys, footer.max_key))
        keys = keys.filter(inside)
    if footer.bloom_filter is not None and len(keys):
        keys = keys.filter(pa.array(parse_bloom_filter(footer.bloom_filter).might_contain(keys)))
    return keys


def _is_same_order(footer: KeyFooterValues, keys: pa.StringArray) -> bool:
    """True if Java, whose strings are UTF-16, orders these texts as their UTF-8 bytes are ordered.

    The orders differ between characters beyond U+FFFF and those of U+E000 to U+FFFF.
    """
    text = f"{footer.min_key}{footer.max_key}".encode()
    data = [np.frombuffer(text, np.uint8)]
    buffer = keys.buffers()[2]
    if buffer is not None:
        data.append(np.frombuffer(buffer, np.uint8))
    return not (_has(data, 0xF0, 0xFF) and _has(data, 0xEE, 0xEF))


def _has(parts: list[npt.NDArray[np.uint8]], low: int, high: int) -> bool:
    return any(bool(((part >= low) & (part <= high)).any()) for part in parts)
