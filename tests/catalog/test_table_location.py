"""The one rule for a table's directory, which CREATE TABLE and bootstrap_table share."""

from __future__ import annotations

from pathlib import Path

import pytest

from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.table_location import database_directory, default_table_location
from hudisql.storage import Storage


@pytest.mark.hms
def test_a_table_lies_in_its_databases_directory(client: MetastoreClient, tmp_path: Path) -> None:
    storage, warehouse = Storage(), str(tmp_path / "warehouse")
    elsewhere = tmp_path / "elsewhere"
    client.create_database("located", elsewhere.as_uri())
    try:
        assert database_directory(storage, client, warehouse, "located") == str(elsewhere)
        path = default_table_location(storage, client, warehouse, "located", "t")
        assert path == str(elsewhere / "t")
    finally:
        client.drop_database("located")


@pytest.mark.hms
def test_a_database_that_the_metastore_lacks_gets_a_directory_in_the_warehouse(
    client: MetastoreClient, tmp_path: Path
) -> None:
    path = default_table_location(Storage(), client, str(tmp_path), "absent_database", "t")
    assert path == str(tmp_path / "absent_database.db" / "t")


class _WithoutLocations:
    """A metastore whose databases have no location, as some services give them."""

    def get_database(self, _name: str) -> None:
        return None


def test_the_default_database_is_the_warehouse_itself(tmp_path: Path) -> None:
    metastore = _WithoutLocations()
    path = default_table_location(Storage(), metastore, str(tmp_path), "DEFAULT", "t")  # type: ignore[arg-type]
    assert path == str(tmp_path / "t")
