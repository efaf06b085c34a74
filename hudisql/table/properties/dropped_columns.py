"""Which tables whose files lack the partition columns are made and written.

Follows what Hudi 0.15 and 1.2 do by `hoodie.datasource.write.drop.partition.columns` = true: the values are
in the names of directories alone, and are read as texts.
"""

from __future__ import annotations

import pyarrow as pa

from hudisql.format.table_properties import DROP_PARTITION_COLUMNS, MERGE_ON_READ, TableProperties
from hudisql.table.hudi_table import transforms_partition_values


def unwritten_dropped_columns(properties: TableProperties, schema: pa.Schema) -> str | None:
    """Why hudisql does not write such a table, as a clause; None if it does, or if its files are whole.

    `schema` has the table's columns.
    """
    if not properties.drop_partition_columns or not properties.partition_fields:
        return None
    reason = None
    if properties.table_type == MERGE_ON_READ:
        # Hudi notes the option as false, and refuses its own next write.
        reason = "it is merge-on-read"
    elif properties.bootstrap_base_path is not None:
        reason = "it is bootstrapped"
    elif properties.cdc_enabled:
        reason = "it logs changes"
    elif transforms_partition_values(properties):
        reason = "its key generator makes directories that do not have the values"
    else:
        names = {name.lower() for name in properties.partition_fields}
        for field in schema:
            if field.name.lower() in names and not pa.types.is_string(field.type):
                reason = f"its partition column {field.name} is no STRING"
    if reason is None:
        return None
    return f"its files lack the partition columns ({DROP_PARTITION_COLUMNS}=true), and {reason}"
