"""`CALL help()` and `CALL help(cmd => 'name')`: the declarations of all procedures, as text.

Hudi's name, parameter and output column. The text comes only from the registry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.procedures.registry import (
    REQUIRED,
    Arguments,
    Parameter,
    Procedure,
    find_procedure,
    load_procedures,
    parameter,
    procedure,
)

if TYPE_CHECKING:
    from hudisql.context import Context


@dataclass(frozen=True, kw_only=True)
class HelpArguments(Arguments):
    """The parameter of `help`."""

    cmd: str | None = parameter(None, help="the procedure to explain; default: a list of all")


@dataclass(frozen=True)
class HelpRow:
    """The text."""

    result: str


@procedure("Lists the procedures, or explains one.", name="help")
def show_help(context: Context, arguments: HelpArguments) -> Iterable[HelpRow]:  # noqa: ARG001
    """One row with the text. Raises NoSuchProcedureError for an unknown name."""
    if arguments.cmd is None:
        return [HelpRow(list_procedures())]
    return [HelpRow(explain_procedure(find_procedure(arguments.cmd.strip())))]


def list_procedures() -> str:
    """Every procedure with its summary, one a line."""
    procedures = load_procedures()
    width = max(len(listed.name) for listed in procedures.values())
    lines = [f"{listed.name:<{width}}  {listed.summary}" for listed in procedures.values()]
    return "\n".join([*lines, "", "CALL help(cmd => 'name') explains one."])


def explain_procedure(declared: Procedure) -> str:
    """Summary, parameters with type, default and help, output columns, and the call's syntax."""
    lines = [f"{declared.name}: {declared.summary}", "", "parameters:"]
    width = max((len(argument.name) for argument in declared.parameters), default=0)
    for argument in declared.parameters:
        lines.append(f"  {argument.name:<{width}}  {argument.type}, {_default_text(argument)}")
        if argument.help:
            lines.append(f"  {'':<{width}}    {argument.help}")
    if not declared.parameters:
        lines.append("  none")
    lines += ["", "output:", *(f"  {column.name}: {column.type}" for column in declared.output), ""]
    required = ", ".join(f"{argument.name} => …" for argument in declared.parameters if argument.required)
    return "\n".join([*lines, f"CALL {declared.name}({required})"])


def _default_text(declared: Parameter) -> str:
    if declared.default is REQUIRED:
        return "required"
    if declared.default is None or declared.default == "":
        return "optional"
    return f"default {_sql_text(declared.default)}"


def _sql_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, Mapping):
        return f"map({', '.join(_sql_text(part) for entry in value.items() for part in entry)})"
    if isinstance(value, list | tuple):
        return f"array({', '.join(_sql_text(part) for part in value)})"
    return str(value)
