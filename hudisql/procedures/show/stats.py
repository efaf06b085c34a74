"""Procedures with statistics: sizes of files, write amplification, directories.

Names, parameters and columns are those of Hudi 0.15 (`StatsFileSizeProcedure`,
`StatsWriteAmplificationProcedure`, `ShowFsPathDetailProcedure`). Unlike Hudi's, the row of totals always
follows the newest commits, whatever the limit is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from hudisql.errors import InvalidArgumentError
from hudisql.options.table_call import find_table
from hudisql.procedures.registry import Arguments, NamedTableArguments, column_name, parameter, procedure
from hudisql.procedures.show.shown_rows import (
    LimitedTableArguments,
    filter_parameter,
    first_rows,
    limit_parameter,
)
from hudisql.storage import FileInfo, Storage

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from hudisql.context import Context
    from hudisql.table.hudi_table import HudiTable


@dataclass(frozen=True, kw_only=True)
class StatsFileSizesArguments(NamedTableArguments):
    """The parameters of `stats_file_sizes`."""

    partition_path: str = parameter("", help="only partitions whose path matches, such as dt=2024-*")
    limit: int = limit_parameter(10)


@dataclass(frozen=True)
class FileSizesRow:
    """Sizes in bytes of the files of the slices that began with a commit, or of `ALL`; percentiles."""

    commit_time: str
    min: int
    percentile_10: float = field(metadata=column_name("10th"))
    percentile_50: float = field(metadata=column_name("50th"))
    avg: float
    percentile_95: float = field(metadata=column_name("95th"))
    max: int
    num_files: Annotated[int, "int"]
    std_dev: float


_NO_SIZES = FileSizesRow("ALL", 0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0.0)


@procedure("Shows sizes of the table's files by the commit that began their slice.")
def stats_file_sizes(context: Context, arguments: StatsFileSizesArguments) -> Iterable[FileSizesRow]:
    """A row for each commit, newest first, then one for all.

    Raises NoSuchTableError, StorageError, InvalidArgumentError for a pattern of another depth than the
    partitions have.
    """
    import numpy as np

    table = find_table(context, arguments.table)
    times, sizes = _sizes(table, arguments.partition_path.strip("/"))
    if not times:
        return [_NO_SIZES][: max(arguments.limit, 0)]
    lengths = np.array(sizes, np.int64)
    commits, numbers = np.unique(np.array(times), return_inverse=True)
    order = np.argsort(numbers, kind="stable")
    groups = np.split(lengths[order], np.cumsum(np.bincount(numbers))[:-1])
    shown = max(arguments.limit - 1, 0)
    newest = [_sizes_row(str(commits[at]), groups[at]) for at in range(len(commits) - 1, -1, -1)[:shown]]
    return [*newest, _sizes_row("ALL", lengths)][: max(arguments.limit, 0)]


def _sizes(table: HudiTable, pattern: str) -> tuple[list[str], list[int]]:
    """Base instant time and length of each data file in the partitions whose path matches."""
    from hudisql.table.files.snapshot import list_file_versions
    from hudisql.table.partitions.listed_partitions import list_matching_paths, list_partition_paths

    is_chosen = pattern and table.properties.partition_fields
    paths = list_matching_paths(table, pattern) if is_chosen else list_partition_paths(table)
    if is_chosen and not paths:
        _check_depth(pattern, list_partition_paths(table))
    times, sizes = [], []
    for groups in list_file_versions(table, paths).values():
        for versions in groups.values():
            for instant_time, version in versions.items():
                lengths = [base_file.length for base_file in version.base_files]
                lengths += [log_file.length for log_file in version.log_files]
                times += [instant_time] * len(lengths)
                sizes += lengths
    return times, sizes


def _check_depth(pattern: str, paths: Sequence[str]) -> None:
    """A pattern of too few or too many directories, which matches nothing whatever is written."""
    depth = max((path.count("/") + 1 for path in paths), default=0)
    given = pattern.count("/") + 1
    if depth and given != depth:
        raise InvalidArgumentError(
            f"partition_path: the pattern has {given} directories, but the table's partitions have {depth}"
        )


def _sizes_row(commit_time: str, sizes: npt.NDArray[np.int64]) -> FileSizesRow:
    ordered = sorted(sizes.tolist())
    return FileSizesRow(
        commit_time,
        ordered[0],
        _percentile(ordered, 0.1),
        _percentile(ordered, 0.5),
        float(sizes.mean()),
        _percentile(ordered, 0.95),
        ordered[-1],
        len(ordered),
        float(sizes.std(ddof=1)) if len(ordered) > 1 else 0.0,
    )


def _percentile(ordered: Sequence[int], quantile: float) -> float:
    """As `UniformSnapshot.getValue` of Dropwizard's metrics, which Hudi uses."""
    position = quantile * (len(ordered) + 1)
    index = int(position)
    if index < 1:
        return float(ordered[0])
    if index >= len(ordered):
        return float(ordered[-1])
    lower, upper = ordered[index - 1], ordered[index]
    return lower + (position - index) * (upper - lower)


@dataclass(frozen=True)
class WriteAmplificationRow:
    """Rows that a commit updated and wrote, or all commits (`Total`), and the second over the first."""

    commit_time: str
    total_upserted: int
    total_written: int
    write_amplification_factor: str


@procedure("Shows how many rows commits and replacecommits wrote for each row that they updated.")
def stats_wa(context: Context, arguments: LimitedTableArguments) -> Iterable[WriteAmplificationRow]:
    """A row for each commit, oldest first, then one for all. Raises NoSuchTableError, StorageError."""
    from hudisql.format.timeline.instant import COMMIT, REPLACE_COMMIT
    from hudisql.table.timeline.instant_files import read_commit

    table = find_table(context, arguments.table)
    rows = []
    for instant in table.timeline.commits:
        if instant.completed_action in (COMMIT, REPLACE_COMMIT):
            stats = list(read_commit(table, instant).write_stats)
            updated = sum(stat.num_update_writes for stat in stats)
            rows.append(_amplification(instant.timestamp, updated, sum(stat.num_writes for stat in stats)))
    total = _amplification(
        "Total", sum(row.total_upserted for row in rows), sum(row.total_written for row in rows)
    )
    shown = max(arguments.limit - 1, 0)
    return [*rows[max(len(rows) - shown, 0) :], total][: max(arguments.limit, 0)]


def _amplification(commit_time: str, updated: int, written: int) -> WriteAmplificationRow:
    # Java's pattern #.00 has no zero before the point.
    factor = f"{written / updated:.2f}".removeprefix("0") if updated > 0 else "0"
    return WriteAmplificationRow(commit_time, updated, written, factor)


@dataclass(frozen=True, kw_only=True)
class ShowPathDetailArguments(Arguments):
    """The parameters of `show_fs_path_detail`."""

    path: str = parameter(help="path of a file or directory; *, ?, […] and {a,b} match within one level")
    is_sub: bool = parameter(False, help="the directory's children instead of the directory")
    sort: bool = parameter(True, help="largest first; false: most files first")
    limit: int = limit_parameter(100)
    filter: str = filter_parameter()


@dataclass(frozen=True)
class PathDetailRow:
    """Directories and files below a path, itself included, and their bytes; quotas are not known (-1)."""

    path_num: int
    file_num: int
    storage_size: int
    storage_size_unit: str = field(metadata=column_name("storage_size(unit)"))
    storage_path: str
    space_consumed: int
    quota: int
    space_quota: int


@procedure("Shows how many directories, files and bytes lie below paths.")
def show_fs_path_detail(context: Context, arguments: ShowPathDetailArguments) -> Iterable[PathDetailRow]:
    """A row for each path. Raises NoSuchPathError, StorageError, InvalidArgumentError."""
    from hudisql.procedures.show.shown_rows import find_paths

    storage = context.storage
    if arguments.is_sub:
        infos = storage.list_directory(storage.qualify(arguments.path))
    else:
        infos = find_paths(storage, arguments.path)
    rows = [_path_row(storage, info) for info in infos if not _is_checksum(info)]
    rows.sort(key=lambda row: -(row.storage_size if arguments.sort else row.file_num))
    return first_rows(context, rows, PathDetailRow, arguments.filter, arguments.limit)


def _path_row(storage: Storage, path: FileInfo) -> PathDetailRow:
    directories, files = 1, 0
    size = 0
    if not path.is_directory:
        directories, files, size = 0, 1, path.length
    for entries in _levels_below(storage, path):
        below = [entry for entry in entries if not _is_checksum(entry)]
        directories += sum(info.is_directory for info in below)
        files += sum(not info.is_directory for info in below)
        size += sum(info.length for info in below if not info.is_directory)
    return PathDetailRow(
        directories, files, size, _in_units(size), storage.hadoop_uri(path.path), size, -1, -1
    )


def _levels_below(storage: Storage, path: FileInfo) -> Iterator[list[FileInfo]]:
    """The content of directories, level by level; directories of a level are listed in parallel."""
    level = [path.path] if path.is_directory else []
    while level:
        entries = [
            entry for directory in storage.list_directories(level, missing_ok=True) for entry in directory
        ]
        yield entries
        level = [entry.path for entry in entries if entry.is_directory]


def _is_checksum(entry: FileInfo) -> bool:
    """True for a checksum file of Hadoop's local file system, which it never lists."""
    return entry.name.startswith(".") and entry.name.endswith(".crc")


def _in_units(size: int) -> str:
    for power, unit in ((30, "GB"), (20, "MB"), (10, "KB")):
        if size >> power:
            return f"{size / (1 << power):.2f}{unit}"
    return f"{size}B"
