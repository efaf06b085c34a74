"""JSON records of a batch as columns of a table's schema, strictly: a wrong type is never null.

One record per value, as Kafka's producers send them. Each value has its own bounds, so that line breaks and
empty values in it shift nothing.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from hudisql.errors import InvalidArgumentError
from hudisql.format.schema.meta_columns import IS_DELETED
from hudisql.ingest.parse.json_columns import Integers, JsonColumns, make_slots
from hudisql.ingest.parse.json_program import DEFAULT_ENCODING, Encoding, JsonProgram, compile_program
from hudisql.ingest.parse.parsed_batch import BadRecord, ParsedBatch, check_key_column, with_delete_field

_MOST_BYTES: Final = 2**31 - 1
_MOST_NEW_COLUMNS: Final = 1_000
_PADDING: Final = 64
NO_COLUMNS: Final = pa.schema([])
NO_KEY: Final = "no value, and no key of one column to delete by"

_NO_RECORD: Final = b""


class NewFields(NamedTuple):
    """Fields without a column: the addresses of their names, and the kinds of their values."""

    start: Integers
    end: Integers
    kinds: Integers
    used: Integers


@dataclass(frozen=True, slots=True)
class ScannedRecords:
    """Columns of the good records (`positions` among all), and the bad ones with their reasons."""

    columns: pa.RecordBatch
    positions: Integers
    bad: tuple[BadRecord, ...]
    new_columns: pa.Schema


@dataclass(frozen=True)
class JsonParser:
    """Parses JSON objects.

    `encoding` and `encodings` (by column) describe times and decimals. With `key_column` a value that
    is null or empty deletes the row of the message's key. With `take_new_columns` fields without a column are
    returned as `new_columns`. Raises UnsupportedTableError for columns that JSON has no values for.
    """

    schema: pa.Schema
    key_column: str | None = None
    take_new_columns: bool = False
    encoding: Encoding = DEFAULT_ENCODING
    encodings: Mapping[str, Encoding] = field(default_factory=dict)
    _program: JsonProgram = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_key_column(self.schema, self.key_column)
        program = compile_program(with_delete_field(self.schema), self.encoding, self.encodings)
        object.__setattr__(self, "_program", program)

    def parse(
        self, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None
    ) -> ParsedBatch:
        """The rows and bad records of a batch. Raises InvalidArgumentError for more than 2 GiB of values."""
        whole = with_tombstones(values, keys, self.schema, self.key_column)
        scanned = scan_values(self._program, whole, take_new_columns=self.take_new_columns)
        return batch_of(self.schema, scanned)


def batch_of(schema: pa.Schema, scanned: ScannedRecords, ignored: int = 0) -> ParsedBatch:
    """The parsed batch of scanned records, which have the delete field beside the columns."""
    deleted = scanned.columns.column(IS_DELETED)
    is_deleted = deleted.fill_null(False).to_numpy(zero_copy_only=False) if deleted.true_count else None
    rows = pa.Table.from_batches([scanned.columns.select(schema.names)])
    if not rows.schema.equals(schema, check_metadata=True):
        rows = rows.cast(schema)
    return ParsedBatch(rows, scanned.positions, is_deleted, scanned.bad, scanned.new_columns, ignored)


def scan_values(
    program: JsonProgram, values: Sequence[bytes], *, take_new_columns: bool = False
) -> ScannedRecords:
    """The columns of whole values."""
    text = RecordTexts(values)
    return scan_texts(program, text.starts, text.ends, take_new_columns=take_new_columns)


class RecordTexts:
    """Values in one padded buffer, a zero byte after each; it lives as long as the addresses are used."""

    def __init__(self, values: Sequence[bytes]) -> None:
        self._data = np.frombuffer(b"\0".join([*values, bytes(_PADDING)]), np.uint8)
        if len(self._data) > _MOST_BYTES:
            raise InvalidArgumentError("a batch of more than 2 GiB", hint="parse fewer records at once")
        lengths = np.fromiter(map(len, values), np.int64, len(values))
        self.ends = np.cumsum(lengths + 1) - 1 + self._data.ctypes.data
        self.starts = self.ends - lengths


def scan_texts(
    program: JsonProgram, starts: Integers, ends: Integers, *, take_new_columns: bool = False
) -> ScannedRecords:
    """The columns of the JSON texts between the addresses, in buffers of `RecordTexts`."""
    from hudisql.ingest.parse import json_scan_kernels, json_text_kernels

    count = len(starts)
    longest = int((ends - starts).max(initial=0))
    scratch = np.empty(longest + _PADDING, np.uint8)
    opened = np.empty(json_text_kernels.DEEPEST, np.uint8)
    codes, nodes, places = (np.zeros(count, np.int64) for _ in range(3))
    growth = 1
    while True:
        slots = make_slots(program, count, growth)
        most = _MOST_NEW_COLUMNS if take_new_columns else 0
        new = NewFields(*(np.zeros(size, np.int64) for size in (most, most, most, 1)))
        full = json_scan_kernels.scan(
            starts,
            ends,
            program.arrays,
            slots,
            scratch.ctypes.data,
            opened,
            new,
            codes,
            nodes,
            places,
        )
        if full < 0:
            break
        growth *= 4
    columns = JsonColumns(slots, scratch)
    fields = program.root.children
    arrays = [columns.array(json_node) for json_node in fields]
    schema = pa.schema([pa.field(json_node.name, json_node.arrow_type) for json_node in fields])
    bad = tuple(
        BadRecord(
            int(row),
            _reason(program, int(codes[row]), int(nodes[row]), int(places[row]))
            if starts[row] < ends[row]
            else NO_KEY,
        )
        for row in np.flatnonzero(codes)
    )
    return ScannedRecords(
        pa.RecordBatch.from_arrays(arrays, schema=schema),
        np.flatnonzero(codes == 0),
        bad,
        _new_columns(new),
    )


def text_at(start: int, end: int) -> bytes:
    """A copy of the bytes between two addresses."""
    return ctypes.string_at(start, end - start)


def _new_columns(new: NewFields) -> pa.Schema:
    from hudisql.ingest.parse.json_scan_kernels import NEW_BOOLEAN, NEW_INTEGER, NEW_NUMBER

    found = []
    for number in range(int(new.used[0])):
        name = text_at(int(new.start[number]), int(new.end[number])).decode()
        kinds = int(new.kinds[number])
        if kinds == NEW_INTEGER:
            kind = pa.int64()
        elif kinds in (NEW_NUMBER, NEW_NUMBER | NEW_INTEGER):
            kind = pa.float64()
        else:
            kind = pa.bool_() if kinds == NEW_BOOLEAN else pa.string()
        found.append(pa.field(name, kind))
    return pa.schema(found)


def _reason(program: JsonProgram, code: int, node: int, place: int) -> str:
    from hudisql.ingest.parse import json_value_kernels as kernels

    if code == kernels.NOT_JSON:
        return f"not JSON, at byte {place}"
    if node == 0 and code == kernels.WRONG_TYPE:
        return "no JSON object"
    path, kind = program.paths[node], program.nodes[node].arrow_type
    texts: dict[int, Any] = {
        kernels.WRONG_TYPE: f"column {path}: a value of another type than {kind}",
        kernels.OUT_OF_RANGE: f"column {path}: a number that {kind} does not hold",
        kernels.BAD_TEXT: f"column {path}: a text that is no {kind}",
        kernels.REPEATED: f"column {path}: a field or key that stands twice",
        kernels.NESTED: f"the new field at byte {place} has an object or array, whose type JSON does not "
        "say: ALTER TABLE adds such a column",
        kernels.BAD_NAME: f"a new field whose name no column can have, at byte {place}",
    }
    return str(texts[code])


def with_tombstones(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None,
    schema: pa.Schema,
    key_column: str | None,
) -> Sequence[bytes]:
    """The values, with a JSON record that deletes the key in place of null and empty ones.

    Without keys, or without a key column, the empty values stay, and the parser refuses them.
    """
    if all(values):
        return values  # type: ignore[return-value]
    whole = []
    for position, value in enumerate(values):
        key = keys[position] if keys is not None and not value else None
        whole.append(value or delete_record(key, schema, key_column))
    return whole


def delete_record(key: bytes | None, schema: pa.Schema, key_column: str | None) -> bytes:
    """A JSON record with the key alone; empty without a key.

    A key is a JSON object with the key column (or Connect's wrapper of one), a JSON value, or plain text.
    """
    if not key or key_column is None:
        return _NO_RECORD
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return _NO_RECORD
    try:
        found = json.loads(text)
    except ValueError:
        found = text
    if isinstance(found, dict):
        found = found.get("payload", found)
    if isinstance(found, dict):
        found = found.get(key_column)
    elif pa.types.is_string(schema.field(key_column).type) and not isinstance(found, str):
        found = text
    if found is None:
        return _NO_RECORD
    return json.dumps({key_column: found, IS_DELETED: True}).encode()
