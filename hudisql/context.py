"""What a statement or a procedure is given to work with: Spark, the metastore, storage, settings, console.

One immutable value, made by the session and passed down; nothing below reads a global. It knows the types of
its parts by name only, so that importing it costs neither PySpark nor a metastore client.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hudisql.console import Console, SilentConsole
from hudisql.settings import Settings
from hudisql.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudisql.catalog.client import MetastoreClient


@dataclass(frozen=True)
class Context:
    """The session's parts. `spark` and `metastore` are live connections, the others are values."""

    spark: SparkSession
    metastore: MetastoreClient
    storage: Storage = field(default_factory=Storage)
    settings: Settings = field(default_factory=Settings)
    console: Console = field(default_factory=SilentConsole)

    @property
    def current_database(self) -> str:
        """The database that unqualified table names belong to (what `USE` set)."""
        name: Any = self.spark.catalog.currentDatabase()
        return str(name)

    @property
    def warehouse(self) -> str:
        """The warehouse directory as an absolute path."""
        return self.storage.qualify(self.settings.warehouse)

    def qualify_table_name(self, name: str) -> tuple[str, str]:
        """Split `table`, `db.table` or `spark_catalog.db.table` (backticks allowed) into (database, table).

        Hive's names know no case: both come back in lower case. Raises InvalidArgumentError for other forms.
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
