"""Names of migrations at the limits of the metastore and of file systems."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from hudisql.bootstrap.migrate_table.migration_lock import lock_directory_name
from hudisql.bootstrap.migrate_table.migration_state import MigrationNames, read_migration_state
from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.errors import InvalidArgumentError, NoSuchTableError


class _EmptyMetastore:
    def get_table(self, _database: str, _name: str) -> MetastoreTable | None:
        return None


def test_a_name_without_room_for_the_others_is_refused_before_anything_runs() -> None:
    metastore = cast("MetastoreClient", _EmptyMetastore())
    with pytest.raises(InvalidArgumentError, match="too long for a migration"):
        read_migration_state(metastore, MigrationNames("db", "t" * 249))
    with pytest.raises(NoSuchTableError):
        read_migration_state(metastore, MigrationNames("db", "t" * 248))


def test_the_lock_of_a_long_name_is_a_directory_that_can_be_made(tmp_path: Path) -> None:
    names = ["t", "t" * 248, "t" * 247 + "u"]
    for name in names:
        (tmp_path / lock_directory_name(name)).mkdir()
    assert len(list(tmp_path.iterdir())) == len(names)
