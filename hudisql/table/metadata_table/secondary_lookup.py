"""Look the values of a column up in a secondary index of a metadata table: the record keys of their rows.

Follows `HoodieBackedTableMetadata.readSecondaryIndexDataTableRecordKeysWithKeys` of Hudi 1.2. Of base files
only the blocks that may hold the values are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from hudisql.errors import CorruptTableError
from hudisql.format.hfile.hfile_cells import cells_with_prefixes
from hudisql.format.metadata_table.secondary_keys import record_keys_of, value_parts
from hudisql.storage.parallel_reads import read_many
from hudisql.table.file_slice import FileSlice
from hudisql.table.metadata_table.metadata_table import MetadataTable
from hudisql.table.metadata_table.secondary_indexes import SecondaryIndex

_MOST_BLOCK_BYTES: Final = 4 << 20
"""Of a base file or log block; of values that fill more, the rows are mostly in all file groups."""
_MOST_LOG_BYTES: Final = 32 << 20
"""Of the log files of a file group, which are read whole."""
_MOST_GROUPS: Final = 32


def keys_with_values(
    metadata: MetadataTable, index: SecondaryIndex, texts: pa.Array, most: int
) -> pa.Array | None:
    """The record keys, each once, of all rows whose column has one of the values with these texts.

    There may be keys of other rows: deletes in the log files of the index are not looked at. None if there
    are more than `most`, or too much of the index would be read. Raises CorruptTableError,
    UnsupportedTableError, StorageError.
    """
    parts = value_parts(texts)
    slices = _slices_with(metadata, index, parts)
    log_bytes = [file_slice.log_length for file_slice in slices]
    if len(slices) > _MOST_GROUPS or max(log_bytes, default=0) > _MOST_LOG_BYTES:
        return None
    found = read_many(lambda file_slice: _keys_in(metadata, file_slice, parts.to_pylist(), most), slices)
    known = [keys for keys in found if keys is not None]
    if len(known) < len(found):
        return None
    keys = pa.concat_arrays([pa.array([], pa.large_string()), *known]).unique()
    return keys if len(keys) <= most else None


def _keys_in(
    metadata: MetadataTable, file_slice: FileSlice, parts: Sequence[str], most: int
) -> pa.Array | None:
    """The record keys in one file group of the index; None if there are more than `most`."""
    found = pa.array([], pa.large_string())
    for _, layer in metadata.open_layers(file_slice):
        if isinstance(layer, pa.Array):
            continue
        cells = cells_with_prefixes(layer, parts, _MOST_BLOCK_BYTES)
        if cells is None:
            return None
        found = pa.concat_arrays([found, record_keys_of(cells.keys)]).unique()
        if len(found) > most:
            return None
    return found


def _slices_with(metadata: MetadataTable, index: SecondaryIndex, parts: pa.Array) -> list[FileSlice]:
    """The file groups of the index that may hold the values; all of them where the whole key tells it."""
    slices = metadata.latest_slices(index.name)
    numbers = [file_slice.file_id.split("-")[-2:] for file_slice in slices]
    if not slices or numbers != [[f"{number:04d}", "0"] for number in range(len(slices))]:
        raise CorruptTableError(
            f"the index {index.name} of {metadata.table.base_path} lacks file groups",
            hint="DROP INDEX and CREATE INDEX make it again",
        )
    if not index.is_grouped_by_value:
        return slices
    return [slices[number] for number in np.unique(index.file_groups_of(parts, len(slices))).tolist()]
