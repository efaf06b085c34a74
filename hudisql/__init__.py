"""Turn Hive and parquet tables into Apache Hudi tables in place, with SQL, on PySpark.

    import hudisql

    with hudisql.connect() as session:
        session.sql("CALL bootstrap_table(table => 'trips', source => '/data/trips', record_key => 'id')")
        session.sql("UPDATE trips SET price = 0 WHERE id = 'k1'")
        trips = session.sql("SELECT * FROM trips").toPandas()

`connect` opens a `Session`, whose `sql` gives a `Result`; `write_table` writes a DataFrame into a table and
`incremental` pulls the rows that have changed. `install` lets a SparkSession know the names of Hudi tables,
as `connect(spark=…)` does.
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
    PendingCleanError,
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
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from hudisql.config.settings import Settings
    from hudisql.console import Console
    from hudisql.pyspark_names.served_session import install
    from hudisql.result import Result
    from hudisql.session import Session, incremental, write_table
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
    "PendingCleanError",
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
    "incremental": "hudisql.session",
    "install": "hudisql.pyspark_names.served_session",
    "write_table": "hudisql.session",
}


def connect(
    metastore: str | None = None,
    warehouse: str | None = None,
    conf: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
    settings: Settings | None = None,
    *,
    console: Console | None = None,
) -> Session:
    """Open a session.

    `metastore` is thrift://host:port[,…] (default: the embedded one under `warehouse`), `conf` holds Spark
    settings, `spark` is a SparkSession of the user (default: the one that runs already, or one of its own).
    Missing arguments come from `settings` or, without those, from hudisql.toml and HUDISQL_*.

    A SparkSession of the user keeps its settings, and knows the names of Hudi tables (`spark.table`,
    `spark.sql`, `df.write.insertInto` …) until the session is closed or Spark stops; of several sessions the
    newest serves them. Otherwise Spark and the embedded metastore start with the first statement that needs
    them, which then raises MetastoreUnavailableError, ExecutorEnvironmentError, or SettingsError if Spark
    does not start. Raises SettingsError.
    """
    from hudisql.session import open_session

    session = open_session(metastore, warehouse, conf, spark, settings, console=console)
    if session.has_joined_spark:
        from hudisql.pyspark_names.served_session import serve_names

        try:
            serve_names(session, (metastore, warehouse, settings))
        except BaseException:
            session.close()
            raise
    return session


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name in _LOADED_LATE:
        return getattr(import_module(_LOADED_LATE[name]), name)
    raise AttributeError(f"module 'hudisql' has no attribute {name!r}")
