"""Binds the arguments of a CALL to a procedure's declared parameters.

Names are case-insensitive; positional arguments come first, in the declared order; values are converted to
the declared types without loss. Every error names the procedure, the parameter and its type.
"""

from __future__ import annotations

import datetime
import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any, Final, TypeVar

from hudisql.config.config_key import split_names
from hudisql.errors import InvalidArgumentError, UnknownParameterError
from hudisql.procedures.registry import Arguments, Parameter, Procedure, field_of

E = TypeVar("E", bound=StrEnum)

_INT_LIMIT: Final = 2**31
_LONG_LIMIT: Final = 2**63


def bind_arguments(
    procedure: Procedure, positional: Sequence[object] = (), named: Iterable[tuple[str, object]] = ()
) -> Arguments:
    """An instance of the procedure's arguments, with defaults filled in.

    Raises InvalidArgumentError for unknown, repeated or missing arguments, and for those of a wrong type.
    """
    parameters = procedure.parameters
    if len(positional) > len(parameters):
        raise InvalidArgumentError(
            f"{procedure.name} takes {len(parameters)} arguments, {len(positional)} were given",
            hint=_usage_hint(procedure),
        )
    given: dict[str, Any] = {}
    for parameter, value in zip(parameters, positional, strict=False):
        given[parameter.name] = convert_argument(procedure.name, parameter, value)
    for name, value in named:
        named_parameter = procedure.parameter(name)
        if named_parameter is None:
            raise _unknown_parameter(procedure, name)
        if named_parameter.name in given:
            raise InvalidArgumentError(
                f"{procedure.name}: the argument '{named_parameter.name}' is given twice"
            )
        given[named_parameter.name] = convert_argument(procedure.name, named_parameter, value)
    missing = [
        parameter.name for parameter in parameters if parameter.required and given.get(parameter.name) is None
    ]
    if missing:
        raise InvalidArgumentError(
            f"{procedure.name}: required and not given: {', '.join(missing)}", hint=_usage_hint(procedure)
        )
    # NULL means "not given", as in Hudi's own procedures: the dataclass fills in the default.
    values = {field_of(name): value for name, value in given.items() if value is not None}
    return procedure.arguments_type(given=frozenset(given), **values)


def convert_argument(procedure_name: str, parameter: Parameter, value: object) -> object:
    """`value` as the parameter's type; NULL stays None. Raises InvalidArgumentError."""
    if value is None:
        return None
    try:
        return _CONVERSIONS[parameter.type](value)
    except (ValueError, TypeError, ArithmeticError) as error:
        detail = f" ({error})" if str(error) else ""
        raise InvalidArgumentError(
            f"{procedure_name}: the argument '{parameter.name}' must be of type {parameter.type}, "
            f"not {_type_name(value)} {value!r}{detail}"
        ) from error


def parse_choice(choices: type[E], name: str, text: str) -> E:
    """The choice that the argument `name` names, in any case. Raises InvalidArgumentError."""
    try:
        return choices(text.strip().lower())
    except ValueError as error:
        *others, last = (f"'{choice.value}'" for choice in choices)
        raise InvalidArgumentError(
            f"{name} '{text}' is unknown", hint=f"it is {', '.join(others)} or {last}"
        ) from error


def _unknown_parameter(procedure: Procedure, name: str) -> UnknownParameterError:
    names = [parameter.name for parameter in procedure.parameters]
    by_lower = {parameter.lower(): parameter for parameter in names}
    near = [
        by_lower[close_match]
        for close_match in difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.5)
    ]
    hint = f"did you mean {' or '.join(near)}?" if near else _usage_hint(procedure)
    return UnknownParameterError(f"{procedure.name} has no parameter '{name}'", hint=hint)


def _usage_hint(procedure: Procedure) -> str:
    names = ", ".join(
        parameter.name if parameter.required else f"[{parameter.name}]" for parameter in procedure.parameters
    )
    return f"{procedure.name}({names}); CALL help(cmd => '{procedure.name}') explains each"


def _to_string(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | Decimal | datetime.date | datetime.datetime):
        return str(value)
    raise TypeError


def _to_integer(value: object, limit: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        raise TypeError
    try:
        number = Decimal(value)
    except InvalidOperation as error:
        raise ValueError("not a number") from error
    if number != int(number):
        raise ValueError("not a whole number")
    if not -limit <= number < limit:
        raise ValueError("out of range")
    return int(number)


def _to_double(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise TypeError
    return float(value)


def _to_boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise TypeError


def _to_map(value: object) -> dict[str, str]:
    if isinstance(value, Mapping):
        entries: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, str):
        # Hudi's form of options: 'key=value,key=value'.
        words = [word for word in value.split(",") if word.strip()]
        if not all("=" in word for word in words):
            raise ValueError("write map('key', 'value', …) or 'key=value,…'")
        entries = [word.strip().split("=", 1) for word in words]  # type: ignore[misc]
    else:
        raise TypeError
    return {_to_string(key).strip(): _to_string(entry) for key, entry in entries}


def _to_strings(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return split_names(value)
    if isinstance(value, list | tuple):
        return tuple(_to_string(part) for part in value)
    raise TypeError


def _to_interval(value: object) -> datetime.timedelta:
    if isinstance(value, datetime.timedelta):
        return value
    raise TypeError


_CONVERSIONS: Final[Mapping[str, Callable[[object], object]]] = {
    "string": _to_string,
    "int": lambda value: _to_integer(value, _INT_LIMIT),
    "long": lambda value: _to_integer(value, _LONG_LIMIT),
    "double": _to_double,
    "boolean": _to_boolean,
    "map": _to_map,
    "array<string>": _to_strings,
    "interval": _to_interval,
}


def _type_name(value: object) -> str:
    names: list[tuple[type, str]] = [
        (bool, "boolean"),
        (int, "integer"),
        (float, "double"),
        (Decimal, "decimal"),
        (str, "string"),
        (Mapping, "map"),
        (list, "array"),
        (datetime.timedelta, "interval"),
        (datetime.datetime, "timestamp"),
        (datetime.date, "date"),
    ]
    return next((name for kind, name in names if isinstance(value, kind)), type(value).__name__)
