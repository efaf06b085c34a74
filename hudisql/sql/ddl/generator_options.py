"""Key generators of new tables: the settings that they need, and those that the table keeps.

Follows `HoodieTableConfig.PERSISTED_CONFIG_LIST` of Hudi 0.15: `hoodie.properties` takes formats, time zones
and unit, but neither the type of the values nor the kinds of a custom generator's fields; those are stored in
the metastore's entry. Knows no files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Protocol

import pyarrow as pa

from hudisql.errors import UnsupportedTableError
from hudisql.format.table_properties import (
    KEY_GENERATOR_CLASS,
    KEY_GENERATOR_PREFIXES,
    TableProperties,
)
from hudisql.sql.schema.table_definition import TableDefinition
from hudisql.write.keygen.key_generator import PARTITION_SPEC, key_generator_from

KEY_GENERATOR: Final = ("hoodie.datasource.write.keygenerator.class", KEY_GENERATOR_CLASS)
"""The names by which a table's key generator is given."""
TIMESTAMP_GENERATOR: Final = "TimestampBasedKeyGenerator"
CUSTOM_GENERATOR: Final = "CustomKeyGenerator"
_KEPT: Final = (
    *("timezone", "input.timezone", "output.timezone", "output.dateformat", "input.dateformat"),
    *("input.dateformat.list.delimiter.regex", "timestamp.scalar.time.unit"),
)
_OF_TABLE: Final = tuple(prefix + name for prefix in KEY_GENERATOR_PREFIXES for name in _KEPT)
_OF_ENTRY: Final = tuple(prefix + "timestamp.type" for prefix in KEY_GENERATOR_PREFIXES)


def plain_generator(name: str) -> str:
    """The name of the key generator that makes the same keys and paths as the one for Avro records."""
    return name.replace("AvroKeyGenerator", "KeyGenerator")


class _Settings(Protocol):
    """The settings of a session or a writer."""

    def get(self, name: str, default: None, /) -> str | None:
        """The value of a setting, the default if it is not set."""


def with_generator_settings(definition: TableDefinition, session: _Settings) -> TableDefinition:
    """The definition of a new table, completed by the session's settings of its key generator.

    Later writers find these settings with the table.
    """
    given = {name.lower(): value.strip() for name, value in definition.properties.items()}
    generators = [given[name].rsplit(".", 1)[-1] for name in KEY_GENERATOR if name in given]
    names = [*_OF_TABLE, *_OF_ENTRY] if {TIMESTAMP_GENERATOR, CUSTOM_GENERATOR} & {*generators} else []
    if CUSTOM_GENERATOR in generators:
        names.append(PARTITION_SPEC)
    said = {name: session.get(name, None) for name in names if name not in given}
    properties = {**definition.properties, **{name: value for name, value in said.items() if value}}
    return replace(definition, properties=properties)


def kept_generator_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """The part of the settings that `hoodie.properties` takes."""
    return {name: properties[name] for name in _OF_TABLE if name in properties}


def check_generator(definition: TableDefinition, values: Mapping[str, str], table_label: str) -> list[str]:
    """The non-text columns of which the generator of a table with these `hoodie.properties` makes dates.

    Raises UnsupportedTableError if the generator is not supported: if settings are missing or unknown, or
    don't fit the types of the partition columns.
    """
    generator = key_generator_from(TableProperties(dict(values)), table_label, definition.properties.get)
    if generator is None:
        return []
    generator.paths(pa.RecordBatch.from_pylist([], schema=definition.columns))
    by_name = {field.name.lower(): field.type for field in definition.columns}
    for name, times in generator.fields:
        kind = by_name[name.lower()]
        if times is None and pa.types.is_timestamp(kind):
            raise UnsupportedTableError(
                f"the partition field {name}:SIMPLE is a timestamp, which has no directory name that every "
                "writer agrees on",
                hint=f"{PARTITION_SPEC} = '{name}:TIMESTAMP' makes dates of it",
            )
    return [
        name
        for name, times in generator.fields
        if times is not None and not pa.types.is_string(by_name[name.lower()])
    ]
