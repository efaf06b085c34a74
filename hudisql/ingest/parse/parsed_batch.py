"""The result of every parser: rows, their positions in the batch, and bad records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.errors import InvalidArgumentError
from hudisql.format.schema.meta_columns import IS_DELETED


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


def check_key_column(schema: pa.Schema, key_column: str | None) -> None:
    """Raise InvalidArgumentError if there is a record key that is not a column of the schema."""
    if key_column is not None and key_column not in schema.names:
        raise InvalidArgumentError(f"the record key '{key_column}' is not a column of the table")


def with_delete_field(schema: pa.Schema) -> pa.Schema:
    """The schema, with the delete field if it lacks it."""
    return schema if IS_DELETED in schema.names else schema.append(pa.field(IS_DELETED, pa.bool_()))
