"""What a scan of a Hudi table reads, and its plan: values that EXPLAIN prints and `scan_dataframe` runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal

import pyarrow as pa

from hudisql.read.files.predicates import Predicate
from hudisql.read.files.splits import (
    DEFAULT_MAX_SPLIT_BYTES,
    DEFAULT_OPEN_COST_BYTES,
    ScanTask,
    driving_file_bytes,
)
from hudisql.read.merge.merge_mode import LogMergeConfig
from hudisql.read.scan.incremental import IncrementalRead
from hudisql.read.scan.record_skipping import ANY_GROUP, LookedUpGroups
from hudisql.read.scan.scan_method import ScanMethod, scan_methods, scanned_file
from hudisql.read.slice.slice_reader import needs_data_columns
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice
from hudisql.table.hudi_table import HudiTable

_DEFAULT_PARALLELISM = 8

ScannedSlice = tuple[FileSlice, Mapping[str, object]]
"""A file slice and the values of its partition by column name."""


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """What to read of a table, and how to cut the work.

    `columns` are any of the table's, structs pruned at will. `as_of` is an instant time, None the latest
    snapshot; with `changes` only rows that its window's commits wrote are read. `below` is a relative
    partition path that bounds the scan, `read_optimized` ignores log files (Hudi's `_ro` tables), `count_all`
    also counts what was pruned (EXPLAIN). Only file groups of `looked_up` may hold what the query looks for,
    in the latest snapshot. A few slices of together at most `driver_bytes` are read on the driver, all
    columns, if meta columns are wanted or Spark's scan cannot read them. With
    `skips_by_statistics` the metadata table tells which partitions and slices hold no matching row, with
    `asks_secondary_indexes` also by those.
    """

    table: HudiTable
    columns: pa.Schema
    predicates: Sequence[Predicate] = ()
    partition_predicates: Sequence[Predicate] = ()
    _: KW_ONLY
    as_of: str | None = None
    changes: IncrementalRead | None = None
    below: str = ""
    read_optimized: bool = False
    parallelism: int = _DEFAULT_PARALLELISM
    max_split_bytes: int = DEFAULT_MAX_SPLIT_BYTES
    open_cost_bytes: int = DEFAULT_OPEN_COST_BYTES
    count_all: bool = False
    looked_up: LookedUpGroups = ANY_GROUP
    driver_bytes: int = 0
    skips_by_statistics: bool = False
    asks_secondary_indexes: bool = False

    @property
    def state_instant(self) -> str | None:
        """The instant time whose state is read, None for the latest."""
        return self.as_of if self.changes is None else self.changes.window.as_of

    @property
    def all_predicates(self) -> Sequence[Predicate]:
        """What the rows must meet, the window of `changes` included."""
        of_changes = () if self.changes is None else (self.changes.predicate,)
        return (*self.predicates, *of_changes, *self.partition_predicates)


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """The plan of one reference to a table.

    `output_schema` is the table's whole schema (meta, data, partition columns); only `columns` (a subset by
    name, structs possibly pruned, in the same order) hold values. `partition_columns` come from the partition
    and not from files. `predicate` and `partition_predicate` are the pushed-down filters; the query still
    applies all of its filters. In `native` mode each slice is read by the method that `scan_methods` gives,
    in `stitched` mode all go through the slice reader. `is_vectorized` is False if Spark's scan has to read
    row by row. With `on_driver` the slice reader runs on the driver when the query is built, unless there are
    too many rows. The skipped partitions and slices are those that statistics exclude.
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
    partitions_total: int | None
    slices: tuple[ScannedSlice, ...]
    slices_total: int | None
    tasks: tuple[ScanTask, ...]
    splits_total: int | None
    as_of: str | None = None
    changes: IncrementalRead | None = None
    log_merge_config: LogMergeConfig | None = None
    is_vectorized: bool = True
    on_driver: bool = False
    partitions_skipped: int = 0
    slices_skipped: int = 0

    def _described_history(self) -> tuple[tuple[str, str], ...]:
        if self.changes is not None:
            window = self.changes.window
            found = f"{len(window.commits)} commits after {window.begin} up to {window.as_of}"
            return (("changes", found),)
        return (("as of", self.as_of),) if self.as_of is not None else ()

    def _described_skipping(self) -> tuple[tuple[str, str], ...]:
        if not self.partitions_skipped and not self.slices_skipped:
            return ()
        skipped = f"{self.partitions_skipped} partitions, then {self.slices_skipped} file slices"
        return (("skipped by statistics", skipped),)

    @property
    def needs_data(self) -> bool:
        """True if columns are read that are neither meta nor partition columns."""
        return needs_data_columns(
            self.columns, [partition_column.name for partition_column in self.partition_columns]
        )

    def methods(self) -> list[ScanMethod]:
        """How each of the slices is read in `native` mode."""
        names = [partition_column.name for partition_column in self.partition_columns]
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
            ("partitions", _of(self.partitions_read, self.partitions_total)),
            (
                "file slices",
                f"{_of(len(self.slices), self.slices_total)} ({kinds})",
            ),
            *self._described_skipping(),
            ("splits", f"{_of(self.splits_read, self.splits_total)} {self._readers}"),
            ("columns", ", ".join(_column_text(column) for column in self.columns) or "(none)"),
            ("row filter", str(self.predicate) if self.predicate is not None else "(none)"),
            (
                "partition filter",
                str(self.partition_predicate) if self.partition_predicate is not None else "(none)",
            ),
        )


def _of(count: int, total: int | None) -> str:
    return str(count) if total is None else f"{count} of {total}"


def _column_text(column: pa.Field) -> str:
    if pa.types.is_struct(column.type):
        return f"{column.name}<{', '.join(_column_text(each) for each in column.type)}>"
    return str(column.name)
