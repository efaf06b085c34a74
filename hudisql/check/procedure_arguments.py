"""The arguments of a CALL, bound as when it runs. Needs no Spark."""

from __future__ import annotations

from typing import Any

from hudisql.procedures.binder import bind_arguments
from hudisql.procedures.registry import Procedure, find_procedure
from hudisql.sql import procedure_call  # noqa: F401 (declares the procedures of `sql`)
from hudisql.sql.text import statements as st


def bind_call(statement: st.CallStatement) -> tuple[Procedure, Any]:
    """The procedure and its arguments.

    Raises NoSuchProcedureError, UnknownParameterError, InvalidArgumentError.
    """
    declared = find_procedure(statement.procedure)
    return declared, bind_arguments(declared, statement.positional, statement.named)
