"""What statements and procedures work with: Spark, the metastore, storage, settings, console.

The session creates it and passes it down; nothing below reads a global. Spark and the metastore start on
first use. It names the types of its parts only for type checking, so importing it costs neither PySpark nor a
metastore client.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any

from hudisql.config.settings import Settings
from hudisql.console import Console, DistinctWarnings, SilentConsole
from hudisql.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudisql.catalog.client import MetastoreClient
    from hudisql.startup import OwnedParts
    from hudisql.write.transaction.rows_checkpoint import CommitCheckpoint


class RunningParts:
    """Parts that are already running."""

    def __init__(self, spark: SparkSession, metastore: MetastoreClient, storage: Storage) -> None:
        self.spark = self.spark_without_catalog = spark
        self.started_spark: SparkSession | None = spark
        self.has_catalog = spark is not None
        self.metastore = metastore
        self.started_metastore: MetastoreClient | None = metastore
        self.storage = storage


class Context:
    """The session's parts, and its values `settings` and `console`."""

    def __init__(
        self,
        spark: SparkSession,
        metastore: MetastoreClient,
        storage: Storage | None = None,
        settings: Settings | None = None,
        console: Console | None = None,
    ) -> None:
        """Create a context of running parts; `of_parts` creates one of parts that start later."""
        self._parts: RunningParts | OwnedParts = RunningParts(spark, metastore, storage or Storage())
        self.settings = settings or Settings()
        self.console: Console = console or SilentConsole()
        self.checkpoint: CommitCheckpoint | None = None
        self._needs_catalog = True

    @classmethod
    def of_parts(cls, parts: OwnedParts, settings: Settings, console: Console) -> Context:
        """The context of parts that start on first use."""
        made = cls.__new__(cls)
        made._parts, made.settings, made.console = parts, settings, console
        made.checkpoint = None
        made._needs_catalog = True
        return made

    def with_checkpoint(self, checkpoint: CommitCheckpoint | None) -> Context:
        """A copy for a statement whose commit stores the checkpoint of an incremental pull."""
        made = copy(self)
        made.checkpoint = checkpoint
        return made

    def with_distinct_warnings(self) -> Context:
        """A copy for a statement that may be retried: each distinct warning is shown once."""
        made = copy(self)
        made.console = DistinctWarnings(self.console)
        return made

    def without_catalog(self) -> Context:
        """A copy for a statement that needs no catalog: its Spark starts without the metastore."""
        made = copy(self)
        made._needs_catalog = False
        return made

    def start(self) -> None:
        """Start Spark and, if this context needs a catalog, the metastore at the same time."""
        _ = self.spark

    @property
    def spark(self) -> SparkSession:
        """Spark; starts it on first use."""
        return self._parts.spark if self._needs_catalog else self._parts.spark_without_catalog

    @property
    def started_spark(self) -> SparkSession | None:
        """Spark if it runs."""
        return self._parts.started_spark

    @property
    def has_catalog(self) -> bool:
        """True if Spark runs with the metastore as its catalog: only then there are temporary views."""
        return self._parts.has_catalog

    @property
    def metastore(self) -> MetastoreClient:
        """The metastore's client; starts the embedded metastore on first use."""
        return self._parts.metastore

    @property
    def started_metastore(self) -> MetastoreClient | None:
        """The metastore's client if it runs and has answered."""
        return self._parts.started_metastore

    @property
    def storage(self) -> Storage:
        """Storage with Spark's file system settings."""
        return self._parts.storage

    def setting(self, name: str, default: str) -> str:
        """The session's value of a setting: the value of SET or, before Spark has started, of `conf`."""
        spark = self.started_spark
        if spark is None:
            return self.settings.conf.get(name, default).strip()
        return str(spark.conf.get(name, default)).strip()

    @contextmanager
    def with_session_settings(self, values: Mapping[str, str | None]) -> Iterator[None]:
        """Give the session these values for the block; None stands for a setting's default."""
        conf = self.spark.conf
        before = {name: conf.get(name, None) for name in values}
        changed = [name for name in values if before[name] != values[name]]

        def apply(wanted: Mapping[str, str | None]) -> None:
            for name in changed:
                value = wanted[name]
                conf.unset(name) if value is None else conf.set(name, value)

        try:
            apply(values)
            yield
        finally:
            apply(before)

    @property
    def current_database(self) -> str:
        """The database that unqualified table names belong to (what `USE` set)."""
        if not self.has_catalog:
            return self.settings.database
        name: Any = self.spark.catalog.currentDatabase()
        return str(name)

    @property
    def warehouse(self) -> str:
        """The warehouse directory as an absolute path."""
        return self.storage.qualify(self.settings.warehouse)

    def qualify_table_name(self, name: str) -> tuple[str, str]:
        """Split `table`, `db.table` or `spark_catalog.db.table` (backticks allowed) into (database, table).

        Hive's names are case-insensitive: both are returned in lower case. Raises InvalidArgumentError for
        other forms.
        """
        from hudisql.errors import InvalidArgumentError

        parts = split_identifier(name)
        if len(parts) == 3 and parts[0].lower() == "spark_catalog":
            parts = parts[1:]
        if len(parts) == 1:
            parts = (self.current_database, *parts)
        if len(parts) != 2 or not all(parts):
            raise InvalidArgumentError(
                f"'{name}' is not a table name", hint="give it as table or database.table"
            )
        return parts[0].lower(), parts[1].lower()


def split_identifier(name: str) -> tuple[str, ...]:
    """Split a dotted, possibly backticked name into its parts, backticks removed (`` a.`b.c` `` → a, b.c)."""
    parts: list[str] = [""]
    quoted = False
    position = 0
    while position < len(name):
        letter = name[position]
        if quoted and name[position : position + 2] == "``":
            parts[-1] += "`"
            position += 1
        elif letter == "`":
            quoted = not quoted
        elif letter == "." and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
        position += 1
    return tuple(part.strip() for part in parts)
