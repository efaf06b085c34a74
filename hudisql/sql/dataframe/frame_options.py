"""The options of a DataFrame's write, by Hudi's names: properties of the table, and how to write.

Follows `DataSourceWriteOptions` and the check of Hudi 0.15 that a writer's configuration agrees with the
table's (`HoodieWriterUtils.validateTableConfig`), but errors name both values, and no option is ignored
silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hudisql.config.hudi_config import COMMIT_METADATA_PREFIX, WRITE_OPERATION
from hudisql.errors import InvalidArgumentError
from hudisql.format import table_properties as keys
from hudisql.options.known_settings import is_stored_in_commits, misspelt_properties
from hudisql.sql.ddl.generator_options import KEY_GENERATOR, plain_generator
from hudisql.sql.ddl.table_options import (
    ORDERING,
    PARTITIONS,
    PAYLOAD,
    PRIMARY_KEY,
    TABLE_TYPES,
    TYPE,
    check_property,
)
from hudisql.sql.schema.merge_mode_property import MERGE_MODE
from hudisql.table.hudi_table import WRITTEN_VERSION, HudiTable
from hudisql.write.overwrite import Overwrite

OPERATION: Final = WRITE_OPERATION.name
PATH: Final = "path"
OPERATIONS: Final = (
    "upsert",
    "insert",
    "bulk_insert",
    "delete",
    "insert_overwrite",
    "insert_overwrite_table",
)
LOADS: Final[Mapping[str, Overwrite | None]] = {
    "bulk_insert": None,
    "insert_overwrite": Overwrite("touched"),
    "insert_overwrite_table": Overwrite("table"),
}
"""The operations that do not look up stored rows, with what they overwrite."""
_DEFAULT_PAYLOAD: Final = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
NAMES: Final = (keys.NAME, "hoodie.datasource.write.table.name")
"""The options with the table's name."""
_OF_THE_TABLE: Final = frozenset(
    {
        *(*PRIMARY_KEY, *TYPE, *ORDERING, *PAYLOAD, *MERGE_MODE, *PARTITIONS, *KEY_GENERATOR, *NAMES),
        *(keys.HIVE_STYLE_PARTITIONING, keys.URL_ENCODE_PARTITIONING, keys.DATABASE_NAME),
        *(keys.WRITE_VERSION, keys.CDC_ENABLED, keys.CDC_MODE, keys.POPULATE_META_FIELDS),
        keys.DROP_PARTITION_COLUMNS,
    }
)


@dataclass(frozen=True)
class FrameOptions:
    """`definition` has the properties of the table, `settings` (as those of a session) how it is written."""

    operation: str
    path: str | None
    definition: Mapping[str, str]
    settings: Mapping[str, str]


def read_frame_options(operation: str | None, options: Mapping[str, str]) -> FrameOptions:
    """Parse the options; `operation` is the caller's argument, which an option may also give.

    Those that the commit stores may have any name, in lower case as in Spark's writers. Raises
    InvalidArgumentError for unknown options and operations, and for contradictions.
    """
    definition, settings = {}, {}
    by_name = {name.lower(): str(value) for name, value in options.items()}
    prefix = by_name.get(COMMIT_METADATA_PREFIX.name, COMMIT_METADATA_PREFIX.default)
    for name, value in options.items():
        lower = name.lower()
        if lower in (OPERATION, PATH):
            continue
        if lower in _OF_THE_TABLE:
            definition[name] = str(value)
            if lower in PARTITIONS and ":" in str(value):
                # A custom key generator's fields with their kinds, which its tables do not store.
                settings[name] = str(value)
        elif is_stored_in_commits(lower, prefix):
            settings[lower] = str(value)
        elif not lower.startswith(("hoodie.", "hudisql.")):
            meant = misspelt_properties([name]).get(name)
            raise InvalidArgumentError(
                f"'{name}' is not an option of a write",
                hint=f"did you mean '{meant}'?"
                if meant
                else "options begin with hoodie. or hudisql., those that the commit stores with the value "
                f"of {COMMIT_METADATA_PREFIX}, in lower case",
            )
        else:
            settings[name] = str(value)
    return FrameOptions(_operation_of(operation, by_name), by_name.get(PATH), definition, settings)


def check_agreement(options: FrameOptions, table: HudiTable, table_label: str) -> None:
    """Raise InvalidArgumentError if the options contradict the table's properties.

    `table_label` is the table's name in the metastore. Raises UnsupportedTableError for a table configuration
    that hudisql does not support in new tables.
    """
    if options.path is not None and table.storage.qualify(options.path) != table.base_path:
        raise _contradiction(PATH, options.path, table_label, table.base_path)
    check_table_settings(options)
    for name, value in options.definition.items():
        own = _own_value(table, name.lower(), table_label)
        if _canonical(name.lower(), value) not in {_canonical(name.lower(), own_value) for own_value in own}:
            raise _contradiction(name, value, table_label, own[0] or "none")


def check_table_settings(options: FrameOptions) -> None:
    """Raise UnsupportedTableError for a table configuration that hudisql does not support in new tables."""
    for name, value in options.settings.items():
        if name.lower().startswith("hoodie.table."):
            check_property(name, value)


def _contradiction(name: str, value: str, table_label: str, own: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{name} = '{value}' contradicts the table {table_label}, which has '{own}'",
        hint="leave the option out, or write into another table",
    )


def _operation_of(given: str | None, options: Mapping[str, str]) -> str:
    named = options.get(OPERATION)
    if given is not None and named is not None and given.lower() != named.strip().lower():
        raise InvalidArgumentError(f"the operation is '{given}', but {OPERATION} = '{named}'")
    operation = (given or named or "upsert").strip().lower()
    if operation not in OPERATIONS:
        raise InvalidArgumentError(
            f"there is no operation '{operation}'", hint=f"the operations are {', '.join(OPERATIONS)}"
        )
    return operation


def _own_value(table: HudiTable, name: str, table_label: str) -> tuple[str, ...]:
    """The table's value for the option, under any of its names."""
    properties = table.properties
    if name in PRIMARY_KEY:
        return (",".join(properties.record_key_fields),)
    if name in PARTITIONS:
        return (",".join(properties.partition_fields),)
    if name in NAMES:
        return (table.name, table_label.rpartition(".")[2])
    if name == keys.DATABASE_NAME:
        return (table_label.rpartition(".")[0], properties.get(keys.DATABASE_NAME) or "")
    if name in TYPE:
        return (properties.table_type,)
    if name in ORDERING:
        return (properties.precombine_field or "",)
    if name in PAYLOAD:
        legacy = properties.get(keys.LEGACY_PAYLOAD_CLASS)
        return (properties.payload_class or legacy or _DEFAULT_PAYLOAD,)
    if name in MERGE_MODE:
        return (properties.effective_merge_mode,)
    if name == keys.WRITE_VERSION:
        return (str(properties.version), str(WRITTEN_VERSION))
    if name in KEY_GENERATOR:
        return (properties.key_generator_class or properties.key_generator_type or "",)
    if name == keys.CDC_MODE:
        return ("none" if properties.change_log_mode is None else properties.change_log_mode.lower(),)
    if name == keys.CDC_ENABLED:
        return (str(properties.cdc_enabled).lower(),)
    if name == keys.POPULATE_META_FIELDS:
        return (str(properties.populate_meta_fields).lower(),)
    if name == keys.DROP_PARTITION_COLUMNS:
        return (str(properties.drop_partition_columns).lower(),)
    flag = (
        properties.hive_style_partitioning
        if name == keys.HIVE_STYLE_PARTITIONING
        else properties.url_encode_partitioning
    )
    return (str(flag),)


def _canonical(name: str, value: str) -> str:
    text = (plain_generator(value) if name in KEY_GENERATOR else value).replace(" ", "").lower()
    if name in TYPE:
        return TABLE_TYPES.get(text, text)
    if name in PARTITIONS:
        return ",".join(part.partition(":")[0] for part in text.split(","))
    return text.rpartition(".")[2] if name in (*KEY_GENERATOR, *PAYLOAD) else text
