"""Plan a scan of a Hudi table, and turn the plan into a Spark DataFrame.

`plan_scan` decides everything that can be decided without Spark: which partitions and file slices, which
columns and row filters, native or stitched, and how the work is cut into tasks. The plan is a value that
EXPLAIN prints. `scan_to_dataframe` runs it: Spark's own vectorised parquet scan where no meta column is asked
(`native_scan`), splits read by the slice reader otherwise (`arrow_scan`).
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from hudisql.errors import QueryError
from hudisql.format.meta_columns import COMMIT_TIME, META_COLUMNS, META_SCHEMA, PARTITION_PATH
from hudisql.read.changed_sources import warn_of_changed_sources
from hudisql.read.incremental import IncrementalRead
from hudisql.read.merge_mode import LogMergeConfig, log_merge_config_of
from hudisql.read.predicates import (
    Predicate,
    bind_predicate,
    columns_of,
    conjunction,
    matching_rows,
    split_conjuncts,
    type_of_path,
)
from hudisql.read.slice_reader import (
    check_external_files,
    data_file_path,
    needs_data_columns,
)
from hudisql.read.splits import (
    DEFAULT_MAX_SPLIT_BYTES,
    DEFAULT_OPEN_COST_BYTES,
    ScanTask,
    plan_splits,
)
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions import TablePartition, list_partitions
from hudisql.table.past_state import check_past_state
from hudisql.table.snapshot import load_file_slices

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DEFAULT_PARALLELISM = 8
_BINARY_DECIMAL = "binary_decimal"  # as the bootstrap's table of types names them


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """What one reference to a table reads.

    `output_schema` is the table's whole schema (meta, data, partition columns); only `columns` (a subset by
    name, structs possibly pruned, in the same order) hold values. `partition_columns` come from the partition
    and not from files. `predicate` and `partition_predicate` are what could be pushed down; the query still
    applies its own filters. In `native` mode slices with log files still go through the slice reader.
    `is_vectorized` is False if Spark's scan has to read row by row.
    """

    base_path: str
    storage: Storage
    mode: Literal["native", "stitched"]
    output_schema: pa.Schema
    columns: pa.Schema
    partition_columns: tuple[pa.Field, ...]
    predicate: Predicate | None
    partition_predicate: Predicate | None
    partitions_read: int
    partitions_total: int
    slices: tuple[tuple[FileSlice, Mapping[str, object]], ...]
    slices_total: int | None
    tasks: tuple[ScanTask, ...]
    splits_total: int | None
    as_of: str | None = None
    changes: IncrementalRead | None = None
    log_merge_config: LogMergeConfig | None = None
    is_vectorized: bool = True

    def _described_history(self) -> tuple[tuple[str, str], ...]:
        if self.changes is not None:
            window = self.changes.window
            found = f"{len(window.commits)} commits after {window.begin} up to {window.as_of}"
            return (("changes", found),)
        return (("as of", self.as_of),) if self.as_of is not None else ()

    @property
    def splits_read(self) -> int:
        """The number of splits in all tasks."""
        return sum(len(task.works) for task in self.tasks)

    def describe(self) -> tuple[tuple[str, str], ...]:
        """Label and text of each fact of the plan, for EXPLAIN."""
        bootstrapped = sum(file_slice.is_bootstrapped for file_slice, _ in self.slices)
        merged = sum(file_slice.has_log_files for file_slice, _ in self.slices)
        kinds = f"{bootstrapped} bootstrapped" + (f", {merged} with log files" if merged else "")
        return (
            ("table", self.base_path),
            ("scan", self.mode),
            *self._described_history(),
            ("partitions", f"{self.partitions_read} of {self.partitions_total}"),
            (
                "file slices",
                f"{_of(len(self.slices), self.slices_total)} ({kinds})",
            ),
            ("splits", f"{_of(self.splits_read, self.splits_total)} in {len(self.tasks)} tasks"),
            ("columns", ", ".join(_column_text(each) for each in self.columns) or "(none)"),
            ("row filter", str(self.predicate) if self.predicate is not None else "(none)"),
            (
                "partition filter",
                str(self.partition_predicate) if self.partition_predicate is not None else "(none)",
            ),
        )


def plan_scan(
    table: HudiTable,
    columns: pa.Schema,
    predicates: Sequence[Predicate] = (),
    partition_predicates: Sequence[Predicate] = (),
    as_of: str | None = None,
    *,
    changes: IncrementalRead | None = None,
    below: str = "",
    read_optimized: bool = False,
    parallelism: int = _DEFAULT_PARALLELISM,
    max_split_bytes: int = DEFAULT_MAX_SPLIT_BYTES,
    open_cost_bytes: int = DEFAULT_OPEN_COST_BYTES,
    count_all: bool = False,
    pruned_slices: Collection[tuple[str, str]] = (),
) -> ScanPlan:
    """Plan the read of `columns` (any of the table's, structs pruned at will) of the latest snapshot.

    Predicates that cannot be pushed down are left out of the plan: they cost speed, never rows. Conjuncts
    over partition columns alone, or over `_hoodie_partition_path`, prune partitions before they are listed.
    `as_of` is an instant time; with `changes` only rows that its window's commits wrote are read. `below` is
    a relative partition path that bounds the scan, `read_optimized` leaves log files aside (Hudi's `_ro`
    tables), `count_all` also counts what was pruned (EXPLAIN). The slices of `pruned_slices` (partition path,
    file id) are known to hold nothing that the query looks for. Raises NoSuchStateError if the state asked
    for is gone, UnsupportedTableError if a slice has log files that merge by a rule hudisql does not know,
    SourceChangedError if the external file of a slice is missing or its length or modification time differ
    from the bootstrap index.
    """
    wanted_names = set(columns.names)
    if changes is not None:
        as_of = changes.window.as_of
        wanted_names.add(COMMIT_TIME)
        predicates = [*predicates, changes.predicate]
    wanted = pa.schema(
        [
            columns.field(each.name) if each.name in columns.names else each
            for each in table.full_schema
            if each.name in wanted_names
        ]
    )
    partition_columns = table.partition_columns
    partition_names = [each.name for each in partition_columns]
    row_parts, partition_parts = _assign(
        [*predicates, *partition_predicates], wanted, pa.schema(partition_columns)
    )
    partitions = list_partitions(table) if changes is None else changes.partitions(table)
    inside = [each for each in partitions if _is_below(each.path, below)]
    pruned = prune_by_path(
        prune_partitions(inside, partition_columns, conjunction(partition_parts)), row_parts
    )
    slices = tuple(
        each
        for each in _slices_of(table, pruned, partition_names, as_of, changes, read_optimized)
        if (each[0].partition_path, each[0].file_id) not in pruned_slices
    )
    merges = any(file_slice.has_log_files for file_slice, _ in slices)
    warn_of_changed_sources(check_external_files(table.storage, [file_slice for file_slice, _ in slices]))
    split = partial(
        plan_splits,
        needs_data=needs_data_columns(wanted, partition_names),
        parallelism=parallelism,
        max_split_bytes=max_split_bytes,
        open_cost_bytes=open_cost_bytes,
    )
    slices_total = splits_total = None
    if count_all:
        is_whole = len(pruned) == len(partitions) and not pruned_slices
        everything = slices if is_whole else _slices_of(table, partitions, [], as_of, changes, read_optimized)
        slices_total = len(everything)
        splits_total = sum(len(task.works) for task in split(everything))
    return ScanPlan(
        base_path=table.base_path,
        storage=table.storage,
        mode="native" if _is_native(wanted, conjunction(row_parts), slices) else "stitched",
        output_schema=table.full_schema,
        columns=wanted,
        partition_columns=partition_columns,
        predicate=conjunction(row_parts),
        partition_predicate=conjunction(partition_parts),
        partitions_read=len(pruned),
        partitions_total=len(partitions),
        slices=slices,
        slices_total=slices_total,
        tasks=split(slices),
        splits_total=splits_total,
        as_of=as_of,
        changes=changes,
        log_merge_config=log_merge_config_of(table, as_of) if merges else None,
        is_vectorized=can_vectorize(table),
    )


def can_vectorize(table: HudiTable) -> bool:
    """False if files left as they are hold decimals that Spark 4's vectorised reader fails on."""
    return all(_BINARY_DECIMAL not in names for names in table.properties.unsafe_types.values())


def scan_to_dataframe(spark: SparkSession, plan: ScanPlan) -> DataFrame:
    """The plan's rows as a DataFrame with the table's whole schema, in the table's column order.

    Columns outside `plan.columns` are there by name and type, so that `*`, positions and EXCEPT in the user's
    text mean what they say, but evaluating one raises an error: the plan contains every column that is
    needed.
    """
    from hudisql.read.arrow_scan import arrow_dataframe
    from hudisql.read.native_scan import native_dataframe

    if plan.mode == "native":
        try:
            if plan.log_merge_config is None:
                return native_dataframe(spark, plan)
            alone, merged = _without_and_with_logs(plan)
            return native_dataframe(spark, alone).unionAll(arrow_dataframe(spark, merged))
        except QueryError as error:
            what_to_do = f" ({error.hint})" if error.hint else ""
            warnings.warn(
                f"{error.message}: hudisql reads by its own, slower, reader{what_to_do}",
                RuntimeWarning,
                stacklevel=2,
            )
    return arrow_dataframe(spark, plan)


def _without_and_with_logs(plan: ScanPlan) -> tuple[ScanPlan, ScanPlan]:
    """The plan in two: the slices that Spark's own scan reads, and those with log files."""
    works = [tuple(work for work in task.works if work.file_slice.has_log_files) for task in plan.tasks]
    alone = tuple(each for each in plan.slices if not each[0].has_log_files)
    merged = tuple(each for each in plan.slices if each[0].has_log_files)
    return (
        replace(plan, slices=alone, log_merge_config=None),
        replace(plan, slices=merged, mode="stitched", tasks=tuple(ScanTask(each) for each in works if each)),
    )


def prune_partitions(
    partitions: Sequence[TablePartition],
    partition_columns: Sequence[pa.Field],
    predicate: Predicate | None,
) -> list[TablePartition]:
    """The partitions whose typed values make the predicate TRUE; all of them without one."""
    columns = [
        pa.array([each.values[position] for each in partitions], column.type)
        for position, column in enumerate(partition_columns)
    ]
    return _matching(partitions, predicate, columns, pa.schema(partition_columns))


def prune_by_path(
    partitions: Sequence[TablePartition], row_predicates: Sequence[Predicate]
) -> list[TablePartition]:
    """The partitions whose rows can match: every writer gives each row the path of its partition.

    For tables whose key generator makes the directories, whose names are not column values.
    """
    of_path = [each for each in row_predicates if columns_of(each) == {(PARTITION_PATH,)}]
    paths = pa.array([each.path for each in partitions], pa.string())
    schema = pa.schema([META_SCHEMA.field(PARTITION_PATH)])
    return _matching(partitions, conjunction(of_path), [paths], schema)


def _matching(
    partitions: Sequence[TablePartition],
    predicate: Predicate | None,
    columns: list[pa.Array],
    schema: pa.Schema,
) -> list[TablePartition]:
    if predicate is None or not partitions:
        return list(partitions)
    kept = matching_rows(predicate, pa.RecordBatch.from_arrays(columns, schema=schema)).to_pylist()
    return [each for each, keep in zip(partitions, kept, strict=True) if keep]


def _assign(
    predicates: Sequence[Predicate], wanted: pa.Schema, partition_schema: pa.Schema
) -> tuple[list[Predicate], list[Predicate]]:
    row_parts: list[Predicate] = []
    partition_parts: list[Predicate] = []
    for part in (leaf for predicate in predicates for leaf in split_conjuncts(predicate)):
        names = {path[0] for path in columns_of(part)}
        if names and names <= set(partition_schema.names):
            bound = bind_predicate(part, partition_schema)
            target = partition_parts
        else:
            bound = bind_predicate(part, wanted)
            target = row_parts
        if bound is not None and bound not in target:
            target.append(bound)
    return row_parts, partition_parts


def _slices_of(
    table: HudiTable,
    partitions: Sequence[TablePartition],
    partition_names: Sequence[str],
    as_of: str | None,
    changes: IncrementalRead | None,
    read_optimized: bool,
) -> tuple[tuple[FileSlice, Mapping[str, object]], ...]:
    values_of = {each.path: dict(zip(partition_names, each.values, strict=False)) for each in partitions}
    slices = load_file_slices(table, partitions=partitions, as_of=as_of)
    if changes is not None:
        slices = changes.select(table, list(values_of), slices)
    elif as_of is not None:
        check_past_state(table, as_of, list(values_of), slices)
    if read_optimized:
        slices = [replace(each, log_files=()) for each in slices if each.base_file is not None]
    return tuple((each, values_of[each.partition_path]) for each in slices)


def _is_native(
    wanted: pa.Schema,
    predicate: Predicate | None,
    slices: Sequence[tuple[FileSlice, Mapping[str, object]]],
) -> bool:
    if any(name in META_COLUMNS for name in wanted.names):
        return False
    # Spark would skip row groups by bounds that know no NaN; for top-level columns `native_scan` prevents it.
    nested = [path for path in columns_of(predicate) if len(path) > 1]
    if any(pa.types.is_floating(type_of_path(wanted, path)) for path in nested):
        return False
    partition_of_directory: dict[str, str] = {}
    alone = [file_slice for file_slice, _ in slices if not file_slice.has_log_files]
    if slices and not alone:
        return False
    for file_slice in alone:
        directory, name = data_file_path(file_slice).rsplit("/", 1)
        # Spark's file index silently leaves out files that it takes for hidden, and knows one partition per
        # directory; Hadoop's local file system cannot open a name with a colon.
        if name.startswith(("_", ".")) or ":" in name:
            return False
        if (
            partition_of_directory.setdefault(directory, file_slice.partition_path)
            != file_slice.partition_path
        ):
            return False
    return True


def _is_below(path: str, prefix: str) -> bool:
    return not prefix or path == prefix or path.startswith(prefix + "/")


def _of(count: int, total: int | None) -> str:
    return str(count) if total is None else f"{count} of {total}"


def _column_text(column: pa.Field) -> str:
    if pa.types.is_struct(column.type):
        return f"{column.name}<{', '.join(_column_text(each) for each in column.type)}>"
    return str(column.name)
