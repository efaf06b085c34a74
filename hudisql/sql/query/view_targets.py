"""Changes of rows that name a view over Hudi tables: refused, with the tables below it.

Knows views as `relations` binds them; nothing is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hudisql.errors import UnsupportedStatementError
from hudisql.format.spark_schema import quote_name
from hudisql.sql.query.relations import TableBinder, ViewRelation
from hudisql.sql.text.statements import TableName

if TYPE_CHECKING:
    from hudisql.context import Context


def refuse_view_target(context: Context, name: TableName, verb: str) -> None:
    """Raise UnsupportedStatementError if `name` is a view (temporary ones too) that reads Hudi tables."""
    bound = TableBinder(context).bind(f"SELECT * FROM {'.'.join(map(quote_name, name.parts))}")
    view = next((each for each in bound.relations if isinstance(each, ViewRelation)), None)
    if view is None:
        return
    tables = list(dict.fromkeys(f"{each.entry.database}.{each.entry.name}" for each in bound.hudi_relations))
    raise UnsupportedStatementError(
        f"{verb} is not possible on {view.definition.name}, which is a view of {', '.join(tables)}: nothing "
        "was run",
        hint=f"name the table itself: {tables[0]}",
    )
