"""Plan a scan of a Hudi table, without Spark: its partitions, file slices, columns, row filters and tasks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from hudisql.format.schema.meta_columns import COMMIT_TIME, META_COLUMNS
from hudisql.read.files.predicates import (
    Predicate,
    bind_predicate,
    columns_of,
    conjunction,
    split_conjuncts,
)
from hudisql.read.files.splits import (
    ScanTask,
    plan_splits,
)
from hudisql.read.merge.merge_mode import LogMergeConfig, log_merge_config_of
from hudisql.read.scan.data_skipping import FEWEST_TO_SKIP, DataSkipping, data_skipping
from hudisql.read.scan.partition_pruning import (
    DirectoryPruning,
    is_below,
    predicate_of_paths,
    prune_by_path,
    prune_partitions,
)
from hudisql.read.scan.record_skipping import ANY_GROUP, LookedUpGroups
from hudisql.read.scan.scan_method import ScanMethod
from hudisql.read.scan.scan_plan import ScannedSlice, ScanPlan, ScanRequest
from hudisql.read.slice.changed_sources import warn_of_changed_sources
from hudisql.read.slice.slice_reader import (
    check_external_files,
)
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.committed_slices import UNCHANGED_SOURCES
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.history.past_state import check_past_state
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import (
    TablePartition,
    few_partitions,
    list_partitions,
    partition_of,
    partitions_at,
)
from hudisql.table.partitions.registered_partitions import (
    RegisteredPartitions,
    registered_partitions,
    registered_slices,
    with_registered,
)

_MOST_ON_DRIVER = 64
_MOST_KEPT_SOURCES = 1_000
_BINARY_DECIMAL = "binary_decimal"  # as the bootstrap's table of types names them


def plan_scan(request: ScanRequest) -> ScanPlan:
    """Plan the scan that the request describes.

    Predicates that cannot be pushed down are left out of the plan: they cost speed, never rows. Conjuncts
    over partition columns alone, or over `_hoodie_partition_path`, prune directories before they are listed.
    Raises NoSuchStateError if the state asked for is gone, UnsupportedTableError if a slice has log files
    that merge by a rule hudisql does not know, SourceChangedError if the external file of a slice is missing
    or its length or modification time differ from the bootstrap index.
    """
    table = request.table
    columns = _columns_read(request)
    row_parts, partition_parts = _assign(request.all_predicates, columns, pa.schema(table.partition_columns))
    skipping = _data_skipping(request, row_parts, columns)
    if not partition_parts and not request.below and not request.looked_up.exclude_any:
        request = _with_looked_up_keys(request, skipping)
    pruning = _Pruning(request, _registered_partitions(request), tuple(row_parts), tuple(partition_parts))
    possible = pruning.prune(pruning.listed_partitions())
    pruned = _without_skipped_partitions(possible, skipping)
    unpruned = tuple(each for each in pruning.slices_of(pruned) if request.looked_up.may_hold(each[0]))
    slices = _without_skipped_slices(unpruned, skipping)
    _check_sources(table, [file_slice for file_slice, _ in slices])
    plan = ScanPlan(
        base_path=table.base_path,
        storage=table.storage,
        mode="native",
        output_schema=table.full_schema,
        columns=columns,
        partition_columns=table.partition_columns,
        predicate=conjunction(row_parts),
        partition_predicate=conjunction(partition_parts),
        partitions_read=len(pruned),
        partitions_total=None,
        slices=slices,
        slices_total=None,
        tasks=(),
        splits_total=None,
        as_of=request.state_instant,
        changes=request.changes,
        log_merge_config=_log_merge_config(request, slices),
        is_vectorized=can_vectorize(table),
        partitions_skipped=len(possible) - len(pruned),
        slices_skipped=len(unpruned) - len(slices),
    )
    plan = _with_reader(plan, request)
    plan = replace(plan, tasks=_split(plan.slices, plan, request))
    return _with_totals(plan, pruning) if request.count_all else plan


def _check_sources(table: HudiTable, slices: Sequence[FileSlice]) -> None:
    changed = check_external_files(table.storage, slices)
    warn_of_changed_sources(changed)
    if len(slices) <= _MOST_KEPT_SOURCES:
        paths = {each.external_file.path for each in slices if each.external_file}
        table.list_once(UNCHANGED_SOURCES, set[str]).update(paths.difference(changed))


def _columns_read(request: ScanRequest) -> pa.Schema:
    """The requested columns in the order of the table, and what the window of `changes` is compared with."""
    names = set(request.columns.names)
    if request.changes is not None:
        names.add(COMMIT_TIME)
    return pa.schema(
        [
            request.columns.field(column.name) if column.name in request.columns.names else column
            for column in request.table.full_schema
            if column.name in names
        ]
    )


def _registered_partitions(request: ScanRequest) -> RegisteredPartitions:
    if request.changes is not None:
        return RegisteredPartitions()
    return registered_partitions(request.table, request.as_of)


@dataclass(frozen=True, slots=True)
class _Pruning:
    """Which partitions of the table the request needs, and their file slices."""

    request: ScanRequest
    registered: RegisteredPartitions
    row_parts: tuple[Predicate, ...]
    partition_parts: tuple[Predicate, ...]

    def listed_partitions(self) -> Sequence[TablePartition]:
        """The partitions whose names the predicates leave, or those that the window's commits changed."""
        table, changes = self.request.table, self.request.changes
        if changes is not None:
            return changes.partitions(table)
        if (paths := self.request.looked_up.paths) is not None:
            return partitions_at(table, paths)
        pruning = DirectoryPruning(
            table,
            conjunction(self.partition_parts),
            predicate_of_paths(self.row_parts),
            self.request.below,
        )
        partitions = list_partitions(table, pruning if pruning.rules_out_any else None)
        return with_registered(table, partitions, self.registered)

    def all_partitions(self) -> Sequence[TablePartition]:
        """`listed_partitions` without the predicates."""
        request = replace(self.request, below="", looked_up=ANY_GROUP)
        return replace(self, request=request, row_parts=(), partition_parts=()).listed_partitions()

    def prune(self, partitions: Sequence[TablePartition]) -> list[TablePartition]:
        """Those of the partitions that the predicates and the requested path leave."""
        inside = [partition for partition in partitions if is_below(partition.path, self.request.below)]
        predicate = conjunction(self.partition_parts)
        pruned = prune_partitions(inside, self.request.table.partition_columns, predicate)
        if not self.registered.by_path:
            return prune_by_path(pruned, self.row_parts)
        # Rows of register-only partitions have no path.
        with_path = [partition for partition in pruned if partition.path not in self.registered.by_path]
        paths = {partition.path for partition in prune_by_path(with_path, self.row_parts)}
        paths |= self.registered.by_path.keys()
        return [partition for partition in pruned if partition.path in paths]

    def prune_paths(self, paths: Collection[str]) -> set[str]:
        """`prune` for paths of partitions."""
        partitions = [partition_of(self.request.table, path) for path in paths]
        return {partition.path for partition in self.prune(partitions)}

    def slices_of(self, partitions: Sequence[TablePartition]) -> tuple[ScannedSlice, ...]:
        """The file slices of the partitions in the requested state, with the partition's values by column."""
        table, as_of = self.request.table, self.request.state_instant
        names = [column.name for column in table.partition_columns]
        values_of = {
            partition.path: dict(zip(names, partition.values, strict=True)) for partition in partitions
        }
        slices = load_file_slices(table, partitions=partitions, as_of=as_of)
        if self.request.changes is not None:
            slices = self.request.changes.select(table, list(values_of), slices)
        elif as_of is not None:
            check_past_state(table, as_of, list(values_of), slices, self.prune_paths)
        if self.request.read_optimized:
            slices = [
                replace(file_slice, log_files=()) for file_slice in slices if file_slice.base_file is not None
            ]
        if registered := self.registered.among(values_of):
            written = {file_slice.partition_path for file_slice in slices}
            slices = [*slices, *registered_slices(table, registered, written)]
        return tuple((file_slice, values_of[file_slice.partition_path]) for file_slice in slices)


def _data_skipping(
    request: ScanRequest, row_parts: Sequence[Predicate], columns: pa.Schema
) -> DataSkipping | None:
    if not request.skips_by_statistics:
        return None
    if request.table.computed_meta is not None:
        # The index has the nulls of the files.
        row_parts = [part for part in row_parts if not _looks_at_meta(part)]
    is_past = request.state_instant is not None
    return data_skipping(
        request.table,
        conjunction(row_parts),
        columns,
        is_past=is_past,
        is_read_optimized=request.read_optimized,
        asks_secondary_indexes=request.asks_secondary_indexes,
    )


def _with_looked_up_keys(request: ScanRequest, skipping: DataSkipping | None) -> ScanRequest:
    """Without filters of partitions the indexes of rows tell which partitions have to be listed."""
    if skipping is None or not skipping.names_rows or _is_small(request.table):
        return request
    groups = skipping.groups_with_keys
    return request if groups is None else replace(request, looked_up=LookedUpGroups(only=groups))


def _is_small(table: HudiTable) -> bool:
    return few_partitions(table, FEWEST_TO_SKIP - 1) is not None


def _looks_at_meta(predicate: Predicate) -> bool:
    return any(path[0] in META_COLUMNS for path in columns_of(predicate))


def _without_skipped_partitions(
    partitions: list[TablePartition], skipping: DataSkipping | None
) -> list[TablePartition]:
    if skipping is None:
        return partitions
    paths = skipping.prune_partitions([partition.path for partition in partitions])
    return [partition for partition in partitions if partition.path in paths]


def _without_skipped_slices(
    slices: tuple[ScannedSlice, ...], skipping: DataSkipping | None
) -> tuple[ScannedSlice, ...]:
    if skipping is None:
        return slices
    is_read = skipping.prune_slices([file_slice for file_slice, _ in slices])
    return tuple(each for each, read in zip(slices, is_read, strict=True) if read)


def _log_merge_config(request: ScanRequest, slices: Sequence[ScannedSlice]) -> LogMergeConfig | None:
    if not any(file_slice.has_log_files for file_slice, _ in slices):
        return None
    instants = None if request.changes is None else request.changes.own_instants
    return log_merge_config_of(request.table, request.state_instant, instants)


def _with_reader(plan: ScanPlan, request: ScanRequest) -> ScanPlan:
    """The plan with the reader of its slices: Spark's scan, or the slice reader in tasks or on the driver."""
    is_stitched = set(plan.methods()) == {ScanMethod.STITCHED}
    is_by_slice = is_stitched or any(name in META_COLUMNS for name in plan.columns.names)
    if is_by_slice and _fits_driver(request, plan.slices):
        # Spark evaluates what stands for missing columns at once if it has the rows.
        return replace(plan, mode="stitched", columns=request.table.full_schema, on_driver=True)
    return replace(plan, mode="stitched") if is_stitched else plan


def _split(slices: Sequence[ScannedSlice], plan: ScanPlan, request: ScanRequest) -> tuple[ScanTask, ...]:
    return plan_splits(
        slices,
        needs_data=plan.needs_data,
        parallelism=request.parallelism,
        max_split_bytes=request.max_split_bytes,
        open_cost_bytes=request.open_cost_bytes,
    )


def _with_totals(plan: ScanPlan, pruning: _Pruning) -> ScanPlan:
    """The plan with the numbers of partitions, slices and splits that there are without pruning."""
    partitions = pruning.all_partitions()
    is_pruned = pruning.request.looked_up.exclude_any or plan.slices_skipped
    is_whole = plan.partitions_read == len(partitions) and not is_pruned
    slices = plan.slices if is_whole else pruning.slices_of(partitions)
    tasks = _split(slices, plan, pruning.request)
    return replace(
        plan,
        partitions_total=len(partitions),
        slices_total=len(slices),
        splits_total=sum(len(task.works) for task in tasks),
    )


def can_vectorize(table: HudiTable) -> bool:
    """False if external files have decimals that Spark 4's vectorised reader cannot read."""
    return all(_BINARY_DECIMAL not in names for names in table.properties.unsafe_types.values())


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


def _fits_driver(request: ScanRequest, slices: Sequence[ScannedSlice]) -> bool:
    """True for few bytes of columns that Spark's plans hold as they are."""
    if request.driver_bytes <= 0 or any(
        pa.types.is_nested(field.type) for field in request.table.full_schema
    ):
        return False
    if len(slices) > _MOST_ON_DRIVER:
        return False
    return sum(file_slice.length for file_slice, _ in slices) <= request.driver_bytes
