"""The data source: schema and plan in Spark's planning process, rows in tasks.

It follows PySpark's `DataSource` API and Hudi's names of read options. Planning and reading are hudisql's own
(`hudisql.read`); this module only translates options, schemas and filters. `stream` implements streams.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from hudisql.errors import HudisqlError
from hudisql.format.schema.spark_schema import arrow_from_spark_json
from hudisql.options.unserved_settings import (
    BEGIN_INSTANT,
    INCREMENTAL,
    is_cdc_query,
    query_type_of_options,
)
from hudisql.read.changes.change_capture import CAPTURED_TEXTS
from hudisql.read.files.predicates import Predicate
from hudisql.read.files.splits import ScanTask
from hudisql.read.scan.arrow_scan import spark_struct
from pyspark_hudisql.inputs import ScanInput, capture_inputs, read_input, scan_inputs
from pyspark_hudisql.read_options import (
    open_table_of,
    plain_errors,
    state_of_options,
    storage_of,
    window_of_options,
)

if TYPE_CHECKING:
    # PySpark 4.0 has no filters.
    from pyspark.sql.datasource import Filter

_PUSHDOWN_WORKER = "data_source_pushdown_filters.py"


class DefaultSource(DataSource):
    """Reads a Hudi table, or one partition path of it, by its path; writes new rows into it."""

    @classmethod
    def name(cls) -> str:
        """The name in `format("hudi")` and `USING hudi`."""
        return "hudi"

    def schema(self) -> StructType:
        """The table's schema with Hudi's meta columns first, or that of captured changes.

        Raises InvalidArgumentError, NoSuchTableError. Spark does not say whether the schema is for a batch or
        a stream, which has no begin: without a begin it is the schema of the latest rows.
        """
        with plain_errors():
            table, _ = open_table_of(self.options)
            if is_cdc_query(self.options):
                return spark_struct(CAPTURED_TEXTS)
            if self.options.get(BEGIN_INSTANT) or query_type_of_options(self.options) != INCREMENTAL:
                table = state_of_options(table, self.options).table
            return spark_struct(table.full_schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of `schema`, a part of the table's columns; accepts filters if Spark pushes them."""
        if _spark_pushes_filters():
            return FilteringHudiReader(dict(self.options), schema)
        return HudiReader(dict(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """A reader of micro batches."""
        from pyspark_hudisql.stream import HudiStreamReader

        return HudiStreamReader(dict(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A writer into the table; see `sink` and `source_upsert`. Raises HudisqlError."""
        from pyspark_hudisql.sink import make_writer

        options = dict(self.options)
        with plain_errors():
            return make_writer(storage_of(options), options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """A writer of micro batches, with PySpark 4.1 and later. Raises HudisqlError."""
        with plain_errors():
            try:
                from pyspark_hudisql.stream_sink import HudiStreamWriter
            except ImportError:
                raise HudisqlError(
                    "a Hudi table is the sink of a stream (writeStream) with PySpark 4.1 and later: nothing "
                    "was written",
                    hint="write each micro batch: writeStream.foreachBatch(lambda rows, _: "
                    "session.write(rows, 'db.name'))",
                ) from None
            return HudiStreamWriter(dict(self.options), schema, overwrite)


class HudiReader(DataSourceReader):
    """Plans the splits in Spark's planning process, and reads each in a task."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = options
        self._output = arrow_from_spark_json(schema.json())
        self._storage = storage_of(options)
        self._filters: tuple[Predicate, ...] = ()

    def partitions(self) -> list[InputPartition]:
        """One per task. Raises InvalidArgumentError for options and columns."""
        with plain_errors():
            found = self._plan()
        # Spark calls a reader without partitions once, with an artificial partition.
        return found or [ScanInput(ScanTask(()), self._output, None, None)]

    def _plan(self) -> list[InputPartition]:
        table, below = open_table_of(self._options)
        if is_cdc_query(self._options):
            return list(capture_inputs(table, window_of_options(table, self._options), below, self._output))
        state = state_of_options(table, self._options)
        return list(scan_inputs(state, below, self._output, self._options, self._filters))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task, exactly as the schema says."""
        yield from read_input(self._storage, partition, self._output)


class FilteringHudiReader(HudiReader):
    """A reader that also takes filters: needs `spark.sql.python.filterPushdown.enabled=true`."""

    def pushFilters(self, filters: list[Filter]) -> Sequence[Filter]:  # noqa: N802
        """Use translatable filters to skip partitions, row groups and rows; Spark applies all again."""
        from pyspark_hudisql.filters import predicate_from_filter

        translated = (predicate_from_filter(each) for each in filters)
        self._filters = tuple(predicate for predicate in translated if predicate is not None)
        return filters


def _spark_pushes_filters() -> bool:
    # Spark refuses a reader with pushFilters if filter pushdown is off. The source can detect that only from
    # the planning worker that calls.
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.endswith(_PUSHDOWN_WORKER):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
