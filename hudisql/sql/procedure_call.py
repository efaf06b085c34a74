"""CALL: finds the procedure, binds its arguments and returns its rows as a result.

Starts nothing: a procedure starts what it uses of the context.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hudisql.procedures.binder import bind_arguments
from hudisql.procedures.registry import field_of, find_procedure
from hudisql.result import LocalResult, Result
from hudisql.sql.dataframe import copy_procedures  # noqa: F401 (declares its procedures)
from hudisql.sql.ddl import partition_procedures  # noqa: F401 (declares its procedures)
from hudisql.sql.dml import (  # noqa: F401 (declare their procedures)
    resync_bootstrap,
    rewrite_bootstrap_files,
)
from hudisql.sql.text import statements as st

if TYPE_CHECKING:
    from hudisql.context import Context


def call_procedure(context: Context, statement: st.CallStatement) -> Result:
    """Bind the arguments, run the procedure, return its rows, and the error that a check's rows describe.

    Arguments without effect are warned of. Raises NoSuchProcedureError, InvalidArgumentError.
    """
    declared = find_procedure(statement.procedure)
    arguments = bind_arguments(declared, statement.positional, statement.named)
    for parameter in declared.parameters:
        if not parameter.has_effect and getattr(arguments, field_of(parameter.name)) is not None:
            context.console.warning(f"{declared.name}: the argument '{parameter.name}' {parameter.help}")
    checked = declared.call(context, arguments)
    columns = [(column.name, column.type) for column in declared.output]
    return LocalResult(lambda: context.spark, columns, checked.rows, error=checked.error)
