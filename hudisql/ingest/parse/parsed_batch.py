"""The result of every parser: rows, their positions in the batch, and bad records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

DELETE_FIELD = "_hoodie_is_deleted"
"""Field by which a record deletes its key (`HoodieRecord.HOODIE_IS_DELETED_FIELD`)."""


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that is not of the schema: where it stands in the batch, and why."""

    position: int
    reason: str


@dataclass(frozen=True, slots=True)
class ParsedBatch:
    """The rows of a batch.

    `rows` has exactly the parser's columns, in their order and types; a column that a record lacks is null.
    Row i came from `values[positions[i]]`; `is_deleted` marks rows whose key is to be deleted (None if there
    is none). `new_columns` are those that records have and the schema lacks, if the parser was asked for
    them: the rows do not hold them yet. `ignored` counts messages without a row (Debezium's t and m).
    """

    rows: pa.Table
    positions: npt.NDArray[np.int64]
    is_deleted: npt.NDArray[np.bool_] | None
    bad: tuple[BadRecord, ...]
    new_columns: pa.Schema
    ignored: int = 0


class RecordParser(Protocol):
    """Turns the values of a batch into rows."""

    def parse(
        self, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None
    ) -> ParsedBatch:
        """The rows and the bad records of a batch; `keys` are the messages' keys, as many as the values."""
        ...
