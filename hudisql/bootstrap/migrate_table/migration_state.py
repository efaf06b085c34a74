"""The progress of a migration under the old name, read only from the metastore's entries.

Three names are used: the table's own, `__hudi` appended to it for the Hudi table before the names are
exchanged, and `__source` appended for the plain table afterwards. Entries that a migration creates or marks
have the property `hudisql_migration`; others by these names are never touched. Reads only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from hudisql.bootstrap.source.hive_source import load_source_table
from hudisql.catalog.metastore_table import MetastoreTable, is_hudi_table
from hudisql.errors import CorruptTableError, InvalidArgumentError, NoSuchTableError, TableExistsError

if TYPE_CHECKING:
    from hudisql.catalog.client import MetastoreClient

MIGRATION_PROPERTY: Final = "hudisql_migration"
"""On the plain entry a `SourceMark` as JSON; on the Hudi entry `hudi`."""
_STAGED_SUFFIX: Final = "__hudi"
_SOURCE_SUFFIX: Final = "__source"
_LONGEST_NAME: Final = 256
"""Characters of a table's name in the schema of Hive 2.3's metastore (`TBLS.TBL_NAME`)."""


class MigrationStep(Enum):
    """The states that a kill can leave, in the order of a migration."""

    PLAIN = "not migrated"
    STAGED = "the Hudi table is registered under its temporary name"
    BETWEEN = "the plain table gave up its name, and the Hudi table has not taken it yet"
    MIGRATED = "migrated"


@dataclass(frozen=True, slots=True)
class MigrationNames:
    """The names of one migration in the database, lower case."""

    database: str
    name: str

    @property
    def full_name(self) -> str:
        """`database.name` of the table."""
        return f"{self.database}.{self.name}"

    @property
    def staged(self) -> str:
        """The Hudi table's name before the exchange."""
        return self.name + _STAGED_SUFFIX

    @property
    def source(self) -> str:
        """The plain table's name after the exchange."""
        return self.name + _SOURCE_SUFFIX


@dataclass(frozen=True, slots=True)
class SourceMark:
    """The state of the plain entry that a migration stores before it begins.

    `target_path` is the directory of the Hudi table, `before` has the former properties that decide whether a
    DROP deletes files (None: not set).
    """

    target_path: str
    before: Mapping[str, str | None]

    def to_json(self) -> str:
        """The value of the property."""
        return json.dumps({"target": self.target_path, "before": dict(self.before)})


@dataclass(frozen=True, slots=True)
class MigrationState:
    """The metastore's state: the plain entry and the Hudi entry, each under the name of this step."""

    names: MigrationNames
    step: MigrationStep
    source: MetastoreTable
    hudi: MetastoreTable | None


def read_migration_state(metastore: MetastoreClient, names: MigrationNames) -> MigrationState:
    """The state of the migration of this table.

    Raises InvalidArgumentError for a name that leaves no room for the others, NoSuchTableError if there is no
    such table, TableExistsError if another table has one of the names or the table was not migrated,
    SourceError if it is not plain parquet, CorruptTableError if a part of the migration was dropped,
    MetastoreError.
    """
    if len(names.source) > _LONGEST_NAME:
        raise InvalidArgumentError(
            f"the name {names.full_name} is too long for a migration: the plain table would get"
            f" {names.source}, and the metastore takes {_LONGEST_NAME} characters",
            hint="rename the table; bootstrap_table takes any name for the Hudi table",
        )
    entry, staged, source = (
        metastore.get_table(names.database, name) for name in (names.name, names.staged, names.source)
    )
    for other in (staged, source):
        if other is not None and MIGRATION_PROPERTY not in other.parameters:
            raise TableExistsError(
                f"the metastore has a table {other.full_name} already, a name that the migration of"
                f" {names.full_name} needs",
                hint="rename that table",
            )
    if entry is None:
        return _between(names, staged, source)
    if is_hudi_table(entry):
        return _migrated(names, entry, staged, source)
    load_source_table(metastore, names.database, names.name)
    if source is not None:
        raise TableExistsError(
            f"{names.full_name} is a plain table, and {source.full_name} is the source of an earlier"
            " migration of that name",
            hint=f"rename {source.full_name}",
        )
    return MigrationState(names, MigrationStep.STAGED if staged else MigrationStep.PLAIN, entry, staged)


def _between(
    names: MigrationNames, staged: MetastoreTable | None, source: MetastoreTable | None
) -> MigrationState:
    if source is None:
        raise NoSuchTableError(f"the metastore has no table {names.full_name}")
    return MigrationState(names, MigrationStep.BETWEEN, source, staged)


def _migrated(
    names: MigrationNames, entry: MetastoreTable, staged: MetastoreTable | None, source: MetastoreTable | None
) -> MigrationState:
    if MIGRATION_PROPERTY not in entry.parameters:
        raise TableExistsError(f"{names.full_name} is a Hudi table already, but not by a migration")
    if source is None:
        raise CorruptTableError(
            f"{names.full_name} was migrated, but its plain table {names.database}.{names.source} is gone",
            hint="the table itself is complete; without that entry the old state cannot be restored",
        )
    if staged is not None:
        raise TableExistsError(
            f"{names.full_name} is migrated, and {staged.full_name} exists as well",
            hint=f"drop the entry {staged.full_name}; its files stay",
        )
    return MigrationState(names, MigrationStep.MIGRATED, source, entry)


def read_mark(source: MetastoreTable) -> SourceMark | None:
    """The mark of a plain entry, None if it has none. Raises CorruptTableError."""
    text = source.parameters.get(MIGRATION_PROPERTY)
    if text is None:
        return None
    try:
        found = json.loads(text)
        before = {str(key): None if value is None else str(value) for key, value in found["before"].items()}
        return SourceMark(str(found["target"]), before)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise CorruptTableError(
            f"the property {MIGRATION_PROPERTY} of {source.full_name} was not set by migrate_table: {text}"
        ) from error
