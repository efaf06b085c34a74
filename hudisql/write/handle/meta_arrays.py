"""The meta columns of rows that are being written, as Arrow columns.

Skeletons and base files carry the same five columns: constants as dictionaries, which parquet stores
directly, and sequence numbers. Knows no files.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from hudisql.format.schema import meta_columns
from hudisql.write.keygen.sequence_numbers import sequence_numbers

CONSTANT_COLUMNS: Final = (meta_columns.COMMIT_TIME, meta_columns.PARTITION_PATH, meta_columns.FILE_NAME)
"""The meta columns that have one value in all rows that a commit newly writes into a file."""
UNIQUE_COLUMNS: Final = (meta_columns.COMMIT_SEQNO, meta_columns.RECORD_KEY)
_DICTIONARY: Final = pa.dictionary(pa.int32(), pa.string())
META_ARRAY_SCHEMA: Final = pa.schema(
    [
        pa.field(name, _DICTIONARY if name in CONSTANT_COLUMNS else pa.string())
        for name in meta_columns.META_COLUMNS
    ]
)
"""The types of the meta columns for the parquet writer."""


def constant_text(value: str, rows: int) -> pa.DictionaryArray:
    """A text column that holds one value in every row."""
    return pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int32), pa.array([value]))


def meta_arrays_of_new_rows(
    keys: pa.StringArray,
    *,
    instant_time: str,
    partition_path: str,
    file_name: str,
    task: int,
    first_row: int,
) -> list[pa.Array]:
    """The five columns, in order, of rows with these keys; `first_row` numbers them on within the task."""
    rows = len(keys)
    return [
        constant_text(instant_time, rows),
        sequence_numbers(instant_time, task, first_row, rows),
        keys,
        constant_text(partition_path, rows),
        constant_text(file_name, rows),
    ]


def meta_arrays_of_kept_rows(rows: pa.Table, file_name: str) -> list[pa.Array]:
    """The five columns, in order, of stored rows that move to another file with their meta columns."""
    arrays = []
    for field in META_ARRAY_SCHEMA:
        if field.name == meta_columns.FILE_NAME:
            arrays.append(constant_text(file_name, rows.num_rows))
            continue
        kept = rows.column(field.name).combine_chunks()
        if not pa.types.is_dictionary(field.type):
            kept = kept.cast(pa.string())
        elif not pa.types.is_dictionary(kept.type):
            kept = kept.cast(pa.string()).dictionary_encode()
        arrays.append(kept)
    return arrays
