"""Rows as sums of hashes: two readings have the same rows as multisets if and, but for chance, only if their
sums are equal.

Sums take no memory for the rows, need no order, and add up over batches and files. Those of single columns
name the column that differs. Whole Arrow columns, no files.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.keys.key_hashes import murmur_hash64

Hashes = npt.NDArray[np.uint64]
_NULL: Final = np.uint64(0x9E3779B97F4A7C15)
_STEP: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)


@dataclass(frozen=True)
class RowSums:
    """The number of rows, and the sums: one for each column, then two of whole rows."""

    rows: int
    sums: Hashes

    def __add__(self, other: RowSums) -> RowSums:
        return RowSums(self.rows + other.rows, self.sums + other.sums)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, RowSums) and self.rows == other.rows and bool((self.sums == other.sums).all())
        )

    __hash__ = None  # type: ignore[assignment]

    def first_difference(self, other: RowSums, names: list[str]) -> str:
        """What differs first, in words; the two are not equal, `names` are those of the columns."""
        if self.rows != other.rows:
            return f"{self.rows:,} rows, the Hudi table has {other.rows:,}"
        differing = [name for name, one, two in zip(names, self.sums, other.sums, strict=False) if one != two]
        if differing:
            return f"column {differing[0]} has other values in the {self.rows:,} rows"
        return f"the {self.rows:,} rows have the values of each column, but not together"


def no_rows(columns: int) -> RowSums:
    """The sums of no rows with so many columns."""
    return RowSums(0, np.zeros(columns + 2, np.uint64))


def sum_rows(batches: Iterable[pa.RecordBatch], columns: int) -> RowSums:
    """The sums of all rows of the batches, which have so many columns of the same types."""
    total = no_rows(columns)
    for batch in batches:
        total += RowSums(batch.num_rows, _hashes(batch).sum(axis=1, dtype=np.uint64))
    return total


def sum_rows_by(batch: pa.RecordBatch, keys: list[str]) -> dict[int, RowSums]:
    """The sums of the rows of a batch by the `group_number` of their values in the key columns."""
    hashes = _hashes(batch)
    numbers = _group_numbers(batch, keys)
    order = np.argsort(numbers, kind="stable")
    groups, starts, counts = np.unique(numbers[order], return_index=True, return_counts=True)
    if not len(groups):
        return {}
    sums = np.add.reduceat(hashes[:, order], starts, axis=1, dtype=np.uint64)
    return {
        int(group): RowSums(int(count), sums[:, place])
        for place, (group, count) in enumerate(zip(groups, counts, strict=True))
    }


def group_number(values: Iterable[object], schema: pa.Schema) -> int:
    """The number of the group of rows with these values; `schema` has the key columns in their order."""
    arrays = [pa.array([value], field.type) for value, field in zip(values, schema, strict=True)]
    return int(_combined([hash_column(array) for array in arrays], 1)[0])


def _group_numbers(batch: pa.RecordBatch, keys: list[str]) -> Hashes:
    return _combined([hash_column(batch.column(name)) for name in keys], batch.num_rows)


def _hashes(batch: pa.RecordBatch) -> Hashes:
    """A row of hashes for each column, then two of the whole rows."""
    columns = [hash_column(column) for column in batch.columns]
    rows = _combined(columns, batch.num_rows)
    return np.stack([*columns, rows, _mixed(rows ^ _SECOND)])


def _combined(columns: list[Hashes], rows: int) -> Hashes:
    combined = np.zeros(rows, np.uint64)
    for column in columns:
        combined = _mixed(combined * _STEP + column)
    return combined


def hash_column(array: pa.Array) -> Hashes:
    """A hash of each value; nulls and NaNs are equal to each other.

    Raises NotImplementedError for types that Hudi tables do not have.
    """
    hashes = _hash_values(array)
    if array.null_count:
        hashes = np.where(array.is_null().to_numpy(zero_copy_only=False), _NULL, hashes)
    return hashes


def _hash_values(array: pa.Array) -> Hashes:
    kind = array.type
    if pa.types.is_struct(kind):
        children = [hash_column(pc.struct_field(array, place)) for place in range(kind.num_fields)]
        return _combined(children, len(array))
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        return _hash_lists(array)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _mixed(murmur_hash64(array if pa.types.is_string(kind) else array.view(pa.string())))
    if pa.types.is_fixed_size_binary(kind):
        return _mixed(murmur_hash64(pc.cast(array, pa.binary()).view(pa.string())))
    if pa.types.is_decimal(kind):
        return _mixed(murmur_hash64(pc.cast(array, pa.string())))
    return _mixed(_numbers(array))


def _numbers(array: pa.Array) -> Hashes:
    kind = array.type
    if pa.types.is_boolean(kind):
        array = pc.cast(array, pa.int64())
    elif pa.types.is_date32(kind):
        array = pc.cast(array.view(pa.int32()), pa.int64())
    elif pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        array = array.view(pa.int64())
    elif pa.types.is_floating(kind):
        values = _filled(pc.cast(array, pa.float64()))
        return np.where(np.isnan(values), np.nan, values).view(np.uint64)
    elif pa.types.is_integer(kind):
        array = pc.cast(array, pa.int64())
    else:
        raise NotImplementedError(f"hashes of the type {kind}")
    numbers: Hashes = _filled(array).view(np.uint64)
    return numbers


def _filled(array: pa.Array) -> npt.NDArray[Any]:
    """The values, 0 for nulls."""
    return np.ascontiguousarray(pc.fill_null(array, 0).to_numpy(zero_copy_only=False))


def _hash_lists(array: pa.Array) -> Hashes:
    """A hash of the elements with their places, by differences of running sums."""
    offsets = array.offsets.to_numpy().astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    parts = [array.keys, array.items] if pa.types.is_map(array.type) else [array.values]
    elements = _combined([hash_column(part.slice(first, last - first)) for part in parts], last - first)
    lengths = np.diff(offsets)
    places = np.arange(last - first, dtype=np.int64) - np.repeat(offsets[:-1] - first, lengths)
    placed = _mixed(elements + places.astype(np.uint64) * _STEP)
    running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(placed, dtype=np.uint64)])
    sums = running[offsets[1:] - first] - running[offsets[:-1] - first]
    return _mixed(sums + lengths.astype(np.uint64) * _SECOND)


def _mixed(values: Hashes) -> Hashes:
    """The finalizer of SplitMix64: each bit of the result depends on all bits."""
    values = (values ^ (values >> np.uint64(30))) * _STEP
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))
