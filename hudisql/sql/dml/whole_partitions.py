"""DELETE of whole partitions: without a condition, or with one over partition columns alone.

Such a commit names the file groups as replaced, as ALTER TABLE … DROP PARTITION does, and writes no file. All
other DELETEs go row by row. What is decided here by the text only saves an analysis of the condition: Spark's
analyzed condition decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.spark.jvm import analyzed_plan, class_name, items_of
from hudisql.sql.query.catalyst import PartitionCondition, partition_condition
from hudisql.sql.query.query_plan import PlannedRelation, partitions_that_meet
from hudisql.sql.text.clauses import DeleteClauses
from hudisql.sql.text.tokens import tokenize, with_quoted_names
from hudisql.table.file_slice import FileSlice
from hudisql.table.hudi_table import HudiTable
from hudisql.write.transaction.pending_table_services import has_pending_service

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hudisql.context import Context


@dataclass(frozen=True)
class FileGroupsToDrop:
    """All file groups (ids by partition path) of the partitions whose rows are deleted.

    `rows` has one row, the number of deleted rows.
    """

    rows: DataFrame
    groups: Mapping[str, tuple[str, ...]]


def may_drop_partitions(clauses: DeleteClauses, table: HudiTable) -> bool:
    """False if the text of the condition names a column of files, or has a query."""
    if clauses.condition is None:
        return True
    by_partition = {column.name.lower() for column in table.partition_columns}
    others = {name.lower() for name in table.full_schema.names} - by_partition | {"select"}
    tokens = with_quoted_names(tokenize(clauses.condition.text))
    return bool(by_partition) and not any(token.is_name and token.name.lower() in others for token in tokens)


def groups_to_drop(
    context: Context, scan: PlannedRelation, counted: DataFrame, *, has_condition: bool
) -> dict[str, tuple[str, ...]] | None:
    """The file groups of the scan, if all of their rows are deleted; None if that is not certain.

    `counted` is the query over the scan that counts the rows. None also for register-only partitions and for
    file groups with a pending compaction or clustering.
    """
    slices = () if scan.plan is None else scan.plan.slices
    groups: dict[str, list[str]] = {}
    for file_slice, _ in slices:
        groups.setdefault(file_slice.partition_path, []).append(file_slice.file_id)
    if not groups or not _can_replace(scan.table, [each for each, _ in slices]):
        return None
    if has_condition:
        values = {each.partition_path: tuple(values.values()) for each, values in slices}
        condition = _condition_of(counted, scan.table)
        if condition is None:
            return None
        partitions = partitions_that_meet(
            context, scan.table.partition_columns, list(values.values()), condition
        )
        if partitions is None or len(partitions) < len(values):
            return None
    return {path: tuple(ids) for path, ids in groups.items()}


def _can_replace(table: HudiTable, slices: Sequence[FileSlice]) -> bool:
    if any(file_slice.is_register_only for file_slice in slices):
        return False
    return not has_pending_service(table, {file_slice.file_group for file_slice in slices})


def _condition_of(counted: DataFrame, table: HudiTable) -> PartitionCondition | None:
    """The WHERE of the query; None unless a partition's values decide it."""
    node = analyzed_plan(counted)
    while class_name(node) != "Filter":
        children = list(items_of(node.children()))
        if len(children) != 1:
            return None
        [node] = children
    return partition_condition(node.condition(), [column.name for column in table.partition_columns])
