"""Directories of partition columns of type TIMESTAMP, as Apache Hudi's SQL names them and reads them back.

Follows `SqlKeyGenerator` of Hudi 0.15 and 1.2: `2024-01-02 03%3A04%3A05`, escaped whatever the table's
setting is, in the time zone of the writer's JVM. Hudi reads the column from the name,
in the zone of the session.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import pyarrow as pa

from hudisql.errors import UnsupportedTableError, WriteRefusedError
from hudisql.format.encoding.java_time_zone import is_utc, machine_time_zone
from hudisql.format.paths.partition_path import render_partition_value
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import TablePartition, texts_of_path


def unwritten_timestamps(table: HudiTable) -> str | None:
    """Why a table with such columns is not written, None if nothing forbids it."""
    kinds = [column.type for column in table.partition_columns if pa.types.is_timestamp(column.type)]
    if any(kind.tz is None or kind.unit != "us" for kind in kinds):
        return "it is partitioned by a timestamp without time zone, or of milliseconds"
    if kinds and not is_utc(machine_time_zone()):
        return (
            f"it is partitioned by a timestamp, and this machine's time zone is {machine_time_zone()}: "
            "directories do not say the zone of their names, so that writers and readers of other zones "
            "would take them for other times (set TZ=UTC)"
        )
    return None


def refuse_fractions(names: Sequence[str], values: Sequence[object], table: HudiTable) -> None:
    """Raise WriteRefusedError for timestamps with a fraction of a second, which the name would lose."""
    for name, value in zip(names, values, strict=True):
        if isinstance(value, datetime) and value.microsecond:
            raise WriteRefusedError(
                f"{name} = '{value:%Y-%m-%d %H:%M:%S.%f}' cannot be a partition of the Hudi table at "
                f"{table.base_path}: Hudi names the directory without the fraction of the second and reads "
                "the column from that name; nothing was written",
                hint=f"write date_trunc('second', {name})",
            )


def refuse_other_names(table: HudiTable, partitions: Iterable[TablePartition]) -> None:
    """Raise UnsupportedTableError if a timestamp's directory has another name than Hudi's SQL gives it.

    Hudi's DataFrame writer names it by epoch microseconds, of which every Hudi reads NULL, or with a
    fraction. A row that is written again would be there twice.
    """
    columns = [
        (position, column)
        for position, column in enumerate(table.partition_columns)
        if pa.types.is_timestamp(column.type)
    ]
    for partition in partitions if columns else ():
        texts = texts_of_path(table, partition.path)
        for position, column in columns:
            text = texts[position]
            if text != render_partition_value(partition.values[position], column.type):
                raise UnsupportedTableError(
                    f"hudisql does not write to the Hudi table at {table.base_path}: the directory "
                    f"'{partition.path}' names the timestamp {column.name} as Hudi's DataFrame writer does "
                    "(Hudi itself reads NULL of epoch microseconds), not as Hudi's SQL",
                    hint="make a new table of its rows: CREATE TABLE … AS SELECT",
                )
