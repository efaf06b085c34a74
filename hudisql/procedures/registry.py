"""The one registry of procedures: a declaration each, from which CALL, help and the docs are made.

A procedure is a name, typed parameters with defaults and help, output columns and a function (DESIGN 6).
Names, parameters and output columns of procedures that Apache Hudi has too are Hudi's own. This module knows
neither SQL text nor Spark; a family's module is imported only when a procedure is first asked for.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from hudisql.errors import HudisqlError, NoSuchProcedureError

if TYPE_CHECKING:
    from hudisql.context import Context

FAMILIES: Final = ("bootstrap", "verify", "rollback", "show", "sync", "help")
PARAMETER_TYPES: Final = ("string", "int", "long", "double", "boolean", "map", "array<string>", "interval")


class Required(Enum):
    """The default of a parameter that has none."""

    REQUIRED = "required"


REQUIRED: Final = Required.REQUIRED


@dataclass(frozen=True)
class Parameter:
    """One parameter: its type is one of `PARAMETER_TYPES`; `default` REQUIRED means it must be given."""

    name: str
    type: str
    default: object = REQUIRED
    help: str = ""

    def __post_init__(self) -> None:
        if self.type not in PARAMETER_TYPES:
            raise ValueError(f"parameter {self.name} has the unknown type {self.type}")

    @property
    def required(self) -> bool:
        """True if CALL must give it."""
        return self.default is REQUIRED


@dataclass(frozen=True)
class Column:
    """One output column; `type` is Spark's name of it (`string`, `bigint`, `double` …)."""

    name: str
    type: str = "string"


class Arguments:
    """The bound arguments of one call, by attribute; a parameter not given has its default (or None)."""

    __slots__ = ("_given", "_values")

    def __init__(self, values: Mapping[str, Any], given: Iterable[str] = ()) -> None:
        self._values = dict(values)
        self._given = frozenset(given)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"the procedure declares no parameter '{name}'") from None

    def is_given(self, name: str) -> bool:
        """True if the call itself gave the parameter."""
        return name in self._given

    def as_dict(self) -> dict[str, Any]:
        """Every parameter's value by name."""
        return dict(self._values)

    def __repr__(self) -> str:
        return f"Arguments({self._values!r})"


@dataclass(frozen=True)
class CheckedRows:
    """The output rows of a check, and the error that they describe; `error` is None if the check passed.

    CALL gives the rows and the error (`Result.error`); the command line's exit code follows the error.
    """

    rows: Sequence[Sequence[object]]
    error: HudisqlError | None

    def __iter__(self) -> Iterator[Sequence[object]]:
        return iter(self.rows)


FAIL_ON_ERROR: Final = Parameter(
    "fail_on_error",
    "boolean",
    True,
    "what is found wrong fails the call: the rows are given, the script stops, and the exit code is not 0",
)

ProcedureFunction = Callable[["Context", Arguments], Iterable[Sequence[object]]]


@dataclass(frozen=True)
class Procedure:
    """A declared procedure. `run` gives its output rows, in the order of `output`."""

    name: str
    summary: str
    parameters: tuple[Parameter, ...]
    output: tuple[Column, ...]
    run: ProcedureFunction
    family: str

    def parameter(self, name: str) -> Parameter | None:
        """The parameter of that name, in any case."""
        return next((each for each in self.parameters if each.name.lower() == name.lower()), None)


_PROCEDURES: dict[str, Procedure] = {}
_loaded = False


def procedure(
    *,
    name: str,
    summary: str,
    parameters: Sequence[Parameter] = (),
    output: Sequence[Column],
) -> Callable[[ProcedureFunction], ProcedureFunction]:
    """Declare the decorated function a procedure: `f(context, arguments)` gives the output rows."""

    def declare(function: ProcedureFunction) -> ProcedureFunction:
        _PROCEDURES[name.lower()] = Procedure(
            name,
            summary,
            tuple(parameters),
            tuple(output),
            function,
            function.__module__.rsplit(".", 1)[-1],
        )
        return function

    return declare


def load_procedures() -> Mapping[str, Procedure]:
    """Every procedure by its lower-case name, the families' modules imported on first use."""
    global _loaded
    if not _loaded:
        for family in FAMILIES:
            importlib.import_module(f"hudisql.procedures.{family}")
        _loaded = True
    return dict(sorted(_PROCEDURES.items()))


def find_procedure(name: str) -> Procedure:
    """The procedure that CALL names, in any case, with or without the `system.` prefix.

    Raises NoSuchProcedureError with the nearest names.
    """
    procedures = load_procedures()
    plain = name.lower().removeprefix("system.")
    if plain in procedures:
        return procedures[plain]
    near = difflib.get_close_matches(plain, procedures, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else "CALL help() lists all procedures"
    raise NoSuchProcedureError(f"there is no procedure '{name}'", hint=hint)
