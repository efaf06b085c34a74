"""Which tables hudisql writes to, and why it refuses the others."""

from __future__ import annotations

from hudisql.errors import UnsupportedTableError
from hudisql.format.payload_classes import payload_rule
from hudisql.table.hudi_table import HudiTable
from hudisql.table.properties.dropped_columns import unwritten_dropped_columns
from hudisql.table.properties.virtual_keys import unwritten_rows
from hudisql.table.properties.written_versions import check_written, unwritten_rule
from hudisql.write.keygen.timestamp_directories import unwritten_timestamps


def check_writable(table: HudiTable, operation: str | None = None) -> None:
    """Raise UnsupportedTableError, with the reason, for a table that hudisql must not write to.

    `operation` is the operation of the write, or the action of a service (`table.written_versions`).
    """
    properties = table.properties
    check_written(table, operation)
    reason = unwritten_rule(table)
    if reason is not None:
        pass
    elif (lacking := unwritten_rows(table)) is not None:
        reason = lacking
    elif properties.change_log_mode is not None and table.is_bootstrapped:
        reason = "it is bootstrapped and logs changes (hoodie.table.cdc.enabled=true)"
    elif (dropped := unwritten_dropped_columns(properties, table.schema)) is not None:
        reason = dropped
    elif properties.partition_metafile_use_base_format:
        reason = "its partition markers are parquet files (hoodie.partition.metafile.use.base.format=true)"
    elif payload_rule(properties.payload_class) is None:
        reason = f"its payload class {properties.payload_class} merges rows by its own rules"
    else:
        reason = unwritten_timestamps(table)
    if reason is not None:
        raise UnsupportedTableError(
            f"hudisql does not write to the Hudi table at {table.base_path}: {reason}",
            hint="write to it with Apache Hudi",
        )
