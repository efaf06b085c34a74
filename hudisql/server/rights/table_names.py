"""Requires rights on the tables that names stand for, as Spark and hudisql resolve them.

Temporary views come first, then the current database. A view needs the right on it and on the tables that its
query reads. A name that is neither a view nor a table of the metastore may be a path (`` parquet.`/data` ``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from hudisql.errors import NoSuchTableError
from hudisql.server.rights.parsed_names import Name
from hudisql.server.rights.rights_file import Right, UserRights
from hudisql.sql.query.views import ViewDefinition, definition_of_metastore_view, find_temporary_view

if TYPE_CHECKING:
    from hudisql.catalog.metastore_table import MetastoreTable
    from hudisql.context import Context

_CATALOG: Final = "spark_catalog"
_MARKS_OF_PATHS: Final = frozenset("/:\\")
_MAX_VIEW_DEPTH: Final = 100


class NamedTables:
    """The rights of a user on the tables that the names of one statement stand for."""

    def __init__(
        self, context: Context, rights: UserRights, check_view: Callable[[ViewDefinition, int], None]
    ) -> None:
        """`check_view` requires what the query of a view needs; its second argument is the view's depth."""
        self._context = context
        self._rights = rights
        self._check_view = check_view
        self._read: dict[tuple[str, str], MetastoreTable] = {}

    def require_reading(
        self, name: Name, database: str, *, temporary: bool = True, depth: int = 0
    ) -> MetastoreTable | None:
        """Require what reading needs, and return the entry of the metastore; None for a temporary view.

        `database` is that of unqualified names, `temporary` says whether they may be temporary views. Raises
        RightMissingError, and NoSuchTableError instead of letting Spark take the name for a path.
        """
        if depth > _MAX_VIEW_DEPTH:
            raise self._rights.refuse("read views that are nested so deep")
        if self._read_temporary(name, temporary=temporary, depth=depth):
            return None
        database, table = self.qualify(name, database)
        if (database, table) in self._read:
            return self._read[database, table]
        self._rights.require(Right.READER, database, table)
        entry = self._read[database, table] = self._entry(database, table)
        if entry.is_view:
            definition = definition_of_metastore_view(entry)
            if definition is None:
                raise self._rights.refuse(f"read the view {entry.full_name}, whose query is not known")
            self._check_view(definition, depth + 1)
        return entry

    def require_writing(
        self, name: Name, database: str, *, exists: bool = True, right: Right = Right.WRITER
    ) -> MetastoreTable | None:
        """Require the right to write a table; with `exists` it must be one of the metastore.

        `right` is that to write the table, or the one to change its rows only.

        Raises RightMissingError, NoSuchTableError.
        """
        if len(name) == 1 and find_temporary_view(self._context.spark, name[0]):
            raise self._rights.refuse(f"write the temporary view {name[0]}")
        database, table = self.qualify(name, database)
        self._rights.require(right, database, table)
        return self._entry(database, table) if exists else None

    def is_own_view(self, name: Name) -> bool:
        """True if the name is that of a temporary view of the session."""
        return len(name) == 1 and find_temporary_view(self._context.spark, name[0]) is not False

    def qualify(self, name: Name, database: str) -> tuple[str, str]:
        """Database and table of a name, in lower case.

        Raises RightMissingError for other catalogs and for paths.
        """
        spark = self._context.spark
        parts = name[1:] if len(name) == 3 and name[0].lower() == _CATALOG else name
        if len(parts) == 1 and spark.catalog.currentCatalog() == _CATALOG:
            parts = (database, *parts)
        written = ".".join(name)
        if len(parts) != 2 or spark.conf.get(f"spark.sql.catalog.{parts[0]}", None) is not None:
            raise self._rights.refuse(f"use {written}, which is in another catalog")
        if any(mark in part for part in parts for mark in _MARKS_OF_PATHS):
            raise self._rights.refuse(f"read or write by path ({written})")
        if parts[0].lower() == self._global_database:
            raise self._rights.refuse(f"use {written}, a temporary view of all sessions")
        return parts[0].lower(), parts[1].lower()

    def database_of(self, name: Name) -> str:
        """The database that a name of a namespace stands for. Raises RightMissingError for other catalogs."""
        parts = name[1:] if len(name) == 2 and name[0].lower() == _CATALOG else name
        if len(parts) != 1 or any(mark in parts[0] for mark in _MARKS_OF_PATHS):
            raise self._rights.refuse(f"use {'.'.join(name)}, which is in another catalog")
        return parts[0].lower()

    @property
    def _global_database(self) -> str:
        return str(self._context.spark.conf.get("spark.sql.globalTempDatabase", "global_temp")).lower()

    def _read_temporary(self, name: Name, *, temporary: bool, depth: int) -> bool:
        is_global = len(name) == 2 and name[0].lower() == self._global_database
        if not is_global and not (temporary and len(name) == 1):
            return False
        found = find_temporary_view(self._context.spark, name[-1], is_global=is_global)
        if isinstance(found, ViewDefinition):
            self._check_view(found, depth + 1)
            return True
        # A view without a text is made of rows, by a statement of its session that was checked.
        return found is True and not is_global

    def _entry(self, database: str, table: str) -> MetastoreTable:
        entry = self._context.metastore.get_table(database, table)
        if entry is None:
            raise NoSuchTableError(f"the metastore has no table {database}.{table}", hint="check the name")
        return entry
