"""How a model's table differs from its file: missing, another definition, or only to be refreshed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.errors import InvalidArgumentError, NoSuchTableError, QueryError
from hudisql.layers.model_files import Model
from hudisql.sql.incremental_tables.definition import definition_of
from hudisql.sql.incremental_tables.definition_change import DefinitionChange, definition_change
from hudisql.sql.text.spark_errors import SourceText

if TYPE_CHECKING:
    from hudisql.context import Context

CREATE = "create"
ALTER = "alter"
REFRESH = "refresh"


@dataclass(frozen=True)
class ModelState:
    """`action` is create, alter or refresh; `change` is that of an alter, None if it is not known yet.

    `refused` says why the table cannot become what its file says; empty if it can.
    """

    action: str
    entry: MetastoreTable | None = None
    change: DefinitionChange | None = None
    refused: str = ""

    @property
    def alters_query(self) -> bool:
        """True if the query differs from the table's: then the whole query is run."""
        return self.action == ALTER and (self.change is None or self.change.query)


def state_of(context: Context, model: Model) -> ModelState:
    """Compare a model with its table.

    Raises QueryError and others if its changed query cannot be analyzed, CorruptTableError, MetastoreError.
    """
    entry = context.metastore.get_table(*model.name.split("."))
    if entry is None:
        return ModelState(CREATE)
    stored = definition_of(entry)
    if stored is None:
        return ModelState(CREATE, entry, refused="the table exists, but no query defines it")
    source = SourceText(model.statement.text, model.statement.line, model.statement.column)
    change = definition_change(context, model.definition, entry, stored, source)
    action = ALTER if change.query or change.properties else REFRESH
    return ModelState(action, entry, change, change.refused)


def state_before(context: Context, model: Model, *, follows_changes: bool) -> ModelState:
    """`state_of` before anything runs; a query that cannot be analyzed yet counts as changed.

    That is the case if a dependency is going to change (`follows_changes`).
    """
    try:
        return state_of(context, model)
    except (QueryError, NoSuchTableError, InvalidArgumentError):
        if not follows_changes:
            raise
        return ModelState(ALTER)
