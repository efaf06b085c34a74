"""The public API: `hudisql.connect(…)` opens a `Session`, and `session.sql(text)` gives a `Result`.

A session joins a SparkSession (its own, or the user's) with a Hive Metastore (the embedded default, or a
given one) and releases both when it is closed. Its own Spark and metastore start on first use. `sql/` decides
what a statement does.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, overload
from weakref import WeakSet

from hudisql.catalog.embedded import check_embedded_warehouse
from hudisql.config.hive_settings import ADOPTED_KEYS, adopt_hive_settings
from hudisql.config.settings import Settings, load_settings, unknown_environment_names
from hudisql.console import Console, open_console
from hudisql.context import Context
from hudisql.errors import HudisqlError, InvalidArgumentError, SessionClosedError, SettingsError
from hudisql.result import Result
from hudisql.spark.jvm import (
    clone_session,
    java_session,
    metastore_uris,
    new_session,
    session_state,
    set_active_session_of_pyspark,
    spark_sql,
)
from hudisql.sql.text.parameters import SqlArguments, bind_parameters
from hudisql.sql.text.script import ScriptStatement, Variables, split_script, substitute_variables
from hudisql.startup import (
    OwnedParts,
    SparkAction,
    acquire_metastore,
    check_connection,
    open_client,
    prepare_kerberos,
    running_spark,
)
from hudisql.storage import Storage
from hudisql.storage.hadoop_files import hive_site_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hudisql.catalog.embedded import EmbeddedMetastore
    from hudisql.sql.dataframe.incremental_pull import DirectoryPull
    from hudisql.sql.dataframe.target_pull import TargetPull
    from hudisql.write.execution.commit_files import WriteResult


def open_session(
    metastore: str | None = None,
    warehouse: str | None = None,
    conf: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
    settings: Settings | None = None,
    *,
    console: Console | None = None,
) -> Session:
    """Open a session as `hudisql.connect` does, but change nothing of a SparkSession that it joins.

    Raises SettingsError.
    """
    given = {"metastore": metastore, "warehouse": warehouse, "conf": conf}
    loaded = load_settings() if settings is None else settings
    loaded = loaded.with_layer(given, "connect()")
    voice = open_console() if console is None else console
    _warn_of_misspelt(loaded, voice)
    if spark is None and (spark := running_spark()) is not None:
        voice.info("using the SparkSession that runs already")
    return _join_spark(spark, loaded, voice) if spark is not None else _own(loaded, voice)


_open_sessions: WeakSet[Session] = WeakSet()
_session_numbers = count()


def write_table(df: DataFrame, table: str, operation: str | None = None, **options: str) -> WriteResult:
    """`Session.write` in the newest open session of the DataFrame's SparkSession, else in a new one."""
    for session in sorted(_open_sessions, key=lambda session: session.number, reverse=True):
        own = session.context.started_spark
        if own is not None and java_session(own).equals(java_session(df.sparkSession)):
            return session.write(df, table, operation, **options)
    with open_session(spark=df.sparkSession) as session:
        return session.write(df, table, operation, **options)


@overload
def incremental(table: str, checkpoint: str, begin: str = ...) -> DirectoryPull: ...
@overload
def incremental(table: str, *, into: str, begin: str = ...) -> TargetPull: ...
def incremental(
    table: str, checkpoint: str | None = None, begin: str = "earliest", *, into: str | None = None
) -> DirectoryPull | TargetPull:
    """`Session.incremental` in the open session.

    Raises SessionClosedError unless exactly one is open.
    """
    sessions = list(_open_sessions)
    if len(sessions) != 1:
        raise SessionClosedError(
            f"{len(sessions)} sessions are open, of which hudisql.incremental takes the only one",
            hint="session = hudisql.connect(…), then session.incremental(…)",
        )
    return sessions[0]._pull(table, checkpoint, begin, into)


class Session:
    """An open session; a context manager. `hudisql.connect` opens it."""

    def __init__(
        self,
        context: Context,
        *,
        owned: OwnedParts | None = None,
        embedded: EmbeddedMetastore | None = None,
        borrows: bool = False,
    ) -> None:
        self.context = context
        self._owned = owned
        self._borrows = borrows
        self._embedded = embedded
        self._is_closed = False
        self.number = next(_session_numbers)
        self._on_close: list[Callable[[], None]] = []
        _open_sessions.add(self)

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def spark(self) -> SparkSession:
        """The SparkSession in use, started if it does not run yet.

        Raises SessionClosedError, and SettingsError, MetastoreUnavailableError or ExecutorEnvironmentError if
        it cannot start.
        """
        self._check_open()
        return self.context.spark

    @property
    def has_joined_spark(self) -> bool:
        """True if the session works on a SparkSession that it has not started."""
        return self._owned is None

    @property
    def is_closed(self) -> bool:
        """True once `close` was called."""
        return self._is_closed

    @property
    def log_file(self) -> Path | None:
        """The log file of the JVM of a Spark that the session has started."""
        return None if self._owned is None else self._owned.log_file

    @property
    def seconds_waited_for_start(self) -> float:
        """How long this thread has waited for the session's own Spark and metastore to start."""
        return 0.0 if self._owned is None else self._owned.seconds_waited

    def on_spark_start(self, action: SparkAction) -> Callable[[], None]:
        """Call `action` when this thread first gets Spark, or now if it is running; the result removes it."""
        if self._owned is not None:
            return self._owned.on_spark_start(action)
        action(self.context.spark)
        return lambda: None

    def on_close(self, action: Callable[[], None]) -> None:
        """Call `action` when the session is closed, before its parts are."""
        self._on_close.append(action)

    def could_not_start(self, error: HudisqlError) -> bool:
        """True if the error says that Spark or the metastore of the session did not start."""
        return self._owned is not None and self._owned.start_error is error

    def sql(self, text: str, args: SqlArguments | None = None) -> Result:
        """Run one statement. `${variables}` are substituted, and parameters by the values of `args`.

        `args` is a mapping for `:name`, a list for `?` (`sql.text.parameters.bind_parameters`). Raises
        HudisqlError and its subclasses.
        """
        return self.execute(ScriptStatement(text if args is None else bind_parameters(text, args)))

    def run_script(self, text: str) -> Iterator[Result]:
        """Run the statements of a script one by one and yield each result; stops at the first error.

        A check that failed yields its rows first, and raises its error when the next result is requested.
        """
        for statement in split_script(text):
            result = self.execute(statement)
            yield result
            result.raise_error()

    def execute(self, statement: ScriptStatement) -> Result:
        """Run one statement of a script; errors name their place in the script."""
        from hudisql.sql.dispatch import execute

        text = self.substitute(statement)
        return execute(self.context, text, line=statement.line, column=statement.column)

    def substitute(
        self, statement: ScriptStatement, restrict: Callable[[Variables], Variables] | None = None
    ) -> str:
        """The text of a statement with the values of its `${variables}`, which `restrict` may withhold.

        Raises UndefinedVariableError.
        """
        self._check_open()
        text = statement.text
        if "${" in text and self.context.setting("spark.sql.variable.substitute", "true") == "true":
            variables = self._variables()
            values = variables if restrict is None else restrict(variables)
            text = substitute_variables(text, values, line=statement.line, column=statement.column)
        return text

    @contextmanager
    def isolated(self) -> Iterator[Session]:
        """A session on the same Spark and metastore with its own settings, views and database.

        It starts with those of this session, which still owns Spark and the metastore.
        """
        from hudisql.spark.versions import set_active_session

        spark = self.spark
        context, cloned = self.context, clone_session(spark)
        session = Session(
            Context(cloned, context.metastore, context.storage, context.settings, context.console)
        )
        # Not a session that the user has opened.
        _open_sessions.discard(session)
        try:
            yield session
        finally:
            # Creating DataFrames in it made it the active session of this thread.
            set_active_session(spark)
            set_active_session_of_pyspark(spark)

    def write(self, df: DataFrame, table: str, operation: str | None = None, **options: str) -> WriteResult:
        """Write a DataFrame's rows into a Hudi table, by name of the metastore, as one commit.

        `operation` is upsert (the default), insert, bulk_insert, delete (by record key), insert_overwrite
        (the partitions that get rows) or insert_overwrite_table. `options` have Hudi's names
        (`**{"hoodie.parquet.max.file.size": "…"}`): settings for this write, and properties of the table,
        which must agree with those it has. A missing table is created if the options name its record key.
        Raises HudisqlError and its subclasses.
        """
        from hudisql.sql.dataframe.write_frames import write_frame
        from hudisql.sql.text.spark_errors import translated_spark_errors

        self._check_open()
        with translated_spark_errors():
            return write_frame(self.context, df, table, operation, options)

    @overload
    def incremental(self, table: str, checkpoint: str, begin: str = ...) -> DirectoryPull: ...
    @overload
    def incremental(self, table: str, *, into: str, begin: str = ...) -> TargetPull: ...
    def incremental(
        self, table: str, checkpoint: str | None = None, begin: str = "earliest", *, into: str | None = None
    ) -> DirectoryPull | TargetPull:
        """The rows of a Hudi table that changed since the last pull; the first pull starts after `begin`.

        The position is stored in the directory `checkpoint`: `with session.incremental(…) as pull:
        session.write(pull.df, …)` stores it when the block ends without an exception. Or it is stored exactly
        once in the commits of the Hudi table `into`: `with session.incremental(…) as pull: pull.write()`, or
        `pull.sql("MERGE INTO …")`. Raises HudisqlError and its subclasses.
        """
        return self._pull(table, checkpoint, begin, into)

    def _pull(
        self, table: str, checkpoint: str | None, begin: str, into: str | None
    ) -> DirectoryPull | TargetPull:
        from hudisql.sql.dataframe.incremental_pull import directory_pull
        from hudisql.sql.dataframe.target_pull import target_pull
        from hudisql.sql.text.spark_errors import translated_spark_errors

        self._check_open()
        with translated_spark_errors():
            if into is not None and checkpoint is None:
                return target_pull(self.context, table, into, begin)
            if checkpoint is not None and into is None:
                return directory_pull(self.context, table, checkpoint, begin)
        raise InvalidArgumentError(
            f"a pull from {table} keeps its place in one of two: `checkpoint`, a directory, or `into`, the "
            "Hudi table that its rows go to",
            hint="give one of them",
        )

    def new_session(
        self, console: Console | None = None, *, hivevar: Mapping[str, str] | None = None
    ) -> Session:
        """Another session on the same Spark application and metastore, for another user.

        It has its own database, SET, temporary views and variables; `hivevar` adds variables. Close it before
        this one.
        """
        context = self.context
        spark = new_session(self.spark)
        settings = context.settings.with_layer({"hivevar": hivevar or {}}, "new_session()")
        made = Context(spark, context.metastore, context.storage, settings, console or context.console)
        return Session(made, borrows=True)

    def close(self) -> None:
        """Close the metastore client; stop Spark and release the embedded metastore if the session owns them.

        Later use of the session raises SessionClosedError; closing it again does nothing.
        """
        if self._is_closed:
            return
        self._is_closed = True
        _open_sessions.discard(self)
        for action in self._on_close:
            action()
        if self._owned is not None:
            self._owned.close()
        elif not self._borrows:
            self.context.metastore.close()
        if self._embedded is not None:
            self._embedded.release()

    def _check_open(self) -> None:
        if self._is_closed:
            raise SessionClosedError("the session is closed", hint="hudisql.connect(…) opens another one")

    def _variables(self) -> Variables:
        settings = self.context.settings
        configuration = _SparkConfiguration(self.context)
        # Spark's SET drops the prefix of `hivevar:name`.
        hivevar: Mapping[str, str] = ChainMap(configuration, settings.hivevar)  # type: ignore[arg-type]
        return Variables(hivevar=hivevar, hiveconf=configuration)


class _SparkConfiguration(Mapping[str, str]):
    """Spark's and Hive's current settings (after SET). Spark starts for a setting that only it knows."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._hiveconf = context.settings.hiveconf

    def __getitem__(self, key: str) -> str:
        spark = self._context.started_spark
        value: Any = self._context.settings.conf.get(key)
        if spark is not None or (value is None and key.startswith("spark.")):
            value = self._context.without_catalog().spark.conf.get(key, None)
        return self._hiveconf[key] if value is None else str(value)

    def __iter__(self) -> Iterator[str]:
        return iter(self._hiveconf)

    def __len__(self) -> int:
        return len(self._hiveconf)


def _own(settings: Settings, console: Console) -> Session:
    warehouse = Storage().qualify(settings.warehouse)
    settings = adopt_hive_settings(replace(settings, warehouse=warehouse), *hive_site_settings())
    prepare_kerberos(settings)
    if settings.metastore_uris:
        check_connection(settings)
    else:
        check_embedded_warehouse(warehouse)

    def use_database(spark: SparkSession) -> None:
        if settings.database != "default":
            from hudisql.format.schema.spark_schema import quote_name
            from hudisql.sql.text.spark_errors import SourceText, translated_spark_errors

            text = f"USE {quote_name(settings.database)}"
            with translated_spark_errors(SourceText(text)):
                spark_sql(spark, text)

    parts = OwnedParts(settings, console, use_database)
    return Session(Context.of_parts(parts, settings, console), owned=parts)


def _join_spark(spark: SparkSession, settings: Settings, console: Console) -> Session:
    from hudisql.spark.cluster import prepare_executors
    from hudisql.spark.hadoop_configuration import hadoop_configuration
    from hudisql.spark.versions import check_pyspark

    check_pyspark()
    if not hasattr(spark, "_jsparkSession"):
        raise SettingsError(
            "a Spark Connect session has no names of Hudi tables and no statements of hudisql",
            hint="spark.read.format('hudi').load(path) and df.write.format('hudi') work there; for the rest "
            "give a classic SparkSession (SparkSession.builder.master(…)), or send SQL to hudisql serve",
        )
    spark_uris = metastore_uris(spark)
    if spark_uris and not settings.metastore_uris:
        settings = settings.with_layer({"metastore": spark_uris}, "the SparkSession")
    elif spark_uris and _canonical(spark_uris) != _canonical(settings.metastore):
        raise SettingsError(
            f"the SparkSession works on the metastore {spark_uris}, hudisql was given {settings.metastore}",
            hint="give hudisql the same one, or none",
        )
    settings = adopt_hive_settings(settings, _login_settings_of(spark), "the SparkSession")
    prepare_kerberos(settings)
    if settings.origins.get("warehouse") is None:
        directory = str(spark.conf.get("spark.sql.warehouse.dir"))
        settings = settings.with_layer({"warehouse": Storage().qualify(directory)}, "the SparkSession")
    embedded = None if settings.metastore_uris else acquire_metastore(settings.warehouse, console)
    if not spark_uris:
        console.warning(
            "this SparkSession has no Hive catalog of a metastore service: Hudi tables come from hudisql's "
            "metastore, all others are Spark's own"
        )
    try:
        client = open_client(embedded.uri if embedded else settings.metastore, settings)
        storage = Storage(hadoop_configuration(spark))
        prepare_executors(spark)
    except BaseException:
        if embedded is not None:
            embedded.release()
        raise
    return Session(Context(spark, client, storage, settings, console), embedded=embedded)


def _warn_of_misspelt(settings: Settings, console: Console) -> None:
    from hudisql.options.known_settings import warn_of_settings

    for name in unknown_environment_names():
        console.warning(
            f"the environment variable {name} names no setting of hudisql; hudisql config lists the settings"
        )
    given = {name: value for name, value in settings.conf.items() if not name.startswith("spark.")}
    warn_of_settings(console, given, "conf")


def _login_settings_of(spark: SparkSession) -> dict[str, str]:
    """How the session logs in to its metastore and to Kerberos, by the names of Hive and Spark."""
    hadoop = session_state(spark).newHadoopConf()
    values = {
        key: spark.conf.get(key, None) if key.startswith("spark.") else hadoop.get(key)
        for key in ADOPTED_KEYS
    }
    return {key: str(value) for key, value in values.items() if value is not None}


def _canonical(uris: str) -> frozenset[str]:
    return frozenset(uri.strip().rstrip("/") for uri in uris.split(",") if uri.strip())
