"""Reads the rows of a published file as an Iceberg reader does.

Columns are found by field id or name mapping, values of partition columns come from the manifest, and the
rows of position deletes and deletion vectors are left out.

Follows the Iceberg spec, "Column Projection", "Name Mapping Serialization", "Position Delete Files" and
"Deletion Vectors". Works on what the Iceberg metadata says alone; dates of the old calendar stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudisql.iceberg.deletion_vectors import read_vector
from hudisql.iceberg.iceberg_schema import children
from hudisql.read.files.conform import batch_of, conform_array, constant_column
from hudisql.storage import Storage

_BATCH_ROWS: Final = 16 * 1024
_DataFile = Mapping[str, Any]


@dataclass(frozen=True)
class IcebergColumns:
    """The columns of an Iceberg table for a reader: their ids, the table's types, and the name mapping."""

    schema: pa.Schema
    ids: tuple[int, ...]
    name_mapping: str

    @cached_property
    def roots(self) -> Mapping[str, Mapping[str, Any]]:
        """The name mapping by the names of columns."""
        return _by_name(json.loads(self.name_mapping))


def iceberg_columns(document: Mapping[str, Any], schema: pa.Schema) -> IcebergColumns:
    """The columns of the metadata's current schema, which have these names and types in the Hudi table."""
    [current] = [
        known_schema
        for known_schema in document["schemas"]
        if known_schema["schema-id"] == document["current-schema-id"]
    ]
    ids = {field["name"]: field["id"] for field in current["fields"]}
    mapping = document["properties"]["schema.name-mapping.default"]
    return IcebergColumns(schema, tuple(ids.get(name, -1) for name in schema.names), mapping)


def read_published(
    storage: Storage, columns: IcebergColumns, data: Sequence[_DataFile], deletes: Sequence[_DataFile]
) -> Iterator[pa.RecordBatch]:
    """The rows of the data files without those that the deletes name, in the types of the Hudi table.

    Memory: one batch, and the positions of the deletes. Raises StorageError, and pa.ArrowException for a file
    that cannot be read so.
    """
    for file in data:
        deleted = read_positions(storage, deletes, file["file_path"])
        yield from _without_rows(_read(storage, columns, file), deleted)


def read_positions(storage: Storage, deletes: Iterable[_DataFile], data_uri: str) -> npt.NDArray[np.int64]:
    """The positions that the delete files name in the data file. Raises StorageError, pa.ArrowException."""
    found = [np.empty(0, np.int64)]
    for file in deletes:
        if file["file_format"] == "PUFFIN":
            of_file = file["referenced_data_file"] == data_uri
            found += [read_vector_file(storage, file)] if of_file else []
            continue
        with storage.open_input(storage.qualify(file["file_path"]), file["file_size_in_bytes"]) as stream:
            rows = pq.read_table(stream, columns=["file_path", "pos"])
        chosen = rows.filter(pc.equal(rows["file_path"], data_uri))
        found.append(chosen["pos"].to_numpy().astype(np.int64))
    return np.concatenate(found)


def read_vector_file(storage: Storage, file: _DataFile) -> npt.NDArray[np.int64]:
    """The positions in a deletion vector. Raises StorageError, and pa.ArrowInvalid for another content."""
    path, start, length = (
        storage.qualify(file["file_path"]),
        file["content_offset"],
        file["content_size_in_bytes"],
    )
    try:
        return read_vector(storage.read(path)[start : start + length])
    except ValueError as error:
        raise pa.ArrowInvalid(f"{path}: {error}") from error


def _without_rows(
    batches: Iterable[pa.RecordBatch], deleted: npt.NDArray[np.int64]
) -> Iterator[pa.RecordBatch]:
    first = 0
    for batch in batches:
        stays = np.ones(batch.num_rows, np.bool_)
        within = deleted[(deleted >= first) & (deleted < first + batch.num_rows)]
        stays[within - first] = False
        first += batch.num_rows
        yield batch.filter(pa.array(stays)) if len(within) else batch


def _read(storage: Storage, columns: IcebergColumns, file: _DataFile) -> Iterator[pa.RecordBatch]:
    path = storage.qualify(file["file_path"])
    with storage.open_input(path, file["file_size_in_bytes"]) as stream:
        parquet = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")
        stored = [_stored_column(parquet.schema_arrow, columns, place) for place in range(len(columns.ids))]
        names = sorted({name for name in stored if name is not None})
        for batch in parquet.iter_batches(_BATCH_ROWS, columns=names, use_threads=False):
            arrays = [
                _column(batch, columns, place, name, file["partition"]) for place, name in enumerate(stored)
            ]
            yield batch_of(arrays, columns.schema, batch.num_rows)


def _stored_column(stored: pa.Schema, columns: IcebergColumns, place: int) -> str | None:
    """The name that the column has in the file: by its field id, or by the name mapping if there are none."""
    by_id = {int(found): field.name for field in stored if (found := _field_id(field)) is not None}
    if by_id:
        return by_id.get(columns.ids[place])
    for field in stored:
        mapped = columns.roots.get(field.name)
        if mapped is not None and mapped["field-id"] == columns.ids[place]:
            return str(field.name)
    return None


def _field_id(field: pa.Field) -> bytes | None:
    found: bytes | None = (field.metadata or {}).get(b"PARQUET:field_id")
    return found


def _column(
    batch: pa.RecordBatch,
    columns: IcebergColumns,
    place: int,
    name: str | None,
    partition: Mapping[str, object],
) -> pa.Array:
    field = columns.schema.field(place)
    if name is None:
        return constant_column(partition.get(field.name), field.type, batch.num_rows)
    column = batch.column(name)
    _check_mapped(column.type, _by_name(columns.roots.get(name, {}).get("fields", ())))
    return conform_array(column, field.type)


def _check_mapped(stored: pa.DataType, mapping: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise pa.ArrowInvalid if a column inside has no name in the mapping, which readers find it by."""
    for name, kind in children(stored):
        if name not in mapping:
            raise pa.ArrowInvalid(f"the name mapping has no column {name} of {stored}")
        _check_mapped(kind, _by_name(mapping[name].get("fields", ())))


def _by_name(fields: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {name: field for field in fields for name in field["names"]}
