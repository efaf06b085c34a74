"""The default location of a table: in its database's directory, as in Spark and Hive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hudisql.storage import Storage, join

if TYPE_CHECKING:
    from hudisql.catalog.client import MetastoreClient

_DEFAULT_DATABASE: Final = "default"


def database_directory(storage: Storage, metastore: MetastoreClient, warehouse: str, database: str) -> str:
    """The directory of a database: from the metastore, or below the warehouse for a database that does not
    exist.

    The database `default` is the warehouse directory itself, others are `<name>.db` in it. Raises
    MetastoreError.
    """
    metastore_database = metastore.get_database(database)
    if metastore_database is not None and metastore_database.location:
        return storage.qualify(metastore_database.location)
    is_default = database.lower() == _DEFAULT_DATABASE
    return storage.qualify(warehouse if is_default else join(warehouse, f"{database}.db"))


def default_table_location(
    storage: Storage, metastore: MetastoreClient, warehouse: str, database: str, name: str
) -> str:
    """The directory of the table `database.name` if no location is given. Raises MetastoreError."""
    return join(database_directory(storage, metastore, warehouse, database), name)
