"""The `hoodie.*` settings of writes as `WriteOptions`: file sizes and formats, index, locks, sort mode.

Settings mean what Apache Hudi documents. Unknown values are errors that name the setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hudisql.catalog.metastore_lock import PROVIDER as METASTORE_PROVIDER
from hudisql.catalog.metastore_lock import MetastoreLock
from hudisql.errors import SettingsError, UnsupportedTableError
from hudisql.sql.config.index_options import record_index
from hudisql.sql.config.unserved_settings import refuse_unserved_writes
from hudisql.write.execution.partitioner import FileSizing
from hudisql.write.execution.writer_config import SortMode, WriteOptions
from hudisql.write.handle.base_file import DEFAULT_BLOOM_FPP, BaseFileConfig
from hudisql.write.handle.log_file import (
    DEFAULT_MAX_BLOCK_BYTES,
    DEFAULT_MAX_LOG_BYTES,
    BlockFormat,
    LogFileConfig,
)
from hudisql.write.handle.open_base_file import CODECS
from hudisql.write.index.key_encoding import uses_complex_key_encoding
from hudisql.write.keygen.key_generator import key_generator_of
from hudisql.write.setting_lookup import Lookup, read_flag, read_fraction, read_number
from hudisql.write.transaction.commit import EVENT_TIME_PAYLOAD
from hudisql.write.transaction.concurrency import Concurrency, LockFactory, read_concurrency

if TYPE_CHECKING:
    from hudisql.context import Context
    from hudisql.table.hudi_table import HudiTable

CODEC: Final = "hoodie.parquet.compression.codec"
MAX_FILE_SIZE: Final = "hoodie.parquet.max.file.size"
SMALL_FILE_LIMIT: Final = "hoodie.parquet.small.file.limit"
BLOOM_ENTRIES: Final = "hoodie.index.bloom.num_entries"
BLOOM_FPP: Final = "hoodie.index.bloom.fpp"
BLOCK_FORMAT: Final = "hoodie.logfile.data.block.format"
MAX_BLOCK_SIZE: Final = "hoodie.logfile.data.block.max.size"
MAX_LOG_SIZE: Final = "hoodie.logfile.max.size"
METASTORE_LOCK: Final = "hoodie.write.lock.hivemetastore"
SORT_MODE: Final = "hoodie.bulkinsert.sort.mode"
SORT_COLUMNS: Final = "hoodie.bulkinsert.user.defined.partitioner.sort.columns"
COMBINE_BEFORE_INSERT: Final = "hoodie.combine.before.insert"
_SORT_MODES: Final[Mapping[str, SortMode]] = {
    "NONE": "none",
    "PARTITION_SORT": "local",
    "GLOBAL_SORT": "global",
    "PARTITION_PATH_REPARTITION": "partition",
    "PARTITION_PATH_REPARTITION_AND_SORT": "partition",
}
# What a value takes in a file, about: fixed widths compress by half, texts and the like have some length.
_TEXT_BYTES: Final = 16
_COMPRESSION: Final = 0.5
_META_BYTES: Final = 10
_UNLIMITED: Final = 1 << 62


def write_options(context: Context, table: HudiTable, lookup: Lookup) -> WriteOptions:
    """The options for writing to the table by the settings of its writes (`settings_of`).

    The encoding of record keys is read from the table's files where its properties do not say it. Raises
    SettingsError for a value that is not understood, UnsupportedTableError for a lock provider or concurrency
    mode that hudisql lacks and for keys of both forms.
    """
    return write_options_by(lookup, table, _metastore_locks(context, table, lookup))


def write_options_by(
    lookup: Lookup, table: HudiTable, more_locks: Mapping[str, LockFactory] | None = None
) -> WriteOptions:
    """The options for writing to the table; `lookup` gives the text of a setting, or the given default.

    `more_locks` are lock providers by name besides those that need a file system alone. Raises as
    `write_options`.
    """
    refuse_unserved_writes(lookup)
    defaults = FileSizing()
    ordering = table.properties.precombine_field
    by_event_time = table.properties.payload_class == EVENT_TIME_PAYLOAD
    index = record_index(lookup, table)
    max_file_bytes = read_number(lookup, MAX_FILE_SIZE, defaults.max_file_bytes)
    return WriteOptions(
        base_file_config=BaseFileConfig(
            codec=_codec(lookup),
            # Every reader takes snappy as it takes gzip, and writing it costs half of the CPU time.
            keeps_snappy=table.properties.bootstrap_base_path is not None and not lookup(CODEC, ""),
            # A bucket is one file group, however large.
            max_file_bytes=max_file_bytes if index.buckets is None else _UNLIMITED,
            bloom_entries=read_number(lookup, BLOOM_ENTRIES, 0) or None,
            bloom_fpp=read_fraction(lookup, BLOOM_FPP, DEFAULT_BLOOM_FPP),
        ),
        sizing=FileSizing(
            small_file_bytes=read_number(lookup, SMALL_FILE_LIMIT, defaults.small_file_bytes),
            max_file_bytes=max_file_bytes,
            bytes_per_row=_META_BYTES + sum(_bytes_of(field.type) for field in table.schema) * _COMPRESSION,
        ),
        event_time_field=ordering if by_event_time else None,
        precombine_field=ordering,
        log_file_config=_log_file_config(lookup),
        concurrency=read_concurrency(lookup, table.storage, table.base_path, more_locks),
        sort_mode=_sort_mode(lookup),
        sort_columns=_sort_columns(lookup, table),
        # No two rows have one generated key.
        combines=None if table.properties.generates_record_keys else _combine_before_insert(lookup),
        index=index,
        key_generator=key_generator_of(table, lambda key: _given(lookup, table, key)),
        complex_keys=uses_complex_key_encoding(table),
    )


def _given(lookup: Lookup, table: HudiTable, key: str) -> str | None:
    return lookup(key, table.properties.get(key) or "") or None


def writer_concurrency(context: Context, table: HudiTable, lookup: Lookup) -> Concurrency:
    """How writes share the table with other writers; settings as in `write_options`.

    Raises SettingsError, UnsupportedTableError for what hudisql lacks.
    """
    locks = _metastore_locks(context, table, lookup)
    return read_concurrency(lookup, table.storage, table.base_path, locks)


def _metastore_locks(context: Context, table: HudiTable, lookup: Lookup) -> Mapping[str, LockFactory]:
    def metastore_lock() -> MetastoreLock:
        named = {key: lookup(f"{METASTORE_LOCK}.{key}", "") for key in ("database", "table", "uris")}
        for key in ("database", "table"):
            if not named[key]:
                raise SettingsError(f"{METASTORE_PROVIDER} needs {METASTORE_LOCK}.{key}")
        if named["uris"] not in ("", context.metastore.uris):
            raise UnsupportedTableError(
                f"the lock of the Hudi table at {table.base_path} is in the metastore {named['uris']}, and "
                f"this session's metastore is {context.metastore.uris}",
                hint="write to it with a session on that metastore (--metastore)",
            )
        return MetastoreLock(context.metastore, named["database"], named["table"])

    return {METASTORE_PROVIDER: metastore_lock}


def _codec(lookup: Lookup) -> str:
    text = lookup(CODEC, "gzip").lower()
    codec = "none" if text == "uncompressed" else text
    if codec not in CODECS:
        raise SettingsError(f"{CODEC} must be gzip, snappy, zstd or uncompressed, not '{text}'")
    return codec


def _log_file_config(lookup: Lookup) -> LogFileConfig:
    return LogFileConfig(
        block_format=_block_format(lookup),
        max_block_bytes=read_number(lookup, MAX_BLOCK_SIZE, DEFAULT_MAX_BLOCK_BYTES),
        max_file_bytes=read_number(lookup, MAX_LOG_SIZE, DEFAULT_MAX_LOG_BYTES),
    )


def _block_format(lookup: Lookup) -> BlockFormat:
    text = lookup(BLOCK_FORMAT, "avro").lower()
    if text == "avro":
        return "avro"
    if text == "parquet":
        return "parquet"
    raise SettingsError(f"{BLOCK_FORMAT} must be avro or parquet, not '{text}'")


def _sort_mode(lookup: Lookup) -> SortMode:
    text = lookup(SORT_MODE, "PARTITION_PATH_REPARTITION").upper()
    if text not in _SORT_MODES:
        raise SettingsError(f"{SORT_MODE} must be one of {', '.join(_SORT_MODES)}, not '{text}'")
    return _SORT_MODES[text]


def _sort_columns(lookup: Lookup, table: HudiTable) -> tuple[str, ...]:
    given = [name.strip() for name in lookup(SORT_COLUMNS, "").split(",") if name.strip()]
    names = {name.lower(): name for name in table.schema.names}
    unknown = [name for name in given if name.lower() not in names]
    if unknown:
        raise SettingsError(
            f"{SORT_COLUMNS} names '{unknown[0]}', and {table.base_path} has no such column; "
            f"the columns are {', '.join(table.schema.names)}"
        )
    return tuple(names[name.lower()] for name in given)


def _combine_before_insert(lookup: Lookup) -> bool | None:
    return read_flag(lookup, COMBINE_BEFORE_INSERT, False) if lookup(COMBINE_BEFORE_INSERT, "") else None


def _bytes_of(value_type: pa.DataType) -> float:
    if pa.types.is_nested(value_type):
        inner = [value_type.field(number).type for number in range(value_type.num_fields)]
        return sum(_bytes_of(each) for each in inner) * (1 if pa.types.is_struct(value_type) else 4)
    try:
        return float(value_type.bit_width) / 8
    except ValueError:
        return _TEXT_BYTES
