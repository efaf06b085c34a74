"""The `hoodie.*` settings of writes as `WriteOptions`: file sizes and formats, index, locks, sort mode.

Settings mean what Apache Hudi documents. The session's settings override the table's TBLPROPERTIES, which
override `hoodie.properties`. Unknown values are errors that name the setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa

from hudisql.catalog.metastore_lock import PROVIDER as METASTORE_PROVIDER
from hudisql.catalog.metastore_lock import MetastoreLock
from hudisql.config.config_key import HudiConfig
from hudisql.config.hudi_config import (
    BLOCK_FORMAT,
    BLOOM_ENTRIES,
    BLOOM_FPP,
    BLOOM_MOVES,
    BUCKET_COUNT,
    BUCKET_ENGINE,
    BUCKET_EXPRESSIONS,
    BUCKET_FIELDS,
    BUCKET_RULE,
    CODEC,
    COMBINE_BEFORE_INSERT,
    CONSISTENT_HASHING,
    DRIVER_MAX_BYTES,
    INDEX_TYPE,
    LOCK_DATABASE,
    LOCK_TABLE,
    LOCK_URIS,
    MAX_BLOCK_SIZE,
    MAX_FILE_SIZE,
    MAX_LOG_SIZE,
    RECORD_INDEX_MOVES,
    SIMPLE_MOVES,
    SMALL_FILE_LIMIT,
    SORT_COLUMNS,
    SORT_MODE,
)
from hudisql.errors import SettingsError, UnsupportedTableError
from hudisql.format.keys.bucket_rules import BucketRules, bucket_rules
from hudisql.format.metadata_table.metadata_records import RECORD_INDEX
from hudisql.options.extra_metadata import extra_metadata
from hudisql.options.unserved_settings import refuse_logical_timestamps, refuse_unserved_writes
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.kept_metadata_table import has_kept_indexes
from hudisql.write.execution.partitioner import FileSizing
from hudisql.write.execution.writer_config import SortMode, WriteOptions
from hudisql.write.handle.base_file import BaseFileConfig
from hudisql.write.handle.log_file import BlockFormat, LogFileConfig
from hudisql.write.index.key_encoding import uses_complex_key_encoding
from hudisql.write.index.partition_buckets import stored_bucket_rules
from hudisql.write.index.record_index import HashBuckets, IndexKind, RecordIndex
from hudisql.write.keygen.key_generator import key_generator_of
from hudisql.write.transaction.concurrency import Concurrency, LockFactory, read_concurrency

if TYPE_CHECKING:
    from hudisql.context import Context

_SORT_MODES: Final[Mapping[str, SortMode]] = {
    "NONE": "none",
    "PARTITION_SORT": "local",
    "GLOBAL_SORT": "global",
    "PARTITION_PATH_REPARTITION": "partition",
    "PARTITION_PATH_REPARTITION_AND_SORT": "partition",
}
# The approximate bytes of a value in a file: fixed widths compress by half, texts and the like have a typical
# length.
_TEXT_BYTES: Final = 16
_COMPRESSION: Final = 0.5
_META_BYTES: Final = 10
_UNLIMITED: Final = 1 << 62
# File ids have eight digits for them.
_MOST_BUCKETS: Final = 100_000_000
_IN_MEMORY: Final = "INMEMORY"
_RECORD_INDEX_NAMES: Final = ("RECORD_INDEX", "GLOBAL_RECORD_LEVEL_INDEX")
_MOVES: Final = {IndexKind.GLOBAL_SIMPLE: SIMPLE_MOVES, IndexKind.RECORD_INDEX: RECORD_INDEX_MOVES}


def write_options(context: Context, table: HudiTable, config: HudiConfig) -> WriteOptions:
    """The options for writing to the table by the settings of its writes (`settings_of`).

    The encoding of record keys is read from the table's files where its properties do not say it. Raises
    SettingsError for an invalid value, UnsupportedTableError for a lock provider or concurrency mode that
    hudisql lacks and for keys of both forms.
    """
    return write_options_by(config, table, _metastore_locks(context, table, config))


def write_options_by(
    config: HudiConfig, table: HudiTable, more_locks: Mapping[str, LockFactory] | None = None
) -> WriteOptions:
    """The options for writing to the table.

    `more_locks` are further lock providers by name, besides those that need only a file system. Raises
    SettingsError, UnsupportedTableError.
    """
    refuse_unserved_writes(config, table.properties)
    refuse_logical_timestamps(config, table.properties, table.schema)
    ordering_fields = table.ordering_fields
    by_event_time = table.properties.keeps_later_event_times
    index = record_index(config, table)
    max_file_bytes = config.get(MAX_FILE_SIZE)
    return WriteOptions(
        base_file_config=BaseFileConfig(
            codec=_codec(config),
            # Every reader supports snappy as well as gzip, and writing snappy takes half of the CPU time.
            keeps_snappy=table.properties.bootstrap_base_path is not None and not config.is_set(CODEC),
            # A bucket is one file group of any size.
            max_file_bytes=max_file_bytes if index.buckets is None else _UNLIMITED,
            bloom_entries=config.get(BLOOM_ENTRIES) or None,
            bloom_fpp=config.get(BLOOM_FPP),
            dropped_columns=table.dropped_columns,
        ),
        sizing=FileSizing(
            small_file_bytes=config.get(SMALL_FILE_LIMIT),
            max_file_bytes=max_file_bytes,
            bytes_per_row=_META_BYTES + sum(_bytes_of(field.type) for field in table.schema) * _COMPRESSION,
        ),
        event_time_fields=ordering_fields if by_event_time else (),
        ordering_fields=ordering_fields,
        log_file_config=LogFileConfig(
            block_format=cast(BlockFormat, config.get(BLOCK_FORMAT)),
            max_block_bytes=config.get(MAX_BLOCK_SIZE),
            max_file_bytes=config.get(MAX_LOG_SIZE),
        ),
        concurrency=read_concurrency(config, table.storage, table.base_path, more_locks),
        sort_mode=_SORT_MODES[config.get(SORT_MODE)],
        sort_columns=_sort_columns(config, table),
        # Generated keys are unique.
        combines=None if table.properties.generates_record_keys else _combine_before_insert(config),
        index=index,
        key_generator=key_generator_of(table, lambda key: _given(config, table, key)),
        complex_keys=uses_complex_key_encoding(table),
        extra_metadata=extra_metadata(config),
        driver_max_bytes=config.get(DRIVER_MAX_BYTES),
    )


def _given(config: HudiConfig, table: HudiTable, key: str) -> str | None:
    return config.lookup(key, table.properties.get(key) or "") or None


def writer_concurrency(context: Context, table: HudiTable, config: HudiConfig) -> Concurrency:
    """How writes share the table with other writers; settings as in `write_options`.

    Raises SettingsError, UnsupportedTableError for features that hudisql lacks.
    """
    locks = _metastore_locks(context, table, config)
    return read_concurrency(config, table.storage, table.base_path, locks)


def _metastore_locks(context: Context, table: HudiTable, config: HudiConfig) -> Mapping[str, LockFactory]:
    def metastore_lock() -> MetastoreLock:
        for key in (LOCK_DATABASE, LOCK_TABLE):
            if not config.is_set(key):
                raise SettingsError(f"{METASTORE_PROVIDER} needs {key}")
        uris = config.get(LOCK_URIS)
        if uris not in ("", context.metastore.uris):
            raise UnsupportedTableError(
                f"the lock of the Hudi table at {table.base_path} is in the metastore {uris}, and "
                f"this session's metastore is {context.metastore.uris}",
                hint="write to it with a session on that metastore (--metastore)",
            )
        return MetastoreLock(context.metastore, config.get(LOCK_DATABASE), config.get(LOCK_TABLE))

    return {METASTORE_PROVIDER: metastore_lock}


def _codec(config: HudiConfig) -> str:
    codec = config.get(CODEC)
    return "none" if codec == "uncompressed" else codec


def _sort_columns(config: HudiConfig, table: HudiTable) -> tuple[str, ...]:
    given = config.get(SORT_COLUMNS)
    names = {name.lower(): name for name in table.schema.names}
    unknown = [name for name in given if name.lower() not in names]
    if unknown:
        raise SettingsError(
            f"{SORT_COLUMNS} names '{unknown[0]}', and {table.base_path} has no such column; "
            f"the columns are {', '.join(table.schema.names)}"
        )
    return tuple(names[name.lower()] for name in given)


def _combine_before_insert(config: HudiConfig) -> bool | None:
    return config.get(COMBINE_BEFORE_INSERT) if config.is_set(COMBINE_BEFORE_INSERT) else None


def _bytes_of(value_type: pa.DataType) -> float:
    if pa.types.is_nested(value_type):
        inner = [value_type.field(number).type for number in range(value_type.num_fields)]
        return sum(_bytes_of(inner_type) for inner_type in inner) * (
            1 if pa.types.is_struct(value_type) else 4
        )
    try:
        return float(value_type.bit_width) / 8
    except ValueError:
        return _TEXT_BYTES


def record_index(config: HudiConfig, table: HudiTable) -> RecordIndex:
    """The index for writes to the table.

    Raises SettingsError for an invalid value, UnsupportedTableError as `hash_buckets`.
    """
    config = config.over(table.properties.get)
    kind = _kind(config, table)
    moves = _MOVES.get(kind, BLOOM_MOVES)
    buckets = None
    if kind is IndexKind.BUCKET:
        if table.properties.generates_record_keys:
            raise UnsupportedTableError(
                f"{INDEX_TYPE} = BUCKET: a bucket index needs record key columns, and the keys "
                f"of {table.base_path} are generated",
                hint=f"SET {INDEX_TYPE} = BLOOM, or make the table with TBLPROPERTIES (primaryKey = '…')",
            )
        buckets = hash_buckets(config, table)
    return RecordIndex(kind, moves_rows=config.get(moves), buckets=buckets)


def hash_buckets(config: HudiConfig, table: HudiTable) -> HashBuckets:
    """The buckets of a table, by its settings.

    Raises SettingsError for invalid values, UnsupportedTableError for consistent hashing of a copy-on-write
    table and for numbers of buckets by partition beside it, CorruptTableError, StorageError.
    """
    record_key_fields = table.properties.record_key_fields
    is_consistent = config.get(BUCKET_ENGINE) == CONSISTENT_HASHING
    if is_consistent and not table.is_merge_on_read:
        raise UnsupportedTableError(
            f"{BUCKET_ENGINE} = {CONSISTENT_HASHING}: Apache Hudi has it for merge-on-read tables alone, and "
            f"{table.base_path} is copy-on-write",
            hint=f"SET {BUCKET_ENGINE} = SIMPLE, or make a table with TBLPROPERTIES (type = 'mor')",
        )
    rules = stored_bucket_rules(table) or declared_bucket_rules(config)
    if is_consistent and rules is not None:
        raise _rules_of_rings(table.base_path)
    count = _bucket_count(config) if rules is None else rules.default
    fields = config.get(BUCKET_FIELDS)
    strangers = [name for name in fields if name not in record_key_fields]
    if strangers:
        raise SettingsError(
            f"{BUCKET_FIELDS} names '{strangers[0]}', which is not a column of the record key "
            f"({', '.join(record_key_fields)})"
        )
    return HashBuckets(count, fields or record_key_fields, is_consistent, rules)


def declared_bucket_rules(config: HudiConfig) -> BucketRules | None:
    """The numbers of buckets by partition of the settings, None without. Raises SettingsError."""
    expressions = config.get(BUCKET_EXPRESSIONS)
    if not expressions:
        return None
    try:
        return bucket_rules(expressions, _bucket_count(config), config.get(BUCKET_RULE))
    except ValueError as error:
        raise SettingsError(
            f"{BUCKET_EXPRESSIONS} = {expressions} cannot be followed: {error}",
            hint="write pattern,number;pattern,number with patterns of digits, letters, . * + ? | ( ) [ ]",
        ) from None


def bucket_rules_of_new_table(properties: Mapping[str, str]) -> BucketRules | None:
    """The numbers of buckets by partition that a table with these TBLPROPERTIES stores, None without.

    Raises SettingsError, UnsupportedTableError for a consistent hashing index.
    """
    config = HudiConfig(lambda name, default: properties.get(name) or default)
    if config.get(INDEX_TYPE) != IndexKind.BUCKET:
        return None
    rules = declared_bucket_rules(config)
    if rules is not None and config.get(BUCKET_ENGINE) == CONSISTENT_HASHING:
        raise _rules_of_rings("the new table")
    return rules


def _rules_of_rings(table_label: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"{table_label} has numbers of buckets by partition ({BUCKET_EXPRESSIONS}), and with "
        f"{BUCKET_ENGINE} = {CONSISTENT_HASHING} each partition has its own ring of buckets",
        hint=f"set {BUCKET_ENGINE} to SIMPLE, or leave {BUCKET_EXPRESSIONS} out",
    )


def _bucket_count(config: HudiConfig) -> int:
    count = config.get(BUCKET_COUNT)
    if not count.isdigit() or not 0 < int(count) < _MOST_BUCKETS:
        raise SettingsError(f"{BUCKET_COUNT} must be a whole number above 0, not '{count}'")
    return int(count)


def _kind(config: HudiConfig, table: HudiTable) -> IndexKind:
    name = config.get(INDEX_TYPE)
    if name == _IN_MEMORY:
        # Hudi's finds what its own process has written, in the partition of the row.
        return IndexKind.SIMPLE
    if name not in (*_RECORD_INDEX_NAMES, IndexKind.RECORD_LEVEL_INDEX):
        return IndexKind(name)
    # Hudi, too, uses the simple index, or the global one, without a record index.
    is_there = RECORD_INDEX in table.properties.metadata_partitions and has_kept_indexes(table)
    if name == IndexKind.RECORD_LEVEL_INDEX:
        return IndexKind.RECORD_LEVEL_INDEX if is_there else IndexKind.SIMPLE
    return IndexKind.RECORD_INDEX if is_there else IndexKind.GLOBAL_SIMPLE
