"""TBLPROPERTIES of CREATE TABLE that Hudi's writers take and that say nothing about the table.

Follows `HoodieCatalogTable.initHoodieTable` of Hudi 0.15, which leaves names of tables and databases out: the
statement's own count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from hudisql.catalog.sync_entries import OMIT_META_COLUMNS_OPTION
from hudisql.format import table_properties as keys

if TYPE_CHECKING:
    from hudisql.context import Context
    from hudisql.sql.text.statements import TableName

_NAMES: Final = (keys.NAME, keys.DATABASE_NAME)
_OF_SYNCS: Final = ("hoodie.datasource.hive_sync.", "hoodie.datasource.meta.sync.", "hoodie.meta.sync.")


def without_idle_properties(
    context: Context, properties: Mapping[str, str], table: TableName
) -> dict[str, str]:
    """The properties but names and settings of syncs; a warning names those that would say something else.

    Every new table is synced, so that `hoodie.datasource.hive_sync.enable` = true is already so.
    """
    database, name = context.qualify_table_name(table.quoted)
    already = {keys.NAME: name, keys.DATABASE_NAME: database}
    kept, ignored = {}, []
    for key, value in properties.items():
        lower = key.lower()
        is_of_sync = lower.startswith(_OF_SYNCS) and lower != OMIT_META_COLUMNS_OPTION
        if not is_of_sync and lower not in _NAMES:
            kept[key] = value
        elif value.lower() != already.get(lower, "true" if lower.endswith(".enable") else None):
            ignored.append(f"{key} = {value}")
    if ignored:
        named = ", ".join(sorted(ignored))
        context.console.warning(
            f"CREATE TABLE {table}: {named} in TBLPROPERTIES has no effect: the statement names the table, "
            "and it is synced to the session's metastore by that name"
        )
    return kept
