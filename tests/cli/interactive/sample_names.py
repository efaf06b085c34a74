"""A catalog of three tables, as completion sees one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hudisql.cli.interactive.completion import CatalogNames

_COLUMNS: Final = {
    ("lake", "orders"): ("_hoodie_commit_time", "order_id", "amount", "dt"),
    ("lake", "customers"): ("customer_id", "name"),
    ("raw", "events"): ("event_id",),
}


class SampleNames(CatalogNames):
    """The names of `lake.orders`, `lake.customers` and `raw.events`; `lake` is the current database."""

    def __init__(self) -> None:
        """Needs no context."""

    @property
    def current_database(self) -> str:
        """Its name."""
        return "lake"

    def databases(self) -> Sequence[str]:
        """Both."""
        return ["lake", "raw"]

    def tables(self, database: str) -> Sequence[str]:
        """Those of one database."""
        return [table for owner, table in _COLUMNS if owner == database.lower()]

    def columns(self, database: str, table: str) -> Sequence[str]:
        """Those of one table; none of an unknown one."""
        return _COLUMNS.get((database.lower(), table.lower()), ())
