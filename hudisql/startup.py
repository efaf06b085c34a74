"""Starts Spark and the metastore of a session that owns them, each on first use.

A statement that names no table runs in Spark without its catalog, so that no metastore is started for it. If
Spark and the embedded metastore are both needed, they start at the same time. This module does not know SQL
text.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hudisql.config.settings import Settings
from hudisql.console import Console, SilentConsole
from hudisql.errors import HudisqlError, SessionClosedError, SettingsError
from hudisql.spark.jvm import instantiated_session, java_context, java_session
from hudisql.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudisql.catalog.client import MetastoreClient
    from hudisql.catalog.embedded import EmbeddedMetastore

SparkAction = Callable[["SparkSession"], None]


@dataclass(eq=False)
class _StartAction:
    """An action that a thread runs once it has Spark: settings such as job tags belong to a thread."""

    action: SparkAction
    thread: int
    is_done: bool = False


# Nothing listens on this address: a catalog that is used too early fails instead of creating a Derby
# database.
_NO_METASTORE: Final = "thrift://127.0.0.1:1"
_URIS: Final = "hive.metastore.uris"


class OwnedParts:
    """Spark, the metastore client and storage of one session, each started once, by any thread.

    A part that cannot start raises SettingsError, MetastoreUnavailableError or ExecutorEnvironmentError; the
    next use tries again. `settings.warehouse` is qualified.
    """

    def __init__(self, settings: Settings, console: Console, use_database: SparkAction) -> None:
        """`use_database` sets the settings' database as the current one, once the catalog exists."""
        self._settings = settings
        self._console = console
        self._use_database = use_database
        self._lock = threading.RLock()
        self._client: MetastoreClient | None = None
        self._embedded: EmbeddedMetastore | None = None
        self._spark: SparkSession | None = None
        self._storage: Storage | None = None
        self._opening: Future[None] | None = None
        self._is_closed = False
        self.has_catalog = False
        self._on_start: list[_StartAction] = []
        self.log_file: Path | None = None
        self.start_error: HudisqlError | None = None
        self._waited = threading.local()

    @property
    def started_spark(self) -> SparkSession | None:
        """Spark if it runs."""
        return self._spark

    @property
    def seconds_waited(self) -> float:
        """How long this thread has waited for Spark and the metastore to start."""
        return float(getattr(self._waited, "seconds", 0.0))

    @contextmanager
    def _counted_wait(self) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._waited.seconds = self.seconds_waited + time.monotonic() - began

    @property
    def spark(self) -> SparkSession:
        """Spark with the metastore as its catalog."""
        with self._counted_wait(), self._lock:
            if self._spark is None or not self.has_catalog:
                self._starting(self._start_with_catalog)
            assert self._spark is not None
            self._run_actions(self._spark)
            return self._spark

    @property
    def spark_without_catalog(self) -> SparkSession:
        """Spark, possibly before it has a catalog: for statements that name nothing of a catalog."""
        with self._counted_wait(), self._lock:
            if self._spark is None:
                self._starting(self._start_spark)
            assert self._spark is not None
            self._run_actions(self._spark)
            return self._spark

    @property
    def metastore(self) -> MetastoreClient:
        """The client of a metastore that has answered."""
        with self._counted_wait(), self._lock:
            if self._client is None:
                self._starting(lambda: self._metastore_opening().result())
            assert self._client is not None
            return self._client

    @property
    def storage(self) -> Storage:
        """Storage with the file system settings of Spark, which starts for them if a path is not local."""
        from hudisql.spark.hadoop_configuration import LazyHadoopConfiguration

        with self._lock:
            if self._storage is None:
                self._storage = Storage(LazyHadoopConfiguration(lambda: self.spark_without_catalog))
            return self._storage

    @property
    def started_metastore(self) -> MetastoreClient | None:
        """The client if the metastore has answered."""
        return self._client

    def on_spark_start(self, action: SparkAction) -> Callable[[], None]:
        """Call `action` when this thread first gets Spark, or now if it is running; the result removes it.

        It does not wait, even while another thread starts Spark.
        """
        waiting = _StartAction(action, threading.get_ident())
        self._on_start.append(waiting)
        if self._spark is not None:
            self._run_actions(self._spark)
        return lambda: self._on_start.remove(waiting)

    def _run_actions(self, spark: SparkSession) -> None:
        for start_action in tuple(self._on_start):
            if start_action.thread == threading.get_ident() and not start_action.is_done:
                start_action.is_done = True
                start_action.action(spark)

    def close(self) -> None:
        """Close the client, stop Spark, release the embedded metastore; nothing starts after this."""
        self._is_closed = True
        if self._client is not None:
            self._client.close()
        if self._spark is not None:
            self._spark.stop()
        if self._embedded is not None:
            self._embedded.release()

    def _starting(self, start: Callable[[], None]) -> None:
        if self._is_closed:
            raise SessionClosedError("the session is closed", hint="hudisql.connect(…) opens another one")
        try:
            start()
        except HudisqlError as error:
            self.start_error = error
            raise

    def _start_with_catalog(self) -> None:
        opening = self._metastore_opening()
        if self._settings.metastore_uris:
            # Fail before Spark starts if a given metastore does not answer.
            opening.result()
        if self._spark is None:
            # Statements that name tables load most of the classes that others need.
            self._start_spark(records_classes=True)
        opening.result()
        assert self._spark is not None
        if self._embedded is not None:
            _set_metastore(self._spark, self._embedded.uri)
        self._use_database(self._spark)
        self.has_catalog = True

    def _start_spark(self, *, records_classes: bool = False) -> None:
        from hudisql.spark.cluster import prepare_executors
        from hudisql.spark.spark_session import start_spark

        if running_spark() is not None:
            raise SettingsError(
                "another SparkSession was started after connect()",
                hint="give it to hudisql: connect(spark=…), or connect() once it runs",
            )
        settings = self._settings
        uris = settings.metastore_uris or (_NO_METASTORE,)
        owned = start_spark(settings, settings.warehouse, uris, records_classes=records_classes)
        try:
            prepare_executors(owned.spark)
        except BaseException:
            owned.spark.stop()
            raise
        self._spark, self.log_file = owned.spark, owned.log_file
        self._run_actions(owned.spark)

    def _metastore_opening(self) -> Future[None]:
        """The running or completed start of the metastore; a new one if the last has failed."""
        from hudisql.catalog.embedded import check_writable_warehouse

        if not self._settings.metastore_uris:
            # Fail before anything starts.
            check_writable_warehouse(self._settings.warehouse)
        opening = self._opening
        if opening is None or (opening.done() and opening.exception() is not None):
            opening = self._opening = _in_background(self._open_metastore)
        return opening

    def _open_metastore(self) -> None:
        settings = self._settings
        embedded = None if settings.metastore_uris else acquire_metastore(settings.warehouse, self._console)
        try:
            client = open_client(embedded.uri if embedded else ",".join(settings.metastore_uris), settings)
            # Spark's own client takes minutes to give up on a metastore that is away.
            client.list_databases()
        except BaseException:
            if embedded is not None:
                embedded.release()
            raise
        self._embedded, self._client = embedded, client
        if self._is_closed and embedded is not None:
            embedded.release()


def running_spark() -> SparkSession | None:
    """The SparkSession that runs in this process, found without importing PySpark."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    return active if active is not None else instantiated_session()


def acquire_metastore(warehouse: str, console: Console) -> EmbeddedMetastore:
    """Find or start the embedded metastore."""
    from hudisql.catalog.embedded import acquire_embedded_metastore, embedded_metastore_status

    if not embedded_metastore_status(warehouse).running and not isinstance(console, SilentConsole):
        console.info(f"starting the embedded metastore of {warehouse}")
    return acquire_embedded_metastore(warehouse)


def check_connection(settings: Settings) -> None:
    """Raise SettingsError for an invalid metastore URI or Kerberos principal. Does not connect."""
    from hudisql.catalog.connection import parse_metastore_uris
    from hudisql.catalog.metastore_login import check_security, metastore_security

    parse_metastore_uris(settings.metastore_uris)
    check_security(metastore_security(settings))


def prepare_kerberos(settings: Settings) -> None:
    """Let this process log in from the keytab of the settings, if they name one. Raises SettingsError."""
    if settings.kerberos_keytab:
        from hudisql.kerberos import use_keytab

        use_keytab(settings.kerberos_keytab, settings.kerberos_principal)


def open_client(uris: str, settings: Settings) -> MetastoreClient:
    """A client, which connects on first use."""
    from hudisql.catalog.client import MetastoreClient
    from hudisql.catalog.metastore_login import metastore_security

    return MetastoreClient(uris, security=metastore_security(settings))


def _set_metastore(spark: SparkSession, uri: str) -> None:
    """Set the metastore of a Spark that has not used its catalog yet."""
    context = java_context(spark.sparkContext)
    # The settings of the shared catalog, of new sessions, and of the user's session.
    java_session(spark).sharedState().hadoopConf().set(_URIS, uri)
    context.hadoopConfiguration().set(_URIS, uri)
    context.sc().conf().set(f"spark.hadoop.{_URIS}", uri)
    spark.conf.set(f"spark.hadoop.{_URIS}", uri)


def _in_background(work: Callable[[], None]) -> Future[None]:
    """Run `work` in a thread that does not keep the process from ending."""
    done: Future[None] = Future()

    def run() -> None:
        try:
            work()
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    threading.Thread(target=run, daemon=True).start()
    return done
