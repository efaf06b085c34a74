"""Changes the declaration of a table's events, which is a property of its metastore entry."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hudisql.catalog.guarded_alter import alter_guarded
from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.errors import EntryChangedError, InvalidArgumentError
from hudisql.ingest.declaration import PROPERTY, IngestDeclaration, declaration_of
from hudisql.options.table_call import find_entry

if TYPE_CHECKING:
    from hudisql.context import Context

_ATTEMPTS: Final = 10


def change_declaration(
    context: Context, name: str, *, paused: bool | None = None, drained: bool | None = None
) -> tuple[MetastoreTable, IngestDeclaration]:
    """Change the given fields of a table's declaration, by its `database.name`.

    Concurrent changes of other clients are kept. Returns the entry as it was read and the declaration that
    was stored. Raises NoSuchTableError, InvalidArgumentError for a table without a declaration,
    MetastoreError.
    """
    for _ in range(_ATTEMPTS - 1):
        with suppress(EntryChangedError):
            return _change_once(context, name, paused, drained)
    return _change_once(context, name, paused, drained)


def _change_once(
    context: Context, name: str, paused: bool | None, drained: bool | None
) -> tuple[MetastoreTable, IngestDeclaration]:
    entry = find_entry(context, name)
    declaration = declaration_of(entry.parameters)
    if declaration is None:
        raise not_declared(entry.full_name)
    declaration = replace(
        declaration,
        paused=declaration.paused if paused is None else paused,
        drained=declaration.drained if drained is None else drained,
    )
    store_declaration(context, entry, declaration)
    return entry, declaration


def store_declaration(
    context: Context,
    entry: MetastoreTable,
    declaration: IngestDeclaration,
    settings: Mapping[str, str] | None = None,
) -> None:
    """Write the declaration, and `settings` as table properties, to the entry as it was read.

    Raises EntryChangedError if another client changed the entry since, MetastoreError.
    """
    parameters = {**entry.parameters, **(settings or {}), PROPERTY: declaration.to_property()}
    alter_guarded(context.metastore, entry, replace(entry, parameters=parameters))


def not_declared(name: str) -> InvalidArgumentError:
    """The error for a table, by its `database.name`, without a declaration."""
    return InvalidArgumentError(
        f"no events are declared for {name}",
        hint="CALL ingest_table(table => …, topic => …), or source => 'push'",
    )
