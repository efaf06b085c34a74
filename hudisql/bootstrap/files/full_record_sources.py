"""The list of source files of full-record partitions: a small parquet file in the table's `.aux` directory.

Hudi has no such list, since its full-record partitions no longer need their source; verification compares the
two by it. Readers of the table ignore it. Knows no Spark.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from hudisql.errors import CorruptTableError
from hudisql.format.paths.external_file import ExternalFile
from hudisql.format.timeline.timeline_layout import METADATA_DIRECTORY
from hudisql.storage import Storage, join

SOURCES_FILE: Final = f"{METADATA_DIRECTORY}/.aux/.hudisql-full-record-sources"
_SCHEMA: Final = pa.schema(
    [
        ("partition_path", pa.string()),
        ("path", pa.string()),
        ("length", pa.int64()),
        ("modification_time_ms", pa.int64()),
        ("rows", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class RewrittenSource:
    """A source file at the time when its partition was rewritten."""

    partition_path: str
    file: ExternalFile
    rows: int


def write_full_record_sources(storage: Storage, base_path: str, sources: Iterable[RewrittenSource]) -> int:
    """Write the list; returns its bytes. Raises StorageError."""
    rows = [
        {
            "partition_path": source.partition_path,
            "path": source.file.path,
            "length": source.file.length,
            "modification_time_ms": source.file.modification_time_ms,
            "rows": source.rows,
        }
        for source in sources
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, _SCHEMA), sink, compression="zstd")
    content: bytes = sink.getvalue().to_pybytes()
    storage.write(join(base_path, SOURCES_FILE), content)
    return len(content)


def read_full_record_sources(storage: Storage, base_path: str) -> tuple[RewrittenSource, ...]:
    """The list, empty if the table has none. Raises CorruptTableError, StorageError."""
    path = join(base_path, SOURCES_FILE)
    if not storage.exists(path):
        return ()
    try:
        rows = pq.read_table(pa.BufferReader(storage.read(path))).to_pylist()
    except pa.ArrowException as error:
        raise CorruptTableError(f"cannot read {path}: {error}") from error
    return tuple(
        RewrittenSource(
            row["partition_path"],
            ExternalFile(row["path"], row["length"], row["modification_time_ms"]),
            row["rows"],
        )
        for row in rows
    )
