"""Which tables without meta columns (`hoodie.populate.meta.fields=false`, "virtual keys") are written.

Their record keys are computed from the key columns, as Hudi does for its simple, complex and non-partitioned
key generators alone (`HoodieTableMetaClient.validateTableProperties` of Hudi 0.15).
"""

from __future__ import annotations

from typing import Final

from hudisql.errors import UnsupportedTableError
from hudisql.format.table_properties import MERGE_ON_READ, TableProperties
from hudisql.table.hudi_table import HudiTable

_KEY_GENERATORS: Final = ("SIMPLE", "COMPLEX", "NONPARTITIONED", "NON_PARTITION")
# Parts of the metadata table that are made from the record keys in the files.
_OF_STORED_KEYS: Final = ("record_index", "bloom_filters", "secondary_index")


def unwritten_virtual_keys(properties: TableProperties) -> str | None:
    """Why hudisql does not write to such a table without meta columns, as a clause.

    None if it does, or if the rows carry meta columns.
    """
    if properties.populate_meta_fields:
        return None
    if properties.table_type == MERGE_ON_READ:
        return "it is merge-on-read"
    if properties.bootstrap_base_path is not None:
        return "it is bootstrapped"
    if properties.cdc_enabled:
        return "it logs changes (hoodie.table.cdc.enabled=true)"
    if properties.generates_record_keys:
        return "its record keys are generated"
    if properties.drop_partition_columns:
        return "its files lack the partition columns (hoodie.datasource.write.drop.partition.columns=true)"
    generator = (properties.key_generator_class or properties.key_generator_type or "").rsplit(".", 1)[-1]
    if generator and not generator.upper().startswith(_KEY_GENERATORS):
        return f"its key generator is {generator}"
    indexes = [name for name in properties.metadata_partitions if name.startswith(_OF_STORED_KEYS)]
    if indexes:
        return f"its metadata table has indexes of stored record keys ({', '.join(indexes)})"
    return None


def refuse_virtual_keys(table: HudiTable, what: str) -> None:
    """Raise UnsupportedTableError for a table without meta columns; `what` is what needs them."""
    if not table.properties.populate_meta_fields:
        raise UnsupportedTableError(
            f"the rows of the Hudi table at {table.base_path} carry no meta columns "
            f"(hoodie.populate.meta.fields=false), with which hudisql does not {what}",
            hint="do it with Apache Hudi",
        )
