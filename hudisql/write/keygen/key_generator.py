"""Partition paths that are computed from column values: timestamp-based and custom key generators.

Follows `TimestampBasedAvroKeyGenerator`, `CustomAvroKeyGenerator` and `KeyGenUtils.getPartitionPath` of Hudi
0.15. In such tables the column values are in the files, and directory names cannot be converted to them.
Takes settings as a look-up function; works on whole columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import UnsupportedTableError
from hudisql.format import table_properties as keys
from hudisql.format.keys.record_keys import find_column, render_field
from hudisql.format.paths.partition_path import HIVE_DEFAULT_PARTITION, escape_partition_value
from hudisql.format.table_properties import TableProperties
from hudisql.table.hudi_table import HudiTable, transforms_partition_values
from hudisql.write.keygen.timestamp_based_key_generator import UNITS, TimestampBasedKeyGenerator, zone_id

Setting = Callable[[str], str | None]
"""The value of a `hoodie.*` setting, or None."""
_TIME_BASED: Final = keys.KEY_GENERATOR_PREFIXES[0]
PARTITION_SPEC: Final = "hoodie.datasource.write.partitionpath.field"
_UNIT_OF_TYPE: Final = {
    "UNIX_TIMESTAMP": "SECONDS",
    "EPOCHMILLISECONDS": "MILLISECONDS",
    "EPOCHMICROSECONDS": "MICROSECONDS",
}


@dataclass(frozen=True, slots=True)
class KeyGenerator:
    """Makes partition paths of rows: one directory (or several) for each field.

    A field without `TimestampBasedKeyGenerator` is rendered as in record keys.
    """

    fields: tuple[tuple[str, TimestampBasedKeyGenerator | None], ...]
    hive_style: bool
    url_encode: bool

    def paths(self, batch: pa.RecordBatch) -> pa.StringArray:
        """The partition path of each row. Raises WriteRefusedError, UnsupportedTableError."""
        directories: list[Any] = []
        for name, times in self.fields:
            if times is not None:
                texts = times.names(find_column(batch, name))
            else:
                texts = render_field(batch, name)
                is_missing = pc.fill_null(pc.equal(texts, ""), True)
                texts = pc.if_else(is_missing, HIVE_DEFAULT_PARTITION, texts)
            if self.url_encode:
                encoded = texts.dictionary_encode()
                escaped = [escape_partition_value(text) for text in encoded.dictionary.to_pylist()]
                texts = pa.array(escaped, pa.string()).take(encoded.indices)
            prefix = f"{name}=" if self.hive_style else ""
            directories.append(pc.binary_join_element_wise(pa.scalar(prefix), texts, ""))
        return directories[0] if len(directories) == 1 else pc.binary_join_element_wise(*directories, "/")


def generates_paths(table: HudiTable) -> bool:
    """True if directory names are not the values of the partition columns."""
    return bool(table.properties.partition_fields) and not table.partition_columns


def key_generator_of(table: HudiTable, setting: Setting) -> KeyGenerator | None:
    """The generator of a table whose directory names are not the columns' values; None for other tables.

    Raises UnsupportedTableError for an unknown key generator or a missing setting.
    """
    if not generates_paths(table):
        return None
    return key_generator_from(table.properties, table.base_path, setting)


def key_generator_from(
    properties: TableProperties, table_label: str, setting: Setting
) -> KeyGenerator | None:
    """The generator of a table with these properties; None if its key generator does not transform values.

    `table_label` names the table in errors. Raises UnsupportedTableError.
    """
    generator = (properties.key_generator_class or properties.key_generator_type or "").rsplit(".", 1)[-1]
    names = properties.partition_fields
    if not names or not transforms_partition_values(properties):
        return None
    kinds = dict.fromkeys(names, "SIMPLE")
    if generator.upper().startswith("TIMESTAMP"):
        kinds = dict.fromkeys(names, "TIMESTAMP")
    elif generator.upper().startswith("CUSTOM"):
        kinds = _kinds_of_fields(properties, table_label, setting)
    times = _timestamp_based_key_generator(table_label, setting) if "TIMESTAMP" in kinds.values() else None
    fields = tuple((name, times if kinds[name] == "TIMESTAMP" else None) for name in names)
    return KeyGenerator(fields, properties.hive_style_partitioning, properties.url_encode_partitioning)


def _kinds_of_fields(properties: TableProperties, table_label: str, setting: Setting) -> dict[str, str]:
    names = properties.partition_fields
    for text in (properties.get(keys.PARTITION_FIELDS), setting(PARTITION_SPEC)):
        parts = [part.strip().partition(":") for part in (text or "").split(",")]
        kinds = {name: kind.strip().upper() for name, _, kind in parts}
        if tuple(kinds) == names and all(kind in ("SIMPLE", "TIMESTAMP") for kind in kinds.values()):
            return kinds
    raise UnsupportedTableError(
        f"the Hudi table at {table_label} has a custom key generator, and no setting has the kinds "
        f"of its partition fields {','.join(names)}",
        # Without quotes, since Spark's SET makes them a part of the value.
        hint=f"SET {PARTITION_SPEC} = {','.join(f'{name}:SIMPLE' for name in names)}; "
        "TIMESTAMP is for fields that are turned into dates",
    )


def _timestamp_based_key_generator(table_label: str, setting: Setting) -> TimestampBasedKeyGenerator:
    def given(name: str) -> str | None:
        values = [setting(prefix + name) for prefix in keys.KEY_GENERATOR_PREFIXES]
        return next((value.strip() for value in values if value and value.strip()), None)

    def needed(name: str) -> str:
        value = given(name)
        if value is None:
            raise UnsupportedTableError(
                f"the Hudi table at {table_label} has a timestamp-based key generator, and no setting has "
                f"{_TIME_BASED}{name}",
                hint="set it for the session, or in TBLPROPERTIES, as its writers do",
            )
        return value

    kind = needed("timestamp.type").upper()
    output_format = needed("output.dateformat")
    zone = given("timezone")
    input_zone, output_zone = (zone or given(f"{side}.timezone") for side in ("input", "output"))
    if setting("hoodie.keygen.datetime.parser.class") not in (None, "", _PARSER):
        raise UnsupportedTableError(f"the key generator of {table_label} has its own date parser")
    if kind in ("DATE_STRING", "MIXED"):
        if output_zone is not None and input_zone is None:
            input_zone = needed("input.timezone")
        delimiter = given("input.dateformat.list.delimiter.regex") or ","
        formats = tuple(part.strip() for part in needed("input.dateformat").split(delimiter))
        unit = None
    elif kind in _UNIT_OF_TYPE or kind == "SCALAR":
        unit = _UNIT_OF_TYPE.get(kind) or (given("timestamp.scalar.time.unit") or "SECONDS").upper()
        formats = ()
        # Without a time zone Hudi uses that of its JVM, which is unknown here.
        output_zone = output_zone or needed("output.timezone")
    else:
        raise UnsupportedTableError(f"{_TIME_BASED}timestamp.type = {kind} is not supported")
    if unit is not None and unit not in UNITS:
        raise UnsupportedTableError(f"{_TIME_BASED}timestamp.scalar.time.unit = {unit} is not supported")
    return TimestampBasedKeyGenerator(
        output_format=output_format,
        output_zone=None if output_zone is None else zone_id(output_zone),
        unit=unit,
        input_formats=formats,
        input_zone=None if input_zone is None else zone_id(input_zone),
    )


_PARSER: Final = "org.apache.hudi.keygen.parser.HoodieDateTimeParser"
