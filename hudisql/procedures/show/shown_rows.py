"""Shared parts of the `show_…` procedures: their parameters, times of instants, path patterns.

`filter` is a SQL predicate over the output columns, evaluated by Spark. Paths with `*`, `?`, `[…]` and
`{a,b}` follow Hadoop's `Globber`: each part of the path matches one level of directories. Only directories on
the way are listed, each once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from hudisql.errors import InvalidArgumentError
from hudisql.format.schema.internal_columns import internal_column
from hudisql.procedures.registry import Column, NamedTableArguments, columns_of, parameter, row_values
from hudisql.spark.task_errors import without_internal_names
from hudisql.storage import FileInfo, Storage, join

if TYPE_CHECKING:
    from hudisql.context import Context
    from hudisql.format.timeline.instant import Instant
    from hudisql.table.hudi_table import HudiTable

R = TypeVar("R")
_SPECIAL = frozenset("*?[{")


def limit_parameter(default: int) -> Any:
    """The parameter `limit`."""
    return parameter(default, help="most rows")


@dataclass(frozen=True, kw_only=True)
class LimitedTableArguments(NamedTableArguments):
    """The parameters of procedures that show rows of one table, which they take by its name."""

    limit: int = limit_parameter(10)


def filter_parameter() -> Any:
    """The parameter `filter`."""
    return parameter("", help="SQL predicate over the output columns")


def transition_time(info: FileInfo | None) -> str | None:
    """Hudi's `state_transition_time` (UTC): the modification time of the instant's file."""
    if info is None:
        return None
    return datetime.fromtimestamp(info.modification_time_ms / 1000, UTC).strftime("%Y%m%d%H%M%S%f")[:17]


def completion_text(table: HudiTable, instant: Instant) -> str | None:
    """Hudi's `state_transition_time` of an instant: from its file's name, else the modification time."""
    return instant.completion_time or transition_time(table.storage.info(table.instant_path(instant)))


def read_rollback(table: HudiTable, instant: Instant) -> Mapping[str, Any]:
    """The record of a completed rollback. Raises CorruptTableError, TimelineChangedError, StorageError."""
    from hudisql.format.avro.avro_container import load_codec
    from hudisql.table.timeline.instant_files import read_instant

    content = read_instant(table, instant)
    return load_codec("HoodieRollbackMetadata").decode(content, table.instant_path(instant))


def filter_rows(context: Context, rows: list[R], row_type: type[R], predicate: str) -> list[R]:
    """The rows for which the predicate holds, in their order. Raises InvalidArgumentError."""
    if not predicate.strip() or not rows:
        return rows
    return _evaluate(context, rows, columns_of(row_type), predicate)


def first_rows(context: Context, rows: Iterable[R], row_type: type[R], predicate: str, limit: int) -> list[R]:
    """The first `limit` rows for which the predicate holds; without a predicate the others are not computed.

    Raises InvalidArgumentError.
    """
    if not predicate.strip():
        return list(islice(rows, max(limit, 0)))
    return filter_rows(context, list(rows), row_type, predicate)[: max(limit, 0)]


def _evaluate(context: Context, rows: list[R], output: Sequence[Column], predicate: str) -> list[R]:
    from pyspark.errors import PySparkException

    position = internal_column("position")
    declared = ", ".join([f"`{position}` int", *(f"`{column.name}` {column.type}" for column in output)])
    numbered = [(number, *row_values(row)) for number, row in enumerate(rows)]
    try:
        kept = context.spark.createDataFrame(numbered, declared).where(predicate).select(position).collect()
    except PySparkException as error:
        raise InvalidArgumentError(
            f"filter '{predicate}' cannot be evaluated: {without_internal_names(str(error).splitlines()[0])}",
            hint=f"it may use the output columns: {', '.join(column.name for column in output)}",
        ) from error
    chosen = {row[0] for row in kept}
    return [row for number, row in enumerate(rows) if number in chosen]


def find_paths(storage: Storage, pattern: str) -> list[FileInfo]:
    """The existing paths that match, sorted; possibly none. Raises StorageError."""
    from hudisql.table.partitions.path_glob import glob_pattern

    parts = storage.qualify(pattern).split("/")
    fixed = next((at for at, part in enumerate(parts) if _SPECIAL & set(part)), len(parts))
    if fixed == len(parts):
        found = storage.info(storage.qualify(pattern))
        return [] if found is None else [found]
    directories = ["/".join(parts[:fixed]) or "/"]
    for at in range(fixed, len(parts)):
        is_last = at == len(parts) - 1
        if not is_last and not _SPECIAL & set(parts[at]):
            directories = [join(directory, parts[at]) for directory in directories]
            continue
        name = glob_pattern(parts[at])
        listings = storage.list_directories(directories, missing_ok=True)
        found_here = [entry for entries in listings for entry in entries if name.fullmatch(entry.name)]
        if is_last:
            return sorted(found_here, key=lambda info: info.path)
        directories = [info.path for info in found_here if info.is_directory]
    return []
