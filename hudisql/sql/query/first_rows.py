"""The partitions that are enough for `SELECT … FROM t LIMIT n` without a filter or an order.

Any n rows are such a query's result. The footers of base files tell how many rows a partition has at least;
file slices with log files count as none, since these may delete rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from typing import Any, Final

from hudisql.read.files.parquet_rows import read_footer
from hudisql.spark.jvm import class_name
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import TablePartition, walk_partitions

# Beyond these the query reads the whole table, as without a limit.
_MOST_PARTITIONS: Final = 16
_MOST_FOOTERS: Final = 32


def limit_of(executions: Sequence[Any]) -> int | None:
    """The n of a query that Spark has planned as n rows of one relation; None for others.

    The rows may be projected. A subquery may read the relation once more, all rows of it.
    """
    if len(executions) != 1:
        return None
    node = executions[0].optimizedPlan()
    if class_name(node) != "GlobalLimit" or class_name(node.child()) != "LocalLimit":
        return None
    limit, below = node.limitExpr(), node.child().child()
    while class_name(below) == "Project" and below.subqueries().isEmpty():
        below = below.child()
    is_plain = class_name(below) == "LogicalRelation" and class_name(limit) == "Literal"
    return int(limit.value()) if is_plain else None


def partitions_with_rows(table: HudiTable, rows: int) -> list[TablePartition] | None:
    """Some partitions that hold at least so many rows; None if few partitions and footers do not show it.

    Raises CorruptTableError, StorageError.
    """
    if not table.partition_columns or table.properties.has_register_only_partitions:
        return None
    missing, footers = rows, 0
    partitions: list[TablePartition] = []
    for partition in islice(chain.from_iterable(walk_partitions(table)), _MOST_PARTITIONS):
        partitions.append(partition)
        for file_slice in load_file_slices(table, [partition]):
            if file_slice.base_file is None or file_slice.has_log_files:
                continue
            footers += 1
            base_file = file_slice.base_file
            missing -= read_footer(table.storage, base_file.path, base_file.length).num_rows
            if missing <= 0:
                return partitions
            if footers == _MOST_FOOTERS:
                return None
    return None
