"""TBLPROPERTIES of CREATE TABLE: keys, type, ordering, payload, layout; others are kept as given.

Follows `HoodieOptionConfig` and `HoodieCatalogTable.parseSchemaAndConfigs` of Hudi 0.15: Hudi's SQL names
(`primaryKey`, `type` …), its writers' options and its table configurations are synonyms. Properties of tables
that hudisql could not write are refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from hudisql.catalog.metastore_table import PURGE_PROPERTY
from hudisql.catalog.sync_changes import LAST_COMMIT_PROPERTY, LAST_COMPLETION_PROPERTY
from hudisql.catalog.sync_entries import OMIT_META_COLUMNS_OPTION, check_omitted_columns, sync_options_from
from hudisql.config.config_key import split_names
from hudisql.config.hudi_config import ICEBERG_SYNC
from hudisql.errors import InvalidArgumentError, UnsupportedTableError
from hudisql.format import table_properties as keys
from hudisql.format.log_file.change_log_mode import ChangeLogMode
from hudisql.format.payload_classes import PAYLOAD_RULES, payload_rule
from hudisql.format.timeline.timeline_layout import ARCHIVE_DIRECTORY
from hudisql.sql.ddl.generator_options import (
    CUSTOM_GENERATOR,
    KEY_GENERATOR,
    TIMESTAMP_GENERATOR,
    kept_generator_settings,
    plain_generator,
)
from hudisql.sql.schema.table_definition import TableDefinition
from hudisql.table.hudi_table import WRITTEN_VERSION, HudiTable
from hudisql.table.properties.new_table import NewTable, key_generator_class
from hudisql.table.properties.table_configuration import COLUMN_STATS_ENABLE
from hudisql.table.properties.version_properties import NEW_TABLE_VERSIONS

_WRITE: Final = "hoodie.datasource.write"
PROVIDERS: Final = ("hudi", "org.apache.hudi")
"""The names of Hudi in USING."""
PRIMARY_KEY: Final = ("primarykey", f"{_WRITE}.recordkey.field", keys.RECORD_KEY_FIELDS)
TYPE: Final = ("type", f"{_WRITE}.table.type", keys.TYPE)
ORDERING: Final = (
    *("precombinefield", "precombine", "orderingfields"),
    *(f"{_WRITE}.precombine.field", keys.PRECOMBINE_FIELD, keys.ORDERING_FIELDS),
)
PAYLOAD: Final = ("payloadclass", f"{_WRITE}.payload.class", keys.PAYLOAD_CLASS)
PARTITIONS: Final = (f"{_WRITE}.partitionpath.field", keys.PARTITION_FIELDS)
KNOWN_PROPERTIES: Final = (PRIMARY_KEY, TYPE, ORDERING, PAYLOAD, PARTITIONS, KEY_GENERATOR)
"""The names of the table's own properties, by meaning, in lower case."""
TABLE_TYPES: Final = {
    "cow": keys.COPY_ON_WRITE,
    "mor": keys.MERGE_ON_READ,
    "copy_on_write": keys.COPY_ON_WRITE,
    "merge_on_read": keys.MERGE_ON_READ,
}
_CLASSES: Final = "org.apache.hudi.keygen"
_TRANSFORMING: Final = (f"{_CLASSES}.{TIMESTAMP_GENERATOR}", f"{_CLASSES}.{CUSTOM_GENERATOR}")
# Each of these has one value that hudisql supports in new tables.
_FIXED: Final = {
    keys.VERSION: "6",
    keys.TIMELINE_LAYOUT_VERSION: "1",
    keys.BASE_FILE_FORMAT: "parquet",
    keys.PARTITION_METAFILE_USE_BASE_FORMAT: "false",
    keys.TIMELINE_TIMEZONE: "utc",
    keys.ARCHIVE_DIRECTORY: ARCHIVE_DIRECTORY,
}
_OF_FILES: Final = (
    *(keys.CDC_ENABLED, keys.CDC_MODE, keys.POPULATE_META_FIELDS),
    keys.DROP_PARTITION_COLUMNS,
)
_OF_THE_METASTORE: Final = (
    *(LAST_COMMIT_PROPERTY, LAST_COMPLETION_PROPERTY, "transient_lastDdlTime", "bucketing_version"),
    *("numFiles", "totalSize", "numRows", "rawDataSize", "COLUMN_STATS_ACCURATE", "numPartitions"),
    *(
        "last_modified_by",
        "last_modified_time",
        "DO_NOT_UPDATE_STATS",
        "TRANSLATED_TO_EXTERNAL",
        "numFilesErasureCoded",
    ),
)
# hudisql itself writes these.
_OWN: Final = (
    *(keys.NAME, keys.DATABASE_NAME, keys.CHECKSUM, keys.CREATE_SCHEMA, keys.METADATA_PARTITIONS),
    *(keys.MERGER_STRATEGY, keys.KEY_GENERATOR_TYPE),
)
_OWN_PREFIXES: Final = (
    *("hoodie.bootstrap.", "hoodie.datasource.hive_sync.", "hoodie.meta.sync."),
    *("spark.sql.", "hudisql."),
)
_OF_THE_ENTRY: Final = ("external", "provider", "location", "owner", "comment", "path")


def check_property(name: str, value: str) -> None:
    """Raise UnsupportedTableError for a property that a user must not set, or not to this value.

    InvalidArgumentError or SettingsError for a value that is none of the property's.
    """
    lower = name.lower()
    if lower in _FIXED and value.strip().lower() != _FIXED[lower]:
        raise UnsupportedTableError(
            f"{name} = {value} is not supported: hudisql writes tables with {_FIXED[lower]}",
            hint="leave it out",
        )
    if lower == OMIT_META_COLUMNS_OPTION:
        sync_options_from({OMIT_META_COLUMNS_OPTION: value})
    if name == ICEBERG_SYNC.name and value:
        ICEBERG_SYNC.parse(name, value)
    if _is_reserved(name):
        raise UnsupportedTableError(
            f"{name} cannot be set as a property of a Hudi table", hint="leave it out"
        )


def user_properties(parameters: Mapping[str, str]) -> dict[str, str]:
    """The parameters of a metastore entry that a user may have set."""
    return {
        name: value
        for name, value in parameters.items()
        if not _is_reserved(name) and name not in _OF_THE_METASTORE
    }


def check_properties(properties: Mapping[str, str]) -> None:
    """`check_property` of each. Raises UnsupportedTableError."""
    for name, value in properties.items():
        check_property(name, value)


def check_bootstrapped(table: HudiTable, properties: Mapping[str, str | None]) -> None:
    """Raise UnsupportedTableError for properties by which a bootstrapped table would lose rows."""
    for name, value in properties.items() if table.is_bootstrapped else ():
        given = (value or "").strip().lower()
        if name.lower() == PURGE_PROPERTY and given == "true":
            raise UnsupportedTableError(
                f"{name} = {value} is not supported for a bootstrapped table: Hive's DROP TABLE would delete "
                "the directories of its partitions, which may be those of source files",
                hint="DROP TABLE … PURGE removes the table's own files",
            )
        if name.lower() == COLUMN_STATS_ENABLE and value is not None:
            raise UnsupportedTableError(
                f"{name} of a bootstrapped table is set by hudisql: by statistics that Apache Hudi makes of "
                "skeletons filtered reads lose rows",
                hint="CALL create_metadata_table makes those of the source files, which Hudi then keeps",
            )


def properties_of_table(table: HudiTable, values: Mapping[str, str | None]) -> dict[str, str | None]:
    """The changes of `hoodie.properties` by setting these properties (None: unset).

    Ordering column and payload class can change. Raises UnsupportedTableError for properties that cannot
    change, InvalidArgumentError for an ordering column that the table lacks.
    """
    check_bootstrapped(table, values)
    changes: dict[str, str | None] = {}
    for name, value in values.items():
        lower = name.lower()
        check_property(name, value or _FIXED.get(lower, ""))
        if lower == COLUMN_STATS_ENABLE and table.is_bootstrapped:
            continue
        if lower == OMIT_META_COLUMNS_OPTION:
            raise UnsupportedTableError(
                f"{name} cannot be changed by ALTER TABLE, which leaves the entry's columns as they are",
                hint=f"CALL hive_sync(table => '…', options => map('{name}', 'true')) changes them",
            )
        if lower in (*ORDERING, *PAYLOAD) and table.version != WRITTEN_VERSION:
            raise UnsupportedTableError(
                f"{name} cannot be changed in table version {table.version}: hoodie.record.merge.mode says "
                "which rows win",
                hint="make another table",
            )
        if lower == keys.WRITE_VERSION and value not in (None, str(WRITTEN_VERSION), str(table.version)):
            raise UnsupportedTableError(
                f"{name} = {value} is not supported: the table has version {table.version}, and no write "
                "changes it",
                hint="leave it out",
            )
        if lower in ORDERING:
            wanted = TableDefinition(table.schema, (), {name: value}) if value else None
            changes[keys.PRECOMBINE_FIELD] = None if wanted is None else ordering_of(wanted)
        elif lower in PAYLOAD:
            changes[keys.PAYLOAD_CLASS] = None if value is None else _payload_of({name: value})
        elif value is not None and _says_already(table, lower, value):
            continue
        elif _is_of_files(lower) or table.properties.get(name) is not None:
            raise UnsupportedTableError(
                f"{name} cannot be changed: the table's files are written by it", hint="make another table"
            )
    return changes


def _is_of_files(name: str) -> bool:
    return any(name in names for names in (*KNOWN_PROPERTIES, _OF_FILES))


def _says_already(table: HudiTable, name: str, value: str) -> bool:
    properties = table.properties
    if name in TYPE:
        return TABLE_TYPES.get(value.strip().lower()) == properties.table_type
    if name in PRIMARY_KEY:
        return ",".join(_names_in(value)).lower() == ",".join(properties.record_key_fields).lower()
    if name in PARTITIONS:
        return value.replace(" ", "").lower() == ",".join(properties.partition_fields).lower()
    if name == keys.POPULATE_META_FIELDS:
        return value.strip().lower() == str(properties.populate_meta_fields).lower()
    if name == keys.CDC_ENABLED:
        return value.strip().lower() == str(properties.cdc_enabled).lower()
    if name == keys.DROP_PARTITION_COLUMNS:
        return value.strip().lower() == str(properties.drop_partition_columns).lower()
    return value.lower() == (properties.get(name) or "").lower()


def new_table(definition: TableDefinition, database: str, name: str, others: Mapping[str, str]) -> NewTable:
    """The new table's configuration; `others` are table configurations that hudisql adds.

    Raises InvalidArgumentError and UnsupportedTableError for properties that don't fit the definition.
    """
    given = definition.properties
    record_key = record_key_of(definition) or ()
    generator = _key_generator_of(definition, record_key)
    _check_required(definition, record_key)
    _check_chars(definition, record_key)
    options = sync_options_from({k: v for k, v in given.items() if k == OMIT_META_COLUMNS_OPTION})
    check_omitted_columns(options, is_merge_on_read=table_type_of(given) == keys.MERGE_ON_READ)
    _check_partitions(definition, is_transformed=generator in _TRANSFORMING)
    return NewTable(
        name=name,
        database=database,
        table_type=table_type_of(given) or keys.COPY_ON_WRITE,
        record_key=record_key,
        partition_fields=definition.partition_columns,
        precombine=ordering_of(definition),
        payload_class=_payload_of(given),
        key_generator_class=generator,
        is_hive_style=_flag(given, keys.HIVE_STYLE_PARTITIONING, True),
        is_url_encoded=_flag(
            given, keys.URL_ENCODE_PARTITIONING, _escapes_directories(definition, generator)
        ),
        drops_partition_columns=_flag(given, keys.DROP_PARTITION_COLUMNS, False),
        others={
            **others,
            **(kept_generator_settings(given) if generator in _TRANSFORMING else {}),
            **_change_logs_of(given),
            **({} if _flag(given, keys.POPULATE_META_FIELDS, True) else {keys.POPULATE_META_FIELDS: "false"}),
        },
        version=_version_of(given),
    )


def _version_of(properties: Mapping[str, str]) -> int:
    text = (_value(properties, (keys.WRITE_VERSION,)) or str(WRITTEN_VERSION)).strip()
    if text not in map(str, NEW_TABLE_VERSIONS):
        raise UnsupportedTableError(
            f"{keys.WRITE_VERSION} = {text} is not supported: hudisql makes tables of version 6 or 9",
            hint="leave it out, or choose 9 if only Hudi 1.1 and later read the table",
        )
    return int(text)


def _change_logs_of(properties: Mapping[str, str]) -> dict[str, str]:
    """The table configurations of change logs, as Hudi writes them. Raises InvalidArgumentError."""
    mode = _value(properties, (keys.CDC_MODE,))
    if mode is not None and mode.strip().upper() not in ChangeLogMode.__members__:
        raise InvalidArgumentError(
            f"{keys.CDC_MODE} = '{mode}' is unknown", hint=f"it is {' or '.join(ChangeLogMode).lower()}"
        )
    if not _flag(properties, keys.CDC_ENABLED, False):
        return {}
    return {keys.CDC_ENABLED: "true", **({keys.CDC_MODE: mode.strip().upper()} if mode else {})}


def _escapes_directories(definition: TableDefinition, generator: str | None) -> bool:
    """True if directories are named by the values of partition columns: escaped, any text can be one.

    Directories of a key generator may have several levels on purpose (`yyyy/MM`).
    """
    return bool(definition.partition_columns) and generator not in _TRANSFORMING


def record_key_of(definition: TableDefinition) -> tuple[str, ...] | None:
    """The columns of the record key; None if no property names one: keys are generated then.

    Raises InvalidArgumentError, also for an empty property.
    """
    found = _value(definition.properties, PRIMARY_KEY)
    if found is None:
        return None
    names = _names_in(found)
    if not names:
        raise InvalidArgumentError(
            f"primaryKey = '{found}' names no column",
            hint="name the columns that tell rows apart, or leave the property out: keys are generated then",
        )
    return tuple(_column(definition, name, "primaryKey") for name in names)


def with_plain_key(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties with a record key that is written as a list, `['id', 'region']`, in Hudi's form.

    dbt-spark writes such lists.
    """
    return {
        name: ",".join(_names_in(value)) if name.lower() in PRIMARY_KEY and _is_list(value) else value
        for name, value in properties.items()
    }


def _is_list(text: str) -> bool:
    return text.strip().startswith("[") and text.strip().endswith("]")


def _names_in(text: str) -> list[str]:
    """The names of columns between commas, those of a list without its brackets and quotes."""
    if _is_list(text):
        text = text.strip()[1:-1].translate(str.maketrans("", "", "'\"`"))
    return [*split_names(text)]


def ordering_of(definition: TableDefinition) -> str | None:
    """The ordering column; None if no property names one. Raises InvalidArgumentError."""
    found = _value(definition.properties, ORDERING)
    if not found:
        return None
    if "," in found:
        raise UnsupportedTableError(
            f"orderingFields = {found}: hudisql makes tables with one ordering column",
            hint="name one column, or make the table with Apache Hudi 1.x: hudisql writes to it then",
        )
    name = _column(definition, found.strip(), "preCombineField")
    if len(definition.columns) and pa.types.is_nested(_type_of(definition, name)):
        raise InvalidArgumentError(f"preCombineField = {found}: a {_type_of(definition, name)} has no order")
    return name


def table_type_of(properties: Mapping[str, str]) -> str | None:
    """Hudi's name of the table type; None if no property names one. Raises InvalidArgumentError."""
    text = _value(properties, TYPE)
    if text is None:
        return None
    if text.strip().lower() not in TABLE_TYPES:
        raise InvalidArgumentError(f"type = '{text}' is unknown", hint="it is 'cow' or 'mor'")
    return TABLE_TYPES[text.strip().lower()]


def _is_reserved(name: str) -> bool:
    if name.lower() == OMIT_META_COLUMNS_OPTION or name == ICEBERG_SYNC.name:
        return False
    return name.lower() in (*_OWN, *_OF_THE_ENTRY) or name.lower().startswith(_OWN_PREFIXES)


def _payload_of(properties: Mapping[str, str]) -> str | None:
    text = _value(properties, PAYLOAD)
    if text is not None and payload_rule(text) is None:
        raise UnsupportedTableError(
            f"payloadClass = {text} is not supported: it merges rows by rules of its own",
            hint=f"these are known: {', '.join(PAYLOAD_RULES)}",
        )
    return text


def _key_generator_of(definition: TableDefinition, record_key: tuple[str, ...]) -> str:
    fitting = key_generator_class(record_key, definition.partition_columns)
    text = _value(definition.properties, KEY_GENERATOR)
    name = (text or "").strip().rsplit(".", 1)[-1]
    if f"{_CLASSES}.{name}" in _TRANSFORMING:
        return _transforming_generator(definition, record_key, name)
    if not name:
        return fitting
    if not _makes_same_paths(plain_generator(name), fitting.rpartition(".")[2]):
        raise UnsupportedTableError(
            f"the key generator {text} is not supported for a table with the record key "
            f"{','.join(record_key) or '(generated)'} and {len(definition.partition_columns)} partition "
            "columns",
            hint=f"it is {fitting}; leave the property out",
        )
    return f"{_CLASSES}.{name}"


def _makes_same_paths(name: str, fitting: str) -> bool:
    """True if the key generator makes the partition paths of the `fitting` one."""
    return name == fitting or (name == "ComplexKeyGenerator" and fitting == "SimpleKeyGenerator")


def _transforming_generator(definition: TableDefinition, record_key: tuple[str, ...], name: str) -> str:
    """The class of a generator that computes directory names, checked against keys and partitions."""
    partitions = definition.partition_columns
    if name == TIMESTAMP_GENERATOR and (max(len(record_key), 1), len(partitions)) != (1, 1):
        raise UnsupportedTableError(
            f"{name} is for tables with one key column and one partition column, not for the record key "
            f"{','.join(record_key)} and PARTITIONED BY ({', '.join(partitions)})",
            hint=f"{_CLASSES}.{CUSTOM_GENERATOR} takes several: {PARTITIONS[0]} = 'a:SIMPLE,b:TIMESTAMP'",
        )
    if not partitions:
        raise UnsupportedTableError(f"{name} needs partition columns", hint="add PARTITIONED BY (…)")
    return f"{_CLASSES}.{name}"


def _check_partitions(definition: TableDefinition, *, is_transformed: bool) -> None:
    found = _value(definition.properties, PARTITIONS)
    if found is not None and ":" in found and not is_transformed:
        raise InvalidArgumentError(
            f"{PARTITIONS[0]} = '{found}' gives kinds of fields, and the table has no custom key generator",
            hint=f"add {KEY_GENERATOR[1]} = '{_CLASSES}.{CUSTOM_GENERATOR}'",
        )
    names = [part.partition(":")[0].strip().lower() for part in (found or "").split(",") if part.strip()]
    if found is not None and names != [name.lower() for name in definition.partition_columns]:
        raise InvalidArgumentError(
            f"the properties partition the table by {found or 'nothing'}, the statement by "
            f"{', '.join(definition.partition_columns) or 'nothing'}",
            hint="PARTITIONED BY (…) alone is enough",
        )
    for name in definition.partition_columns:
        kind = _type_of(definition, name)
        if pa.types.is_nested(kind):
            raise UnsupportedTableError(f"PARTITIONED BY {name}: a {kind} makes no directory name")
        if pa.types.is_timestamp(kind) and kind.tz is None and not is_transformed:
            raise UnsupportedTableError(
                f"PARTITIONED BY {name}: Hudi does not name directories by a TIMESTAMP_NTZ",
                hint="use TIMESTAMP, DATE or STRING",
            )


def _check_required(definition: TableDefinition, record_key: tuple[str, ...]) -> None:
    """NOT NULL holds for key columns anyway; for others it would not be enforced."""
    others = sorted(definition.required - set(record_key))
    if others:
        raise UnsupportedTableError(
            f"NOT NULL is not supported for {', '.join(others)}: only columns of the record key are checked",
            hint="leave NOT NULL out",
        )


def _check_chars(definition: TableDefinition, record_key: tuple[str, ...]) -> None:
    """Hudi's writers do not fill a CHAR with spaces, so that keys and directories would be others."""
    chars = {name.lower() for name, sized in definition.lengths.items() if sized.is_char}
    for role, names in (
        ("record key", record_key),
        ("partition", definition.partition_columns),
        ("ordering", (ordering_of(definition) or "").split(",")),
    ):
        for name in names:
            if name.strip().lower() in chars:
                raise UnsupportedTableError(
                    f"column {name}: a {role} column of a Hudi table cannot be a CHAR, which Apache Hudi "
                    "writes without the spaces at its end",
                    hint="use VARCHAR or STRING",
                )


def _column(definition: TableDefinition, name: str, property_name: str) -> str:
    """The name as the column has it; without columns (a table that exists) as given."""
    if not len(definition.columns):
        return name
    fields: list[pa.Field] = list(definition.columns)
    path: list[str] = []
    for part in name.split("."):
        found = next((field for field in fields if field.name.lower() == part.lower()), None)
        if found is None:
            raise InvalidArgumentError(
                f"{property_name} = '{name}' names no column of the table",
                hint=f"its columns are {', '.join(definition.columns.names)}",
            )
        path.append(found.name)
        fields = list(found.type) if pa.types.is_struct(found.type) else []
    return ".".join(path)


def _type_of(definition: TableDefinition, name: str) -> pa.DataType:
    found = pa.field("", pa.struct(list(definition.columns)))
    for part in name.split("."):
        found = found.type.field(part)
    return found.type


def _value(properties: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    """The one value of these names."""
    found = {name: value for name, value in properties.items() if name.lower() in names}
    if len({value.strip() for value in found.values()}) > 1:
        listed = ", ".join(f"{name} = '{value}'" for name, value in found.items())
        raise InvalidArgumentError(f"the table's properties contradict each other: {listed}")
    return next(iter(found.values()), None)


def _flag(properties: Mapping[str, str], name: str, default: bool) -> bool:
    text = _value(properties, (name,))
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise InvalidArgumentError(f"{name} is neither true nor false: '{text}'")
    return text.strip().lower() == "true"
