"""Files of slices with log files, for readers that know no log files: position deletes and changed rows.

A position delete file (Iceberg spec, "Position Delete Files"), or in format version 3 a deletion vector, has
the places of the rows of the base or source file that log records change or delete; a data file has the rows
of the log records. The two are named
after the state of the slice, so an unchanged slice keeps them. The data file is written last, even without
rows: if it is there, its slice is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from hudisql.errors import PathExistsError
from hudisql.iceberg.data_file import Footer, footer_of
from hudisql.iceberg.deletion_vectors import BLOB_OFFSET, write_puffin
from hudisql.iceberg.iceberg_location import reader_uri
from hudisql.iceberg.publication_tasks import TaskRunner, table_of_tasks
from hudisql.iceberg.published_files import FileKind, LogSlice, PublishedFile, VectorPlace
from hudisql.read.merge.merge_mode import LogMergeConfig
from hudisql.read.slice.replaced_rows import separate_rows
from hudisql.read.slice.slice_reader import SliceRead
from hudisql.storage import Storage, join
from hudisql.table.hudi_table import HudiTable

DELETED_PATH: Final = 2147483546
DELETED_POSITION: Final = 2147483545
"""The spec's field ids of the columns of position deletes."""
DELETES_IDS: Final[Mapping[str, int]] = {"file_path": DELETED_PATH, "pos": DELETED_POSITION}
SLICES_OF_ONE_PROCESS: Final = 8
"""More slices are merged in tasks."""
_ROWS: Final = "-rows.parquet"
_DELETES: Final = "-deletes.parquet"
_VECTOR: Final = "-deletes.puffin"


@dataclass(frozen=True)
class WrittenFile:
    """A file that was written, or would be, with its footer if it is a parquet file."""

    file: PublishedFile
    footer: Footer | None

    @property
    def rows(self) -> int:
        """The number of its rows, or of the positions of a deletion vector."""
        if self.footer is not None:
            return int(self.footer.metadata.num_rows)
        return 0 if self.file.vector is None else self.file.vector.positions


def slice_name_of(uri: str) -> str:
    """The name of the slice (`LogSlice.name`) that a file was written for."""
    return uri.rpartition("/")[2].removesuffix(_ROWS).removesuffix(_DELETES).removesuffix(_VECTOR)


def merge_slices(
    tasks: TaskRunner | None,
    table: HudiTable,
    log_slices: Sequence[LogSlice],
    config: LogMergeConfig,
    directory: str,
    *,
    has_vectors: bool,
    dry_run: bool,
) -> list[WrittenFile]:
    """`merge_slice` of each slice, of many in `tasks`."""
    work = partial(
        _merge_some, table_of_tasks(table), config, directory, has_vectors=has_vectors, dry_run=dry_run
    )
    if tasks is None or len(log_slices) <= SLICES_OF_ONE_PROCESS:
        return list(chain.from_iterable(work(log_slices)))
    return list(chain.from_iterable(tasks(log_slices, work, "Merging log files for Iceberg")))


def _merge_some(
    table: HudiTable,
    config: LogMergeConfig,
    directory: str,
    log_slices: Iterable[LogSlice],
    *,
    has_vectors: bool,
    dry_run: bool,
) -> Iterator[list[WrittenFile]]:
    for log_slice in log_slices:
        yield merge_slice(table, log_slice, config, directory, has_vectors=has_vectors, dry_run=dry_run)


def merge_slice(
    table: HudiTable,
    log_slice: LogSlice,
    config: LogMergeConfig,
    directory: str,
    *,
    has_vectors: bool,
    dry_run: bool,
) -> list[WrittenFile]:
    """Merge the slice's log files with its base and write what they change into the directory.

    With `has_vectors` deletes are deletion vectors. Nothing is written in a dry run.

    Memory: the records of the slice's log files. Raises UnsupportedTableError, SourceChangedError,
    CorruptTableError, StorageError.
    """
    names = [column.name for column in table.partition_columns]
    values = dict(zip(names, log_slice.values, strict=True))
    read = SliceRead(log_slice.file_slice, table.schema, values, log_merge_config=config)
    separated = separate_rows(table.storage, read)
    contents: list[tuple[PublishedFile, bytes]] = []
    if len(separated.replaced):
        assert log_slice.file is not None  # a slice of log files alone has no rows to replace
        deletes_from, kind = log_slice.file.path, FileKind.DELETES
        uri, vector = reader_uri(table, deletes_from), None
        if has_vectors:
            content, length = write_puffin(separated.replaced, uri)
            vector = VectorPlace(BLOB_OFFSET, length, len(separated.replaced))
        else:
            deletes = _position_deletes(uri, separated.replaced)
            content = _parquet(deletes.schema, (deletes,))
        path = join(directory, log_slice.name + (_VECTOR if has_vectors else _DELETES))
        file = PublishedFile(path, len(content), log_slice.values, kind, deletes_from, vector)
        contents.append((file, content))
    if any(batch.num_rows for batch in separated.rows):
        content, path = _parquet(table.schema, separated.rows), join(directory, log_slice.name + _ROWS)
        contents.append((PublishedFile(path, len(content), log_slice.values, FileKind.LOG_ROWS), content))
    written = []
    for file, content in contents:
        if not dry_run:
            _create(table.storage, file.path, content)
        is_parquet = file.vector is None
        footer = footer_of(pq.read_metadata(pa.BufferReader(content))) if is_parquet else None
        written.append(WrittenFile(file, footer))
    return written


def _position_deletes(uri: str, positions: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """The rows of a position delete file; `positions` ascend."""
    schema = pa.schema(
        [
            _required("file_path", pa.dictionary(pa.int32(), pa.string()), DELETED_PATH),
            _required("pos", pa.int64(), DELETED_POSITION),
        ]
    )
    indices = pa.array(np.zeros(len(positions), np.int32))
    paths = pa.DictionaryArray.from_arrays(indices, pa.array([uri]))
    return pa.RecordBatch.from_arrays([paths, pa.array(positions)], schema=schema)


def _required(name: str, data_type: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, data_type, nullable=False, metadata={"PARQUET:field_id": str(field_id)})


def _parquet(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_batches(batches, schema), sink, compression="snappy", store_schema=False)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _create(storage: Storage, path: str, content: bytes) -> None:
    try:
        storage.create(path, content)
    except PathExistsError:
        # A killed publication has left it, and no metadata names it.
        storage.delete_file(path)
        storage.create(path, content)
