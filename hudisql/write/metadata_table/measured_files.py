"""Measure the files of a table: a few in threads, many in Spark tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

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
_Result = TypeVar("_Result")


def measure(
    table: HudiTable,
    files: FilesToMeasure,
    spark: Callable[[], Any] | None = None,
    console: Any = SILENT,
) -> Measured:
    """The ranges of the files' columns, read in threads, or in Spark tasks if there are many files.

    `spark` is called for the session, `console` shows the progress. Raises SourceChangedError,
    CorruptTableError, StorageError.
    """
    return measure_by(measure_file, table, files, spark, console)


def measure_by(
    measure_each: Callable[[Storage, MeasuredFile], _Result],
    table: HudiTable,
    files: FilesToMeasure,
    spark: Callable[[], Any] | None = None,
    console: Any = SILENT,
) -> dict[str, list[tuple[str, _Result]]]:
    """As `measure`, with what `measure_each` gives of a file, which tasks call, too."""
    every = [(path, file) for path, found in files.items() for file in found]
    if spark is None or len(every) <= _FEW_FILES:
        results = read_large(lambda each: measure_each(table.storage, each[1]), every)
        return _by_partition(every, results)
    results = run_on_files(
        spark(),
        [file for _, file in every],
        partial(_measure_group, table.storage, measure_each),
        weight=lambda _: 1,
        label="Reading statistics",
        console=console,
    )
    return _by_partition(every, results)


def _measure_group(
    storage: Storage, measure_each: Callable[[Storage, MeasuredFile], _Result], files: Iterable[MeasuredFile]
) -> Iterator[_Result]:
    for file in files:
        yield measure_each(storage, file)


def _by_partition(
    files: Sequence[tuple[str, MeasuredFile]], results: Sequence[_Result]
) -> dict[str, list[tuple[str, _Result]]]:
    measured: dict[str, list[tuple[str, _Result]]] = defaultdict(list)
    for (path, file), found in zip(files, results, strict=True):
        measured[path].append((file.name, found))
    return measured
