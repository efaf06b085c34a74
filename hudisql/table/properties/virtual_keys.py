"""Which tables without meta columns (`hoodie.populate.meta.fields=false`, "virtual keys") are written, and
of which ones log files are merged.

Their record keys are computed from the key columns, as Hudi does for its simple, complex and non-partitioned
key generators alone (`HoodieTableMetaClient.validateTableProperties` of Hudi 0.15).
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from hudisql.errors import UnsupportedTableError
from hudisql.format.table_properties import MERGE_ON_READ, TableProperties
from hudisql.table.hudi_table import HudiTable

_KEY_GENERATORS: Final = ("SIMPLE", "COMPLEX", "NONPARTITIONED", "NON_PARTITION")
# Parts of the metadata table that are made from the record keys in the files.
_OF_STORED_KEYS: Final = ("record_index", "bloom_filters", "secondary_index")


def uncomputed_keys(properties: TableProperties) -> str | None:
    """Why the record keys of rows without meta columns cannot be computed, as a clause; None if they can."""
    if properties.bootstrap_base_path is not None:
        return "it is bootstrapped"
    if properties.generates_record_keys:
        return "its record keys are generated"
    if properties.drop_partition_columns:
        return "its files lack the partition columns (hoodie.datasource.write.drop.partition.columns=true)"
    generator = (properties.key_generator_class or properties.key_generator_type or "").rsplit(".", 1)[-1]
    if generator and not generator.upper().startswith(_KEY_GENERATORS):
        return f"its key generator is {generator}"
    return None


def unmerged_keys(properties: TableProperties, schema: pa.Schema) -> str | None:
    """Why the log files of such a table without meta columns are not merged, as a clause; None if they are.

    Apache Hudi finds a row by the text of its stored key, which for some types is not the text that its
    delete blocks have (tests/oracle/test_virtual_keys.py). `schema` has the table's columns.
    """
    if (reason := uncomputed_keys(properties)) is not None:
        return reason
    generator = properties.key_generator_class or properties.key_generator_type or ""
    if len(properties.record_key_fields) == 1 and "COMPLEX" in generator.upper():
        return "its complex key generator has a single key column"
    for name in properties.record_key_fields:
        place = schema.get_field_index(name)
        if place < 0 or not _is_merged(schema.field(place).type, properties.version):
            kind = f" of the type {schema.field(place).type}" if place >= 0 else ""
            return f"Apache Hudi does not find the record keys of its key column {name}{kind} in log files"
    return None


def _is_merged(key_type: pa.DataType, version: int) -> bool:
    checks = (
        pa.types.is_integer,
        pa.types.is_string,
        pa.types.is_boolean,
        pa.types.is_floating,
        pa.types.is_timestamp,
    )
    return any(check(key_type) for check in checks) or (version != 6 and pa.types.is_decimal(key_type))


def unwritten_virtual_keys(properties: TableProperties, schema: pa.Schema) -> str | None:
    """Why hudisql does not write to such a table without meta columns, as a clause.

    None if it does, or if the rows carry meta columns. `schema` has the table's columns.
    """
    if properties.populate_meta_fields:
        return None
    reason = uncomputed_keys(properties)
    if reason is not None:
        return reason
    if properties.cdc_enabled:
        return "it logs changes (hoodie.table.cdc.enabled=true)"
    if properties.table_type == MERGE_ON_READ:
        reason = unmerged_keys(properties, schema)
        if reason is not None:
            return f"it is merge-on-read, and {reason}"
        # Apache Hudi 1.2 writes and compacts the log files of such tables, but cannot read them.
        if both := sorted(set(properties.record_key_fields) & set(properties.partition_fields)):
            return f"it is merge-on-read, and {both[0]} is a key column and a partition column"
    indexes = [name for name in properties.metadata_partitions if name.startswith(_OF_STORED_KEYS)]
    if indexes:
        return f"its metadata table has indexes of stored record keys ({', '.join(indexes)})"
    return None


def unwritten_rows(table: HudiTable) -> str | None:
    """Why hudisql does not write rows without meta columns to the table, as a clause; None if it does.

    Raises CorruptTableError.
    """
    if table.properties.populate_meta_fields:
        return None
    reason = unwritten_virtual_keys(table.properties, table.schema)
    has_none = "its rows carry no meta columns (hoodie.populate.meta.fields=false)"
    return None if reason is None else f"{has_none}, and {reason}"


def refuse_virtual_keys(table: HudiTable, what: str) -> None:
    """Raise UnsupportedTableError for a table without meta columns; `what` is what needs them."""
    if not table.properties.populate_meta_fields:
        raise UnsupportedTableError(
            f"the rows of the Hudi table at {table.base_path} carry no meta columns "
            f"(hoodie.populate.meta.fields=false), with which hudisql does not {what}",
            hint="do it with Apache Hudi",
        )
