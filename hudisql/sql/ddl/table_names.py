"""The metastore names of one Hudi table: its own, for merge-on-read also `_ro` and `_rt`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hudisql.catalog.metastore_table import FURTHER_SUFFIXES, MetastoreTable, hudi_base_path
from hudisql.errors import UnsupportedStatementError

if TYPE_CHECKING:
    from hudisql.context import Context


def check_is_main_name(context: Context, entry: MetastoreTable, verb: str) -> None:
    """Raise UnsupportedStatementError if the entry is a further name of a table that has a plain one."""
    for suffix in FURTHER_SUFFIXES:
        stem = entry.name.removesuffix(suffix)
        if stem == entry.name:
            continue
        main = context.metastore.get_table(entry.database, stem)
        if main is not None and _is_same_table(context, main, entry):
            raise UnsupportedStatementError(
                f"{verb} is not possible on {entry.full_name}, which is one of the names of {main.full_name}",
                hint=f"name the table itself: {main.full_name}",
            )


def entries_of_table(context: Context, entry: MetastoreTable) -> tuple[MetastoreTable, ...]:
    """The entry and the further ones of the same table, as its name says."""
    others = [context.metastore.get_table(entry.database, entry.name + suffix) for suffix in FURTHER_SUFFIXES]
    return (
        entry,
        *(other for other in others if other is not None and _is_same_table(context, other, entry)),
    )


def _is_same_table(context: Context, one: MetastoreTable, other: MetastoreTable) -> bool:
    places = [hudi_base_path(each) for each in (one, other)]
    first, second = (None if place is None else context.storage.qualify(place) for place in places)
    return first is not None and first == second
