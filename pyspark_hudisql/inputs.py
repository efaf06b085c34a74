"""The work of Spark's tasks: planned in Spark's planning process, pickled, and read in a task.

Spark pickles a reader before it requests the partitions, so partitions contain the whole plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from hudisql.config.config_key import HudiConfig
from hudisql.options.unserved_settings import query_type_of_options
from hudisql.read.changes.change_capture import (
    CAPTURED_TEXTS,
    GroupChange,
    plan_capture,
    read_change_texts,
)
from hudisql.read.files.conform import conform_batch
from hudisql.read.files.predicates import Predicate
from hudisql.read.files.splits import ScanTask
from hudisql.read.merge.merge_mode import LogMergeConfig
from hudisql.read.scan.arrow_scan import read_task
from hudisql.read.scan.data_skipping import skips_by_statistics
from hudisql.read.scan.scan_plan import ScanRequest
from hudisql.read.scan.table_scan import plan_scan
from hudisql.read.scan.table_state import TableState
from hudisql.storage import Storage
from hudisql.table.history.timeline_window import TimelineWindow
from hudisql.table.hudi_table import HudiTable
from pyspark_hudisql.read_options import check_columns


@dataclass(frozen=True)
class ScanInput(InputPartition):
    """Rows of a table's state."""

    task: ScanTask
    columns: pa.Schema
    predicate: Predicate | None
    log_merge_config: LogMergeConfig | None


@dataclass(frozen=True)
class CaptureInput(InputPartition):
    """The changes of commits in some file groups, of a table with the columns `schema`."""

    changes: tuple[GroupChange, ...]
    schema: pa.Schema


def scan_inputs(
    state: TableState,
    below: str,
    output: pa.Schema,
    options: Mapping[str, str],
    filters: Sequence[Predicate] = (),
) -> list[ScanInput]:
    """The inputs of the tasks that read columns of the state."""
    check_columns(output, state.table.full_schema)
    plan = plan_scan(
        ScanRequest(
            state.table,
            output,
            filters,
            as_of=state.as_of,
            changes=state.changes,
            below=below,
            read_optimized=query_type_of_options(options) == "read_optimized",
            skips_by_statistics=skips_by_statistics(HudiConfig(options.get)),
        )
    )
    return [ScanInput(task, plan.columns, plan.predicate, plan.log_merge_config) for task in plan.tasks]


def capture_inputs(
    table: HudiTable, window: TimelineWindow, below: str, output: pa.Schema
) -> list[CaptureInput]:
    """One input for each file group that a commit of the window changed."""
    check_columns(output, CAPTURED_TEXTS)
    changes = plan_capture(table, window)
    sides = [(each, each.after or each.before) for each in changes]
    return [
        CaptureInput((change,), table.schema)
        for change, side in sides
        if side is not None and f"{side.partition_path}/".startswith(f"{below}/" if below else "")
    ]


def read_input(storage: Storage, work: InputPartition, output: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of one task with the columns of `output`."""
    if isinstance(work, CaptureInput):
        for change in work.changes:
            for batch in read_change_texts(storage, change, work.schema):
                yield batch.select(output.names)
    elif isinstance(work, ScanInput):
        rows = read_task(
            storage, work.task, work.columns, work.predicate, log_merge_config=work.log_merge_config
        )
        for batch in rows:
            yield conform_batch(batch, output)
