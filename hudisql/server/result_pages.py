"""The rows of a result, page by page, in bounded memory.

Rows leave Spark as Arrow batches, one partition after the other, while the client fetches them: the driver
holds one partition at most. Results whose plan limits them to a few rows (LIMIT, aggregates) are computed at
once, so that a LIMIT reads no more files than it needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hudisql.result import LocalResult, Result
from hudisql.server.result_types import ResultColumn, result_columns, travels_as_it_is, wire_frame
from hudisql.spark.collected_rows import collected
from hudisql.spark.jvm import class_name, java_class, java_dataset, optimized_plan
from hudisql.spark.versions import arrow_schema, local_iterator, to_arrow

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

_FEW_ROWS: Final = 10_000
_MOST_PAGE_BYTES: Final = 32 << 20
_COUNTS: Final = ("rows_inserted", "rows_updated", "rows_deleted")
_HELD_PLANS: Final = frozenset({"LocalRelation", "CommandResult"})


class ResultPages:
    """Columns and rows of one result. Not thread-safe."""

    def __init__(
        self,
        columns: Sequence[ResultColumn],
        batches: Iterator[pa.RecordBatch],
        guard: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self.columns = tuple(columns)
        self.rows_given = 0
        self.bytes_given = 0
        self._batches: Iterator[pa.RecordBatch] | None = batches
        self._guard = guard
        self._current: pa.RecordBatch | None = None
        self._advance()

    def next_page(self, most_rows: int) -> pa.RecordBatch | None:
        """The next rows, at most `most_rows` and 32 MiB; None at the end. Raises QueryError."""
        taken: list[pa.RecordBatch] = []
        rows = size = 0
        while self._current is not None and rows < most_rows and (not taken or size < _MOST_PAGE_BYTES):
            piece = self._take(most_rows - rows, _MOST_PAGE_BYTES - size)
            taken.append(piece)
            rows += piece.num_rows
            size += piece.nbytes
        self.rows_given += rows
        self.bytes_given += size
        if not taken:
            return None
        return taken[0] if len(taken) == 1 else pa.concat_batches(taken)

    def changed_rows(self) -> int | None:
        """The sum of the counts of an INSERT, UPDATE, DELETE or MERGE; None for another result.

        The row must not have been fetched.
        """
        names = [column.name for column in self.columns]
        if self._current is None or self.rows_given or not set(_COUNTS) <= set(names):
            return None
        counts = self._current.columns
        return sum(counts[names.index(name)][0].as_py() or 0 for name in _COUNTS)

    @property
    def has_more(self) -> bool:
        """True if there are rows left."""
        return self._current is not None

    def close(self) -> None:
        """Discard the remaining rows."""
        self._current = self._batches = None

    def _take(self, most_rows: int, most_bytes: int) -> pa.RecordBatch:
        current = self._current
        assert current is not None
        row_bytes = max(1, current.nbytes // current.num_rows)
        count = max(1, min(most_rows, current.num_rows, most_bytes // row_bytes))
        piece = current.slice(0, count)
        if count < current.num_rows:
            self._current = current.slice(count)
        else:
            self._advance()
        return piece

    def _advance(self) -> None:
        self._current = None
        with self._guard():
            while self._batches is not None:
                batch = next(self._batches, None)
                if batch is None:
                    self._batches = None
                elif batch.num_rows:
                    self._current = batch
                    return


def pages_of_result(result: Result) -> ResultPages:
    """The pages of a statement's result; the first rows are computed now. Raises QueryError."""
    columns = result_columns(result.schema)
    if isinstance(result, LocalResult) and all(travels_as_it_is(field.dataType) for field in result.schema):
        return ResultPages(columns, iter(result.arrow().to_batches()), result.guard)
    with result.guard():
        batches = arrow_batches(wire_frame(result.df))
    return ResultPages(columns, batches, result.guard)


def pages_of_table(columns: Sequence[ResultColumn], rows: Sequence[Sequence[object]]) -> ResultPages:
    """The pages of rows that the server itself produced."""
    from contextlib import nullcontext

    return ResultPages(columns, iter([batch_of(columns, rows)]), nullcontext)


def batch_of(columns: Sequence[ResultColumn], rows: Sequence[Sequence[object]] = ()) -> pa.RecordBatch:
    """A page of rows that the server itself produced."""
    values = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    arrays = [pa.array(value, column.wire.value[2]) for value, column in zip(values, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, [f"c{position}" for position in range(len(columns))])


def arrow_batches(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    """The rows of a DataFrame of `wire_frame`, in order. Raises Spark's exceptions, also while iterating."""
    plan = optimized_plan(frame)
    if class_name(plan) in _HELD_PLANS:
        return iter(to_arrow(frame).to_batches())
    most = plan.maxRows()
    if most.isDefined() and int(most.get()) <= _FEW_ROWS:
        return iter(to_arrow(collected(frame)).to_batches())
    return _partition_batches(frame)


def _partition_batches(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    """The batches of one partition after the other, each computed on request."""
    schema = arrow_schema(frame.schema)
    encoded = java_dataset(frame).toArrowBatchRdd()
    python_rdd = java_class(frame.sparkSession, "org.apache.spark.api.python.PythonRDD")
    served = python_rdd.toLocalIteratorAndServe(encoded, False)
    for message in local_iterator(served):
        yield pa.ipc.read_record_batch(pa.py_buffer(message), schema)
