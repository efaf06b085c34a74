"""Compare rows as multisets: the number of equal rows counts. Whole Arrow columns, no files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.read.changes.json_text import render_json

RowNumbers = npt.NDArray[np.int64]
"""A number for each row; equal rows have equal numbers."""


def equal_row_numbers(tables: Sequence[pa.Table]) -> list[RowNumbers]:
    """A number for each row of tables with the same columns: equal rows have equal numbers, nulls are equal.

    Nested values are compared by their JSON texts.
    """
    codes = np.zeros(sum(table.num_rows for table in tables), np.int64)
    for columns in zip(*(table.columns for table in tables), strict=True):
        chunks = [chunk for column in columns for chunk in column.chunks]
        if pa.types.is_nested(columns[0].type):
            chunks = [render_json(chunk) for chunk in chunks]
        kind = chunks[0].type if chunks else columns[0].type
        column = pa.chunked_array(chunks, kind).combine_chunks().dictionary_encode("encode")
        codes = codes * max(len(column.dictionary), 1) + column.indices.to_numpy()
        codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
    return np.split(codes, np.cumsum([table.num_rows for table in tables])[:-1])


def missing_rows(before: RowNumbers, after: RowNumbers) -> npt.NDArray[np.bool_]:
    """True for the rows of `before` that are missing in `after`; of equal rows the last ones."""
    counts = np.bincount(after, minlength=_size(before))
    missing: npt.NDArray[np.bool_] = _occurrences(before) >= counts[before]
    return missing


def partly_missing_rows(before: RowNumbers, after: RowNumbers) -> tuple[npt.NDArray[np.bool_], ...]:
    """True for the rows of `before` and of `after` whose number is partly missing in `after`."""
    size = max(_size(before), _size(after))
    counts_before, counts_after = (np.bincount(each, minlength=size) for each in (before, after))
    is_partly = (counts_after > 0) & (counts_after < counts_before)
    return is_partly[before], is_partly[after]


def pair_rows(one: RowNumbers, other: RowNumbers) -> tuple[RowNumbers, RowNumbers]:
    """The positions of rows with equal numbers: the first of one with the first of the other, and so on."""
    size = max(_size(one), _size(other), 1)
    places, other_places = (_occurrences(each) * size + each for each in (one, other))
    _, at_one, at_other = np.intersect1d(places, other_places, assume_unique=True, return_indices=True)
    order = np.argsort(at_other)
    return at_one[order], at_other[order]


def _size(numbers: RowNumbers) -> int:
    return int(numbers.max()) + 1 if len(numbers) else 0


def _occurrences(numbers: RowNumbers) -> RowNumbers:
    """For each row the count of earlier rows with its number."""
    order = np.argsort(numbers, kind="stable")
    starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    lengths = np.diff(starts, append=len(numbers))
    occurrences = np.empty(len(numbers), np.int64)
    occurrences[order] = np.arange(len(numbers)) - np.repeat(starts, lengths)
    return occurrences
