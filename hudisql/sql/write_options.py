"""How a statement writes: the `hoodie.*` settings of the session, over those of the table's TBLPROPERTIES.

`SET hoodie.parquet.max.file.size=…` and its kin mean what Apache Hudi documents. Values that are not
understood are refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa

from hudisql.catalog.metastore_lock import PROVIDER as METASTORE_PROVIDER
from hudisql.catalog.metastore_lock import MetastoreLock
from hudisql.errors import SettingsError, UnsupportedTableError
from hudisql.format.table_properties import KEY_GENERATOR_PREFIXES
from hudisql.sql.index_options import record_index
from hudisql.write.base_file import DEFAULT_BLOOM_FPP, BaseFileForm
from hudisql.write.commit import EVENT_TIME_PAYLOAD
from hudisql.write.concurrency import Concurrency, LockFactory, Lookup, read_concurrency
from hudisql.write.key_generator import has_composite_keys
from hudisql.write.log_file import DEFAULT_MAX_BLOCK_BYTES, DEFAULT_MAX_LOG_BYTES, BlockFormat, LogForm
from hudisql.write.open_base_file import CODECS
from hudisql.write.path_generator import path_generator_of
from hudisql.write.work_plan import FileSizing
from hudisql.write.write_options import LoadOrder, WriteOptions

if TYPE_CHECKING:
    from hudisql.context import Context
    from hudisql.table.hudi_table import HudiTable

CODEC: Final = "hoodie.parquet.compression.codec"
MAX_FILE_SIZE: Final = "hoodie.parquet.max.file.size"
SMALL_FILE_LIMIT: Final = "hoodie.parquet.small.file.limit"
BLOOM_ENTRIES: Final = "hoodie.index.bloom.num_entries"
BLOOM_FPP: Final = "hoodie.index.bloom.fpp"
INSERT_OPERATION: Final = "hoodie.spark.sql.insert.into.operation"
_BULK_INSERT: Final = "hoodie.sql.bulk.insert.enable"
# What says how an INSERT meets keys that are there already, with the values that change nothing.
_KNOWN_KEYS: Final = {
    "hoodie.datasource.write.insert.drop.duplicates": ("false",),
    "hoodie.datasource.insert.dup.policy": ("none",),
    "hoodie.sql.insert.mode": ("upsert", "non-strict"),
}
OVERWRITE_MODE: Final = "hoodie.datasource.overwrite.mode"
BLOCK_FORMAT: Final = "hoodie.logfile.data.block.format"
MAX_BLOCK_SIZE: Final = "hoodie.logfile.data.block.max.size"
MAX_LOG_SIZE: Final = "hoodie.logfile.max.size"
METASTORE_LOCK: Final = "hoodie.write.lock.hivemetastore"
LOAD_ORDER: Final = "hoodie.bulkinsert.sort.mode"
LOAD_COLUMNS: Final = "hoodie.bulkinsert.user.defined.partitioner.sort.columns"
RECONCILE_SCHEMA: Final = "hoodie.datasource.write.reconcile.schema"
NULL_FOR_MISSING: Final = "hoodie.write.set.null.for.missing.columns"
COLUMN_DROP: Final = "hoodie.datasource.write.schema.allow.auto.evolution.column.drop"
COMBINE_BEFORE_INSERT: Final = "hoodie.combine.before.insert"
SYNC: Final = "hudisql.sync"
_LOAD_ORDERS: Final[Mapping[str, LoadOrder]] = {
    "NONE": "none",
    "PARTITION_SORT": "local",
    "GLOBAL_SORT": "global",
    "PARTITION_PATH_REPARTITION": "partition",
    "PARTITION_PATH_REPARTITION_AND_SORT": "partition",
}
InsertOperation = Literal["insert", "upsert", "bulk_insert"]
INSERT_OPERATIONS: Final[tuple[InsertOperation, ...]] = ("insert", "upsert", "bulk_insert")
# What a value takes in a file, about: fixed widths compress by half, texts and the like have some length.
_TEXT_BYTES: Final = 16
_COMPRESSION: Final = 0.5
_META_BYTES: Final = 10
_UNLIMITED: Final = 1 << 62


def write_options(
    context: Context, table: HudiTable, parameters: Mapping[str, str] | None = None
) -> WriteOptions:
    """The options for writing to the table: the session's, else those of its TBLPROPERTIES (`parameters`).

    Which form the table's record keys have is asked of its files where nothing else says it. Raises
    SettingsError for a value that is not understood, UnsupportedTableError for a lock provider or concurrency
    mode that hudisql lacks and for keys of both forms.
    """
    lookup = _lookup(context, table, parameters or {})
    return write_options_by(lookup, table, _metastore_locks(context, table, lookup))


def write_options_by(
    lookup: Lookup, table: HudiTable, more_locks: Mapping[str, LockFactory] | None = None
) -> WriteOptions:
    """The options for writing to the table; `lookup` gives the text of a setting, or the given default.

    `more_locks` are lock providers by name besides those that need a file system alone. Raises as
    `write_options`.
    """
    defaults = FileSizing()
    ordering = table.properties.precombine_field
    by_event_time = table.properties.payload_class == EVENT_TIME_PAYLOAD
    index = record_index(lookup, table)
    max_file_bytes = _number(lookup, MAX_FILE_SIZE, defaults.max_file_bytes)
    return WriteOptions(
        form=BaseFileForm(
            codec=_codec(lookup),
            # A bucket is one file group, however large.
            max_file_bytes=max_file_bytes if index.buckets is None else _UNLIMITED,
            bloom_entries=_number(lookup, BLOOM_ENTRIES, 0) or None,
            bloom_fpp=_fraction(lookup, BLOOM_FPP, DEFAULT_BLOOM_FPP),
        ),
        sizing=FileSizing(
            small_file_bytes=_number(lookup, SMALL_FILE_LIMIT, defaults.small_file_bytes),
            max_file_bytes=max_file_bytes,
            bytes_per_row=_META_BYTES + sum(_bytes_of(field.type) for field in table.schema) * _COMPRESSION,
        ),
        ordering=ordering if by_event_time else None,
        newest_by=ordering,
        log_form=_log_form(lookup),
        concurrency=read_concurrency(lookup, table.storage, table.base_path, more_locks),
        load_order=_load_order(lookup),
        load_columns=_load_columns(lookup, table),
        combines=_combines(lookup),
        index=index,
        path_generator=path_generator_of(table, lambda key: _given(lookup, table, key)),
        composite_keys=has_composite_keys(table),
    )


def _given(lookup: Lookup, table: HudiTable, key: str) -> str | None:
    return lookup(key, table.properties.get(key) or "") or None


def writer_concurrency(
    context: Context, table: HudiTable, parameters: Mapping[str, str] | None = None
) -> Concurrency:
    """How the session's writes share the table with other writers; settings as in `write_options`.

    Raises SettingsError, UnsupportedTableError for what hudisql lacks.
    """
    lookup = _lookup(context, table, parameters or {})
    locks = _metastore_locks(context, table, lookup)
    return read_concurrency(lookup, table.storage, table.base_path, locks)


def insert_operation(context: Context, table: HudiTable) -> InsertOperation:
    """What INSERT INTO does with keys that the table has already: insert, upsert or bulk_insert.

    Unless set, a table with an ordering column takes upserts, as Hudi's `ProvidesHoodieConfig` has it. Raises
    SettingsError, also for Hudi's older setting.
    """
    default = "insert" if table.properties.precombine_field is None else "upsert"
    if (value := _text(context, _BULK_INSERT, "false")).lower() != "false":
        raise SettingsError(
            f"{_BULK_INSERT} = {value} is not supported", hint=f"SET {INSERT_OPERATION} = bulk_insert"
        )
    text = _text(context, INSERT_OPERATION, default).lower()
    found = next((each for each in INSERT_OPERATIONS if each == text), None)
    if found is None:
        raise SettingsError(f"{INSERT_OPERATION} must be one of {', '.join(INSERT_OPERATIONS)}, not '{text}'")
    return found


def refuse_policies_of_known_keys(
    context: Context, table: HudiTable, parameters: Mapping[str, str] | None = None
) -> None:
    """Raise SettingsError if settings want an INSERT to leave out, or stop at, keys that are there already.

    These are Hudi's `insert.drop.duplicates`, `insert.dup.policy` and its older `hoodie.sql.insert.mode`.
    """
    refuse_policies_by(_lookup(context, table, parameters or {}))


def refuse_policies_by(lookup: Lookup) -> None:
    """`refuse_policies_of_known_keys`, where `lookup` gives the text of a setting, or the given default."""
    for key, harmless in _KNOWN_KEYS.items():
        text = lookup(key, harmless[0]).lower()
        if text not in harmless:
            raise SettingsError(
                f"{key} = {text} is not supported: INSERT adds rows, or replaces those of the same key",
                hint="MERGE with WHEN NOT MATCHED THEN INSERT alone leaves out what is there already",
            )


def overwrites_touched_partitions(context: Context) -> bool:
    """True if INSERT OVERWRITE takes the place of just the partitions that get rows (dynamic mode)."""
    spark_mode = _text(context, "spark.sql.sources.partitionOverwriteMode", "STATIC")
    mode = _text(context, OVERWRITE_MODE, spark_mode).upper()
    if mode not in ("STATIC", "DYNAMIC"):
        raise SettingsError(f"{OVERWRITE_MODE} must be STATIC or DYNAMIC, not '{mode}'")
    return mode == "DYNAMIC"


def evolves_schema(context: Context) -> bool:
    """True if INSERT … BY NAME and `*` in MERGE may add columns and widen types."""
    return _flag(context, RECONCILE_SCHEMA, False)


def missing_columns(context: Context) -> Literal["null", "drop", "refuse"]:
    """What becomes of a table's column that a DataFrame lacks: null in its rows, or dropped, or refused.

    As in Hudi, whose default (refused) holds here only if it is set. `reconcile.schema` keeps columns.
    """
    if _flag(context, COLUMN_DROP, False) and not evolves_schema(context):
        return "drop"
    return "null" if _flag(context, NULL_FOR_MISSING, True) or evolves_schema(context) else "refuse"


def syncs_after_commit(context: Context) -> bool:
    """False if the session has switched off that the metastore follows each commit."""
    return _flag(context, SYNC, True)


def _flag(context: Context, key: str, default: bool) -> bool:
    text = _text(context, key, str(default)).lower()
    if text not in ("true", "false"):
        raise SettingsError(f"{key} must be true or false, not '{text}'")
    return text == "true"


def _lookup(context: Context, table: HudiTable, parameters: Mapping[str, str]) -> Lookup:
    own = {**table.properties.values, **parameters}
    of_generator = {name for name in map(_generator_setting, own) if name is not None}

    def lookup(key: str, default: str) -> str:
        said = own.get(key) or default
        # Folder names are the table's matter: what the session says for another would make new ones here.
        return said if _generator_setting(key) in of_generator else _text(context, key, said)

    return lookup


def _generator_setting(key: str) -> str | None:
    """The name of a key generator's setting, whichever of Hudi's prefixes it has."""
    prefix = next((each for each in KEY_GENERATOR_PREFIXES if key.startswith(each)), None)
    return None if prefix is None else key.removeprefix(prefix)


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
        raise SettingsError(f"{CODEC} must be one of {', '.join(CODECS)}, not '{text}'")
    return codec


def _log_form(lookup: Lookup) -> LogForm:
    return LogForm(
        block_format=_block_format(lookup),
        max_block_bytes=_number(lookup, MAX_BLOCK_SIZE, DEFAULT_MAX_BLOCK_BYTES),
        max_file_bytes=_number(lookup, MAX_LOG_SIZE, DEFAULT_MAX_LOG_BYTES),
    )


def _block_format(lookup: Lookup) -> BlockFormat:
    text = lookup(BLOCK_FORMAT, "avro").lower()
    if text == "avro":
        return "avro"
    if text == "parquet":
        return "parquet"
    raise SettingsError(f"{BLOCK_FORMAT} must be avro or parquet, not '{text}'")


def _load_order(lookup: Lookup) -> LoadOrder:
    text = lookup(LOAD_ORDER, "PARTITION_PATH_REPARTITION").upper()
    if text not in _LOAD_ORDERS:
        raise SettingsError(f"{LOAD_ORDER} must be one of {', '.join(_LOAD_ORDERS)}, not '{text}'")
    return _LOAD_ORDERS[text]


def _load_columns(lookup: Lookup, table: HudiTable) -> tuple[str, ...]:
    given = [name.strip() for name in lookup(LOAD_COLUMNS, "").split(",") if name.strip()]
    names = {name.lower(): name for name in table.schema.names}
    unknown = [name for name in given if name.lower() not in names]
    if unknown:
        raise SettingsError(
            f"{LOAD_COLUMNS} names '{unknown[0]}', and {table.base_path} has no such column; "
            f"the columns are {', '.join(table.schema.names)}"
        )
    return tuple(names[name.lower()] for name in given)


def _combines(lookup: Lookup) -> bool | None:
    text = lookup(COMBINE_BEFORE_INSERT, "").lower()
    if text not in ("", "true", "false"):
        raise SettingsError(f"{COMBINE_BEFORE_INSERT} must be true or false, not '{text}'")
    return text == "true" if text else None


def _number(lookup: Lookup, key: str, default: int) -> int:
    text = lookup(key, str(default))
    if not text.isdigit():
        raise SettingsError(f"{key} must be a whole number, not '{text}'")
    return int(text)


def _fraction(lookup: Lookup, key: str, default: float) -> float:
    text = lookup(key, str(default))
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise SettingsError(f"{key} must be a number between 0 and 1, not '{text}'")
    return value


def _text(context: Context, key: str, default: str) -> str:
    return str(context.spark.conf.get(key, default)).strip()


def _bytes_of(value_type: pa.DataType) -> float:
    if pa.types.is_nested(value_type):
        inner = [value_type.field(number).type for number in range(value_type.num_fields)]
        return sum(_bytes_of(each) for each in inner) * (1 if pa.types.is_struct(value_type) else 4)
    try:
        return float(value_type.bit_width) / 8
    except ValueError:
        return _TEXT_BYTES
