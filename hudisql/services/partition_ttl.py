"""Partition TTL: finds partitions older than their retention time.

Follows `KeepByTimeStrategy` and `KeepByCreationTimeStrategy` of Hudi 1.2. The instant of a bootstrap is not a
time, and log files of table version 6 carry the instant of their slice: in these cases, and for register-only
partitions, the modification time of the file counts, so that a recently written partition stays. Opens no
data file.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from hudisql.config.config_key import HudiConfig
from hudisql.config.table_service_keys import TTL_DAYS, TTL_MAX_PARTITIONS, TTL_SELECTED, TTL_STRATEGY
from hudisql.errors import SettingsError
from hudisql.format.paths.partition_metadata import PARTITION_METADATA_FILE, parse_partition_metadata
from hudisql.format.timeline.instant import METADATA_BOOTSTRAP_INSTANT_TIME
from hudisql.storage import join
from hudisql.table.files.snapshot import slices_of_versions
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import TablePartition
from hudisql.table.partitions.non_empty_partitions import list_non_empty_partitions
from hudisql.table.partitions.registered_partitions import (
    RegisteredPartition,
    files_if_there,
    registered_partitions,
)
from hudisql.table.slicing.file_groups import group_files

_AT_ONCE: Final = 500


class TtlStrategy(StrEnum):
    """The start of a partition's age (Hudi's `PartitionTTLStrategyType`)."""

    KEEP_BY_TIME = "KEEP_BY_TIME"
    KEEP_BY_CREATION_TIME = "KEEP_BY_CREATION_TIME"


@dataclass(frozen=True, slots=True)
class TtlOptions:
    """How long partitions are kept; `selected` are the paths of those that can expire, all if empty."""

    days_retained: int
    strategy: TtlStrategy = TtlStrategy.KEEP_BY_TIME
    most_partitions: int = TTL_MAX_PARTITIONS.default_value
    selected: tuple[str, ...] = ()


def ttl_options(config: HudiConfig) -> TtlOptions:
    """The options of Hudi's settings. Raises SettingsError, also if the number of days is missing."""
    days = config.get(TTL_DAYS)
    if days < 1:
        raise SettingsError(
            f"{TTL_DAYS} says how many days partitions are kept, and is not set",
            hint=f"give retain_days, or {TTL_DAYS} in TBLPROPERTIES",
        )
    return TtlOptions(
        days, TtlStrategy(config.get(TTL_STRATEGY)), config.get(TTL_MAX_PARTITIONS), config.get(TTL_SELECTED)
    )


def expired_partitions(table: HudiTable, options: TtlOptions, now: datetime) -> list[TablePartition]:
    """The partitions older than `options` allow, sorted by path; those without rows do not count.

    `now` is the current time on the timeline's clock. Raises CorruptTableError, StorageError.
    """
    if not table.properties.partition_fields:
        return []
    kept_for = timedelta(days=options.days_retained)
    least = f"{now - kept_for:%Y%m%d%H%M%S}"
    least_ms = (datetime.now(UTC) - kept_for).timestamp() * 1000
    selected = {path.strip("/") for path in options.selected}
    partitions = [
        partition
        for partition in list_non_empty_partitions(table)
        if not selected or partition.path in selected
    ]
    registered = registered_partitions(table)
    old = _register_only_before(table, registered.among(partition.path for partition in partitions), least_ms)
    found = [partition for partition in partitions if partition.path in old]
    partitions = [partition for partition in partitions if partition.path not in registered.by_path]
    for start in range(0, len(partitions), _AT_ONCE):
        some = partitions[start : start + _AT_ONCE]
        by_path = {partition.path: partition for partition in some}
        expired = (
            _created_before(table, list(by_path), least, least_ms)
            if options.strategy is TtlStrategy.KEEP_BY_CREATION_TIME
            else _written_before(table, list(by_path), least, least_ms)
        )
        found += [by_path[path] for path in by_path if path in expired]
        if len(found) >= options.most_partitions:
            break
    return found[: options.most_partitions]


def _register_only_before(
    table: HudiTable, partitions: Sequence[RegisteredPartition], least_ms: float
) -> set[str]:
    """The partitions (paths) without a file modified since; not those whose directory is gone."""
    return {
        partition.path
        for partition, files in zip(partitions, files_if_there(table, partitions), strict=True)
        if files is not None and max((file.modification_time_ms for file in files), default=0) < least_ms
    }


def _created_before(table: HudiTable, paths: Sequence[str], least: str, least_ms: float) -> Collection[str]:
    """The partitions whose marker names a commit before `least`."""
    markers = [join(table.base_path, path, PARTITION_METADATA_FILE) for path in paths]
    infos = table.storage.infos(markers)
    there = [(path, info) for path, info in zip(paths, infos, strict=True) if info is not None]
    contents = table.storage.read_files([info.path for _, info in there])
    return {
        path
        for (path, info), content in zip(there, contents, strict=True)
        if _is_before(
            parse_partition_metadata(content).commit_time, info.modification_time_ms, least, least_ms
        )
    }


def _written_before(table: HudiTable, paths: Sequence[str], least: str, least_ms: float) -> Collection[str]:
    """The partitions whose file slices all began before `least`, and whose log files were written before."""
    listings = table.storage.list_directories([join(table.base_path, path) for path in paths])
    modified = {entry.path: entry.modification_time_ms for entries in listings for entry in entries}
    versions = {path: group_files(entries) for path, entries in zip(paths, listings, strict=True)}
    expired = set(paths)
    for file_slice in slices_of_versions(table, versions, None):
        base_ms = 0 if file_slice.base_file is None else modified[file_slice.base_file.path]
        logs_ms = [modified[file.path] for file in file_slice.log_files]
        if (
            not _is_before(file_slice.base_instant_time, base_ms, least, least_ms)
            or max(logs_ms, default=0) >= least_ms
        ):
            expired.discard(file_slice.partition_path)
    return expired


def _is_before(instant_time: str, modified_ms: float, least: str, least_ms: float) -> bool:
    if instant_time == METADATA_BOOTSTRAP_INSTANT_TIME:
        return modified_ms < least_ms
    return instant_time < least
