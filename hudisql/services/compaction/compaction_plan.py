"""Compaction plans: which file slices a compaction merges into base files.

Follows `HoodieCompactionPlan`, `CompactionUtils`, `BaseHoodieCompactionPlanGenerator` and
the strategies of Hudi 0.15. Those that choose partitions by day recognize `yyyy/MM/dd`, with or without
names (`year=2024/month=03/day=01`), as Hudi's do; hudisql also `yyyy-MM-dd`, for which Hudi's plans stay
empty. Values and bytes; knows neither Spark nor settings.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final, Literal, TypeGuard, get_args

from hudisql.config.table_service_keys import COMPACTION_STRATEGY
from hudisql.errors import CorruptTableError, SettingsError
from hudisql.format.avro.avro_container import load_codec
from hudisql.format.paths.external_file import ExternalFile
from hudisql.format.paths.file_names import parse_base_file_name, parse_log_file_name
from hudisql.format.timeline.compaction_plan_avro import render_compaction_plan
from hudisql.format.timeline.instant import COMPACTION, Instant, InstantState
from hudisql.storage import FileInfo, Storage, join
from hudisql.table.file_slice import BaseFile, FileSlice, LogFile
from hudisql.table.hudi_table import HudiTable
from hudisql.table.slicing.latest_slice import in_merge_order
from hudisql.table.timeline.instant_files import read_instant

Order = Literal["log_file_size", "log_file_count", "bounded_io", "unbounded"]
PartitionStrategy = Literal["day_based", "bounded_partitions", "unbounded_partitions"]
Strategy = Order | PartitionStrategy

_MEGABYTE: Final = 1 << 20
_DEFAULT_BASE_FILE_BYTES: Final = 120 * _MEGABYTE

_DAY: Final = re.compile(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?!\d)")
_NAMES: Final = re.compile(r"(^|/)[^/=]*=")


@dataclass(frozen=True, slots=True)
class CompactionOperation:
    """One file slice to compact; file names are relative to the partition's directory.

    `bootstrap_file` is the URI of the external file that a skeleton points to. Without `base_file` the slice
    consists of log files only. `metrics` are Hudi's: sizes in bytes or MB, as their names say.
    """

    partition_path: str
    file_id: str
    base_instant_time: str
    base_file: str | None
    log_files: tuple[str, ...]
    bootstrap_file: str | None
    metrics: dict[str, float]


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """The slices that one compaction merges."""

    operations: tuple[CompactionOperation, ...]

    def to_avro(self) -> bytes:
        """The content of `<t>.compaction.requested`."""
        operations = [
            {
                "baseInstantTime": operation.base_instant_time,
                "deltaFilePaths": list(operation.log_files),
                "dataFilePath": operation.base_file,
                "fileId": operation.file_id,
                "partitionPath": operation.partition_path,
                "metrics": operation.metrics,
                "bootstrapFilePath": operation.bootstrap_file,
            }
            for operation in self.operations
        ]
        return render_compaction_plan(operations)


def read_compaction_plan(table: HudiTable, instant_time: str) -> CompactionPlan:
    """The plan of a requested compaction. Raises TimelineChangedError, CorruptTableError, StorageError."""
    requested = Instant(instant_time, COMPACTION, InstantState.REQUESTED)
    return parse_compaction_plan(read_instant(table, requested), table.instant_path(requested))


def parse_compaction_plan(content: bytes, path: str) -> CompactionPlan:
    """A plan of hudisql or Apache Hudi, plan version 1 or 2. Raises CorruptTableError."""
    plan = load_codec("HoodieCompactionPlan").decode(content, path)
    return CompactionPlan(
        tuple(
            CompactionOperation(
                partition_path=operation["partitionPath"] or "",
                file_id=str(operation["fileId"]),
                base_instant_time=str(operation["baseInstantTime"]),
                base_file=_name_of(operation["dataFilePath"]),
                log_files=tuple(
                    name for text in operation["deltaFilePaths"] or () if (name := _name_of(text))
                ),
                bootstrap_file=operation["bootstrapFilePath"],
                metrics=dict(operation["metrics"] or {}),
            )
            for operation in plan.get("operations") or ()
        )
    )


def plan_compaction(
    storage: Storage,
    slices: Iterable[FileSlice],
    excluded: Collection[tuple[str, str]],
    strategy: Strategy,
    target_io_megabytes: int,
    *,
    least_log_bytes: int = 0,
    least_log_files: int = 0,
) -> CompactionPlan:
    """The slices with log files in the order of the strategy, up to its limit of bytes to read and write.

    Strategies by the bytes, or the number, of log files exclude slices below their minimum.

    A strategy that chooses partitions keeps the order of `slices`, which are those of its partitions.
    `excluded` file groups, as (partition path, file id), belong to another pending table service.
    """
    operations = [
        _operation_of(storage, file_slice)
        for file_slice in slices
        if file_slice.has_log_files and file_slice.file_group not in excluded
    ]
    if strategy == "log_file_size":
        operations = [
            operation
            for operation in operations
            if operation.metrics["TOTAL_LOG_FILES_SIZE"] >= least_log_bytes
        ]
        operations.sort(key=lambda operation: -operation.metrics["TOTAL_LOG_FILES_SIZE"])
    elif strategy == "log_file_count":
        operations = [
            operation for operation in operations if operation.metrics["TOTAL_LOG_FILES"] >= least_log_files
        ]
        operations.sort(key=lambda operation: -operation.metrics["TOTAL_LOG_FILES"])
    if strategy in ("log_file_size", "log_file_count", "bounded_io"):
        return CompactionPlan(tuple(_within(operations, target_io_megabytes)))
    return CompactionPlan(tuple(operations))


def slice_of(table: HudiTable, operation: CompactionOperation, external: ExternalFile | None) -> FileSlice:
    """The file slice of an operation, without log files that were added since.

    `external` is the external file of a bootstrapped slice. Raises CorruptTableError for file names that are
    not Hudi's.
    """
    directory = (
        join(table.base_path, operation.partition_path) if operation.partition_path else table.base_path
    )
    return FileSlice(
        partition_path=operation.partition_path,
        file_id=operation.file_id,
        base_instant_time=operation.base_instant_time,
        base_file=_base_file(table.storage, directory, operation.base_file),
        log_files=_log_files(table.storage, directory, operation.log_files),
        external_file=external,
        columns=table.file_columns,
        computed_meta=table.computed_meta,
    )


def _name_of(path: str | None) -> str | None:
    # Plans of version 1 have absolute URIs.
    return path.rpartition("/")[2] if path else None


def _operation_of(storage: Storage, file_slice: FileSlice) -> CompactionOperation:
    log_bytes = file_slice.log_length
    base = file_slice.base_file
    base_bytes = base.length if base else 0
    external = file_slice.external_file
    if external is not None:
        base_bytes += external.length
    read_megabytes = (base_bytes + log_bytes) // _MEGABYTE
    write_megabytes = (base_bytes or _DEFAULT_BASE_FILE_BYTES) // _MEGABYTE
    return CompactionOperation(
        partition_path=file_slice.partition_path,
        file_id=file_slice.file_id,
        base_instant_time=file_slice.base_instant_time,
        base_file=_name_of(base.path) if base else None,
        log_files=tuple(log_file.path.rpartition("/")[2] for log_file in file_slice.log_files),
        bootstrap_file=None if external is None else storage.hadoop_uri(external.path),
        metrics={
            "TOTAL_LOG_FILES": float(len(file_slice.log_files)),
            "TOTAL_LOG_FILES_SIZE": float(log_bytes),
            "TOTAL_IO_READ_MB": float(read_megabytes),
            "TOTAL_IO_WRITE_MB": float(write_megabytes),
            "TOTAL_IO_MB": float(read_megabytes + write_megabytes),
        },
    )


def _within(
    operations: Sequence[CompactionOperation], target_io_megabytes: int
) -> Iterable[CompactionOperation]:
    left = float(target_io_megabytes)
    for operation in operations:
        left -= operation.metrics["TOTAL_IO_MB"]
        yield operation
        if left <= 0:
            return


def _base_file(storage: Storage, directory: str, name: str | None) -> BaseFile | None:
    if name is None:
        return None
    parsed = parse_base_file_name(name)
    if parsed is None:
        raise CorruptTableError(f"a compaction plan names {name}, which is not a base file of Hudi's")
    path = join(directory, name)
    return BaseFile(path, _length(storage.info(path), path), *parsed)


def _log_files(storage: Storage, directory: str, names: Sequence[str]) -> tuple[LogFile, ...]:
    paths = [join(directory, name) for name in names]
    log_files = []
    for path, name, info in zip(paths, names, storage.infos(paths), strict=True):
        parsed = parse_log_file_name(name)
        if parsed is None:
            raise CorruptTableError(f"a compaction plan names {name}, which is not a log file of Hudi's")
        log_files.append(LogFile(path, _length(info, path), *parsed))
    return in_merge_order(log_files)


def _length(info: FileInfo | None, path: str) -> int:
    if info is None:
        raise CorruptTableError(
            f"the file {path} that a compaction plan names does not exist",
            hint="restore the file, or unschedule the compaction with Apache Hudi",
        )
    return info.length


def chooses_partitions(strategy: str) -> TypeGuard[PartitionStrategy]:
    """True for the strategies by day, which need the partition paths before slices are listed."""
    return strategy in get_args(PartitionStrategy)


def partitions_to_compact(
    strategy: PartitionStrategy, paths: Iterable[str], target_partitions: int, today: date
) -> list[str]:
    """The partition paths that the strategy chooses, the latest day first.

    `day_based` chooses the latest `target_partitions` of all, `bounded_partitions` those from
    `target_partitions` days before `today` on, `unbounded_partitions` all others. Raises SettingsError for a
    path without a day.
    """
    latest_first = sorted(((_day_of(path), path) for path in paths), reverse=True)
    if strategy == "day_based":
        return [path for _, path in latest_first[:target_partitions]]
    earliest = today - timedelta(days=target_partitions)
    is_bounded = strategy == "bounded_partitions"
    return [path for day, path in latest_first if (day >= earliest) is is_bounded]


def _day_of(path: str) -> date:
    found = _DAY.match(_NAMES.sub(r"\1", path))
    try:
        if found is not None:
            year, month, day = map(int, found.groups())
            return date(year, month, day)
    except ValueError:
        pass
    raise SettingsError(
        f"the {COMPACTION_STRATEGY} of this table chooses partitions by day, and the partition path '{path}' "
        "names none",
        hint="partition paths are like 2024/03/01, 2024-03-01, dt=2024-03-01 or year=2024/month=03/day=01; "
        "LogFileSizeBasedCompactionStrategy takes all partitions",
    )
