"""The events of one table in memory: rows as Arrow columns, and the offsets behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.format.schema.meta_columns import IS_DELETED
from hudisql.ingest.offsets import SourcePartition


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events of one source partition in the order of their offsets; `next_offset` follows the last one.

    Each of the `values` and `keys` has an offset and a timestamp in milliseconds.
    """

    source: SourcePartition
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None]
    offsets: npt.NDArray[np.int64]
    timestamps: npt.NDArray[np.int64]
    next_offset: int

    @property
    def bytes(self) -> int:
        """The size of the values."""
        return sum(map(len, filter(None, self.values)))

    def since(self, offset: int) -> EventBatch:
        """The events from the offset on."""
        at = int(np.searchsorted(self.offsets, offset))
        if not at:
            return self
        return EventBatch(
            self.source,
            self.values[at:],
            self.keys[at:],
            self.offsets[at:],
            self.timestamps[at:],
            self.next_offset,
        )


@dataclass(frozen=True, slots=True)
class BadEvent:
    """An event that cannot become a row, with the reason; `number` counts the bad rows of one push."""

    source: SourcePartition
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    reason: str
    number: int = 0

    @property
    def key_text(self) -> str:
        """The unique key of the event."""
        text = f"{self.source[0]}/{self.source[1]}/{self.offset}"
        return f"{text}/{self.number}" if self.number else text


@dataclass(frozen=True, slots=True)
class BufferedEvents:
    """The events of a buffer, the bytes of their values, and the number of bad events."""

    events: int = 0
    bytes: int = 0
    bad: int = 0


@dataclass
class TableBuffer:
    """Rows in order of arrival; `opened_at` is the arrival of the first one, by the worker's clock."""

    offsets: dict[SourcePartition, int] = field(default_factory=dict)
    bad: list[BadEvent] = field(default_factory=list)
    events: int = 0
    bytes: int = 0
    opened_at: float | None = None
    _rows: list[pa.Table] = field(default_factory=list)

    def add(
        self,
        rows: pa.Table,
        is_deleted: npt.NDArray[np.bool_] | None,
        bad: Sequence[BadEvent],
        batch: EventBatch,
        now: float,
    ) -> None:
        """Take the rows and bad events of a batch; `is_deleted` marks rows whose keys are deleted."""
        marks = pa.nulls(rows.num_rows, pa.bool_()) if is_deleted is None else pa.array(is_deleted)
        if IS_DELETED not in rows.schema.names:
            rows = rows.append_column(IS_DELETED, marks)
        self._rows.append(rows)
        self.bad += bad
        self.events += len(batch.values)
        self.bytes += batch.bytes
        self.offsets[batch.source] = batch.next_offset
        if self.opened_at is None:
            self.opened_at = now

    @property
    def held(self) -> BufferedEvents:
        """The counts of the buffered events."""
        return BufferedEvents(self.events, self.bytes, len(self.bad))

    @property
    def is_empty(self) -> bool:
        """True if no event came since the last commit."""
        return not self.offsets

    @property
    def memory(self) -> int:
        """The bytes of the rows and bad events."""
        if self.is_empty:
            # Most of a thousand tables are, at each look.
            return 0
        rows: int = sum(row.nbytes for row in self._rows)
        bad = sum(
            len(part)
            for bad_event in self.bad
            for part in (bad_event.key, bad_event.value)
            if part is not None
        )
        return rows + bad

    def keep(self, choose: Callable[[pa.Table], pa.Table]) -> pa.Table | None:
        """Replace the rows, in order of arrival, by those that `choose` gives; None without rows."""
        if not any(row.num_rows for row in self._rows):
            return None
        # The parts are not kept beside the whole.
        self._rows = [pa.concat_tables(self._rows, promote_options="default").combine_chunks()]
        self._rows = [choose(self._rows[0])]
        return self._rows[0]

    def reached(self, previous: Mapping[SourcePartition, int]) -> dict[SourcePartition, int]:
        """The offsets of the table once the rows are committed."""
        return {**previous, **self.offsets}
