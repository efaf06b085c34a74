"""The options of a read, with Hudi's names: the table and its state.

For batches and streams. The names are those of `DataSourceReadOptions` of Hudi 0.15.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa

from hudisql.config.config_key import HudiConfig
from hudisql.config.hudi_config import HOLLOW_COMMITS, METADATA_ENABLE, SCHEMA_OF_END
from hudisql.errors import HudisqlError, InvalidArgumentError, NoSuchTableError
from hudisql.format.schema.spark_schema import spark_type_name
from hudisql.format.timeline.instant import parse_point_in_time
from hudisql.options.known_settings import refuse_misspelt_options
from hudisql.options.unserved_settings import (
    AS_OF_INSTANT,
    BEGIN_INSTANT,
    END_INSTANT,
    INCREMENTAL,
    PATH_GLOB,
    query_type_of_options,
)
from hudisql.read.scan.table_state import TableState, changes_of_window, state_as_of
from hudisql.read.slice.changed_sources import accepts_changed_sources
from hudisql.storage import Storage
from hudisql.table.history.timeline_window import TimelineWindow, timeline_window
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.table.metadata_table.metadata_listing import listed_by_metadata


@contextmanager
def plain_errors() -> Iterator[None]:
    """Prevent Spark from adding a Python traceback to hudisql's own errors.

    For calls in Spark's planning processes, which run no user code.
    """
    try:
        yield
    except HudisqlError as error:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        if isinstance(error, NotImplementedError):
            # Spark reads this class as "has no partitions" and would continue.
            raise HudisqlError(*error.args, hint=getattr(error, "hint", None)) from None
        raise


def instant_time(text: str | None) -> str | None:
    """The instant time of the option `as.of.instant`, in one of Hudi's forms; None without the option.

    `yyyyMMddHHmmss[SSS]`, `yyyy-MM-dd HH:mm:ss[.SSS]` or `yyyy-MM-dd`, in the time zone of the table's
    timeline. Raises InvalidArgumentError.
    """
    found = None if text is None else parse_point_in_time(text)
    if text is not None and found is None:
        raise InvalidArgumentError(
            f"{AS_OF_INSTANT} is '{text}', which is not a point in time",
            hint="write it as '2024-03-01', '2024-03-01 12:00:00' or as an instant time",
        )
    return found


def storage_of(options: Mapping[str, str]) -> Storage:
    """The storage with the file system settings in the options."""
    # Spark's planning process for Python data sources sees no Hadoop configuration: options carry it.
    return Storage({key: value for key, value in options.items() if key.startswith(("fs.", "dfs."))})


def open_table_of(options: Mapping[str, str]) -> tuple[HudiTable, str]:
    """The table of the options' path, and the requested relative partition path ("" for all).

    Raises InvalidArgumentError, NoSuchTableError.
    """
    path = options.get("path")
    if not path:
        raise InvalidArgumentError(
            "the hudi data source got no path: for a named table Spark's own catalog gives a Python data "
            "source neither its location nor its properties",
            hint="hudisql.install(spark) lets spark.sql and spark.table read Hudi tables by name; without it "
            "session.sql('SELECT … FROM <table>').df, spark.read.format('hudi').load('<location>'), or "
            "spark.sql(\"SELECT … FROM <table> WITH (path = '<location>')\")",
        )
    refuse_misspelt_options(options)
    query_type_of_options(options)
    storage = storage_of(options)
    qualified = storage.qualify(path)
    config = HudiConfig(options.get)
    table = open_table(storage, qualified, accepts_changed_sources=accepts_changed_sources(config))
    if config.get(METADATA_ENABLE):
        table = listed_by_metadata(table)
    below = qualified[len(table.base_path) :].strip("/")
    if below and not storage.exists(qualified):
        raise NoSuchTableError(f"the Hudi table at {table.base_path} has no partition '{below}'")
    return table, below


def state_of_options(table: HudiTable, options: Mapping[str, str]) -> TableState:
    """The table's state by the options of a batch. Raises InvalidArgumentError, NoSuchStateError."""
    if query_type_of_options(options) == INCREMENTAL:
        return changes_of_options(table, window_of_options(table, options), options)
    as_of = instant_time(options.get(AS_OF_INSTANT))
    return TableState(table) if as_of is None else state_as_of(table, as_of)


def window_of_options(table: HudiTable, options: Mapping[str, str]) -> TimelineWindow:
    """The window that the options of an incremental query ask for.

    Raises InvalidArgumentError, HollowCommitError, NoSuchStateError.
    """
    if not options.get(BEGIN_INSTANT):
        raise InvalidArgumentError(
            f"specify the begin instant time to pull from using option {BEGIN_INSTANT}",
            hint="000 or earliest is before the first commit",
        )
    policy = HudiConfig(options.get).get(HOLLOW_COMMITS)
    return timeline_window(table, options[BEGIN_INSTANT], options.get(END_INSTANT) or None, policy)


def changes_of_options(table: HudiTable, window: TimelineWindow, options: Mapping[str, str]) -> TableState:
    """The rows of the window. Raises UnsupportedTableError, CorruptTableError, StorageError."""
    schema_of_end = HudiConfig(options.get).get(SCHEMA_OF_END)
    return changes_of_window(table, window, schema_of_end=schema_of_end, path_glob=options.get(PATH_GLOB, ""))


def check_columns(asked: pa.Schema, present: pa.Schema) -> None:
    """Raise InvalidArgumentError if a requested column does not exist."""
    for field in asked:
        index = present.get_field_index(field.name)
        if index < 0:
            raise InvalidArgumentError(
                f"the Hudi table has no column '{field.name}'; it has: {', '.join(present.names)}"
            )
        if not _is_part_of(field.type, present.field(index).type):
            raise InvalidArgumentError(
                f"the column '{field.name}' is {spark_type_name(present.field(index).type)} in the Hudi "
                f"table, not {spark_type_name(field.type)}",
                hint="load the table without .schema(…) and cast the column",
            )


def _is_part_of(asked: pa.DataType, whole: pa.DataType) -> bool:
    if pa.types.is_struct(asked) and pa.types.is_struct(whole):
        return all(
            whole.get_field_index(field.name) >= 0 and _is_part_of(field.type, whole.field(field.name).type)
            for field in asked
        )
    return bool(asked == whole)
