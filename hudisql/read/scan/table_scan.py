"""Plan a scan of a Hudi table.

`plan_scan` chooses partitions, file slices, columns, row filters and tasks without Spark. The plan is a value
that EXPLAIN prints and `scan_dataframe` runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from hudisql.format.schema.meta_columns import COMMIT_TIME, META_COLUMNS, META_SCHEMA, PARTITION_PATH
from hudisql.read.files.predicates import (
    Predicate,
    bind_predicate,
    columns_of,
    conjunction,
    matching_rows,
    split_conjuncts,
)
from hudisql.read.files.splits import (
    DEFAULT_MAX_SPLIT_BYTES,
    DEFAULT_OPEN_COST_BYTES,
    ScanTask,
    driving_file_bytes,
    plan_splits,
)
from hudisql.read.merge.merge_mode import LogMergeConfig, log_merge_config_of
from hudisql.read.scan.incremental import IncrementalRead
from hudisql.read.scan.scan_method import ScanMethod, scan_methods, scanned_file
from hudisql.read.slice.changed_sources import warn_of_changed_sources
from hudisql.read.slice.slice_reader import (
    check_external_files,
    needs_data_columns,
)
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.history.past_state import check_past_state
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import TablePartition, list_partitions, partition_of
from hudisql.table.partitions.registered_partitions import (
    RegisteredPartitions,
    registered_partitions,
    registered_slices,
    with_registered,
)

if TYPE_CHECKING:
    pass

_DEFAULT_PARALLELISM = 8
_BINARY_DECIMAL = "binary_decimal"  # as the bootstrap's table of types names them


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """The plan of one reference to a table.

    `output_schema` is the table's whole schema (meta, data, partition columns); only `columns` (a subset by
    name, structs possibly pruned, in the same order) hold values. `partition_columns` come from the partition
    and not from files. `predicate` and `partition_predicate` are the pushed-down filters; the query still
    applies all of its filters. In `native` mode each slice is read by the method that `scan_methods` gives,
    in `stitched` mode all go through the slice reader. `is_vectorized` is False if Spark's scan has to read
    row by row. With `on_driver` the slice reader runs on the driver when the query is built, unless there are
    too many rows.
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
    on_driver: bool = False

    def _described_history(self) -> tuple[tuple[str, str], ...]:
        if self.changes is not None:
            window = self.changes.window
            found = f"{len(window.commits)} commits after {window.begin} up to {window.as_of}"
            return (("changes", found),)
        return (("as of", self.as_of),) if self.as_of is not None else ()

    @property
    def needs_data(self) -> bool:
        """True if columns are read that are neither meta nor partition columns."""
        return needs_data_columns(self.columns, [each.name for each in self.partition_columns])

    def methods(self) -> list[ScanMethod]:
        """How each of the slices is read in `native` mode."""
        names = [each.name for each in self.partition_columns]
        config = self.log_merge_config
        return scan_methods(
            [each for each, _ in self.slices],
            self.columns,
            names,
            has_partial_blocks=config is not None and config.merge_mode.has_partial_blocks,
            has_predicate=self.predicate is not None,
        )

    def scanned_files(self) -> list[str]:
        """The paths of the files that Spark's own scan reads; every slice must have a base file."""
        paths = [scanned_file(file_slice, needs_data=self.needs_data) for file_slice, _ in self.slices]
        return [path for path in paths if path is not None]

    def scanned_bytes(self) -> list[int]:
        """The lengths of `scanned_files`."""
        return [driving_file_bytes(file_slice, needs_data=self.needs_data) for file_slice, _ in self.slices]

    @property
    def splits_read(self) -> int:
        """The number of splits in all tasks."""
        return sum(len(task.works) for task in self.tasks)

    @property
    def _readers(self) -> str:
        return "on the driver" if self.on_driver else f"in {len(self.tasks)} tasks"

    def describe(self) -> tuple[tuple[str, str], ...]:
        """Label and text of each fact of the plan, for EXPLAIN."""
        plain = sum(file_slice.is_register_only for file_slice, _ in self.slices)
        bootstrapped = sum(file_slice.is_bootstrapped for file_slice, _ in self.slices) - plain
        merged = sum(file_slice.has_log_files for file_slice, _ in self.slices)
        kinds = f"{bootstrapped} bootstrapped" + (f", {merged} with log files" if merged else "")
        kinds += f", {plain} register-only" if plain else ""
        return (
            ("table", self.base_path),
            ("scan", self.mode),
            *self._described_history(),
            ("partitions", f"{self.partitions_read} of {self.partitions_total}"),
            (
                "file slices",
                f"{_of(len(self.slices), self.slices_total)} ({kinds})",
            ),
            ("splits", f"{_of(self.splits_read, self.splits_total)} {self._readers}"),
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
    driver_bytes: int = 0,
) -> ScanPlan:
    """Plan the read of `columns` (any of the table's, structs may be pruned) of the latest snapshot.

    Predicates that cannot be pushed down are left out of the plan; this affects only speed. Conjuncts over
    partition columns alone, or over `_hoodie_partition_path`, prune partitions before they are listed.
    `as_of` is an instant time; with `changes` only rows that its window's commits wrote are read. `below` is
    a relative partition path that limits the scan, `read_optimized` ignores log files (Hudi's `_ro` tables),
    `count_all` also counts pruned files (EXPLAIN). `pruned_slices` (partition path, file id) have no rows for
    the query. If the slices have together at most `driver_bytes`, and meta columns are needed or Spark's scan
    cannot read them, all columns are read on the driver. Raises NoSuchStateError if the state is gone,
    UnsupportedTableError if a slice has log files that merge by a rule hudisql does not know,
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
    registered = registered_partitions(table, as_of) if changes is None else RegisteredPartitions()
    partitions = (
        with_registered(table, list_partitions(table), registered)
        if changes is None
        else changes.partitions(table)
    )

    def prune(some: Sequence[TablePartition]) -> list[TablePartition]:
        inside = [each for each in some if _is_below(each.path, below)]
        chosen = prune_partitions(inside, partition_columns, conjunction(partition_parts))
        if not registered.by_path:
            return prune_by_path(chosen, row_parts)
        # Rows of register-only partitions have no `_hoodie_partition_path`.
        with_path = [each for each in chosen if each.path not in registered.by_path]
        kept = {each.path for each in prune_by_path(with_path, row_parts)} | registered.by_path.keys()
        return [each for each in chosen if each.path in kept]

    def wanted_of(paths: Collection[str]) -> set[str]:
        return {each.path for each in prune([partition_of(table, path) for path in paths])}

    pruned = prune(partitions)
    slices = tuple(
        each
        for each in _slices_of(
            table, pruned, registered, partition_names, as_of, changes, read_optimized, wanted_of
        )
        if (each[0].partition_path, each[0].file_id) not in pruned_slices
    )
    merges = any(file_slice.has_log_files for file_slice, _ in slices)
    warn_of_changed_sources(check_external_files(table.storage, [file_slice for file_slice, _ in slices]))
    only = None if changes is None else changes.own_instants
    log_merge_config = log_merge_config_of(table, as_of, only) if merges else None
    has_partial_blocks = log_merge_config is not None and log_merge_config.merge_mode.has_partial_blocks
    methods = scan_methods(
        [each for each, _ in slices],
        wanted,
        partition_names,
        has_partial_blocks=has_partial_blocks,
        has_predicate=bool(row_parts),
    )
    mode: Literal["native", "stitched"] = "stitched" if set(methods) == {ScanMethod.STITCHED} else "native"
    is_by_slice = mode == "stitched" or any(name in META_COLUMNS for name in wanted.names)
    on_driver = is_by_slice and _fits_driver(table, slices, driver_bytes)
    if on_driver:
        # If Spark's plan has the rows, Spark evaluates the stand-ins of missing columns at once.
        mode, wanted = "stitched", table.full_schema
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
        everything = (
            slices
            if is_whole
            else _slices_of(table, partitions, registered, [], as_of, changes, read_optimized, wanted_of)
        )
        slices_total = len(everything)
        splits_total = sum(len(task.works) for task in split(everything))
    return ScanPlan(
        base_path=table.base_path,
        storage=table.storage,
        mode=mode,
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
        log_merge_config=log_merge_config,
        is_vectorized=can_vectorize(table),
        on_driver=on_driver,
    )


def can_vectorize(table: HudiTable) -> bool:
    """False if external files have decimals that Spark 4's vectorised reader cannot read."""
    return all(_BINARY_DECIMAL not in names for names in table.properties.unsafe_types.values())


def prune_partitions(
    partitions: Sequence[TablePartition],
    partition_columns: Sequence[pa.Field],
    predicate: Predicate | None,
) -> list[TablePartition]:
    """The partitions whose typed values make the predicate TRUE; all partitions without a predicate."""
    columns = [
        pa.array([each.values[position] for each in partitions], column.type)
        for position, column in enumerate(partition_columns)
    ]
    return _matching(partitions, predicate, columns, pa.schema(partition_columns))


def prune_by_path(
    partitions: Sequence[TablePartition], row_predicates: Sequence[Predicate]
) -> list[TablePartition]:
    """The partitions whose rows can match: every writer gives each row the path of its partition.

    For tables whose key generator computes directory names, which are not column values.
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
    registered: RegisteredPartitions,
    partition_names: Sequence[str],
    as_of: str | None,
    changes: IncrementalRead | None,
    read_optimized: bool,
    wanted_of: Callable[[Collection[str]], Collection[str]],
) -> tuple[tuple[FileSlice, Mapping[str, object]], ...]:
    values_of = {each.path: dict(zip(partition_names, each.values, strict=False)) for each in partitions}
    slices = load_file_slices(table, partitions=partitions, as_of=as_of)
    if changes is not None:
        slices = changes.select(table, list(values_of), slices)
    elif as_of is not None:
        check_past_state(table, as_of, list(values_of), slices, wanted_of)
    if read_optimized:
        slices = [replace(each, log_files=()) for each in slices if each.base_file is not None]
    if chosen := registered.among(values_of):
        written = {each.partition_path for each in slices}
        slices = [*slices, *registered_slices(table, chosen, written)]
    return tuple((each, values_of[each.partition_path]) for each in slices)


def _fits_driver(
    table: HudiTable, slices: Sequence[tuple[FileSlice, Mapping[str, object]]], driver_bytes: int
) -> bool:
    """True for few bytes of columns whose types Spark's plans can hold."""
    if driver_bytes <= 0 or any(pa.types.is_nested(field.type) for field in table.full_schema):
        return False
    return sum(file_slice.length for file_slice, _ in slices) <= driver_bytes


def _is_below(path: str, prefix: str) -> bool:
    return not prefix or path == prefix or path.startswith(prefix + "/")


def _of(count: int, total: int | None) -> str:
    return str(count) if total is None else f"{count} of {total}"


def _column_text(column: pa.Field) -> str:
    if pa.types.is_struct(column.type):
        return f"{column.name}<{', '.join(_column_text(each) for each in column.type)}>"
    return str(column.name)
