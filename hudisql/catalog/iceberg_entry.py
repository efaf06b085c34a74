"""The metastore entry `<name>_iceberg` of the Iceberg table of a Hudi table, as Iceberg's HiveCatalog has it.

Its readers need `table_type` and `metadata_location` alone; the columns are for people. Follows Iceberg's
`HiveTableOperations` and `HiveOperationsBase.storageDescriptor`.
"""

from __future__ import annotations

from dataclasses import replace

from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.guarded_alter import alter_guarded
from hudisql.catalog.metastore_table import ICEBERG_SUFFIX, ICEBERG_TYPE, MetastoreTable, iceberg_base_path
from hudisql.catalog.sync_entries import EntryKind, SyncOptions, wanted_table
from hudisql.errors import TableExistsError
from hudisql.format.timeline.timeline_layout import iceberg_directory
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable

_SERDE = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
_INPUT_FORMAT = "org.apache.hadoop.mapred.FileInputFormat"
_OUTPUT_FORMAT = "org.apache.hadoop.mapred.FileOutputFormat"
_COLUMNS = SyncOptions(support_timestamp=True, omits_meta_columns=True)


def find_iceberg_entry(
    client: MetastoreClient, storage: Storage, base_path: str, database: str, name: str
) -> MetastoreTable | None:
    """The Iceberg entry of the Hudi table at this path with this main name. Raises MetastoreError."""
    entry = client.get_table(database, name + ICEBERG_SUFFIX)
    return entry if entry is not None and _is_of(storage, base_path, entry) else None


def check_iceberg_name(client: MetastoreClient, table: HudiTable, database: str, name: str) -> None:
    """Raise TableExistsError if another table has the name of the Iceberg entry. Raises MetastoreError."""
    entry = client.get_table(database, name + ICEBERG_SUFFIX)
    if entry is not None and not _is_of(table.storage, table.base_path, entry):
        raise TableExistsError(
            f"{entry.full_name} exists already, and is not the Iceberg table of {database}.{name}",
            hint="rename or drop it, or leave out register and read the Iceberg table by its metadata file",
        )


def sync_iceberg_entry(
    client: MetastoreClient, table: HudiTable, database: str, name: str, metadata_file: str
) -> MetastoreTable:
    """Make the entry, or let it show this metadata file; the entry.

    Raises UnsupportedTableError for columns that Hive cannot have, MetastoreError.
    """
    wanted = _wanted(table, database, name, metadata_file)
    found = find_iceberg_entry(client, table.storage, table.base_path, database, name)
    if found is None:
        client.create_table(wanted)
        return wanted
    parameters = {**found.parameters, **wanted.parameters}
    if found.columns != wanted.columns or found.parameters != parameters:
        alter_guarded(client, found, replace(found, columns=wanted.columns, parameters=parameters))
    return found


def _wanted(table: HudiTable, database: str, name: str, metadata_file: str) -> MetastoreTable:
    entry = wanted_table(table, database, EntryKind(name.lower() + ICEBERG_SUFFIX), _COLUMNS)
    return replace(
        entry,
        location=table.storage.hadoop_uri(iceberg_directory(table.base_path)),
        columns=(*entry.columns, *entry.partition_columns),
        partition_columns=(),
        input_format=_INPUT_FORMAT,
        output_format=_OUTPUT_FORMAT,
        serde=_SERDE,
        serde_properties={},
        parameters={"EXTERNAL": "TRUE", "table_type": ICEBERG_TYPE, "metadata_location": metadata_file},
    )


def _is_of(storage: Storage, base_path: str, entry: MetastoreTable) -> bool:
    location = iceberg_base_path(entry)
    return location is not None and storage.qualify(location) == storage.qualify(base_path)
