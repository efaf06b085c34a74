"""PySpark's DataFrame writers with the names of Hudi tables: `insertInto`, `saveAsTable`, `df.writeTo`.

They note what PySpark only hands on to the JVM (mode, format, options, partition columns). Names of other
tables go on to Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.readwriter import DataFrameWriter, DataFrameWriterV2
from pyspark.sql.streaming.readwriter import DataStreamWriter

from hudisql.catalog.metastore_table import MetastoreTable, is_hudi_table
from hudisql.context import Context
from hudisql.errors import InvalidArgumentError, TableExistsError, UnsupportedStatementError
from hudisql.pyspark_names.serving import context_of, note_options
from hudisql.spark.jvm import column_text
from hudisql.sql.concerned_tables import find_named_entry
from hudisql.sql.ddl.table_options import PROVIDERS
from hudisql.sql.named_writes import (
    Rows,
    create_from_frame,
    insert_frame,
    refuse_deleting_sources,
    with_partitions,
)
from hudisql.sql.text.spark_errors import translated_spark_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


class ServedWriter(DataFrameWriter):
    """A writer whose `insertInto` and `saveAsTable` know Hudi tables."""

    def __init__(self, df: DataFrame) -> None:
        super().__init__(df)
        self._frame = df
        self._mode = "errorifexists"
        self._provider: str | None = None
        self._given: dict[str, str] = {}
        self._partitions: list[str] = []
        self._layout: str | None = None

    def mode(self, saveMode: str | None) -> DataFrameWriter:  # noqa: N803
        """As Spark's."""
        # Spark refuses what is not a mode.
        writer = super().mode(saveMode)
        if saveMode:
            self._mode = saveMode.lower()
        return writer

    def format(self, source: str) -> DataFrameWriter:
        """As Spark's."""
        self._provider = source.lower()
        return super().format(source)

    def option(self, key: str, value: Any) -> DataFrameWriter:
        """As Spark's."""
        note_options(self._given, {key: value})
        return super().option(key, value)

    def options(self, **options: Any) -> DataFrameWriter:
        """As Spark's."""
        note_options(self._given, options)
        return super().options(**options)

    def partitionBy(self, *cols: Any) -> DataFrameWriter:  # noqa: N802
        """As Spark's."""
        self._partitions = _names(cols)
        return super().partitionBy(*cols)

    def bucketBy(self, numBuckets: int, col: Any, *cols: Any) -> DataFrameWriter:  # noqa: N802, N803
        """As Spark's."""
        self._layout = "bucketBy"
        return super().bucketBy(numBuckets, col, *cols)

    def sortBy(self, col: Any, *cols: Any) -> DataFrameWriter:  # noqa: N802
        """As Spark's."""
        self._layout = "sortBy"
        return super().sortBy(col, *cols)

    def clusterBy(self, *cols: Any) -> DataFrameWriter:  # noqa: N802
        """As Spark 4's."""
        self._layout = "clusterBy"
        return super().clusterBy(*cols)

    def insertInto(self, tableName: str, overwrite: bool | None = None) -> None:  # noqa: N802, N803
        """As Spark's, by position. Raises HudisqlError for Hudi tables."""
        context = context_of(self._frame)
        entry = None if context is None else find_named_entry(context, tableName)
        replaces = self._mode == "overwrite" if overwrite is None else overwrite
        if context is None or entry is None or not is_hudi_table(entry):
            if context is not None and replaces:
                refuse_deleting_sources(context, entry, "insertInto")
            super().insertInto(tableName, overwrite)
            return
        if self._partitions:
            raise InvalidArgumentError(
                "insertInto does not take partitionBy: nothing was written",
                hint=f"leave it out: {entry.full_name} has its partition columns",
            )
        with translated_spark_errors():
            rows = Rows.OVERWRITTEN if replaces else Rows.ADDED
            insert_frame(context, self._frame, entry, self._given, rows, by_name=False)

    def saveAsTable(  # noqa: N802
        self,
        name: str,
        format: Any = None,
        mode: Any = None,
        partitionBy: Any = None,  # noqa: N803
        **options: Any,
    ) -> None:
        """As Spark's, by name. Raises HudisqlError for Hudi tables."""
        self.mode(mode).options(**options)
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        if format is not None:
            self.format(format)
        context = context_of(self._frame)
        entry = None if context is None else find_named_entry(context, name)
        if context is None or not self._is_hudi(context, entry):
            if context is not None and entry is not None and self._mode == "overwrite":
                if is_hudi_table(entry) or self._provider in PROVIDERS:
                    raise _exists(entry, "a table is not replaced by one of another format: DROP TABLE first")
                refuse_deleting_sources(context, entry, "saveAsTable")
            super().saveAsTable(name)
            return
        if self._layout is not None:
            raise _unsupported(f"{self._layout} of a Hudi table", "CALL run_clustering sorts its rows")
        options = with_partitions(self._given, self._partitions)
        with translated_spark_errors():
            if entry is None:
                create_from_frame(context, self._frame, name, options)
            elif self._mode == "append":
                insert_frame(context, self._frame, entry, options, Rows.ADDED)
            elif self._mode == "overwrite":
                insert_frame(context, self._frame, entry, options, Rows.REPLACED)
            elif self._mode != "ignore":
                raise _exists(entry, "mode('append') adds rows, mode('overwrite') replaces all")

    def _is_hudi(self, context: Context, entry: MetastoreTable | None) -> bool:
        if entry is not None:
            # Spark refuses another format than the table has.
            return is_hudi_table(entry) and self._provider in (None, *PROVIDERS)
        provider = self._provider or str(context.spark.conf.get("spark.sql.sources.default"))
        return provider in PROVIDERS


class ServedStreamWriter(DataStreamWriter):
    """A writer of streams whose `toTable` knows Hudi tables."""

    def __init__(self, df: DataFrame) -> None:
        super().__init__(df)
        self._frame = df

    def toTable(self, tableName: str, *arguments: Any, **options: Any) -> StreamingQuery:  # noqa: N802, N803
        """As Spark's. Raises UnsupportedStatementError for Hudi tables."""
        context = context_of(self._frame)
        entry = None if context is None else find_named_entry(context, tableName)
        if entry is not None and is_hudi_table(entry):
            raise _unsupported(
                f"toTable('{tableName}') of a Hudi table",
                f"writeStream.format('hudi').start('{entry.location}')",
            )
        return super().toTable(tableName, *arguments, **options)


class ServedWriterV2(DataFrameWriterV2):
    """A writer of `df.writeTo(table)` that knows Hudi tables."""

    def __init__(self, df: DataFrame, table: str) -> None:
        super().__init__(df, table)
        self._frame = df
        self._table = table
        self._provider = ""
        self._given: dict[str, str] = {}
        self._partitions: list[str] = []
        self._transform: str | None = None

    def using(self, provider: str) -> DataFrameWriterV2:
        """As Spark's."""
        self._provider = provider.lower()
        return super().using(provider)

    def option(self, key: str, value: Any) -> DataFrameWriterV2:
        """As Spark's."""
        note_options(self._given, {key: value})
        return super().option(key, value)

    def options(self, **options: Any) -> DataFrameWriterV2:
        """As Spark's."""
        note_options(self._given, options)
        return super().options(**options)

    def tableProperty(self, property: str, value: str) -> DataFrameWriterV2:  # noqa: N802
        """As Spark's."""
        note_options(self._given, {property: value})
        return super().tableProperty(property, value)

    def partitionedBy(self, col: Any, *cols: Any) -> DataFrameWriterV2:  # noqa: N802
        """As Spark's."""
        for column in (col, *cols):
            text = column if isinstance(column, str) else column_text(column)
            if text.isidentifier():
                self._partitions.append(text)
            else:
                self._transform = text
        return super().partitionedBy(col, *cols)

    def append(self) -> None:
        """As Spark's, by name. Raises HudisqlError for Hudi tables."""
        self._insert("append", Rows.ADDED)

    def overwritePartitions(self) -> None:  # noqa: N802
        """As Spark's, by name. Raises HudisqlError for Hudi tables."""
        self._insert("overwritePartitions", Rows.PARTITIONS_REPLACED)

    def create(self) -> None:
        """As Spark's. Raises HudisqlError for Hudi tables."""
        context = context_of(self._frame)
        if context is None or self._provider not in PROVIDERS:
            super().create()
            return
        entry = find_named_entry(context, self._table)
        if entry is not None:
            raise _exists(entry, "append() adds rows")
        if self._transform is not None:
            raise _unsupported(
                f"partitionedBy({self._transform})", "partition by a column that has the transformed value"
            )
        with translated_spark_errors():
            options = with_partitions(self._given, self._partitions)
            create_from_frame(context, self._frame, self._table, options)

    def overwrite(self, condition: Any) -> None:
        """As Spark's. Raises UnsupportedStatementError for Hudi tables."""
        self._refuse("overwrite(condition)", "spark.sql('DELETE FROM … WHERE …'), then append()")
        super().overwrite(condition)

    def replace(self) -> None:
        """As Spark's. Raises UnsupportedStatementError for Hudi tables."""
        self._refuse("replace()", "df.write.mode('overwrite').saveAsTable(…) replaces the rows")
        super().replace()

    def createOrReplace(self) -> None:  # noqa: N802
        """As Spark's. Raises UnsupportedStatementError for Hudi tables."""
        self._refuse(
            "createOrReplace()",
            "df.write.format('hudi').mode('overwrite').saveAsTable(…) makes the table or replaces its rows",
        )
        super().createOrReplace()

    def _insert(self, method: str, rows: Rows) -> None:
        context = context_of(self._frame)
        entry = None if context is None else find_named_entry(context, self._table)
        if context is None or entry is None or not is_hudi_table(entry):
            if context is not None and rows is not Rows.ADDED:
                refuse_deleting_sources(context, entry, method)
            getattr(super(), method)()
            return
        with translated_spark_errors():
            insert_frame(context, self._frame, entry, self._given, rows)

    def _refuse(self, what: str, hint: str) -> None:
        context = context_of(self._frame)
        if context is None:
            return
        entry = find_named_entry(context, self._table)
        if self._provider in PROVIDERS or (entry is not None and is_hudi_table(entry)):
            raise _unsupported(f"writeTo('{self._table}').{what} of a Hudi table", hint)
        refuse_deleting_sources(context, entry, what)


def _names(columns: Sequence[Any]) -> list[str]:
    """The columns of `partitionBy`, which takes them one by one or as one list."""
    is_list = len(columns) == 1 and isinstance(columns[0], list | tuple)
    return [str(column) for column in (columns[0] if is_list else columns)]


def _exists(entry: MetastoreTable, hint: str) -> TableExistsError:
    return TableExistsError(f"the table {entry.full_name} exists: nothing was written", hint=hint)


def _unsupported(what: str, hint: str) -> UnsupportedStatementError:
    return UnsupportedStatementError(f"{what} is not supported: nothing was written", hint=hint)
