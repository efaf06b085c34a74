"""Hive's own lock on a table, which writers share that know the same metastore.

Follows `HiveMetastoreBasedLockProvider` of Hudi 0.15: an exclusive lock on the table, given back at once if
it would have to wait. The metastore needs the tables of Hive's transactions; it drops locks whose writer it
has not heard of for `hive.txn.timeout` (five minutes).
"""

from __future__ import annotations

import getpass
import socket
from dataclasses import dataclass, field

from hudisql.catalog.client import MetastoreClient
from hudisql.errors import MetastoreError

PROVIDER = "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider"


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
        """Ask for the lock; it is never waited for here. Raises MetastoreError."""
        try:
            user, host = getpass.getuser(), socket.gethostname()
            self._id = self.client.lock_table(self.database, self.name, user, host)
        except MetastoreError as error:
            raise MetastoreError(
                error.message,
                hint="locks need the tables of Hive's transactions, which schematool makes and a metastore "
                "that makes its own tables lacks; FileSystemBasedLockProvider needs nothing",
            ) from error
        return self._id is not None

    def is_held(self) -> bool:
        """True if the metastore still knows the lock, which is told of by this that its writer is alive."""
        return self._id is not None and self.client.has_lock(self._id)

    def unlock(self) -> None:
        """Give the lock back."""
        if self._id is not None:
            lock_id, self._id = self._id, None
            self.client.unlock(lock_id)

    def owner(self) -> str:
        """Whom SHOW LOCKS names is not asked."""
        return ""
