"""What a table of the metastore is made of, if not of plain parquet files: by its entry alone.

Spark reads text, CSV, JSON, ORC, Avro and Hive's own formats by the table's name. The files of other table
formats (Delta, Iceberg, Hudi) and of Hive's ACID tables also have rows that left the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hudisql.catalog.metastore_table import PROVIDER_PROPERTY, MetastoreTable, is_hudi_table

# Words in the input format's or storage handler's name, the format they mean, and if it is of plain files.
_FORMATS_OF_HIVE: Final = (
    ("orc", "an ORC table", True),
    ("avro", "an Avro table", True),
    ("textinputformat", "a text table", True),
    ("rcfile", "an RCFile table", True),
    ("sequencefile", "a SequenceFile table", True),
    ("kudu", "a Kudu table", False),
    ("hbase", "an HBase table", False),
)
_FORMATS_OF_SPARK: Final = {
    "orc": "an ORC table",
    "avro": "an Avro table",
    "csv": "a CSV table",
    "json": "a JSON table",
    "text": "a text table",
}
_SERDES: Final = (("csv", "a CSV table"), ("json", "a JSON table"))


@dataclass(frozen=True, slots=True)
class OtherFormat:
    """A table that is not of plain parquet files: `kind` as in "an ORC table".

    `has_files` if its rows are those of plain files, `has_rows` if Spark reads it by name at all.
    """

    kind: str
    has_files: bool = False
    has_rows: bool = False


def other_format(table: MetastoreTable) -> OtherFormat | None:
    """The format of a table that is not a plain parquet table."""
    parameters = {key.lower(): (value or "") for key, value in table.parameters.items()}
    provider = parameters.get(PROVIDER_PROPERTY, "").lower()
    if is_hudi_table(table):
        return OtherFormat("a Hudi table")
    if table.is_view:
        return OtherFormat("a view", has_rows=True)
    if parameters.get("table_type", "").upper() == "ICEBERG" or provider == "iceberg":
        return OtherFormat("an Iceberg table")
    if provider == "delta" or "delta" in (table.input_format or "").lower():
        return OtherFormat("a Delta table")
    if parameters.get("transactional", "").lower() == "true":
        return OtherFormat("a Hive ACID (transactional) table")
    if provider in _FORMATS_OF_SPARK:
        return OtherFormat(_FORMATS_OF_SPARK[provider], has_files=True, has_rows=True)
    if provider not in ("", "parquet", "hive"):
        return OtherFormat(f"a Spark table of format {provider}", has_rows=True)
    if provider == "parquet" or "parquet" in (table.input_format or "").lower():
        return None
    return _format_of_hive(table, parameters.get("storage_handler", ""))


def _format_of_hive(table: MetastoreTable, storage_handler: str) -> OtherFormat:
    described = f"{table.input_format or ''} {storage_handler}".lower()
    for word, kind, has_files in _FORMATS_OF_HIVE:
        if word in described:
            serde = (table.serde or "").lower()
            by_serde = next((name for part, name in _SERDES if has_files and part in serde), kind)
            return OtherFormat(by_serde, has_files=has_files, has_rows=has_files)
    return OtherFormat(f"a table with the input format {table.input_format or 'none'}")
