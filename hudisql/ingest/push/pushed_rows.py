"""Pushed bytes as rows of a table: lines of JSON, and Arrow streams, which need no parsing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.format.schema.meta_columns import IS_DELETED
from hudisql.ingest.parse.json_records import NO_COLUMNS, JsonParser
from hudisql.ingest.parse.parsed_batch import BadRecord, ParsedBatch

_STREAM: Final = b"\xff\xff\xff\xff"
"""What a message of Arrow's stream begins with, and no text in UTF-8 does."""


@dataclass(frozen=True)
class PushedParser:
    """A `RecordParser` of lines of JSON, or of values that are an Arrow stream each; never both at once."""

    schema: pa.Schema
    _json: JsonParser = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_json", JsonParser(self.schema))

    def parse(
        self, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None
    ) -> ParsedBatch:
        """The rows and bad records; all rows of a stream have its position."""
        if values and values[0] is not None and values[0].startswith(_STREAM):
            return self._parse_streams([value or b"" for value in values])
        return self._json.parse(values, keys)

    def _parse_streams(self, values: Sequence[bytes]) -> ParsedBatch:
        parsed: list[ParsedBatch] = []
        bad: list[BadRecord] = []
        for position, value in enumerate(values):
            try:
                with pa.ipc.open_stream(value) as stream:
                    batches = stream.read_all().combine_chunks().to_batches()
                for batch in batches:
                    parsed.append(rows_of_batch(batch, self.schema, np.full(batch.num_rows, position)))
            except pa.ArrowException as error:
                # A column has another type since the push was checked.
                bad.append(BadRecord(position, str(error)))
        if not parsed:
            return ParsedBatch(self.schema.empty_table(), np.zeros(0, np.int64), None, tuple(bad), NO_COLUMNS)
        return ParsedBatch(
            pa.concat_tables([parsed_batch.rows for parsed_batch in parsed]),
            np.concatenate([parsed_batch.positions for parsed_batch in parsed]),
            _joined(
                [parsed_batch.is_deleted for parsed_batch in parsed],
                [parsed_batch.rows.num_rows for parsed_batch in parsed],
            ),
            tuple(bad),
            NO_COLUMNS,
        )


def rows_of_batch(batch: pa.RecordBatch, schema: pa.Schema, positions: npt.NDArray[np.int64]) -> ParsedBatch:
    """The rows of an Arrow batch; columns that it lacks are null, those that the table lacks are left out.

    Raises ArrowInvalid, ArrowNotImplementedError for a column of a type that is not the table's.
    """
    columns = [
        batch.column(column.name).cast(column.type)
        if column.name in batch.schema.names
        else pa.nulls(batch.num_rows, column.type)
        for column in schema
    ]
    is_deleted = None
    if IS_DELETED in batch.schema.names:
        marks = batch.column(IS_DELETED)
        is_deleted = marks.fill_null(False).to_numpy(zero_copy_only=False) if marks.true_count else None
    rows = pa.Table.from_arrays(columns, schema=schema)
    return ParsedBatch(rows, positions, is_deleted, (), NO_COLUMNS)


def _joined(
    marks: Sequence[npt.NDArray[np.bool_] | None], counts: Sequence[int]
) -> npt.NDArray[np.bool_] | None:
    if all(mark is None for mark in marks):
        return None
    found = [
        np.zeros(count, np.bool_) if mark is None else mark for mark, count in zip(marks, counts, strict=True)
    ]
    return np.concatenate(found)
