"""Changes a metastore entry without undoing concurrent changes.

Hive's `alter_table` stores a whole entry, and so undoes changes that other clients made after it was read. So
only the differences are applied to the current entry. The declaration of a table's events has an additional
guard. Hive 2.3.10 and 4 compare a property with what the client expects (HIVE-26882). Older servers and those
of Hive 3 ignore what the client expects, and Hive 4 fails if its database is Derby: there the entry is locked
while it is read and changed. A server that ignores it and has no tables for locks does not detect changes
between two calls.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.entry_lock import entry_lock
from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.errors import EntryChangedError, MetastoreError, NoSuchTableError

GUARDED_PROPERTY: Final = "hudisql_ingest"
"""The property that one client sets while others sync the table."""
_ATTEMPTS: Final = 10
_NEVER_STORED: Final = "expected of no entry"
# The type of the values in the server's database, where that is Derby.
_NOT_COMPARABLE: Final = "CLOB"


def alter_guarded(
    client: MetastoreClient, before: MetastoreTable, after: MetastoreTable, *, cascade: bool = False
) -> None:
    """Apply the differences from `before` to `after` to the entry; other clients' changes of other properties
    stay.

    Raises NoSuchTableError, EntryChangedError if others repeatedly change the entry, or changed the guarded
    property that `after` changes, too; TableLockedError if another client does not finish its change;
    MetastoreError.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        merged, expected = _merged(client, before, after)
        try:
            if expected is None or client.needs_entry_lock is False:
                client.alter_table(merged, cascade=cascade, expected=expected)
            else:
                _alter_locked(client, before, after, cascade)
        except EntryChangedError:
            if attempt == _ATTEMPTS:
                raise
        else:
            return


def _alter_locked(
    client: MetastoreClient, before: MetastoreTable, after: MetastoreTable, cascade: bool
) -> None:
    """Read and alter the entry under its lock; a client's first call finds out if the server needs it."""
    with entry_lock(client, before.full_name) as is_locked:
        merged, expected = _merged(client, before, after)
        if expected is not None and client.needs_entry_lock is None:
            client.needs_entry_lock = not _compares(client, merged, cascade)
            if client.needs_entry_lock:
                return
        if is_locked and client.needs_entry_lock:
            client.alter_table(merged, cascade=cascade)
            return
        try:
            client.alter_table(merged, cascade=cascade, expected=expected)
        except MetastoreError as error:
            if not is_locked or _NOT_COMPARABLE not in error.message:
                raise
            client.needs_entry_lock = True
            client.alter_table(merged, cascade=cascade)


def _compares(client: MetastoreClient, merged: MetastoreTable, cascade: bool) -> bool:
    """True if the server refuses to store `merged` for a value that no entry has; else it has stored it."""
    try:
        client.alter_table(merged, cascade=cascade, expected=(GUARDED_PROPERTY, _NEVER_STORED))
    except EntryChangedError:
        return True
    return False


def _merged(
    client: MetastoreClient, before: MetastoreTable, after: MetastoreTable
) -> tuple[MetastoreTable, tuple[str, str] | None]:
    """The entry to store, and the guarded property with its current value if both have it."""
    stored = client.get_table(before.database, before.name)
    if stored is None:
        raise NoSuchTableError(f"there is no table {before.full_name}")
    if _is_overtaken(before, after, stored):
        raise EntryChangedError(
            f"cannot alter {before.full_name}: another client has changed {GUARDED_PROPERTY} meanwhile",
            hint="try again",
        )
    parameters = _merged_parameters(before, after, stored)
    is_guarded = GUARDED_PROPERTY in stored.parameters and GUARDED_PROPERTY in parameters
    expected = (GUARDED_PROPERTY, stored.parameters[GUARDED_PROPERTY]) if is_guarded else None
    return replace(after, parameters=parameters), expected


def _is_overtaken(before: MetastoreTable, after: MetastoreTable, stored: MetastoreTable) -> bool:
    was, wanted, now = (entry.parameters.get(GUARDED_PROPERTY) for entry in (before, after, stored))
    return wanted != was and now != was


def _merged_parameters(
    before: MetastoreTable, after: MetastoreTable, stored: MetastoreTable
) -> dict[str, str]:
    set_now = {key: value for key, value in after.parameters.items() if before.parameters.get(key) != value}
    dropped = set(before.parameters) - set(after.parameters)
    return {key: value for key, value in stored.parameters.items() if key not in dropped} | set_now
