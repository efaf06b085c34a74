"""The record keys of the rows that a filter on a column with a secondary index can match.

Follows `SecondaryIndexSupport` of Hudi 1.2: filters `column = …` and `column IN (…)`. Only copy-on-write
tables: of several indexes of a merge-on-read table the log writes of Hudi 1.2 change one alone. Only columns
whose values have one text: floating-point numbers have others since Java 19.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from hudisql.errors import CorruptTableError, NoSuchPathError, UnsupportedTableError
from hudisql.format.metadata_table.secondary_keys import texts_of_values
from hudisql.format.schema.column_path import type_of_path
from hudisql.read.files.predicates import Predicate, split_conjuncts, values_of
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.metadata_table import MetadataTable
from hudisql.table.metadata_table.secondary_indexes import SecondaryIndex, secondary_indexes
from hudisql.table.metadata_table.secondary_lookup import keys_with_values

_MOST_VALUES: Final = 1_000
_MOST_KEYS: Final = 10_000
"""More record keys are mostly in all file groups."""


@dataclass(frozen=True, slots=True)
class IndexedValues:
    """A secondary index, and the texts of the values of its column that rows may have."""

    index: SecondaryIndex
    texts: pa.Array


def indexed_values(table: HudiTable, predicate: Predicate) -> IndexedValues | None:
    """All values of an indexed column that rows may have for which the predicate is TRUE; None without any.

    Raises StorageError.
    """
    if table.is_merge_on_read:
        return None
    try:
        indexes = {index.column: index for index in secondary_indexes(table).values()}
    except CorruptTableError:
        return None
    for part in split_conjuncts(predicate) if indexes else ():
        column, values = values_of(part)
        index = indexes.get(column)
        if index is not None and len(values) <= _MOST_VALUES:
            texts = _texts(values, type_of_path(table.schema, index.column))
            if texts is not None:
                return IndexedValues(index, texts)
    return None


def keys_of_values(metadata: MetadataTable, values: IndexedValues) -> pa.Array | None:
    """The record keys of all rows with one of the values; None if there are too many to look up.

    None also if the index is gone meanwhile or cannot be read. Raises StorageError.
    """
    try:
        return keys_with_values(metadata, values.index, values.texts, _MOST_KEYS)
    except (CorruptTableError, NoSuchPathError, UnsupportedTableError):
        return None


def _texts(values: Collection[object], kind: pa.DataType | None) -> pa.Array | None:
    """The texts of the values; None if the column of this type cannot have them as they are."""
    if pa.types.is_floating(kind):
        return None
    try:
        return texts_of_values(pa.array(values, kind))
    except (pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, ValueError):
        return None
