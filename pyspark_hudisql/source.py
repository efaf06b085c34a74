"""The data source's two sides: schema and plan in Spark's planning process, rows in tasks.

It follows PySpark's `DataSource` API and Hudi's names of read options. Planning and reading are hudisql's own
(`hudisql.read`); this module only translates options, schemas and filters.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

from hudisql.errors import HudisqlError, InvalidArgumentError, NoSuchTableError
from hudisql.format.instant import parse_point_in_time
from hudisql.format.spark_schema import arrow_from_spark_json, spark_type_name
from hudisql.hudi_config import HOLLOW_COMMITS, SCHEMA_OF_END, HudiConfig
from hudisql.read.arrow_scan import read_task, spark_struct, widen_batch
from hudisql.read.changed_sources import accepts_changed_sources
from hudisql.read.merge_mode import LogMergeConfig
from hudisql.read.predicates import Predicate
from hudisql.read.scan import ScanPlan, plan_scan
from hudisql.read.splits import ScanTask
from hudisql.read.table_state import TableState, changes_of_window, state_as_of
from hudisql.sql.config.known_settings import refuse_misspelt_options
from hudisql.sql.config.unserved_settings import (
    AS_OF_INSTANT,
    BEGIN_INSTANT,
    END_INSTANT,
    INCREMENTAL,
    PATH_GLOB,
    query_type_of_options,
)
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.table.timeline_window import timeline_window
from pyspark_hudisql.filters import predicate_from_filter

_PUSHDOWN_WORKER = "data_source_pushdown_filters.py"


class DefaultSource(DataSource):
    """Reads a Hudi table, or one partition path of it, by its path; writes new rows into it."""

    @classmethod
    def name(cls) -> str:
        """The name in `format("hudi")` and `USING hudi`."""
        return "hudi"

    def schema(self) -> StructType:
        """The table's schema with Hudi's meta columns first. Raises what opening the table raises."""
        with _plain_errors():
            return spark_struct(_state_of(self.options)[0].table.full_schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the columns of `schema`, a part of the table's; takes filters if Spark pushes them."""
        if _spark_pushes_filters():
            return FilteringHudiReader(dict(self.options), schema)
        return HudiReader(dict(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A writer into the table; see `sink` and `upsert`. Raises what these raise."""
        from pyspark_hudisql.sink import make_writer

        options = dict(self.options)
        with _plain_errors():
            return make_writer(_storage(options), options, schema, overwrite)


@dataclass(frozen=True)
class HudiInput(InputPartition):
    """The work of one Spark task: Spark pickles the reader before it asks for the partitions."""

    task: ScanTask
    columns: pa.Schema
    predicate: Predicate | None
    log_merge_config: LogMergeConfig | None


class HudiReader(DataSourceReader):
    """Plans the splits in Spark's planning process, and reads each in a task."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = options
        self._output = arrow_from_spark_json(schema.json())
        self._storage = _storage(options)
        self._filters: tuple[Predicate, ...] = ()

    def partitions(self) -> list[InputPartition]:
        """One per task. Raises InvalidArgumentError for options and columns, and what `plan_scan` raises."""
        with _plain_errors():
            plan = self._plan()
        # Spark calls a reader without partitions once, with a partition of its own making.
        tasks = plan.tasks or (ScanTask(()),)
        return [HudiInput(task, plan.columns, plan.predicate, plan.log_merge_config) for task in tasks]

    def _plan(self) -> ScanPlan:
        try:
            state, below = _state_of(self._options)
            _check_columns(self._output, state.table.full_schema)
            return plan_scan(
                state.table,
                self._output,
                self._filters,
                as_of=state.as_of,
                changes=state.changes,
                below=below,
                read_optimized=query_type_of_options(self._options) == "read_optimized",
            )
        except NotImplementedError as error:
            # Spark takes this class for "has no partitions" and would go on.
            raise HudisqlError(*error.args, hint=getattr(error, "hint", None)) from None

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task, exactly as the schema says. Raises what `read_file_slice` raises."""
        assert isinstance(partition, HudiInput)
        rows = read_task(
            self._storage,
            partition.task,
            partition.columns,
            partition.predicate,
            log_merge_config=partition.log_merge_config,
        )
        for batch in rows:
            yield widen_batch(batch, self._output)


class FilteringHudiReader(HudiReader):
    """A reader that also takes filters: needs `spark.sql.python.filterPushdown.enabled=true`."""

    def pushFilters(self, filters: list[Filter]) -> Sequence[Filter]:  # noqa: N802
        """Use what can be translated to skip partitions, row groups and rows; Spark applies all again."""
        translated = (predicate_from_filter(each) for each in filters)
        self._filters = tuple(predicate for predicate in translated if predicate is not None)
        return filters


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Keep Spark from putting a Python traceback around hudisql's own errors.

    For calls in Spark's planning processes, which run no code of the user's.
    """
    try:
        yield
    except HudisqlError:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def _spark_pushes_filters() -> bool:
    # Spark refuses a reader with pushFilters unless it pushes filters, and tells the source of it only by
    # which of its planning workers calls.
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.endswith(_PUSHDOWN_WORKER):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def instant_time(text: str | None) -> str | None:
    """The instant time that the option `as.of.instant` means, in Hudi's forms; None if it is not given.

    `yyyyMMddHHmmss[SSS]`, `yyyy-MM-dd HH:mm:ss[.SSS]` or `yyyy-MM-dd`, in the time zone of the table's
    timeline. Raises InvalidArgumentError.
    """
    found = None if text is None else parse_point_in_time(text)
    if text is not None and found is None:
        raise InvalidArgumentError(
            f"{AS_OF_INSTANT} is '{text}', which is no point in time",
            hint="write it as '2024-03-01', '2024-03-01 12:00:00' or as an instant time",
        )
    return found


def _storage(options: Mapping[str, str]) -> Storage:
    # Spark's planning process for Python data sources sees no Hadoop configuration: options carry it.
    return Storage({key: value for key, value in options.items() if key.startswith(("fs.", "dfs."))})


def _state_of(options: Mapping[str, str]) -> tuple[TableState, str]:
    """What the options ask for of the table, and the partition path below it ("" for all)."""
    table, below = _open(options)
    if query_type_of_options(options) == INCREMENTAL:
        config = HudiConfig(options.get)
        window = timeline_window(
            table, options[BEGIN_INSTANT], options.get(END_INSTANT) or None, config.get(HOLLOW_COMMITS)
        )
        state = changes_of_window(
            table, window, schema_of_end=config.get(SCHEMA_OF_END), path_glob=options.get(PATH_GLOB, "")
        )
        return state, below
    as_of = instant_time(options.get(AS_OF_INSTANT))
    return TableState(table) if as_of is None else state_as_of(table, as_of), below


def _open(options: Mapping[str, str]) -> tuple[HudiTable, str]:
    """The table of the options' path, and which relative partition path below it was asked ("" for all)."""
    path = options.get("path")
    if not path:
        raise InvalidArgumentError(
            "the hudi data source got no path; of a table that is named, Spark's own catalog tells a Python "
            "data source neither its location nor its properties",
            hint="session.sql('SELECT … FROM <table>').df in hudisql, or spark.read.format('hudi')"
            ".load('<location>'), or spark.sql(\"SELECT … FROM <table> WITH (path = '<location>')\")",
        )
    refuse_misspelt_options(options)
    query_type_of_options(options)
    storage = _storage(options)
    qualified = storage.qualify(path)
    accepts = accepts_changed_sources(HudiConfig(options.get))
    table = open_table(storage, qualified, accepts_changed_sources=accepts)
    below = qualified[len(table.base_path) :].strip("/")
    if below and not storage.exists(qualified):
        raise NoSuchTableError(f"the Hudi table at {table.base_path} has no partition '{below}'")
    return table, below


def _check_columns(asked: pa.Schema, table: pa.Schema) -> None:
    for field in asked:
        index = table.get_field_index(field.name)
        if index < 0:
            raise InvalidArgumentError(
                f"the Hudi table has no column '{field.name}'; it has: {', '.join(table.names)}"
            )
        if not _is_part_of(field.type, table.field(index).type):
            raise InvalidArgumentError(
                f"the column '{field.name}' is {spark_type_name(table.field(index).type)} in the Hudi table, "
                f"not {spark_type_name(field.type)}",
                hint="load the table without .schema(…) and cast the column",
            )


def _is_part_of(asked: pa.DataType, whole: pa.DataType) -> bool:
    if pa.types.is_struct(asked) and pa.types.is_struct(whole):
        return all(
            whole.get_field_index(field.name) >= 0 and _is_part_of(field.type, whole.field(field.name).type)
            for field in asked
        )
    return bool(asked == whole)
