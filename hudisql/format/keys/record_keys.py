"""Record keys as text, rendered as Apache Hudi's upsert renders them.

Follows Hudi's `KeyGenerator.constructRecordKey`, `KeyGenUtils.getRecordKey` and
`HoodieAvroUtils.convertValueForAvroLogicalTypes`. A key rendered otherwise would make later upserts insert
duplicates. Takes Arrow columns, whole; knows no files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import InvalidArgumentError
from hudisql.format.encoding.java_text import epoch_micros, render_date, render_floating, render_sql_timestamp

NULL_PART = "__null__"
EMPTY_PART = "__empty__"
MOST_SAMPLES: Final = 5


def _no_rows() -> npt.NDArray[np.int64]:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class NullKeys:
    """The rows of a batch whose key Hudi refuses: the field, or all of several fields, are null or empty."""

    rows: npt.NDArray[np.int64] = field(default_factory=_no_rows)

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class RecordKeys:
    """The keys of a batch, one for each row (null if a single key field is null), and the refused rows."""

    keys: pa.StringArray
    null_keys: NullKeys


def render_record_keys(
    batch: pa.RecordBatch | pa.Table,
    fields: Sequence[str],
    *,
    complex_keys: bool,
    consistent_logical_timestamp: bool = False,
) -> RecordKeys:
    """Render the record keys of a batch.

    `fields` are column names, `a.b` for a field of a struct. `complex_keys` gives `a:1,b:2` with `__null__`
    and `__empty__` for missing parts; otherwise the key is the plain text of one field.
    `consistent_logical_timestamp` is Hudi's
    `hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled` (in a UTC JVM). Raises
    InvalidArgumentError for a missing field or a type that cannot be a key.
    """
    if not fields or (len(fields) > 1 and not complex_keys):
        raise ValueError("a record key has one field, or several and complex_keys=True")
    parts = [render_field(batch, name, consistent_logical_timestamp) for name in fields]
    if not complex_keys:
        return RecordKeys(parts[0], NullKeys(_true_rows(_is_missing(parts[0]))))
    labelled: list[pa.Scalar | pa.Array] = []
    all_missing = None
    for name, part in zip(fields, parts, strict=True):
        missing = _is_missing(part)
        all_missing = missing if all_missing is None else pc.and_(all_missing, missing)
        filled = pc.if_else(pc.equal(part, ""), EMPTY_PART, part)
        labelled += [pa.scalar(f"{',' if labelled else ''}{name}:"), pc.fill_null(filled, NULL_PART)]
    keys = pc.binary_join_element_wise(*labelled, "")
    return RecordKeys(keys, NullKeys(_true_rows(all_missing)))


@dataclass(frozen=True, slots=True)
class RepeatedKeys:
    """The number of repeated keys and the first few of them, as a task sends them to the driver."""

    count: int = 0
    samples: tuple[str, ...] = ()


NO_REPEATED_KEYS: Final = RepeatedKeys()


def repeated_keys(keys: pa.StringArray | pa.ChunkedArray) -> RepeatedKeys:
    """The keys that occur more than once, each counted once."""
    if len(pc.unique(keys)) == len(keys):
        return NO_REPEATED_KEYS
    counted = pc.value_counts(keys)
    repeated = counted.filter(pc.greater(counted.field("counts"), 1)).field("values")
    return RepeatedKeys(len(repeated), tuple(repeated.slice(0, MOST_SAMPLES).to_pylist()))


def check_key_type(name: str, value_type: pa.DataType) -> None:
    """Raise InvalidArgumentError if a column of this Arrow type cannot be a record key."""
    types = pa.types
    is_renderable = (
        types.is_string(value_type)
        or types.is_large_string(value_type)
        or types.is_string_view(value_type)
        or types.is_integer(value_type)
        or types.is_boolean(value_type)
        or types.is_float32(value_type)
        or types.is_float64(value_type)
        or types.is_date(value_type)
        or types.is_timestamp(value_type)
        or types.is_decimal(value_type)
        or types.is_null(value_type)
    )
    if types.is_dictionary(value_type):
        check_key_type(name, value_type.value_type)
    elif not is_renderable:
        raise InvalidArgumentError(
            f"column '{name}' of type {value_type} cannot be a record key",
            hint="take columns of type string, integer, boolean, date, timestamp, decimal, float or double",
        )


def render_field(
    batch: pa.RecordBatch | pa.Table, name: str, consistent_timestamp: bool = False
) -> pa.StringArray:
    """The text of each value of a column (or `a.b`, a field of a struct). Raises InvalidArgumentError."""
    column = find_column(batch, name)
    check_key_type(name, column.type)
    if isinstance(column, pa.ChunkedArray):
        chunks = [_render_values(chunk, consistent_timestamp) for chunk in column.chunks]
        return pa.concat_arrays(chunks) if chunks else pa.array([], pa.string())
    return _render_values(column, consistent_timestamp)


def find_column(batch: pa.RecordBatch | pa.Table, name: str) -> pa.Array | pa.ChunkedArray:
    """A column, or the field of a struct column. Raises InvalidArgumentError if it is missing."""
    column, *path = name.split(".")
    if batch.schema.get_field_index(column) < 0:
        raise InvalidArgumentError(
            f"there is no key column '{column}'", hint=f"the columns are {', '.join(batch.schema.names)}"
        )
    values = batch.column(column)
    for step in path:
        if not pa.types.is_struct(values.type) or values.type.get_field_index(step) < 0:
            raise InvalidArgumentError(f"there is no key field '{name}': no field '{step}' in {values.type}")
        values = pc.struct_field(values, step)
    return values


def _render_values(values: pa.Array, consistent_timestamp: bool) -> pa.StringArray:
    value_type = values.type
    if pa.types.is_dictionary(value_type):
        texts = _render_values(values.dictionary, consistent_timestamp)
        return texts.take(values.indices)
    if pa.types.is_floating(value_type):
        return render_floating(values)
    if pa.types.is_date(value_type):
        return render_date(values)
    if pa.types.is_timestamp(value_type):
        if consistent_timestamp:
            return render_sql_timestamp(values)
        return pc.cast(epoch_micros(values), pa.string())
    # Arrow prints decimals as Java's BigDecimal.toString does: with their scale, and 1E-7 for more than six
    # zeros.
    return pc.cast(values, pa.string())


def _is_missing(part: pa.StringArray) -> pa.BooleanArray:
    return pc.fill_null(pc.equal(part, ""), True)


def _true_rows(mask: pa.BooleanArray) -> npt.NDArray[np.int64]:
    if mask.true_count == 0:
        return _no_rows()
    return np.asarray(pc.indices_nonzero(mask), dtype=np.int64)
