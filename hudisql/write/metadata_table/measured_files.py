"""Measure the files of a table: a few in threads, many in Spark tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from hudisql.format.metadata_table.metadata_writing import ColumnRange
from hudisql.spark.task_runner import SILENT, run_on_files
from hudisql.storage import Storage
from hudisql.storage.parallel_reads import read_large
from hudisql.table.hudi_table import HudiTable
from hudisql.write.metadata_table.column_ranges import MeasuredFile, measure_file

_FEW_FILES: Final = 100

Measured = Mapping[str, Sequence[tuple[str, Sequence[ColumnRange]]]]
"""For each partition path the names of files, and the ranges of their columns."""
FilesToMeasure = Mapping[str, Sequence[MeasuredFile]]
"""The files by partition path."""
MeasureFile = Callable[[Storage, MeasuredFile], list[ColumnRange]]
"""Gives the ranges of a file; tasks get it, too."""


def measure(
    table: HudiTable,
    files: FilesToMeasure,
    spark: Callable[[], Any] | None = None,
    console: Any = SILENT,
    measure_each: MeasureFile = measure_file,
) -> Measured:
    """The ranges of the files' columns, read in threads, or in Spark tasks if there are many files.

    `spark` is called for the session, `console` shows the progress, `measure_each` gives the ranges of one
    file. Raises SourceChangedError, CorruptTableError, StorageError.
    """
    every = [(path, file) for path, found in files.items() for file in found]
    if spark is None or len(every) <= _FEW_FILES:
        ranges = read_large(lambda each: measure_each(table.storage, each[1]), every)
        return _by_partition(every, ranges)
    ranges = run_on_files(
        spark(),
        [file for _, file in every],
        partial(_measure_group, table.storage, measure_each),
        weight=lambda _: 1,
        label="Reading statistics",
        console=console,
    )
    return _by_partition(every, ranges)


def _measure_group(
    storage: Storage, measure_each: MeasureFile, files: Iterable[MeasuredFile]
) -> Iterator[list[ColumnRange]]:
    for file in files:
        yield measure_each(storage, file)


def _by_partition(files: Sequence[tuple[str, MeasuredFile]], ranges: Sequence[list[ColumnRange]]) -> Measured:
    measured: dict[str, list[tuple[str, Sequence[ColumnRange]]]] = defaultdict(list)
    for (path, file), found in zip(files, ranges, strict=True):
        measured[path].append((file.name, found))
    return measured
