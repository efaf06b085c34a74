"""`ALTER TABLE … SET TBLPROPERTIES ('EXTERNAL' = 'TRUE')` on tables that are no Hudi tables.

Spark's own command refuses that property, and Hive takes it: it keeps a source's files from a DROP TABLE.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from hudisql.spark.java_objects import class_name, pairs_of
from hudisql.sql.query.target_table import find_entry
from hudisql.sql.text.statements import AlterTableStatement

if TYPE_CHECKING:
    from hudisql.context import Context

EXTERNAL: Final = "EXTERNAL"


def make_external(context: Context, statement: AlterTableStatement, plan: Any) -> bool:
    """Make the metastore's table external, and set what else is given; False for any other statement.

    `plan` is the statement's unresolved plan.
    """
    if class_name(plan) != "SetTableProperties":
        return False
    values = {str(name): str(value) for name, value in pairs_of(plan.properties())}
    if not any(name.upper() == EXTERNAL and value.upper() == "TRUE" for name, value in values.items()):
        return False
    entry = find_entry(context, statement.table)
    if entry is None or entry.is_view:
        return False
    others = {name: value for name, value in values.items() if name.upper() != EXTERNAL}
    parameters = {**entry.parameters, **others, EXTERNAL: "TRUE"}
    context.metastore.alter_table(replace(entry, table_type="EXTERNAL_TABLE", parameters=parameters))
    return True
