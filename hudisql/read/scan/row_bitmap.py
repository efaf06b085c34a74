"""Rows of many files as one bitmap that Spark's scan looks up by columns of `_metadata` alone.

A file is identified by its length, a constant column in Spark's scan. The length modulo a divisor, which is
chosen so that all remainders differ, is the file's index in an array of first words. No string is hashed and
nothing is joined. Knows neither tables nor log files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.spark.few_rows import local_frame

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

MOST_WORDS: Final = 1 << 20
"""The most words (64 rows each) of a bitmap: each task gets all of them, 8 MB."""
_MOST_REMAINDERS: Final = 1 << 18
_WORD_BITS: Final = 6
_LONGS, _INTS = pa.field("words", pa.list_(pa.int64())), pa.field("first_words", pa.list_(pa.int32()))


@dataclass(frozen=True, slots=True)
class FileRows:
    """Rows of a file of `length` bytes and `row_count` rows, by their positions."""

    length: int
    row_count: int
    positions: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RowBitmap:
    """Row r of a file is bit `r & 63` of `words[first_words[length % len(first_words)] + (r >> 6)]`."""

    words: npt.NDArray[np.int64]
    first_words: npt.NDArray[np.int32]

    def has_row(self, spark: SparkSession, metadata: Column) -> Column:
        """True for rows of the bitmap; `metadata` is the `_metadata` column of a scan of its files."""
        from pyspark.sql import functions
        from pyspark.sql.types import ArrayType, IntegerType, LongType, StructField, StructType

        rows = pa.table([[self.words], [self.first_words]], pa.schema([_LONGS, _INTS]))
        kinds = {_LONGS.name: LongType(), _INTS.name: IntegerType()}
        schema = StructType([StructField(name, ArrayType(kind, False)) for name, kind in kinds.items()])
        held = local_frame(spark, rows, schema)
        words, first_words = (held.select(name).scalar() for name in kinds)
        remainder = (metadata["file_size"] % len(self.first_words)).cast("int")
        position = metadata["row_index"]
        in_file = functions.shiftright(position, _WORD_BITS).cast("int")
        word = functions.get(words, functions.get(first_words, remainder) + in_file)
        bit = functions.getbit(word, position.bitwiseAND(functions.lit(63)).cast("int"))
        return functions.coalesce(bit, functions.lit(0)) == 1


def row_bitmap_of(files: Sequence[FileRows]) -> RowBitmap | None:
    """The files' rows; None if files are too many, too long, or have the same length."""
    divisor = _perfect_divisor(np.array([file.length for file in files], np.int64))
    counts = np.array([(file.row_count + 63) >> _WORD_BITS for file in files], np.int64)
    if divisor is None or counts.sum() > MOST_WORDS:
        return None
    words = np.zeros(int(counts.sum()) + 1, np.uint64)
    first_words = np.zeros(divisor, np.int32)
    for each, first in zip(files, np.cumsum(counts) - counts, strict=True):
        first_words[each.length % divisor] = first
        bits = np.uint64(1) << (each.positions & 63).astype(np.uint64)
        np.bitwise_or.at(words, first + (each.positions >> _WORD_BITS), bits)
    return RowBitmap(words.view(np.int64), first_words)


def _perfect_divisor(lengths: npt.NDArray[np.int64]) -> int | None:
    """A small divisor by which all lengths have different remainders."""
    if len(np.unique(lengths)) < len(lengths):
        return None
    divisor = max(1, len(lengths))
    while divisor <= _MOST_REMAINDERS:
        if len(np.unique(lengths % divisor)) == len(lengths):
            return divisor
        divisor += max(1, divisor >> 6)
    return None
