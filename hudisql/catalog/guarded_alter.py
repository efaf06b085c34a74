"""Changes a metastore entry without undoing concurrent changes.

Hive's `alter_table` stores a whole entry, and so undoes changes that other clients made after it was read. So
only the differences are applied to the current entry. The declaration of a table's events has an additional
guard: since HIVE-26882 (2.3.10) the server compares a property with what the client expects; before that
release changes between two calls are not detected.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.errors import EntryChangedError, NoSuchTableError

GUARDED_PROPERTY: Final = "hudisql_ingest"
"""The property that one client sets while others sync the table."""
_ATTEMPTS: Final = 10


def alter_guarded(
    client: MetastoreClient, before: MetastoreTable, after: MetastoreTable, *, cascade: bool = False
) -> None:
    """Apply the differences from `before` to `after` to the entry; other clients' changes of other properties
    stay.

    Raises NoSuchTableError, EntryChangedError if others repeatedly change the entry, or changed the guarded
    property that `after` changes, too; MetastoreError.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        stored = client.get_table(before.database, before.name)
        if stored is None:
            raise NoSuchTableError(f"there is no table {before.full_name}")
        if _is_overtaken(before, after, stored):
            raise EntryChangedError(
                f"cannot alter {before.full_name}: another client has changed {GUARDED_PROPERTY} meanwhile",
                hint="try again",
            )
        merged = replace(after, parameters=_merged(before, after, stored))
        is_guarded = GUARDED_PROPERTY in stored.parameters and GUARDED_PROPERTY in merged.parameters
        expected = (GUARDED_PROPERTY, stored.parameters[GUARDED_PROPERTY]) if is_guarded else None
        try:
            client.alter_table(merged, cascade=cascade, expected=expected)
        except EntryChangedError:
            if attempt == _ATTEMPTS:
                raise
        else:
            return


def _is_overtaken(before: MetastoreTable, after: MetastoreTable, stored: MetastoreTable) -> bool:
    was, wanted, now = (entry.parameters.get(GUARDED_PROPERTY) for entry in (before, after, stored))
    return wanted != was and now != was


def _merged(before: MetastoreTable, after: MetastoreTable, stored: MetastoreTable) -> dict[str, str]:
    set_now = {key: value for key, value in after.parameters.items() if before.parameters.get(key) != value}
    dropped = set(before.parameters) - set(after.parameters)
    return {key: value for key, value in stored.parameters.items() if key not in dropped} | set_now
