"""Turn Hive and parquet tables into Apache Hudi tables in place, with SQL, on PySpark.

    import hudisql

    with hudisql.connect() as session:
        session.sql("CALL bootstrap_table(table => 'trips', source => '/data/trips', record_key => 'id')")
        session.sql("UPDATE trips SET price = 0 WHERE id = 'k1'")
        trips = session.sql("SELECT * FROM trips").toPandas()

`connect` opens a `Session`, whose `sql` gives a `Result`; `write_table` writes a DataFrame into a table and
`incremental` pulls the rows that have changed. `install` lets a SparkSession know the names of Hudi tables.
All errors are `HudisqlError`s.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from hudisql.errors import (
    AuthenticationError,
    BootstrapBlockedError,
    CorruptTableError,
    CorruptWriteAheadLogError,
    DataTestFailedError,
    EntryChangedError,
    EventsLostError,
    ExecutorEnvironmentError,
    HollowCommitError,
    HudisqlError,
    InvalidArgumentError,
    InvalidHandleError,
    KafkaError,
    MetastoreError,
    MetastoreUnavailableError,
    MigrationConflictError,
    NoSuchDatabaseError,
    NoSuchInstantError,
    NoSuchPathError,
    NoSuchProcedureError,
    NoSuchStateError,
    NoSuchTableError,
    PathExistsError,
    ProtocolError,
    PushRefusedError,
    QueryError,
    RegisterOnlyError,
    RepeatedKeysError,
    RightMissingError,
    RollbackRefusedError,
    SchemaRegistryError,
    ServerBusyError,
    SessionClosedError,
    SettingsError,
    SourceChangedError,
    SourceError,
    SourceProtectedError,
    SqlSyntaxError,
    StatementCancelledError,
    StorageError,
    SyncFailedError,
    TableExistsError,
    TableLockedError,
    TimelineChangedError,
    UndefinedVariableError,
    UnknownColumnError,
    UnknownParameterError,
    UnsupportedStatementError,
    UnsupportedTableError,
    VerificationFailedError,
    WriteAheadLogError,
    WriteAheadLogInUseError,
    WriteConflictError,
    WriteRefusedError,
)

if TYPE_CHECKING:
    from hudisql.pyspark_names.served_session import install
    from hudisql.result import Result
    from hudisql.session import Session, connect, incremental, write_table
    from hudisql.write.execution.commit_files import WriteResult

__version__ = "0.1.0"
__all__ = [
    "AuthenticationError",
    "BootstrapBlockedError",
    "CorruptTableError",
    "CorruptWriteAheadLogError",
    "DataTestFailedError",
    "EntryChangedError",
    "EventsLostError",
    "ExecutorEnvironmentError",
    "HollowCommitError",
    "HudisqlError",
    "InvalidArgumentError",
    "InvalidHandleError",
    "KafkaError",
    "MetastoreError",
    "MetastoreUnavailableError",
    "MigrationConflictError",
    "NoSuchDatabaseError",
    "NoSuchInstantError",
    "NoSuchPathError",
    "NoSuchProcedureError",
    "NoSuchStateError",
    "NoSuchTableError",
    "PathExistsError",
    "ProtocolError",
    "PushRefusedError",
    "QueryError",
    "RegisterOnlyError",
    "RepeatedKeysError",
    "Result",
    "RightMissingError",
    "RollbackRefusedError",
    "SchemaRegistryError",
    "ServerBusyError",
    "Session",
    "SessionClosedError",
    "SettingsError",
    "SourceChangedError",
    "SourceError",
    "SourceProtectedError",
    "SqlSyntaxError",
    "StatementCancelledError",
    "StorageError",
    "SyncFailedError",
    "TableExistsError",
    "TableLockedError",
    "TimelineChangedError",
    "UndefinedVariableError",
    "UnknownColumnError",
    "UnknownParameterError",
    "UnsupportedStatementError",
    "UnsupportedTableError",
    "VerificationFailedError",
    "WriteAheadLogError",
    "WriteAheadLogInUseError",
    "WriteConflictError",
    "WriteRefusedError",
    "WriteResult",
    "__version__",
    "connect",
    "incremental",
    "install",
    "write_table",
]

# PySpark and pyarrow are slow to import: load these on first use, so that the CLI starts at once.
_LOADED_LATE: Final = {
    "Result": "hudisql.result",
    "Session": "hudisql.session",
    "WriteResult": "hudisql.write.execution.commit_files",
    "connect": "hudisql.session",
    "incremental": "hudisql.session",
    "install": "hudisql.pyspark_names.served_session",
    "write_table": "hudisql.session",
}


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name in _LOADED_LATE:
        return getattr(import_module(_LOADED_LATE[name]), name)
    raise AttributeError(f"module 'hudisql' has no attribute {name!r}")
