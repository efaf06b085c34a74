"""One base file that is being written: parquet that every reader supports, and its footer.

Follows `HoodieAvroParquetWriter` of Hudi 0.15: meta columns first, every column optional, decimals FIXED,
timestamps in microseconds, v1 pages, PLAIN or dictionary, keys and bloom filter in the footer. Takes whole
tables as row groups; knows nothing of file groups or commits.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudisql.errors import HudisqlError, StorageError
from hudisql.format.schema import meta_columns
from hudisql.format.schema.calendar import PROLEPTIC_SPARK_VERSION, SPARK_VERSION_KEY
from hudisql.storage import Storage
from hudisql.write.handle.key_footer import KeyFooter, NoKeyFooter
from hudisql.write.handle.meta_arrays import UNIQUE_COLUMNS
from hudisql.write.handle.parquet_writer import CODEC_LEVELS, open_parquet_writer

_SAMPLE_ROWS: Final = 4096
_DISTINCT: Final = 0.9
CODECS: Final = tuple(CODEC_LEVELS)


class OpenBaseFile:
    """Writes row groups to `path`; `schema` starts with the meta columns. Its owner closes or abandons it.

    Texts may come as dictionaries, in all row groups or in none. With a `NoKeyFooter` the meta columns are
    written as nulls.
    """

    def __init__(
        self,
        storage: Storage,
        path: str,
        schema: pa.Schema,
        dictionary_columns: Sequence[str],
        footer: KeyFooter | NoKeyFooter,
        codec: str,
    ) -> None:
        self._storage = storage
        self.path = path
        self.name = path.rsplit("/", 1)[-1]
        self.footer = footer
        self.rows = 0
        self.bytes = 0
        self._schema = schema
        self._dictionary_columns = dictionary_columns
        self._codec = codec
        self._sink: Any = storage.open_output(path)
        self._writer: pq.ParquetWriter | None = None
        self._footers: list[pq.FileMetaData] = []

    def write(self, table: pa.Table) -> None:
        """Write one row group; columns that the schema lacks are left out. Raises StorageError."""
        if table.num_columns > len(self._schema):
            table = table.select(self._schema.names)
        if isinstance(self.footer, NoKeyFooter):
            table = _without_meta(table)
        with _storage_errors(self.path):
            if self._writer is None:
                self._writer = self._open_writer(table.schema, _mostly_distinct(table), table.nbytes)
            self._writer.write_table(table, row_group_size=table.num_rows)
            self.bytes = self._sink.tell()
        if isinstance(self.footer, KeyFooter):
            self.footer.add(table.column(meta_columns.RECORD_KEY).combine_chunks())
        self.rows += table.num_rows

    def close(self, avro_schema: str) -> pq.FileMetaData:
        """Write the footer, and return it as readers get it. Raises StorageError."""
        with _storage_errors(self.path):
            footer = self.footer.key_values(avro_schema)
            footer[SPARK_VERSION_KEY.decode()] = PROLEPTIC_SPARK_VERSION
            writer = self._writer or self._open_writer(self._schema, (), 0)
            writer.add_key_value_metadata(footer)
            writer.close()
            self.bytes = self._sink.tell()
            self._sink.close()
        return self._footers[-1]

    def _open_writer(self, schema: pa.Schema, plain: Collection[str], first_bytes: int) -> pq.ParquetWriter:
        return open_parquet_writer(
            self._sink,
            schema,
            self._codec,
            first_bytes=first_bytes,
            use_dictionary=[path for path in self._dictionary_columns if path not in plain],
            version="2.6",
            data_page_version="1.0",
            coerce_timestamps="us",
            store_decimal_as_integer=False,
            store_schema=False,
            metadata_collector=self._footers,
        )

    def abandon(self) -> None:
        """Close and delete the file, in any state."""
        for part in (self._writer, self._sink):
            try:
                if part is not None:
                    part.close()
            except (pa.ArrowException, OSError):
                continue
        self._storage.delete_file(self.path)


class _storage_errors:  # noqa: N801
    """Turn errors of pyarrow while it writes `path` into a StorageError that names the path."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, (pa.ArrowException, OSError)) and not isinstance(error, HudisqlError):
            raise StorageError(f"cannot write {self._path}: {error}") from error


def _without_meta(table: pa.Table) -> pa.Table:
    """The rows with nulls in the meta columns, which come first."""
    nothing = pa.nulls(table.num_rows, pa.string())
    for place, name in enumerate(meta_columns.META_COLUMNS):
        table = table.set_column(place, pa.field(name, pa.string()), nothing)
    return table


def _mostly_distinct(table: pa.Table) -> list[str]:
    """Columns with few repeated values, for which a dictionary costs time and saves nothing."""
    if table.num_rows < _SAMPLE_ROWS:
        return []
    rows = np.random.default_rng(0).integers(0, table.num_rows, _SAMPLE_ROWS)
    flat = [
        field.name
        for field in table.schema
        if not (pa.types.is_nested(field.type) or pa.types.is_dictionary(field.type))
    ]
    sample = table.select(flat).take(pa.array(np.sort(rows)))
    return [name for name in flat if pc.count_distinct(sample[name]).as_py() > _SAMPLE_ROWS * _DISTINCT]


def dictionary_columns(schema: pa.Schema) -> list[str]:
    """The leaves, by their path in the file, that get a dictionary: all except those of unique values."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema, store_schema=False):
        pass
    leaves = pq.read_metadata(pa.BufferReader(sink.getvalue())).schema
    paths = [leaves.column(number).path for number in range(len(leaves))]
    return [path for path in paths if path not in UNIQUE_COLUMNS]
