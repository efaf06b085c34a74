"""Reads every footer of the source once by Spark tasks, and compares them before anything is written.

A task returns per file only its counts and the number of its schema; equal schemas are sent once. Columns are
compared by their type in the table (as `type_safety` classifies it), not by their physical form, which may
differ from file to file. Follows the parquet format; knows no Hudi.

The bytes of a footer are checked before pyarrow decodes its columns: for an unknown codec and for encrypted
columns under a plain footer it aborts the process instead of raising. That follows parquet.thrift in Thrift's
compact protocol and parquet's modular encryption.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from hudisql.bootstrap.source.footer_incompatibilities import (
    old_date_incompatibilities,
    small_integer_incompatibilities,
)
from hudisql.bootstrap.source.inside_values import InsideValues, inside_values
from hudisql.bootstrap.type_safety import classify_columns
from hudisql.console import Console
from hudisql.errors import HudisqlError, StorageError
from hudisql.format.paths.external_file import ExternalFile
from hudisql.format.schema.calendar import uses_hybrid_calendar
from hudisql.spark.task_runner import run_on_files
from hudisql.storage import Storage

_OTHER_FORMATS = {b"ORC": "an ORC file", b"Obj\x01": "an Avro file", b"SEQ": "a Hadoop sequence file"}
_PARQUET_MAGIC: Final = b"PAR1"
NOT_PARQUET: Final = "is not a parquet file"
"""The problem of a file of an unknown format."""
_FIRST_READ_BYTES: Final = 64 * 1024
_TAIL_BYTES: Final = 8
_SIGNATURE_BYTES: Final = 28  # nonce and tag that sign a plain footer over encrypted columns
_CODECS_OF_PARQUET: Final = 8
_LZO: Final = 3
# Of ColumnMetaData: header of field 3 (a list, after field 2) and of field 4 (an i32, after field 3).
_PATH_FIELD: Final = b"\x19"
_CODEC_FIELD: Final = b"\x15"
_LONGEST_SHORT_LIST: Final = 14


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """One column of a file schema: its type in the table (None: unsupported) and its incompatibilities."""

    name: str
    type: pa.DataType | None
    physical: str
    incompatibilities: frozenset[str]


@dataclass(frozen=True, slots=True)
class SourceSchema:
    """The columns of a file. Equality and hash go by `fingerprint`: thousands of files share one schema."""

    columns: tuple[SourceColumn, ...] = field(compare=False)
    fingerprint: str


NO_SCHEMA = SourceSchema((), "")


@dataclass(frozen=True, slots=True)
class FileFooter:
    """One file's footer; `problem` is set if it could not be read, and then all else is zero.

    `key_bytes` are the compressed bytes of the record key's columns, `key_nulls` the nulls that statistics
    count in a single key column (None: unknown); `has_hybrid_calendar` if its dates may have to be rebased;
    `inside` are the file's own values of partition columns; `footer_hash` identifies a footer.
    """

    path: str
    schema: SourceSchema = NO_SCHEMA
    rows: int = 0
    row_groups: int = 0
    key_bytes: int = 0
    key_nulls: int | None = None
    codecs: frozenset[str] = frozenset()
    has_unreadable_delta_pages: bool = False
    has_hybrid_calendar: bool = False
    problem: str | None = None
    footer_hash: str = ""
    inside: tuple[InsideValues, ...] = ()


def read_footers(
    spark: Any,
    storage: Storage,
    files: Sequence[ExternalFile],
    record_key: Sequence[str],
    console: Console,
    parallelism: int | None = None,
    partition_columns: Sequence[str] = (),
) -> list[FileFooter]:
    """The footers of the files, in their order; files that cannot be opened or read have a `problem`.

    `partition_columns` inside the files are excluded from the schemas; `inside` has their values.
    """
    file_footers = run_on_files(
        spark,
        files,
        partial(
            _read_group,
            storage,
            tuple(path.lower() for path in record_key),
            frozenset(name.lower() for name in partition_columns),
        ),
        # A footer costs about the same whatever the file's size.
        weight=lambda _file: 0,
        console=console,
        label="Reading footers",
        parallelism=parallelism,
    )
    # Each task sent its own copy of the schema: keep one.
    interned: dict[SourceSchema, SourceSchema] = {}
    return [
        replace(file_footer, schema=interned.setdefault(file_footer.schema, file_footer.schema))
        for file_footer in file_footers
    ]


def read_few_footers(storage: Storage, files: Sequence[ExternalFile]) -> list[FileFooter]:
    """The footers of a few files, read by this process without Spark."""
    return list(_read_group(storage, (), frozenset(), files))


def files_by_schema(footers: Iterable[FileFooter]) -> dict[SourceSchema, list[str]]:
    """Paths of the readable files by their schema."""
    files: dict[SourceSchema, list[str]] = {}
    for footer in footers:
        if footer.problem is None:
            files.setdefault(footer.schema, []).append(footer.path)
    return files


def _read_group(
    storage: Storage,
    record_key: tuple[str, ...],
    partition_columns: frozenset[str],
    files: Iterable[ExternalFile],
) -> Iterator[FileFooter]:
    classified: list[tuple[Any, SourceSchema]] = []
    for file in files:
        yield _read_footer(storage, file, record_key, partition_columns, classified)


def _read_footer(
    storage: Storage,
    file: ExternalFile,
    record_key: tuple[str, ...],
    partition_columns: frozenset[str],
    classified: list[tuple[Any, SourceSchema]],
) -> FileFooter:
    try:
        with storage.open_input(file.path, file.length) as source:
            footer = read_footer_bytes(source)
            metadata = parse_footer(footer)
            if problem := find_unreadable(metadata, footer):
                return FileFooter(file.path, problem=problem)
            inside = tuple(inside_values(source, metadata, partition_columns)) if partition_columns else ()
        schema = _classified(metadata.schema, partition_columns, classified)
        schema = _with_incompatibilities(schema, old_date_incompatibilities(metadata))
        schema = _with_incompatibilities(schema, small_integer_incompatibilities(metadata))
    except HudisqlError as error:
        return FileFooter(file.path, problem=error.message)
    except (pa.ArrowException, OSError, ValueError, NotImplementedError) as error:
        return FileFooter(file.path, problem=_describe_unreadable(storage, file, error))
    summary = _summarise(file.path, metadata, schema, record_key)
    footer_hash = hashlib.blake2b(footer, digest_size=8).hexdigest()
    return replace(summary, footer_hash=footer_hash, inside=inside)


def _classified(
    parquet_schema: Any, partition_columns: frozenset[str], known: list[tuple[Any, SourceSchema]]
) -> SourceSchema:
    # Files of one writer have equal schemas: comparing is cheaper than classifying hundreds of columns again.
    for seen, schema in known:
        if seen.equals(parquet_schema):
            return schema
    physical = _physical_types(parquet_schema)
    columns = tuple(
        SourceColumn(name, column.type, physical.get(name, "group"), column.incompatibilities)
        for name, column in classify_columns(parquet_schema)
        if name.lower() not in partition_columns
    )
    described = "\n".join(
        f"{column.name}\t{column.type}\t{column.physical}\t{sorted(column.incompatibilities)}"
        for column in columns
    )
    schema = SourceSchema(columns, hashlib.sha256(described.encode()).hexdigest())
    known.append((parquet_schema, schema))
    return schema


def _with_incompatibilities(schema: SourceSchema, incompatibilities: Mapping[str, str]) -> SourceSchema:
    """The schema with the incompatibilities of a file's values."""
    if not incompatibilities:
        return schema
    columns = tuple(
        replace(column, incompatibilities=column.incompatibilities | {incompatibilities[column.name]})
        if column.name in incompatibilities
        else column
        for column in schema.columns
    )
    described = f"{schema.fingerprint}{sorted(incompatibilities.items())}"
    return SourceSchema(columns, hashlib.sha256(described.encode()).hexdigest())


def _physical_types(parquet_schema: Any) -> dict[str, str]:
    """The physical types of primitive columns."""
    leaves = (parquet_schema.column(index) for index in range(len(parquet_schema)))
    return {leaf.path: leaf.physical_type for leaf in leaves}


def _summarise(path: str, metadata: Any, schema: SourceSchema, record_key: tuple[str, ...]) -> FileFooter:
    key_columns = [
        index
        for index in range(metadata.num_columns)
        if metadata.schema.column(index).path.lower() in record_key
    ]
    codecs: set[str] = set()
    key_bytes = 0
    key_nulls: int | None = 0
    has_delta = False
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for index in range(metadata.num_columns) if number == 0 else key_columns:
            chunk = group.column(index)
            codecs.add(chunk.compression)
            has_delta = has_delta or "DELTA_BYTE_ARRAY" in chunk.encodings
            if index in key_columns:
                key_bytes += chunk.total_compressed_size
                nulls = chunk.statistics.null_count if chunk.is_stats_set else None
                key_nulls = None if key_nulls is None or nulls is None else key_nulls + nulls
    return FileFooter(
        path,
        schema,
        metadata.num_rows,
        metadata.num_row_groups,
        key_bytes,
        key_nulls if len(key_columns) == len(record_key) == 1 else None,
        frozenset(codecs),
        # parquet-mr 1.8 (Hive 2.3) distrusts delta pages of writers without a build number: PARQUET-246.
        has_delta and "(build " not in (metadata.created_by or ""),
        uses_hybrid_calendar(metadata.metadata),
    )


def _describe_unreadable(storage: Storage, file: ExternalFile, error: Exception) -> str:
    """Why a file cannot be read: its format, if the first bytes show it, else the reader's message."""
    try:
        with storage.open_input(file.path) as source:
            start = bytes(source.read(4))
            source.seek(max(0, file.length - 4))
            end = bytes(source.read(4))
    except (HudisqlError, OSError) as again:
        return again.message if isinstance(again, StorageError) else f"cannot be read: {again}"
    for magic, kind in _OTHER_FORMATS.items():
        if start.startswith(magic):
            return f"is {kind}, not parquet"
    if start == b"PARE" or end == b"PARE":
        return "is encrypted parquet, which hudisql cannot read"
    if start != _PARQUET_MAGIC and end != _PARQUET_MAGIC:
        return NOT_PARQUET
    words = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
    return f"is a corrupt or cut-off parquet file ({words})"


def read_footer_bytes(source: Any) -> bytes:
    """The footer of an open parquet file without length and magic; one read, two if it is longer than 64 KiB.

    Raises pyarrow.ArrowInvalid if the file does not end like a parquet file, OSError.
    """
    size = source.size()
    source.seek(max(0, size - _FIRST_READ_BYTES))
    end = bytes(source.read(_FIRST_READ_BYTES))
    if len(end) < _TAIL_BYTES or not end.endswith(_PARQUET_MAGIC):
        raise pa.ArrowInvalid("no footer at its end")
    length = int.from_bytes(end[-_TAIL_BYTES:-4], "little")
    if length + _TAIL_BYTES + len(_PARQUET_MAGIC) > size:
        raise pa.ArrowInvalid(f"its footer says that it is {length:,} bytes long, the file is {size:,}")
    if length + _TAIL_BYTES > len(end):
        source.seek(size - length - _TAIL_BYTES)
        return bytes(source.read(length))
    return end[len(end) - length - _TAIL_BYTES : -_TAIL_BYTES]


def parse_footer(footer: bytes) -> Any:
    """The footer as pyarrow's FileMetaData. Raises OSError or pyarrow.ArrowException if it is invalid."""
    return pq.read_metadata(
        pa.BufferReader(b"".join((_PARQUET_MAGIC, footer, len(footer).to_bytes(4, "little"), _PARQUET_MAGIC)))
    )


def find_unreadable(metadata: Any, footer: bytes) -> str | None:
    """Why no reader can read the file's columns, or None; call this before the columns are decoded."""
    if len(footer) - metadata.serialized_size == _SIGNATURE_BYTES:
        return "has encrypted columns, which hudisql cannot read"
    codecs = _codecs(metadata, footer)
    if unknown := sorted(codec for codec in codecs if codec >= _CODECS_OF_PARQUET):
        return f"is compressed by a codec that parquet does not know (number {unknown[0]})"
    if _LZO in codecs:
        return "is compressed by LZO, which hudisql and Spark cannot read"
    return None


def _codecs(metadata: Any, footer: bytes) -> set[int]:
    """The codec numbers of the first row group's columns, found by the path before each."""
    codecs: set[int] = set()
    position = 0
    for index in range(metadata.num_columns if metadata.num_row_groups else 0):
        names = [name.encode() for name in metadata.schema.column(index).path.split(".")]
        if len(names) > _LONGEST_SHORT_LIST:
            continue
        path = b"".join(_length(len(name)) + name for name in names)
        searched = _PATH_FIELD + bytes([len(names) << 4 | 8]) + path + _CODEC_FIELD
        found = footer.find(searched, position)
        if found >= 0:
            position = found + len(searched)
            codecs.add(footer[position] >> 1)  # zigzag
    return codecs


def _length(length: int) -> bytes:
    """A length as Thrift's variable-length integer."""
    found = bytearray()
    while length >= 0x80:
        found.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes(found) + bytes([length])
