"""The skeletons that a run has to write: all of the plan's, or those that an interrupted run did not finish.

Resuming reads the checkpoint, keeps each complete skeleton whose source file is unchanged, and deletes the
other files of the earlier run. Also the work of a Spark task on its partition. Nothing here is visible to
readers before the commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Final

import pyarrow as pa

from hudisql.bootstrap.files.skeleton import (
    KeyCheck,
    SkeletonEncoding,
    SkeletonFileTask,
    SkeletonResult,
    write_skeleton,
)
from hudisql.bootstrap.lease.skeleton_checkpoint import (
    FinishedSkeleton,
    checkpointed,
    read_checkpoint,
    read_checkpoint_request,
    write_checkpoint_request,
)
from hudisql.bootstrap.lease.target_lease import Lease, fence_of_process
from hudisql.bootstrap.lease.target_state import (
    TargetState,
    instants_of_bootstrap,
    read_target_state,
)
from hudisql.bootstrap.plan.bootstrap_plan import BootstrapPlan, PlannedFile, PlannedPartition
from hudisql.catalog.sync_settings import SYNC_PREFIX
from hudisql.errors import InvalidArgumentError, TableExistsError
from hudisql.format.paths.file_names import base_file_name, new_file_id, parse_base_file_name, write_token
from hudisql.format.paths.partition_metadata import PARTITION_METADATA_FILE
from hudisql.format.paths.partition_path import parse_partition_value
from hudisql.format.schema.meta_columns import META_COLUMNS, RECORD_KEY
from hudisql.format.timeline.instant import (
    BOOTSTRAP_INSTANT_TIMES,
    METADATA_BOOTSTRAP_INSTANT_TIME,
)
from hudisql.format.timeline.timeline_layout import METADATA_DIRECTORY
from hudisql.sql_literals import quote_string
from hudisql.storage import FileInfo, Storage, is_inside, join
from hudisql.table.metadata_table.kept_metadata_table import NEWEST_VERSION
from hudisql.table.metadata_table.statistics_columns import MEASURED_META_COLUMNS

# Arguments that may change between the runs: they have no effect on the rows of the table's files.
_FREE_TO_CHANGE: Final = frozenset(
    {
        *("parallelism", "sync", "protect_source", "on_partition_mismatch", "resume", "options"),
        *("table_version", "indexes"),
    }
)


@dataclass(frozen=True, slots=True)
class SkeletonTask:
    """A skeleton to write, and the hash of its source's footer at planning time."""

    task: SkeletonFileTask
    footer_hash: str


@dataclass(frozen=True)
class SkeletonWork:
    """For each planned file, in order, the finished skeleton or the task that writes it.

    `continues_run` is True if an earlier run began the work, whose tasks may still be there.
    """

    items: tuple[FinishedSkeleton | SkeletonTask, ...]
    continues_run: bool

    @property
    def tasks(self) -> list[SkeletonTask]:
        """The skeletons to write."""
        return [item for item in self.items if isinstance(item, SkeletonTask)]

    @property
    def resumed(self) -> int:
        """The number of skeletons that an earlier run has finished."""
        return sum(isinstance(item, FinishedSkeleton) for item in self.items)

    def results(self, written: Iterable[SkeletonResult]) -> Iterator[SkeletonResult]:
        """The result for each planned file, given those of the tasks."""
        remaining = iter(written)
        for item in self.items:
            yield item.result if isinstance(item, FinishedSkeleton) else next(remaining)


def plan_skeletons(storage: Storage, plan: BootstrapPlan, lease: Lease) -> SkeletonWork:
    """Create the checkpoint, or resume from the existing one; the lease must be held.

    Raises InvalidArgumentError if the earlier run had another request, StorageError.
    """
    request = describe_request(plan)
    finished: dict[tuple[str, str], FinishedSkeleton] = {}
    if plan.request.resume and read_target_state(storage, plan.target_path) is TargetState.ROLLBACK:
        raise TableExistsError(
            f"a rollback of {plan.target_path} did not finish",
            hint=f"CALL rollback_bootstrap(path => {quote_string(plan.target_path)}) completes it",
        )
    before = read_checkpoint_request(storage, plan.target_path) if plan.request.resume else None
    if before is not None:
        _check_same_request(plan, before, request)
        finished = _reusable_skeletons(storage, plan)
    if plan.request.resume:
        _delete_remains(
            storage, plan, {finished_skeleton.result.path for finished_skeleton in finished.values()}, lease
        )
    if before is None:
        write_checkpoint_request(storage, plan.target_path, request)
    return SkeletonWork(_assign_numbers(plan, finished, lease), continues_run=before is not None)


def describe_request(plan: BootstrapPlan) -> dict[str, object]:
    """Everything that determines the skeletons, by name, as JSON types."""
    request = plan.request
    described: dict[str, object] = {
        field.name: _plain(getattr(request, field.name))
        for field in fields(request)
        if field.name not in _FREE_TO_CHANGE
    }
    described["options"] = {
        name: value for name, value in sorted(request.options.items()) if not name.startswith(SYNC_PREFIX)
    }
    return described | {
        "record_key": list(plan.record_key),
        "source": plan.base_path,
        "partition columns": [column.name for column in plan.partition_columns],
        "directory layout": [plan.is_hive_style, plan.is_url_encoded],
    }


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else str(value)


def _check_same_request(plan: BootstrapPlan, before: dict[str, object], now: dict[str, object]) -> None:
    changed = [
        f"{name} was {_shown(before.get(name))}, now it is {_shown(now.get(name))}"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    ]
    if changed:
        raise InvalidArgumentError(
            f"the bootstrap to resume at {plan.target_path} had other arguments: {'; '.join(changed)}",
            hint="give the same arguments;"
            f" CALL rollback_bootstrap(path => {quote_string(plan.target_path)}) deletes its files",
        )


def _shown(value: object) -> str:
    if isinstance(value, list):
        return "'" + ",".join(str(item) for item in value) + "'"
    return "not given" if value is None else f"'{value}'"


def _reusable_skeletons(storage: Storage, plan: BootstrapPlan) -> dict[tuple[str, str], FinishedSkeleton]:
    """The complete skeletons whose source file is unchanged, by partition and source file."""
    lengths = {file.path: file.length for file in list_target_files(storage, plan.target_path)}
    planned = {(partition.path, file.source.path): file for partition, file in planned_files(plan)}
    reusable: dict[tuple[str, str], FinishedSkeleton] = {}
    for finished_skeleton in read_checkpoint(storage, plan.target_path):
        key = (finished_skeleton.partition_path, finished_skeleton.source.path)
        file = planned.get(key)
        is_complete = lengths.get(finished_skeleton.result.path) == finished_skeleton.result.bytes
        if (
            file is not None
            and is_complete
            and finished_skeleton.stands_for(file.source, file.footer_hash, key[0])
        ):
            reusable[key] = finished_skeleton
    return reusable


def _delete_remains(storage: Storage, plan: BootstrapPlan, kept: set[str], lease: Lease) -> None:
    """Delete the files of the earlier run, except the kept skeletons and the checkpoint."""
    storage.delete_files(
        [
            file.path
            for file in list_target_files(storage, plan.target_path)
            if is_made_by_bootstrap(file.name) and file.path not in kept
        ]
    )
    timeline = join(plan.target_path, METADATA_DIRECTORY)
    lease_file = storage.info(lease.path)
    if lease_file is not None:
        storage.delete_staged(timeline, lease_file.modification_time_ms)
    for path in instants_of_bootstrap(storage, plan.target_path):
        storage.delete_file(path)


def list_target_files(storage: Storage, base_path: str) -> list[FileInfo]:
    """All files of the table's directory that do not belong to its timeline."""
    timeline = join(base_path, METADATA_DIRECTORY)
    return [file for file in storage.list_files(base_path) if not is_inside(file.path, timeline)]


def is_base_file(path: str) -> bool:
    """True for a skeleton or a full-record file of a bootstrap by its name."""
    base = parse_base_file_name(path.rsplit("/", 1)[-1])
    return base is not None and base.instant_time in BOOTSTRAP_INSTANT_TIMES


def is_made_by_bootstrap(name: str) -> bool:
    """True for names of a bootstrap's data files and of partition metadata."""
    base = parse_base_file_name(name)
    if base is not None:
        return base.instant_time in BOOTSTRAP_INSTANT_TIMES
    return name == PARTITION_METADATA_FILE


def _assign_numbers(
    plan: BootstrapPlan, finished: dict[tuple[str, str], FinishedSkeleton], lease: Lease
) -> tuple[FinishedSkeleton | SkeletonTask, ...]:
    # The number of the file replaces Hudi's task partition id: it makes sequence numbers unique.
    used = {finished_skeleton.number for finished_skeleton in finished.values()}
    numbers = (number for number in range(1 << 62) if number not in used)
    return tuple(
        finished.get((partition.path, file.source.path))
        or SkeletonTask(
            skeleton_task(plan, partition, file, next(numbers), lease.fencing_epoch), file.footer_hash
        )
        for partition, file in planned_files(plan)
    )


def planned_files(plan: BootstrapPlan) -> Iterator[tuple[PlannedPartition, PlannedFile]]:
    """The files that get skeletons, with their partitions, in the order of all results."""
    return ((partition, file) for partition in plan.skeleton_partitions for file in partition.files)


def skeleton_task(
    plan: BootstrapPlan, partition: PlannedPartition, file: PlannedFile, number: int, fencing_epoch: int
) -> SkeletonFileTask:
    """The task for the skeleton of one file; `number` is unique in the table."""
    request = plan.request
    task = SkeletonFileTask(
        source=file.source,
        target_path=join(plan.target_path, partition.path),
        file_id=new_file_id(),
        write_token="",
        file_name="",
        partition_path=partition.path,
        instant_time=METADATA_BOOTSTRAP_INSTANT_TIME,
        task_partition_id=number,
        record_key_fields=plan.record_key,
        complex_keys=plan.uses_complex_key_encoding,
        bloom_entries=request.bloom_entries,
        bloom_fpp=request.bloom_fpp,
        codec=request.codec,
        encoding=SkeletonEncoding(request.skeleton_encoding),
        key_check=KeyCheck(plan.key_check),
        partition_values=_key_partition_values(plan, partition),
        measured_columns=_measured_columns(plan),
    )
    return _with_file_name(task, fencing_epoch, 0)


def _measured_columns(plan: BootstrapPlan) -> tuple[str, ...]:
    """The key, and what the statistics of a metadata table would otherwise read from the skeletons' rows."""
    if not plan.request.has_metadata_table:
        return (RECORD_KEY,)
    return META_COLUMNS if plan.request.table_version < NEWEST_VERSION else MEASURED_META_COLUMNS


def _key_partition_values(plan: BootstrapPlan, partition: PlannedPartition) -> dict[str, pa.Scalar]:
    """The values of the partition columns that the record key names, in the table's types."""
    types = {column.name: plan.schema.field(column.name).type for column in plan.partition_columns}
    return {
        column.name: pa.scalar(parse_partition_value(text, types[column.name]), types[column.name])
        for column, text in zip(plan.partition_columns, partition.source.values, strict=True)
        if column.name in plan.record_key
    }


def _with_file_name(task: SkeletonFileTask, fencing_epoch: int, attempt: int) -> SkeletonFileTask:
    """The task with the file name of this attempt; all attempts share the file id."""
    token = write_token(task.task_partition_id, fencing_epoch, attempt)
    name = base_file_name(task.file_id, token, task.instant_time)
    directory = task.target_path if not task.file_name else task.target_path[: -len(task.file_name) - 1]
    return replace(task, write_token=token, file_name=name, target_path=join(directory, name))


def write_skeleton_partition(
    storage: Storage, lease: Lease, tasks: Iterable[SkeletonTask]
) -> Iterator[SkeletonResult]:
    """Write the skeletons of one Spark task and add them to the checkpoint.

    Each attempt of a task writes its own files: the driver keeps those of the attempt that Spark accepts, and
    removes the others before the commit.
    """
    attempt = attempt_number()
    fence = fence_of_process(lease)

    def finished() -> Iterator[FinishedSkeleton]:
        for planned in tasks:
            fence.check(storage)
            task = _with_file_name(planned.task, lease.fencing_epoch, attempt)
            yield FinishedSkeleton(
                task.source,
                planned.footer_hash,
                task.partition_path,
                task.task_partition_id,
                write_skeleton(storage, task),
            )

    return checkpointed(storage, lease.base_path, finished(), partial(lease.fence_late_attempt, storage))


def attempt_number() -> int:
    """Spark's number of this attempt, unique in the application."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.taskAttemptId())
