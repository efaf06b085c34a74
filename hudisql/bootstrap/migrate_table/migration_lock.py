"""One migration or revert of a table at a time: a lease file in the database's directory.

The metastore's own locks need database tables that many metastores lack, so it uses the lease of a bootstrap,
in its own directory beside the tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from hudisql.bootstrap.lease.target_lease import Lease, acquire_lease, heartbeats
from hudisql.bootstrap.migrate_table.migration_state import MigrationNames
from hudisql.catalog.table_location import database_directory
from hudisql.errors import TableExistsError, TableLockedError, WriteConflictError
from hudisql.format.timeline.timeline_layout import METADATA_DIRECTORY
from hudisql.storage import join

if TYPE_CHECKING:
    from hudisql.context import Context


_LONGEST_WRITTEN: Final = 200


class MigrationLock:
    """The lock that this run holds."""

    def __init__(self, context: Context, names: MigrationNames, lease: Lease) -> None:
        self._storage = context.storage
        self._full_name = names.full_name
        self._lease = lease

    def check_held(self) -> None:
        """Raise WriteConflictError if another run took over; called before each change of a name."""
        try:
            self._lease.check_held(self._storage)
        except TableExistsError as error:
            raise WriteConflictError(
                f"another run took over the migration of {self._full_name}",
                hint="this one gave no heartbeat for ten minutes; wait for the other",
            ) from error


def lock_directory_name(name: str) -> str:
    """The directory of a table's lock; a long name gets a hash, since file systems allow 255 bytes."""
    if len(name.encode()) > _LONGEST_WRITTEN:
        name = sha256(name.encode()).hexdigest()
    return f".hudisql-migration-{name}"


@contextmanager
def hold_migration_lock(context: Context, names: MigrationNames) -> Iterator[MigrationLock]:
    """Hold the lock while the block runs; a dead process's lock is taken over.

    Raises TableLockedError if another run may still be running, StorageError.
    """
    storage = context.storage
    directory = join(
        database_directory(storage, context.metastore, context.warehouse, names.database),
        lock_directory_name(names.name),
    )
    try:
        lease = acquire_lease(storage, directory, names.full_name, takes_over=True)
    except TableExistsError as error:
        raise TableLockedError(
            f"another run migrates {names.full_name}, or brings it back: {error.message}",
            hint="wait for it; ten minutes after its last heartbeat the same call takes over",
        ) from error
    try:
        with heartbeats(storage, lease):
            yield MigrationLock(context, names, lease)
    finally:
        if lease.is_held(storage):
            lease.release(storage)
            # Another run may have acquired the lock meanwhile: only an empty directory is removed.
            storage.delete_empty_directory(join(directory, METADATA_DIRECTORY))
            storage.delete_empty_directory(directory)
