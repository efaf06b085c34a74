"""`hudisql.install(spark)`, `connect(spark=…)`: names of Hudi tables in plain PySpark without Hudi's bundle.

The user's SparkSession object becomes a `ServedSession`, a subclass that gives each statement about a Hudi
table to hudisql and all others to the class that the object had. PySpark makes frames of one fixed class,
whose `write`, `writeTo` and `mergeInto` are replaced while a session is served. hudisql itself runs its texts
by `spark_sql`, which passes a served session by.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.catalog import Catalog
from pyspark.sql.functions import lit
from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter, DataFrameWriterV2
from pyspark.sql.sql_formatter import SQLStringFormatter
from pyspark.sql.streaming.readwriter import DataStreamWriter

from hudisql.console import Console
from hudisql.errors import InvalidArgumentError, SettingsError, UnsupportedStatementError
from hudisql.pyspark_names.named_writers import ServedStreamWriter, ServedWriter, ServedWriterV2
from hudisql.pyspark_names.served_catalog import ServedCatalog
from hudisql.pyspark_names.serving import Arguments, Serving, context_of, note_options, older, serving_of
from hudisql.session import Session, open_session
from hudisql.spark.versions import dataframe_class, sql_of_column
from hudisql.sql.concerned_tables import concerns_hudi, find_named_table
from hudisql.sql.dispatch import execute
from hudisql.sql.named_reads import query_of_table
from hudisql.sql.query.relations import substituted_by_spark
from hudisql.sql.text.parameters import SqlArguments, SqlExpression, bind_parameters, used_arguments

if TYPE_CHECKING:
    from hudisql.config.settings import Settings

_lock = threading.RLock()
_served_sessions: WeakSet[SparkSession] = WeakSet()


def install(
    spark: SparkSession,
    metastore: str | None = None,
    warehouse: str | None = None,
    settings: Settings | None = None,
    *,
    console: Console | None = None,
) -> Session:
    """Let a SparkSession know the names of Hudi tables: `spark.sql`, `spark.table`, `df.write.insertInto` …

    `spark.sql` then also runs what `Session.sql` runs; a statement without Hudi tables goes to Spark as
    before. The arguments are those of `connect`; installing again, or after `connect(spark=…)`, gives the
    same session. When the session is closed or Spark stops, the methods are Spark's own again. Raises
    SettingsError.
    """
    arguments = (metastore, warehouse, settings)
    with _lock:
        serving = serving_of(spark)
        if serving is None:
            session = open_session(metastore, warehouse, spark=spark, settings=settings, console=console)
            return serve_names(session, arguments, is_installed=True)
        if arguments not in ((None, None, None), serving.arguments):
            raise SettingsError(
                "hudisql is installed in this SparkSession with other arguments",
                hint="close() the session that install gave before",
            )
        return serving.session


def serve_names(session: Session, arguments: Arguments, *, is_installed: bool = False) -> Session:
    """Let the SparkSession of a hudisql session know the names of Hudi tables until the latter is closed."""
    spark = session.spark
    with _lock:
        before: Serving | None = vars(spark).get("_hudisql_serving")
        plain = before.plain if before is not None and isinstance(spark, ServedSession) else type(spark)
        return _serve(spark, Serving(session, plain, arguments, is_installed, older(before)))


class ServedSession(SparkSession):
    """A SparkSession whose methods know the names of Hudi tables."""

    _hudisql_serving: Serving

    def sql(self, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:  # noqa: N803
        """As Spark's: a query is lazy, a command runs at once. Raises HudisqlError for Hudi tables."""
        serving, plain = serving_of(self), self._hudisql_serving.plain
        formatter = SQLStringFormatter(self)
        text = formatter.format(sqlQuery, **kwargs) if kwargs else sqlQuery
        try:
            if serving is not None and isinstance(text, str):
                bound = substituted_by_spark(self, _bound(self, text, args) if args else text)
                if concerns_hudi(serving.session.context, bound):
                    return execute(serving.session.context, bound).df
            rows: DataFrame = plain.sql(self, text, args)
            return rows
        finally:
            formatter.clear()

    def table(self, tableName: str) -> DataFrame:  # noqa: N803
        """As Spark's. Raises HudisqlError for Hudi tables and views over them."""
        named = named_frame(self, tableName, {})
        rows: DataFrame = self._hudisql_serving.plain.table(self, tableName) if named is None else named
        return rows

    @property
    def catalog(self) -> Catalog:
        """As Spark's."""
        return ServedCatalog(self)

    @property
    def read(self) -> DataFrameReader:
        """As Spark's."""
        return ServedReader(self)

    def newSession(self) -> SparkSession:  # noqa: N802
        """As Spark's; the new session knows the names, too."""
        serving = self._hudisql_serving
        session = serving.session.new_session()
        made = Serving(session, type(session.spark), serving.arguments, sessions=serving.sessions)
        _serve(session.spark, made)
        return session.spark

    def stop(self) -> None:
        """As Spark's; the names end with it."""
        serving = self._hudisql_serving
        serving.plain.stop(self)
        for own in tuple(_servings(serving)):
            _close_all(own)


class ServedReader(DataFrameReader):
    """A reader whose `table` knows Hudi tables, with Hudi's options of a read."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)
        self._session = spark
        self._options: dict[str, str] = {}
        self._has_schema = False

    def schema(self, schema: Any) -> DataFrameReader:
        """As Spark's."""
        self._has_schema = True
        return super().schema(schema)

    def option(self, key: str, value: Any) -> DataFrameReader:
        """As Spark's."""
        note_options(self._options, {key: value})
        return super().option(key, value)

    def options(self, **options: Any) -> DataFrameReader:
        """As Spark's."""
        note_options(self._options, options)
        return super().options(**options)

    def table(self, tableName: str) -> DataFrame:  # noqa: N803
        """As Spark's. Raises HudisqlError for Hudi tables and views over them."""
        # Spark refuses a table with a schema of the user.
        named = None if self._has_schema else named_frame(self._session, tableName, self._options)
        return super().table(tableName) if named is None else named


def named_frame(spark: SparkSession, name: Any, options: Mapping[str, str]) -> DataFrame | None:
    """The rows of a Hudi table, or of a view over some; None for other names."""
    serving = serving_of(spark)
    if serving is None or not isinstance(name, str):
        return None
    context = serving.session.context
    if not concerns_hudi(context, query_of_table(name, {})):
        return None
    return execute(context, query_of_table(name, options)).df


def _bound(spark: SparkSession, text: str, args: Any) -> str:
    """The text with the values of its parameters; without them if Spark has to refuse them."""
    if isinstance(args, dict):
        arguments: SqlArguments = {name: _value_of(spark, value) for name, value in args.items()}
    elif isinstance(args, list):
        arguments = [_value_of(spark, value) for value in args]
    else:
        return text
    try:
        return bind_parameters(text, used_arguments(text, arguments))
    except InvalidArgumentError:
        return text


def _value_of(spark: SparkSession, value: Any) -> Any:
    if isinstance(value, timedelta):
        value = lit(value)
    return SqlExpression(sql_of_column(spark, value)) if isinstance(value, Column) else value


def _serve(spark: SparkSession, serving: Serving) -> Session:
    """Let the session know the names until its hudisql session is closed."""
    with _lock:
        is_first = not serving.sessions
        vars(spark)["_hudisql_serving"] = serving
        spark.__class__ = _served_class(serving.plain)
        serving.sessions.add(spark)
        _served_sessions.add(spark)
        _replace_frame_methods()
    # Those that `newSession` makes have borrowed the metastore's client of the first.
    serving.session.on_close(lambda: _close_all(serving) if is_first else _end_serving(spark, serving))
    return serving.session


def _close_all(serving: Serving) -> None:
    for spark in tuple(serving.sessions):
        for own in _servings(vars(spark)["_hudisql_serving"]):
            if own.sessions is serving.sessions:
                _end_serving(spark, own)
                own.session.close()


def _servings(newest: Serving) -> Iterator[Serving]:
    serving: Serving | None = newest
    while serving is not None:
        yield serving
        serving = serving.before()


def _end_serving(spark: SparkSession, serving: Serving) -> None:
    """Give the session its own class back, or to the session that served its names before.

    A thread that is in a method meanwhile ends it by `serving`.
    """
    with _lock:
        if vars(spark)["_hudisql_serving"] is not serving:
            return
        before = older(serving.before())()
        if before is not None:
            vars(spark)["_hudisql_serving"] = before
            return
        spark.__class__ = serving.plain
        serving.sessions.discard(spark)
        _served_sessions.discard(spark)
        if not _served_sessions:
            _restore_frame_methods()


@cache
def _served_class(plain: type[SparkSession]) -> Any:
    """The subclass of the session's own class, which may be a user's."""
    return ServedSession if plain is SparkSession else type("ServedSession", (ServedSession, plain), {})


_plain_methods: Final[dict[str, Any]] = {}


def _write(frame: DataFrame) -> DataFrameWriter:
    if context_of(frame) is None:
        writer: DataFrameWriter = _plain_methods["write"].fget(frame)
        return writer
    return ServedWriter(frame)


def _write_stream(frame: DataFrame) -> DataStreamWriter:
    if context_of(frame) is None:
        writer: DataStreamWriter = _plain_methods["writeStream"].fget(frame)
        return writer
    return ServedStreamWriter(frame)


def _write_to(frame: DataFrame, table: str) -> DataFrameWriterV2:
    if context_of(frame) is None:
        writer: DataFrameWriterV2 = _plain_methods["writeTo"](frame, table)
        return writer
    return ServedWriterV2(frame, table)


def _merge_into(frame: DataFrame, table: str, condition: Any) -> Any:
    context = context_of(frame)
    if context is not None and find_named_table(context, table) is not None:
        raise UnsupportedStatementError(
            f"mergeInto('{table}', …) of a Hudi table is not supported: nothing was run",
            hint=f"spark.sql('MERGE INTO {table} t USING {{rows}} s ON … WHEN MATCHED …', rows=df)",
        )
    return _plain_methods["mergeInto"](frame, table, condition)


_FRAME_METHODS: Final[Mapping[str, Any]] = {
    "write": property(_write),
    "writeStream": property(_write_stream),
    "writeTo": _write_to,
    "mergeInto": _merge_into,
}


def _replace_frame_methods() -> None:
    frames: Any = dataframe_class()
    for name, method in _FRAME_METHODS.items():
        # PySpark 3.5 has no mergeInto.
        own = vars(frames).get(name)
        if own is not None and own is not method:
            _plain_methods[name] = own
            setattr(frames, name, method)


def _restore_frame_methods() -> None:
    frames: Any = dataframe_class()
    for name, method in _FRAME_METHODS.items():
        if vars(frames).get(name) is method:
            setattr(frames, name, _plain_methods[name])
