"""The Hive Metastore in hudisql's terms: databases, tables, partitions as values, over Thrift.

The same code serves the embedded metastore and others of Hive 2.3, 3.1 and 4.0. Every call that supports it
has DO_NOT_UPDATE_STATS: otherwise the server lists the directories (and Hive answers count(*) from stale
statistics). Server errors become MetastoreError and its subclasses, with the server's message.
"""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from operator import methodcaller
from types import TracebackType
from typing import Any, TypeVar

from hmsclient.genthrift.hive_metastore import ttypes
from thrift.Thrift import TApplicationException, TException

from hudisql.catalog import thrift_values
from hudisql.catalog.connection import (
    ConnectionLostError,
    MetastoreConnection,
    parse_metastore_uris,
)
from hudisql.catalog.metastore_login import MetastoreSecurity
from hudisql.catalog.metastore_table import (
    ListedLock,
    MetastoreDatabase,
    MetastorePartition,
    MetastoreTable,
    PrincipalGrant,
    TableGrant,
)
from hudisql.errors import (
    EntryChangedError,
    MetastoreError,
    MetastoreUnavailableError,
    NoSuchTableError,
    TableExistsError,
)

ADD_BATCH = 500
# With 1,000 names Derby's SQL parser can run out of stack.
DROP_BATCH = 300
_READ_BATCH = 1000
_TABLE_BATCH = 100
_Item = TypeVar("_Item")
_PROPERTY_FILTER = "hive_filter_field_params__"  # hive_metastoreConstants.HIVE_FILTER_FIELD_PARAMS
_EXTERNAL_HINT = (
    "Hive 4 keeps external tables, such as Hudi's, out of its managed warehouse: move the directory out of "
    "it and give its new path. Use the server's metastore.warehouse.external.dir as --warehouse"
)
_NO_STATS = {"DO_NOT_UPDATE_STATS": "true"}


class MetastoreClient:
    """A client of the metastore at `uris` (one, several with commas, or a list; tried in this order).

    Threads may share it. `timeout` is for one call, in seconds. It connects at the first call; nothing is
    sent before that.
    """

    def __init__(
        self,
        uris: str | Sequence[str],
        *,
        security: MetastoreSecurity | None = None,
        timeout: float = 600.0,
        attempts: int = 3,
    ) -> None:
        self._security = security or MetastoreSecurity()
        addresses = parse_metastore_uris(uris)
        self.uris = ",".join(address.uri for address in addresses)
        self._connection = MetastoreConnection(addresses, self._security, timeout, max(1, attempts))
        self.needs_entry_lock: bool | None = None
        """Whether `alter_table(expected=…)` does not guard on this server: what `alter_guarded` has found."""

    def __enter__(self) -> MetastoreClient:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def another(self, *, timeout: float) -> MetastoreClient:
        """A client of the same metastore with a separate connection, for calls that must not wait."""
        client = MetastoreClient(self.uris, security=self._security, timeout=timeout)
        client.needs_entry_lock = self.needs_entry_lock
        return client

    def close(self) -> None:
        """Close the connection; the client can be used again."""
        self._connection.close()

    def get_database(self, name: str) -> MetastoreDatabase | None:
        """The database, None if there is none."""
        with _translated(f"look up database {name}"):
            found = self._find(lambda client: client.get_database(name.lower()))
        return None if found is None else thrift_values.database_from_thrift(found)

    def list_databases(self) -> list[str]:
        """The names of all databases, sorted."""
        with _translated("list databases"):
            return sorted(self._connection.call(lambda client: client.get_all_databases()))

    def create_database(self, name: str, location: str | None = None, description: str | None = None) -> bool:
        """Create a database (`location` a URI, default: below the warehouse). False if it exists."""
        value = ttypes.Database(
            name=name.lower(), description=description, locationUri=location, parameters={}
        )
        try:
            with _translated(f"create database {name}"):
                self._connection.call(lambda client: client.create_database(value), repeatable=False)
        except TableExistsError:
            return False
        return True

    def drop_database(self, name: str) -> bool:
        """Drop an empty database. False if there is none. Raises MetastoreError if it has tables."""
        # Old servers raise a NullPointerException for a missing database.
        if self.get_database(name) is None:
            return False
        with _translated(f"drop database {name}"):
            self._connection.call(
                lambda client: client.drop_database(name.lower(), False, False), repeatable=False
            )
        return True

    def list_tables(self, database: str) -> list[str]:
        """The names of the tables and views of a database, sorted; empty if there is no such database."""
        with _translated(f"list tables of {database}"):
            return sorted(self._connection.call(lambda client: client.get_all_tables(database.lower())))

    def find_tables_with_property(self, key: str) -> list[MetastoreTable]:
        """The tables of all databases that have the property, whatever its value; its name has no dots.

        The server searches, with one call per database and one for each batch of tables. Raises
        MetastoreError.
        """
        entries = []
        for database in self.list_databases():
            tables = self.get_tables(database, self._names_with_property(database, key))
            entries += sorted(
                (table for table in tables if key in table.parameters), key=lambda table: table.name
            )
        return entries

    def _names_with_property(self, database: str, key: str) -> list[str]:
        condition = f'{_PROPERTY_FILTER}{key} LIKE ".*"'
        try:
            with _translated(f"look for tables of {database} with the property {key}"):
                call = methodcaller("get_table_names_by_filter", database, condition, -1)
                return sorted(self._connection.call(call))
        except MetastoreUnavailableError:
            raise
        except NoSuchTableError:
            return []  # the database was dropped meanwhile
        except MetastoreError:
            # Not every server can filter.
            return self.list_tables(database)

    def get_table(self, database: str, name: str) -> MetastoreTable | None:
        """The table or view, None if there is none."""
        request = ttypes.GetTableRequest(dbName=database.lower(), tblName=name.lower())

        def get(client: Any) -> Any:
            # Hive 4 has dropped get_table.
            return _first_known(
                lambda: client.get_table(database.lower(), name.lower()),
                lambda: client.get_table_req(request).table,
            )

        with _translated(f"look up table {database}.{name}"):
            found = self._find(get)
        return None if found is None else thrift_values.table_from_thrift(found)

    def get_tables(self, database: str, names: Sequence[str]) -> list[MetastoreTable]:
        """The existing tables and views of these names, fetched in batches. Raises MetastoreError."""
        entries: list[MetastoreTable] = []
        for some in _batches([name.lower() for name in names], _TABLE_BATCH):
            try:
                with _translated(f"look up tables of {database}"):
                    call = methodcaller("get_table_objects_by_name", database.lower(), list(some))
                    entries += map(thrift_values.table_from_thrift, self._connection.call(call))
            except MetastoreError as error:
                if not isinstance(error.__cause__, TApplicationException):
                    raise
                # Hive 4 has dropped this call.
                entries += [entry for name in some if (entry := self.get_table(database, name)) is not None]
        return entries

    def create_table(self, table: MetastoreTable) -> None:
        """Make a table. Raises TableExistsError, and MetastoreError, also if the database is missing."""
        # Hive 2.3 reads this from the parameters of a table without partitions, and removes it.
        mark = {} if table.partition_columns else _NO_STATS
        value = thrift_values.table_to_thrift(replace(table, parameters={**table.parameters, **mark}))
        context = ttypes.EnvironmentContext(dict(_NO_STATS))
        with _translated(f"create table {table.full_name}"):
            try:
                self._connection.call(
                    lambda client: client.create_table_with_environment_context(value, context),
                    repeatable=False,
                )
            except Exception as error:
                # Hive 4.0 raises MetaException instead of AlreadyExistsException.
                if "already exists" in str(getattr(error, "message", "")).lower():
                    raise TableExistsError(f"table {table.full_name} exists already") from error
                raise

    def alter_table(
        self,
        table: MetastoreTable,
        *,
        cascade: bool = False,
        name: str | None = None,
        expected: tuple[str, str] | None = None,
    ) -> None:
        """Store `table` as the new state of the entry with its name (or with `name`, to rename it).

        Everything that `table` does not describe stays as in its `raw`. `cascade` adds new columns to the
        partitions, too. `expected` is a property that the entry must still have with this value: Hive 2.3.10
        and 4 check it (4 fails where its database is Derby), older servers and Hive 3 ignore it. Raises
        NoSuchTableError, EntryChangedError if the value differs, and MetastoreError for changes that the
        server refuses.
        """
        value = thrift_values.table_to_thrift(table)
        properties = {**_NO_STATS, "CASCADE": "true"} if cascade else _NO_STATS
        if expected is not None:
            key, text = expected
            properties = {**properties, "expected_parameter_key": key, "expected_parameter_value": text}
        context = ttypes.EnvironmentContext(dict(properties))
        with _translated(f"alter table {table.full_name}"):
            self._connection.call(
                lambda client: client.alter_table_with_environment_context(
                    table.database, name or table.name, value, context
                )
            )

    def drop_table(self, database: str, name: str) -> bool:
        """Remove the entry; its files stay. False if there is none."""
        with _translated(f"drop table {database}.{name}"):
            dropped = self._find(
                lambda client: client.drop_table(database.lower(), name.lower(), False) or True
            )
        return dropped is not None

    def list_partition_names(self, database: str, name: str) -> list[str]:
        """The escaped names (`dt=2024-03-01/h=1`) of all partitions, sorted."""
        database, name = database.lower(), name.lower()
        try:
            with _translated(f"list partitions of {database}.{name}"):
                names = self._connection.call(methodcaller("get_partition_names", database, name, -1))
        except MetastoreError as error:
            # For a missing table Hive 2.3 only raises "Internal error".
            if self.get_table(database, name) is None:
                raise NoSuchTableError(f"there is no table {database}.{name}") from error
            raise
        if not names and self.get_table(database, name) is None:
            # Hive 4 lists none.
            raise NoSuchTableError(f"there is no table {database}.{name}")
        return sorted(names)

    def list_partitions(self, database: str, name: str) -> list[MetastorePartition]:
        """All partitions with values and locations.

        Fetched in batches, so that a table of any size fits the server's limits. Raises NoSuchTableError,
        MetastoreError.
        """
        database, name = database.lower(), name.lower()
        with _translated(f"list partitions of {database}.{name}"):
            partitions: list[MetastorePartition] = []
            for names in _batches(self.list_partition_names(database, name), _READ_BATCH):
                found = self._connection.call(methodcaller("get_partitions_by_names", database, name, names))
                partitions.extend(thrift_values.partition_from_thrift(partition) for partition in found)
            return partitions

    def find_partitions(
        self, table: MetastoreTable, values: Sequence[Sequence[str]]
    ) -> list[MetastorePartition]:
        """The existing partitions among those with these values. Raises MetastoreError."""
        names = [thrift_values.partition_name(table, value) for value in values]
        with _translated(f"look up partitions of {table.full_name}"):
            partitions: list[MetastorePartition] = []
            for part in _batches(names, _READ_BATCH):
                call = methodcaller("get_partitions_by_names", table.database, table.name, part)
                partitions.extend(map(thrift_values.partition_from_thrift, self._connection.call(call)))
            return partitions

    def add_partitions(
        self, table: MetastoreTable, partitions: Sequence[MetastorePartition], batch: int = ADD_BATCH
    ) -> None:
        """Add partitions, `batch` in each call; existing partitions are not changed."""
        with _translated(f"add partitions to {table.full_name}"):
            for part in _batches(partitions, batch):
                request = ttypes.AddPartitionsRequest(
                    dbName=table.database,
                    tblName=table.name,
                    parts=[thrift_values.partition_to_thrift(table, partition) for partition in part],
                    ifNotExists=True,
                    needResult=False,
                )
                self._connection.call(methodcaller("add_partitions_req", request))

    def alter_partitions(
        self, table: MetastoreTable, partitions: Sequence[MetastorePartition], batch: int = ADD_BATCH
    ) -> None:
        """Store a new state of existing partitions (found by their values), `batch` in each call."""
        context = ttypes.EnvironmentContext(dict(_NO_STATS))
        with _translated(f"alter partitions of {table.full_name}"):
            for part in _batches(partitions, batch):
                values = [thrift_values.partition_to_thrift(table, partition) for partition in part]
                self._connection.call(
                    methodcaller(
                        "alter_partitions_with_environment_context",
                        table.database,
                        table.name,
                        values,
                        context,
                    )
                )

    def drop_partitions(
        self, table: MetastoreTable, values: Sequence[Sequence[str]], batch: int = DROP_BATCH
    ) -> None:
        """Drop the partitions with these values, `batch` a call; files stay, missing ones are ignored."""
        names = [thrift_values.partition_name(table, value) for value in values]
        with _translated(f"drop partitions of {table.full_name}"):
            for part in _batches(names, batch):
                request = ttypes.DropPartitionsRequest(
                    dbName=table.database,
                    tblName=table.name,
                    parts=ttypes.RequestPartsSpec(names=list(part)),
                    deleteData=False,
                    ifExists=True,
                    needResult=False,
                )
                self._connection.call(methodcaller("drop_partitions_req", request))

    def list_grants(self, table: MetastoreTable) -> list[TableGrant]:
        """The privileges on the table and on each column, one call for each. Raises MetastoreError."""
        columns = [column.name for column in (*table.columns, *table.partition_columns)]
        with _translated(f"list the grants on {table.full_name}"):
            table_grants: list[TableGrant] = []
            for column in (None, *columns):
                reference = thrift_values.granted_object(table, column)
                granted = self._connection.call(methodcaller("list_privileges", None, None, reference))
                table_grants += map(thrift_values.grant_from_thrift, granted or [])
            return table_grants

    def add_grants(self, table: MetastoreTable, grants: Sequence[TableGrant]) -> None:
        """Grant privileges on the table; existing ones are refused. Raises MetastoreError."""
        if not grants:
            return
        bag = thrift_values.grants_to_thrift(table, grants, getpass.getuser())
        with _translated(f"grant privileges on {table.full_name}"):
            self._connection.call(methodcaller("grant_privileges", bag), repeatable=False)

    def list_principal_grants(self, name: str, kind: str) -> list[PrincipalGrant]:
        """The privileges of a USER or ROLE of exactly this name, without those on partitions and columns.

        Raises MetastoreError.
        """
        principal, everything = ttypes.PrincipalType._NAMES_TO_VALUES[kind], ttypes.HiveObjectRef()
        with _translated(f"list the grants of {name}"):
            granted = self._connection.call(methodcaller("list_privileges", name, principal, everything))
        # A database of the metastore may compare names without regard of case.
        own = [
            grant
            for grant in granted or []
            if (grant.principalName, grant.principalType) == (name, principal)
        ]
        return [grant for grant in map(thrift_values.principal_grant_from_thrift, own) if grant is not None]

    def list_roles_of(self, name: str, kind: str) -> list[str]:
        """The roles that are granted to a USER or ROLE of exactly this name. Raises MetastoreError."""
        principal = ttypes.PrincipalType._NAMES_TO_VALUES[kind]
        request = ttypes.GetRoleGrantsForPrincipalRequest(name, principal)
        with _translated(f"list the roles of {name}"):
            found = self._connection.call(methodcaller("get_role_grants_for_principal", request))
        return [role.roleName for role in found.principalGrants or [] if role.principalName == name]

    def lock_table(self, database: str, name: str, user: str, host: str) -> int | None:
        """Lock the table exclusively; returns the lock's number, None if others hold it.

        Raises MetastoreError, also if the server's database has no tables for locks.
        """
        lock_id, is_acquired = self.queue_lock(database, name, user, host)
        if is_acquired:
            return lock_id
        self.unlock(lock_id)
        return None

    def queue_lock(
        self, database: str, name: str, user: str, host: str, agent: str = "hudisql"
    ) -> tuple[int, bool]:
        """Request an exclusive lock on the table: its number, and whether it is acquired or waits for others.

        `has_lock` shows when it is acquired. The table need not exist. Raises MetastoreError.
        """
        request = thrift_values.lock_request(database.lower(), name.lower(), user, host, agent)
        with _translated(f"lock {database}.{name}"):
            found = self._connection.call(lambda client: client.lock(request), repeatable=False)
        return int(found.lockid), thrift_values.is_acquired(found)

    def list_locks(self, database: str) -> list[ListedLock]:
        """The locks on tables of a database, held or waited for, the oldest first. Raises MetastoreError."""
        request = ttypes.ShowLocksRequest(dbname=database.lower())
        with _translated(f"list the locks of {database}"):
            found = self._connection.call(methodcaller("show_locks", request)).locks or []
        return sorted(map(thrift_values.lock_from_thrift, found), key=lambda listed_lock: listed_lock.lock_id)

    def has_lock(self, lock_id: int) -> bool:
        """True if the server still knows the lock; it counts as a heartbeat."""
        check = ttypes.CheckLockRequest(lockid=lock_id)
        with _translated(f"look up lock {lock_id}"):
            try:
                return thrift_values.is_acquired(self._connection.call(methodcaller("check_lock", check)))
            except ttypes.NoSuchLockException:
                return False

    def unlock(self, lock_id: int) -> None:
        """Release a lock; a lock that the server no longer knows is ignored."""
        unlock = ttypes.UnlockRequest(lockid=lock_id)
        with _translated(f"give back lock {lock_id}"), suppress(ttypes.NoSuchLockException):
            self._connection.call(methodcaller("unlock", unlock))

    def _find(self, request: Callable[[Any], Any]) -> Any:
        """The response, or None if the server says that there is no such object."""
        try:
            return self._connection.call(request)
        except ttypes.NoSuchObjectException:
            return None


def _first_known(*requests: Callable[[], Any]) -> Any:
    """The response of the first request whose method the server supports."""
    for request in requests[:-1]:
        try:
            return request()
        except TApplicationException as error:
            if error.type != TApplicationException.UNKNOWN_METHOD:
                raise
    return requests[-1]()


def _batches(values: Sequence[_Item], size: int) -> Iterator[Sequence[_Item]]:
    return (values[start : start + size] for start in range(0, len(values), max(1, size)))


@contextmanager
def _translated(operation: str) -> Iterator[None]:
    """Turn the server's exceptions into hudisql's, naming the operation."""
    try:
        yield
    except ConnectionLostError as error:
        raise MetastoreUnavailableError(
            f"the connection broke while asking to {operation}: {error}",
            hint="it is unknown whether the server did it: check before repeating it",
        ) from error
    except ttypes.AlreadyExistsException as error:
        raise TableExistsError(f"cannot {operation}: {_server_words(error)}") from error
    except (ttypes.NoSuchObjectException, ttypes.UnknownTableException, ttypes.UnknownDBException) as error:
        raise NoSuchTableError(f"cannot {operation}: {_server_words(error)}") from error
    except TException as error:
        if "The table has been modified" in _server_words(error):
            raise EntryChangedError(
                f"cannot {operation}: another client has changed it meanwhile", hint="try again"
            ) from error
        words = _server_words(error)
        hint = _EXTERNAL_HINT if "within managed warehouse" in words else None
        raise MetastoreError(f"the metastore refused to {operation}: {words}", hint=hint) from error


def _server_words(error: BaseException) -> str:
    return str(getattr(error, "message", None) or error or type(error).__name__)
