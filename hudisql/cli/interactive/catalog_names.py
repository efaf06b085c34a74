"""Names of the metastore for completion, cached for a short time; never starts the metastore."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from hudisql.errors import HudisqlError

if TYPE_CHECKING:
    from hudisql.catalog.client import MetastoreClient
    from hudisql.context import Context

_KEPT_SECONDS: Final = 20.0


class CatalogNames:
    """Databases, tables and columns of the session's metastore; empty while that does not answer."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._kept: dict[tuple[str, ...], tuple[float, tuple[str, ...]]] = {}

    @property
    def current_database(self) -> str:
        """The database of unqualified names."""
        return self._context.current_database

    def databases(self) -> Sequence[str]:
        """All databases."""
        return self._names(("databases",), lambda client: client.list_databases())

    def tables(self, database: str) -> Sequence[str]:
        """The tables and views of a database."""
        return self._names(("tables", database.lower()), lambda client: client.list_tables(database))

    def columns(self, database: str, table: str) -> Sequence[str]:
        """The columns of a table, partition columns last; none if there is no such table."""

        def found(client: MetastoreClient) -> Sequence[str]:
            entry = client.get_table(database, table)
            return () if entry is None else [each.name for each in (*entry.columns, *entry.partition_columns)]

        return self._names(("columns", database.lower(), table.lower()), found)

    def _names(self, key: tuple[str, ...], ask: Callable[[MetastoreClient], Sequence[str]]) -> Sequence[str]:
        kept = self._kept.get(key)
        if kept is not None and time.monotonic() - kept[0] < _KEPT_SECONDS:
            return kept[1]
        client = self._context.started_metastore
        if client is None:
            return ()
        try:
            names = tuple(ask(client))
        except HudisqlError:
            return ()
        self._kept[key] = time.monotonic(), names
        return names
