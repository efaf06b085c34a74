"""The registry of procedures: one declaration each, from which CALL, help and the docs are generated.

A procedure is a function of a context and its arguments. A frozen dataclass declares the arguments, another
the rows of the result: names, types, defaults and help come from their fields. Procedures that Apache Hudi
also has keep Hudi's names. This module knows neither SQL text nor Spark; the modules are imported at the
first look-up of a procedure.
"""

from __future__ import annotations

import dataclasses
import datetime
import difflib
import importlib
import keyword
import pkgutil
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Generic,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import hudisql.procedures
from hudisql.errors import HudisqlError, NoSuchProcedureError
from hudisql.procedures.unsupported import UNSUPPORTED

if TYPE_CHECKING:
    from hudisql.context import Context

PARAMETER_TYPES: Final = ("string", "int", "long", "double", "boolean", "map", "array<string>", "interval")
_PARAMETER_TYPES: Final[Mapping[Any, str]] = {
    str: "string",
    int: "int",
    float: "double",
    bool: "boolean",
    tuple: "array<string>",
    Mapping: "map",
    datetime.timedelta: "interval",
}
_COLUMN_TYPES: Final[Mapping[Any, str]] = {str: "string", int: "bigint", float: "double", bool: "boolean"}
# A parameter of SQL type long, and a column of SQL type int.
Long = Annotated[int, "long"]
Int = Annotated[int, "int"]


class Required(Enum):
    """The default of a required parameter."""

    REQUIRED = "required"


REQUIRED: Final = Required.REQUIRED


@dataclass(frozen=True)
class Parameter:
    """One parameter: its type is one of `PARAMETER_TYPES`; `default` REQUIRED means it must be given.

    Without `has_effect` it is one of Hudi's that is taken with a warning.
    """

    name: str
    type: str
    default: object = REQUIRED
    help: str = ""
    has_effect: bool = True

    @property
    def required(self) -> bool:
        """True if CALL must have it."""
        return self.default is REQUIRED


@dataclass(frozen=True)
class Column:
    """One output column; `type` is Spark's name of it (`string`, `bigint`, `double` …)."""

    name: str
    type: str = "string"


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """The arguments of one call; a subclass declares the parameters, by `parameter`, in their order.

    Missing arguments have their defaults; `given` names the arguments of the call.
    """

    given: frozenset[str] = frozenset()


def parameter(default: object = REQUIRED, *, help: str = "") -> Any:
    """A field of a subclass of `Arguments`: a parameter with its default (None: optional) and its help."""
    metadata = {"help": help}
    if default is REQUIRED:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def parameter_without_effect(why: str) -> Any:
    """A field of a subclass of `Arguments`: a parameter that only Hudi follows, and why."""
    metadata = {"help": f"has no effect: {why}", "has_effect": False}
    return dataclasses.field(default=None, metadata=metadata)


def column_name(name: str) -> dict[str, str]:
    """The metadata of a row's field for a column name that is not an identifier, such as `10th`."""
    return {"column": name}


def table_parameter() -> Any:
    """The parameter `table` where `path` can be given instead."""
    return parameter(None, help="table of the metastore, database.name")


def path_parameter() -> Any:
    """The parameter `path`, given instead of `table`."""
    return parameter(None, help="the table's directory, instead of table")


def fail_on_error_parameter(what: str = "") -> Any:
    """The parameter `fail_on_error` of checks; `what` names the calls it is for."""
    text = "an error found fails the call: the rows are given, the script stops, and the exit code is not 0"
    return parameter(True, help=f"{what}: {text}" if what else text)


@dataclass(frozen=True, kw_only=True)
class TableArguments(Arguments):
    """The first two parameters of Hudi's `show_…` procedures."""

    table: str | None = table_parameter()
    path: str | None = path_parameter()


@dataclass(frozen=True, kw_only=True)
class NamedTableArguments(Arguments):
    """The first parameter of procedures that take a table only by its name."""

    table: str = parameter(help="table of the metastore, database.name")


A = TypeVar("A", bound=Arguments)
R = TypeVar("R")


@dataclass(frozen=True)
class CheckedRows(Generic[R]):
    """The output rows of a check, and its error; `error` is None if the check passed.

    CALL returns the rows and the error (`Result.error`); the command line's exit code follows the error.
    """

    rows: Sequence[R]
    error: HudisqlError | None


ProcedureFunction = Callable[["Context", A], Iterable[R] | CheckedRows[R]]


@dataclass(frozen=True)
class Procedure:
    """A declared procedure; `arguments_type` and `row_type` are the dataclasses that declare it."""

    name: str
    summary: str
    arguments_type: type[Arguments]
    row_type: type[Any]
    run: ProcedureFunction[Any, Any]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters in their order, as the fields of `arguments_type` declare them."""
        return parameters_of(self.arguments_type)

    @property
    def output(self) -> tuple[Column, ...]:
        """The output columns in their order, as the fields of `row_type` declare them."""
        return columns_of(self.row_type)

    def parameter(self, name: str) -> Parameter | None:
        """The parameter of that name, in any case."""
        return next((declared for declared in self.parameters if declared.name.lower() == name.lower()), None)

    def call(self, context: Context, arguments: Arguments) -> CheckedRows[tuple[object, ...]]:
        """Run the procedure; its rows as tuples in the order of `output`, and the error they describe."""
        result = self.run(context, arguments)
        checked = result if isinstance(result, CheckedRows) else CheckedRows(list(result), None)
        return CheckedRows([row_values(row) for row in checked.rows], checked.error)


def row_values(row: Any) -> tuple[object, ...]:
    """The values of a row's fields, in their order."""
    return tuple(getattr(row, field.name) for field in dataclasses.fields(row))


def parameters_of(arguments_type: type[Arguments]) -> tuple[Parameter, ...]:
    """The parameters that a subclass of `Arguments` declares. Raises TypeError for a type unknown to SQL.

    The field of a parameter whose name is a word of Python ends with an underscore (`field_of`).
    """
    hints = get_type_hints(arguments_type, include_extras=True)
    inherited = {field.name for field in dataclasses.fields(Arguments)}
    return tuple(
        Parameter(
            field.name.removesuffix("_"),
            _sql_type(field.name, hints[field.name], _PARAMETER_TYPES),
            REQUIRED if field.default is dataclasses.MISSING else field.default,
            field.metadata["help"],
            field.metadata.get("has_effect", True),
        )
        for field in dataclasses.fields(arguments_type)
        if field.name not in inherited
    )


def field_of(parameter_name: str) -> str:
    """The name of the field of a subclass of `Arguments` that holds the parameter."""
    return f"{parameter_name}_" if keyword.iskeyword(parameter_name) else parameter_name


def columns_of(row_type: type[Any]) -> tuple[Column, ...]:
    """The output columns that a dataclass declares. Raises TypeError for a type unknown to SQL."""
    hints = get_type_hints(row_type, include_extras=True)
    return tuple(
        Column(
            field.metadata.get("column", field.name),
            _sql_type(field.name, hints[field.name], _COLUMN_TYPES),
        )
        for field in dataclasses.fields(row_type)
    )


def _sql_type(name: str, hint: Any, known: Mapping[Any, str]) -> str:
    if get_origin(hint) in (types.UnionType, Union):
        (hint,) = (arg for arg in get_args(hint) if arg is not type(None))
    if get_origin(hint) is Annotated:
        return str(hint.__metadata__[0])
    kind = get_origin(hint) or hint
    if kind not in known:
        raise TypeError(f"{name} has the type {hint}, which stands for no SQL type")
    return known[kind]


_PROCEDURES: dict[str, Procedure] = {}
_loaded = False


def procedure(
    summary: str, *, name: str | None = None
) -> Callable[[ProcedureFunction[A, R]], ProcedureFunction[A, R]]:
    """Register the decorated function as a procedure: `f(context, arguments)` returns its rows.

    The annotations of the function name the dataclasses of its arguments and rows; `name` is the procedure's
    name if it is not that of the function.
    """

    def declare(function: ProcedureFunction[A, R]) -> ProcedureFunction[A, R]:
        hints = get_type_hints(function, localns={"Context": object})
        declared = name or function.__name__
        (row,) = get_args(hints["return"])
        _PROCEDURES[declared.lower()] = Procedure(declared, summary, hints["arguments"], row, function)
        return function

    return declare


def load_procedures() -> Mapping[str, Procedure]:
    """Every procedure by its lower-case name; all modules of the package are imported on first use."""
    global _loaded
    if not _loaded:
        for module in pkgutil.walk_packages(hudisql.procedures.__path__, f"{hudisql.procedures.__name__}."):
            importlib.import_module(module.name)
        _loaded = True
    return dict(sorted(_PROCEDURES.items()))


def find_procedure(name: str) -> Procedure:
    """The procedure that CALL names, in any case: the name's last part, as Hudi takes it.

    Raises NoSuchProcedureError with the nearest names, or, for a procedure that only Apache Hudi has, with
    the reason.
    """
    procedures = load_procedures()
    plain = name.lower().rpartition(".")[2]
    if plain in procedures:
        return procedures[plain]
    if plain in UNSUPPORTED:
        reason, alternative = UNSUPPORTED[plain]
        raise NoSuchProcedureError(
            f"hudisql does not have Hudi's procedure {plain}: {reason}", hint=alternative
        )
    near = difflib.get_close_matches(plain, procedures, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else "CALL help() lists all procedures"
    raise NoSuchProcedureError(f"there is no procedure '{name}'", hint=hint)
