"""The meta columns of rows whose files have none (`hoodie.populate.meta.fields=false`, "virtual keys").

Follows `BaseKeyGenerator.getKey` of Hudi 0.15: the record key is rendered from the key columns. Partition
path and file name are those of the file; commit times and sequence numbers are unknown, and null.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hudisql.format.keys.record_keys import render_record_keys
from hudisql.format.schema.meta_columns import FILE_NAME, META_COLUMNS, PARTITION_PATH, RECORD_KEY


@dataclass(frozen=True, slots=True)
class ComputedMeta:
    """Computes the meta columns of the rows of a table's files; `key_columns` are read for the record key."""

    record_key_fields: tuple[str, ...]
    key_columns: pa.Schema

    def columns_to_read(self, schema: pa.Schema) -> pa.Schema:
        """The columns of a file from which a read of `schema` is made."""
        own = [field for field in schema if field.name not in META_COLUMNS]
        if RECORD_KEY in schema.names:
            known = {field.name for field in own}
            own += [field for field in self.key_columns if field.name not in known]
        return pa.schema(own)

    def complete(
        self, batch: pa.RecordBatch, schema: pa.Schema, partition_path: str, file_name: str
    ) -> pa.RecordBatch:
        """The rows with the columns of `schema`; `batch` has those of `columns_to_read`.

        Raises InvalidArgumentError for a key column whose type cannot be rendered.
        """
        texts = {PARTITION_PATH: partition_path, FILE_NAME: file_name}

        def column(field: pa.Field) -> pa.Array:
            if field.name == RECORD_KEY:
                is_complex = len(self.record_key_fields) > 1
                return render_record_keys(batch, self.record_key_fields, complex_keys=is_complex).keys
            if field.name in META_COLUMNS:
                return pa.repeat(pa.scalar(texts.get(field.name), pa.string()), batch.num_rows)
            return batch.column(field.name)

        return pa.RecordBatch.from_arrays([column(field) for field in schema], schema=schema)
