"""Hive's own lock on a table, for writers that share a metastore.

Follows `HiveMetastoreBasedLockProvider` of Hudi 0.15: an exclusive lock on the table, released at once if it
would have to wait. The metastore needs the tables of Hive's transactions; it drops locks that are not renewed
within `hive.txn.timeout` (five minutes).
"""

from __future__ import annotations

import getpass
import socket
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from hudisql.catalog.client import MetastoreClient
from hudisql.errors import MetastoreError

PROVIDER = "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider"
LONGEST_NAME: Final = 128


@dataclass(slots=True)
class MetastoreLock:
    """The lock on the entry `database`.`name`."""

    client: MetastoreClient
    database: str
    name: str
    _id: int | None = field(default=None, repr=False)

    @property
    def label(self) -> str:
        """The table that is locked, and where."""
        return f"on {self.database}.{self.name} in the metastore {self.client.uris}"

    def try_lock(self, _timeout_ms: int, /) -> bool:
        """Try to acquire the lock without waiting. Raises MetastoreError."""
        try:
            user, host = getpass.getuser(), socket.gethostname()
            self._id = self.client.lock_table(self.database, self.name, user, host)
        except MetastoreError as error:
            raise MetastoreError(
                error.message,
                hint="locks need the tables of Hive's transactions, which schematool creates and a metastore "
                "that creates its own schema lacks; FileSystemBasedLockProvider needs nothing",
            ) from error
        return self._id is not None

    def is_held(self) -> bool:
        """True if the metastore still has the lock; this call also renews the lock."""
        return self._id is not None and self.client.has_lock(self._id)

    def unlock(self) -> None:
        """Release the lock."""
        if self._id is not None:
            lock_id, self._id = self._id, None
            self.client.unlock(lock_id)

    def owner(self) -> str:
        """Empty: SHOW LOCKS is not queried."""
        return ""


def lock_name(table: str) -> str:
    """The name to lock for a table (`database.name`): the metastore has at most 128 characters for it."""
    return table.lower() if len(table) <= LONGEST_NAME else sha256(table.lower().encode()).hexdigest()
