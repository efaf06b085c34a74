"""What the JSON parser should make of one record: the stdlib's parser, then a check of each value."""

from __future__ import annotations

import base64
import json
import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", "UTC")
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d)?(?:\.(\d{1,9}))?(Z|[+-]\d\d(?::?\d\d)?)?)?", re.ASCII
)
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_EXACT = Context(prec=2_000)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Number:
    """A JSON number as its text."""

    text: str


class Pairs(list[Any]):
    """A JSON object as its members."""


class WrongValueError(Exception):
    """The reason is the message."""


def parse_record(value: bytes, schema: pa.Schema) -> dict[str, Any]:
    """The row of a record. Raises WrongValueError with the start of the parser's reason."""
    try:
        text = value.decode()
        found = json.loads(
            text, parse_float=Number, parse_int=Number, parse_constant=_refuse, object_pairs_hook=Pairs
        )
        _check_text(found)
    except ValueError as error:
        raise WrongValueError("not JSON") from error
    if not isinstance(found, Pairs):
        raise WrongValueError("no JSON object")
    return _struct(found, list(schema), "")


def _refuse(text: str) -> None:
    raise ValueError(text)


def _check_text(found: Any) -> None:
    if isinstance(found, str):
        found.encode()
    elif isinstance(found, Pairs):
        for name, value in found:
            _check_text(name)
            _check_text(value)
    elif isinstance(found, list):
        for each in found:
            _check_text(each)


def _struct(found: Pairs, fields: list[pa.Field], path: str) -> dict[str, Any]:
    kinds = {field.name: field.type for field in fields}
    row: dict[str, Any] = {}
    for name, value in found:
        if name not in kinds:
            continue
        where = f"{path}.{name}" if path else name
        if name in row:
            raise WrongValueError(f"column {where}: a field or key that stands twice")
        row[name] = None if value is None else _value(value, kinds[name], where)
    return {name: row.get(name) for name in kinds}


def _value(value: Any, kind: pa.DataType, where: str) -> Any:
    def wrong(what: str) -> WrongValueError:
        return WrongValueError(f"column {where}: {what}")

    other = wrong(f"a value of another type than {kind}")
    out_of_range = wrong(f"a number that {kind} does not hold")
    no_text = wrong(f"a text that is no {kind}")
    types = pa.types
    if types.is_struct(kind):
        if not isinstance(value, Pairs):
            raise other
        return _struct(value, list(kind), where)
    if types.is_map(kind):
        if not isinstance(value, Pairs):
            raise other
        entries: dict[str, Any] = {}
        for name, item in value:
            if name in entries:
                raise wrong("a field or key that stands twice")
            entries[name] = None if item is None else _value(item, kind.item_type, f"{where}.value")
        return list(entries.items())
    if types.is_list(kind):
        if not isinstance(value, list) or isinstance(value, Pairs):
            raise other
        return [None if each is None else _value(each, kind.value_type, f"{where}.element") for each in value]
    if types.is_boolean(kind):
        if not isinstance(value, bool):
            raise other
        return value
    if isinstance(value, bool | list):
        raise other
    if types.is_string(kind) or types.is_binary(kind):
        if not isinstance(value, str):
            raise other
        if types.is_string(kind):
            return value
        try:
            return base64.b64decode(value, validate=True)
        except ValueError as error:
            raise no_text from error
    if types.is_floating(kind):
        if isinstance(value, str):
            raise other
        return _float(float(value.text), kind, out_of_range)
    if types.is_decimal(kind):
        return _decimal(value, kind, no_text, out_of_range)
    if isinstance(value, str):
        if types.is_integer(kind):
            raise other
        try:
            return _date(value) if types.is_date(kind) else _timestamp(value)
        except ValueError as error:
            raise no_text from error
    if not re.fullmatch(r"-?\d+", value.text):
        raise other
    return _integer(int(value.text), kind, out_of_range)


def _float(value: float, kind: pa.DataType, error: Exception) -> float:
    try:
        stored = pa.array([value], pa.float64()).cast(kind)[0].as_py()
    except pa.ArrowInvalid:
        raise error from None
    if math.isinf(stored):
        raise error
    return stored


def _integer(value: int, kind: pa.DataType, error: Exception) -> Any:
    bits = 64 if pa.types.is_timestamp(kind) else kind.bit_width
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise error
    if pa.types.is_integer(kind):
        return value
    return pa.scalar(value, pa.int64() if bits == 64 else pa.int32()).cast(kind).as_py()


def _decimal(value: Any, kind: pa.DataType, no_text: Exception, out_of_range: Exception) -> Decimal:
    text = value if isinstance(value, str) else value.text
    if not _NUMBER.fullmatch(text):
        raise no_text
    unscaled = Decimal(text).scaleb(kind.scale, _EXACT)
    if unscaled != unscaled.to_integral_value(context=_EXACT) or abs(unscaled) >= 10**kind.precision:
        raise out_of_range
    return Decimal(int(unscaled)).scaleb(-kind.scale, _EXACT)


def _date(text: str) -> date:
    if not _DATE.fullmatch(text):
        raise ValueError(text)
    return date.fromisoformat(text)


def _timestamp(text: str) -> datetime:
    match = _TIME.fullmatch(text)
    if not match or (match[4] and not match[3]):
        raise ValueError(text)
    micros = int((match[4] or "0")[:6].ljust(6, "0"))
    zone = match[5] or "Z"
    if zone != "Z" and int(zone[1:3]) > 18:
        raise ValueError(text)
    zone = zone if zone == "Z" else f"{zone[:3]}:{zone[3:].strip(':') or '00'}"
    start = datetime.fromisoformat(f"{match[1]}T{match[2] or '00:00'}{match[3] or ':00'}{zone}")
    return _EPOCH + (start - _EPOCH) + timedelta(microseconds=micros)
