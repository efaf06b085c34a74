"""Results as text on standard output: table, csv, tsv, json, jsonl, vertical.

Nothing is rounded, cut off or lost: decimals and timestamps are text in JSON, NULL and the empty string
differ in every form but the table. Binary values are hexadecimal digits in all forms, as `hex()` gives them.
Timestamps are shown in the session's time zone, as Spark casts them.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, Protocol

from hudisql.result import LocalResult, Result
from hudisql.spark.collected_rows import first_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

# Types of Arrow or Python whose text is the same as Spark's.
_PLAIN_TYPES: Final = frozenset(
    {"boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "void"}
)


class Output(Protocol):
    """What results are written to."""

    def write(self, text: str, /) -> int:
        """Write the text."""


@dataclass(frozen=True)
class FetchedRows:
    """The rows of a query that has run, with the columns' names; `has_more` if they are only its first."""

    names: Sequence[str]
    rows: Iterable[Sequence[object]]
    has_more: bool = False


def fetch_rows(result: Result) -> FetchedRows:
    """Run the query; nothing is written if it fails. Raises QueryError."""
    rows = result_rows(result)
    first = next(rows, None)
    return FetchedRows(result.names, rows if first is None else chain([first], rows))


def fetch_first_rows(result: Result, most: int) -> FetchedRows:
    """Run the query for its first `most` rows, and look whether it has more. Raises QueryError."""
    rows = list(islice(result_rows(result, most + 1), most + 1))
    return FetchedRows(result.names, rows[:most], has_more=len(rows) > most)


def write_rows(fetched: FetchedRows, form: str, stream: Output) -> int:
    """Write the rows in one of the formats; returns their number."""
    counted = _Counted(fetched.rows)
    _WRITERS[form](fetched.names, counted, stream)
    return counted.count


def write_result(result: Result, form: str, stream: Output) -> int:
    """Run the query and write its rows in one of the formats; returns their number. Raises QueryError."""
    return write_rows(fetch_rows(result), form, stream)


def result_rows(result: Result, most: int | None = None) -> Iterator[Sequence[object]]:
    """The rows (or the first `most`) as Python values.

    Spark casts types to text that Arrow does not support.
    """
    if isinstance(result, LocalResult):
        yield from result.values
        return
    shown = _with_text_columns(result.df)
    readers = [_reader_of(field.dataType) for field in shown.schema]
    if most is not None:
        with result.guard():
            shown = first_rows(shown, most)
    table = Result(shown, guard=result.guard).arrow()
    for batch in table.to_batches(max_chunksize=10_000):
        columns = (
            column.to_pylist() if read is None else map(read, column.to_pylist())
            for column, read in zip(batch.columns, readers, strict=True)
        )
        yield from zip(*columns, strict=True)


def _reader_of(kind: DataType) -> Callable[[Any], Any] | None:
    """A function that turns Arrow's lists of pairs into mappings in a value; None for types without maps."""
    from pyspark.sql import types

    if isinstance(kind, types.ArrayType):
        of_element = _reader_of(kind.elementType)
        if of_element is None:
            return None
        return lambda value: None if value is None else [of_element(element) for element in value]
    if isinstance(kind, types.StructType):
        members = [(field.name, read) for field in kind if (read := _reader_of(field.dataType)) is not None]
        if not members:
            return None
        return lambda value: (
            None if value is None else {**value, **{name: read(value[name]) for name, read in members}}
        )
    if isinstance(kind, types.MapType):
        of_key, of_item = _reader_of(kind.keyType) or _as_it_is, _reader_of(kind.valueType) or _as_it_is
        return lambda value: (
            None if value is None else {str(text_of(of_key(key))): of_item(item) for key, item in value}
        )
    return None


def _as_it_is(value: Any) -> Any:
    return value


def _with_text_columns(df: DataFrame) -> DataFrame:
    from pyspark.sql import functions

    fields = df.schema.fields
    positional = df.toDF(*(f"c{position}" for position in range(len(fields))))
    return positional.select(
        *(
            functions.col(f"c{position}")
            if _keeps_its_type(field.dataType)
            else functions.col(f"c{position}").cast("string").alias(f"c{position}")
            for position, field in enumerate(fields)
        )
    )


def _keeps_its_type(kind: DataType) -> bool:
    from pyspark.sql import types

    if isinstance(kind, types.ArrayType):
        return _keeps_its_type(kind.elementType) or _is_nested_value(kind.elementType)
    if isinstance(kind, types.MapType):
        return all(_keeps_its_type(part) or _is_nested_value(part) for part in (kind.keyType, kind.valueType))
    if isinstance(kind, types.StructType):
        return len(set(kind.names)) == len(kind.names) and all(
            _keeps_its_type(field.dataType) or _is_nested_value(field.dataType) for field in kind.fields
        )
    return isinstance(kind, types.DecimalType) or kind.simpleString() in _PLAIN_TYPES


def _is_nested_value(kind: DataType) -> bool:
    # Within arrays, maps and structs these stay values, so that the whole text is valid JSON.
    return kind.simpleString() in ("date", "timestamp", "timestamp_ntz")


class _Counted:
    def __init__(self, rows: Iterable[Sequence[object]]) -> None:
        self._rows = rows
        self.count = 0

    def __iter__(self) -> Iterator[Sequence[object]]:
        for row in self._rows:
            self.count += 1
            yield row


# -- values -------------------------------------------------------------------------------------------------


def text_of(value: object) -> str | None:
    """A value as text; None for NULL."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float_text(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex().upper()
    if isinstance(value, datetime.datetime):
        return _timestamp_text(value)
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(json_value(value), ensure_ascii=False)
    return str(value)


def json_value(value: object) -> Any:
    """A value that `json.dumps` accepts: text for decimals, dates, times, binary and non-finite numbers."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _float_text(value)
    if hasattr(value, "asDict"):
        return {name: json_value(entry) for name, entry in value.asDict().items()}
    if isinstance(value, Mapping):
        return {str(text_of(key)): json_value(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(entry) for entry in value]
    return text_of(value)


def _float_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def _timestamp_text(value: datetime.datetime) -> str:
    text = value.replace(tzinfo=None).isoformat(sep=" ")
    return text.rstrip("0") if "." in text else text


# -- formats ------------------------------------------------------------------------------------------------


def _write_table(names: Sequence[str], rows: Iterable[Sequence[object]], stream: Output) -> None:
    from hudisql.cli.table_text import TableText

    cells = [[(text_of(value) if value is not None else "NULL") or "" for value in row] for row in rows]
    if len(cells) == 1 and len(names) == 1 and "\n" in cells[0][0]:
        # One multi-line text (EXPLAIN, SHOW CREATE TABLE), not a cell.
        stream.write(cells[0][0].rstrip("\n") + "\n")
        return
    for line in TableText(names, cells).lines():
        stream.write(line)


def _write_csv(names: Sequence[str], rows: Iterable[Sequence[object]], stream: Output) -> None:
    def quoted(text: str | None) -> str:
        if text is None:
            return ""
        if not text or any(mark in text for mark in ',"\r\n') or text != text.strip():
            return '"' + text.replace('"', '""') + '"'
        return text

    stream.write(",".join(quoted(name) for name in names) + "\n")
    for row in rows:
        stream.write(",".join(quoted(text_of(value)) for value in row) + "\n")


_TSV_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def _write_tsv(names: Sequence[str], rows: Iterable[Sequence[object]], stream: Output) -> None:
    def escaped(text: str | None) -> str:
        return "\\N" if text is None else text.translate(_TSV_ESCAPES)

    stream.write("\t".join(escaped(name) for name in names) + "\n")
    for row in rows:
        stream.write("\t".join(escaped(text_of(value)) for value in row) + "\n")


def _write_json(names: Sequence[str], rows: Iterable[Sequence[object]], stream: Output) -> None:
    keys = _distinct(names)
    separator = "["
    for row in rows:
        stream.write(f"{separator}\n  {_json_object(keys, row)}")
        separator = ","
    stream.write("[]\n" if separator == "[" else "\n]\n")


def _write_json_lines(names: Sequence[str], rows: Iterable[Sequence[object]], stream: Output) -> None:
    keys = _distinct(names)
    for row in rows:
        stream.write(_json_object(keys, row) + "\n")


def _json_object(keys: Sequence[str], row: Sequence[object]) -> str:
    values = {key: json_value(value) for key, value in zip(keys, row, strict=True)}
    return json.dumps(values, ensure_ascii=False)


def _distinct(names: Sequence[str]) -> list[str]:
    # `SELECT a, a` has two columns of one name: an object would lose the first.
    keys: list[str] = []
    for name in names:
        key, number = name, 2
        while key in keys:
            key, number = f"{name}_{number}", number + 1
        keys.append(key)
    return keys


def _write_vertical(names: Sequence[str], rows: Iterable[Sequence[object]], stream: Output) -> None:
    for line in vertical_lines(names, ([text_of(value) for value in row] for row in rows)):
        stream.write(line)


def vertical_lines(names: Sequence[str], rows: Iterable[Sequence[str | None]]) -> Iterator[str]:
    """The lines of rows of texts, a column a line, each with its end; None is NULL."""
    width = max((len(name) for name in names), default=0)
    for number, row in enumerate(rows, start=1):
        yield f"-[ {number} ]".ljust(width + 3, "-") + "\n"
        for name, text in zip(names, row, strict=True):
            indented = ("NULL" if text is None else text).replace("\n", "\n" + " " * (width + 3))
            yield f"{name:<{width}} : {indented}\n"


_WRITERS: Final[Mapping[str, Callable[[Sequence[str], Iterable[Sequence[object]], Output], None]]] = {
    "table": _write_table,
    "csv": _write_csv,
    "tsv": _write_tsv,
    "json": _write_json,
    "jsonl": _write_json_lines,
    "vertical": _write_vertical,
}
