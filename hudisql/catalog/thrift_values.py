"""Translates between metastore values (`metastore_table.py`) and the Thrift structures of Hive's metastore.

The only module besides `connection.py` and `client.py` that knows hmsclient's types.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from typing import Any

from hmsclient.genthrift.hive_metastore import ttypes

from hudisql.catalog.metastore_table import (
    ListedLock,
    MetastoreColumn,
    MetastoreDatabase,
    MetastorePartition,
    MetastoreTable,
    PrincipalGrant,
    TableGrant,
)
from hudisql.format.paths.partition_path import HIVE_DEFAULT_PARTITION, escape_partition_value


def lock_request(database: str, name: str, user: str, host: str, agent: str = "hudisql") -> Any:
    """A LockRequest for an exclusive lock on the table."""
    component = ttypes.LockComponent(
        type=ttypes.LockType.EXCLUSIVE,
        level=ttypes.LockLevel.TABLE,
        dbname=database,
        tablename=name,
        operationType=ttypes.DataOperationType.NO_TXN,
    )
    return ttypes.LockRequest(component=[component], user=user, hostname=host, agentInfo=agent)


def lock_from_thrift(element: Any) -> ListedLock:
    """A ShowLocksResponseElement as a value."""
    return ListedLock(
        int(element.lockid),
        element.tablename or "",
        element.user or "",
        element.hostname or "",
        element.agentInfo or "",
        is_acquired(element),
        int(element.lastheartbeat or 0),
    )


def granted_object(table: MetastoreTable, column: str | None) -> Any:
    """A HiveObjectRef for the table or its column."""
    kind = ttypes.HiveObjectType.TABLE if column is None else ttypes.HiveObjectType.COLUMN
    return ttypes.HiveObjectRef(kind, table.database, table.name, None, column)


def grant_from_thrift(granted: Any) -> TableGrant:
    """A HiveObjectPrivilege as a value."""
    return TableGrant(
        granted.principalName,
        ttypes.PrincipalType._VALUES_TO_NAMES[granted.principalType],
        granted.grantInfo.privilege,
        bool(granted.grantInfo.grantOption),
        granted.hiveObject.columnName or None,
    )


def principal_grant_from_thrift(granted: Any) -> PrincipalGrant | None:
    """A HiveObjectPrivilege as a value; None for one on partitions or columns."""
    granted_object, kinds = granted.hiveObject, ttypes.HiveObjectType
    database, table = granted_object.dbName, granted_object.objectName
    if granted_object.objectType == kinds.GLOBAL:
        return PrincipalGrant(granted.grantInfo.privilege)
    if granted_object.objectType == kinds.DATABASE and database:
        return PrincipalGrant(granted.grantInfo.privilege, database.lower())
    if granted_object.objectType == kinds.TABLE and database and table:
        return PrincipalGrant(granted.grantInfo.privilege, database.lower(), table.lower())
    return None


def grants_to_thrift(table: MetastoreTable, grants: Sequence[TableGrant], grantor: str) -> Any:
    """A PrivilegeBag with grants on the table."""
    now = int(time.time())
    return ttypes.PrivilegeBag(
        [
            ttypes.HiveObjectPrivilege(
                granted_object(table, grant.column),
                grant.principal,
                ttypes.PrincipalType._NAMES_TO_VALUES[grant.principal_type],
                ttypes.PrivilegeGrantInfo(
                    grant.privilege, now, grantor, ttypes.PrincipalType.USER, grant.grant_option
                ),
            )
            for grant in grants
        ]
    )


def is_acquired(response: Any) -> bool:
    """True if a LockResponse says that the lock is acquired and not waiting."""
    return bool(response.state == ttypes.LockState.ACQUIRED)


def database_from_thrift(database: Any) -> MetastoreDatabase:
    """A Thrift Database as a value."""
    return MetastoreDatabase(database.name, database.locationUri)


def table_from_thrift(table: Any) -> MetastoreTable:
    """A Thrift Table as a value; the structure itself stays in `raw`."""
    storage = table.sd or ttypes.StorageDescriptor()
    serde = storage.serdeInfo or ttypes.SerDeInfo()
    return MetastoreTable(
        database=table.dbName,
        name=table.tableName,
        table_type=table.tableType or "MANAGED_TABLE",
        location=storage.location,
        columns=_columns_from_thrift(storage.cols),
        partition_columns=_columns_from_thrift(table.partitionKeys),
        owner=table.owner,
        input_format=storage.inputFormat,
        output_format=storage.outputFormat,
        serde=serde.serializationLib,
        serde_properties=dict(serde.parameters or {}),
        parameters=dict(table.parameters or {}),
        view_original_text=table.viewOriginalText,
        view_text=table.viewExpandedText,
        raw=table,
    )


def table_to_thrift(table: MetastoreTable) -> Any:
    """A Thrift Table with the value's content, based on a copy of its `raw` if it has one."""
    target = copy.deepcopy(table.raw) if table.raw is not None else _new_table()
    target.dbName = table.database
    target.tableName = table.name
    target.tableType = table.table_type
    target.owner = table.owner
    target.partitionKeys = _columns_to_thrift(table.partition_columns)
    target.parameters = dict(table.parameters)
    target.viewOriginalText = table.view_original_text
    target.viewExpandedText = table.view_text
    _fill_storage(target, table)
    return target


def partition_from_thrift(partition: Any) -> MetastorePartition:
    """A Thrift Partition as a value; the structure itself stays in `raw`."""
    storage = partition.sd or ttypes.StorageDescriptor()
    serde = storage.serdeInfo or ttypes.SerDeInfo()
    return MetastorePartition(
        values=tuple(partition.values),
        location=storage.location,
        parameters=dict(partition.parameters or {}),
        columns=_columns_from_thrift(storage.cols),
        input_format=storage.inputFormat,
        output_format=storage.outputFormat,
        serde=serde.serializationLib,
        serde_properties=dict(serde.parameters or {}),
        raw=partition,
    )


def partition_to_thrift(table: MetastoreTable, partition: MetastorePartition) -> Any:
    """A Thrift Partition of `table` with the value's content, based on a copy of its `raw`."""
    target = copy.deepcopy(partition.raw) if partition.raw is not None else ttypes.Partition()
    if target.createTime is None:
        target.createTime = int(time.time())
        target.lastAccessTime = 0
    target.dbName = table.database
    target.tableName = table.name
    target.values = list(partition.values)
    target.parameters = dict(partition.parameters)
    _fill_storage(target, partition)
    return target


def partition_name(table: MetastoreTable, values: Sequence[str]) -> str:
    """The metastore's name of a partition: `dt=2024-03-01/h=1`, values escaped as Hive escapes them."""
    return "/".join(
        f"{escape_partition_value(column.name)}={escape_partition_value(value or HIVE_DEFAULT_PARTITION)}"
        for column, value in zip(table.partition_columns, values, strict=True)
    )


def _new_table() -> Any:
    now = int(time.time())
    return ttypes.Table(createTime=now, lastAccessTime=0, retention=0, privileges=None, temporary=False)


def _fill_storage(target: Any, value: MetastoreTable | MetastorePartition) -> None:
    if target.sd is None:
        target.sd = ttypes.StorageDescriptor(
            compressed=False, numBuckets=-1, bucketCols=[], sortCols=[], parameters={}
        )
        target.sd.storedAsSubDirectories = False
    if target.sd.serdeInfo is None:
        target.sd.serdeInfo = ttypes.SerDeInfo()
    target.sd.cols = _columns_to_thrift(value.columns)
    target.sd.location = value.location
    target.sd.inputFormat = value.input_format
    target.sd.outputFormat = value.output_format
    target.sd.serdeInfo.serializationLib = value.serde
    target.sd.serdeInfo.parameters = dict(value.serde_properties)


def _columns_from_thrift(columns: Any) -> tuple[MetastoreColumn, ...]:
    return tuple(MetastoreColumn(column.name, column.type, column.comment) for column in columns or ())


def _columns_to_thrift(columns: Sequence[MetastoreColumn]) -> list[Any]:
    return [ttypes.FieldSchema(column.name, column.type, column.comment) for column in columns]
