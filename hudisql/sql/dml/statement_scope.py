"""The opened table, its snapshot and its settings for a statement that changes it, looked up once.

Planning, execution and EXPLAIN share it. A retry after a conflict opens a new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from hudisql.catalog.metastore_table import READ_OPTIMIZED_SUFFIX, MetastoreTable, is_read_optimized
from hudisql.config.config_key import HudiConfig
from hudisql.errors import UnsupportedStatementError
from hudisql.options.table_settings import settings_of, syncs_after_commit
from hudisql.options.writer_settings import write_options, writer_concurrency
from hudisql.sql.query.relations import TableBinder
from hudisql.sql.query.target_table import open_hudi_entry
from hudisql.table.hudi_table import HudiTable
from hudisql.table.properties.written_versions import ANY_CHANGE
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.transaction.concurrency import Concurrency
from hudisql.write.transaction.writable_tables import check_writable

if TYPE_CHECKING:
    from hudisql.context import Context


@dataclass(frozen=True)
class StatementScope:
    """One statement on one table; `resources` are closed when it ends.

    `table` is as it was opened: its partitions and file slices are listed once. `settings` are the `hoodie.*`
    settings of writes to it.
    """

    context: Context
    entry: MetastoreTable
    table: HudiTable
    settings: HudiConfig
    resources: ExitStack

    @cached_property
    def binder(self) -> TableBinder:
        """Binds the texts of the statement; reads of the table see `table`."""
        return TableBinder(self.context, (self.table,), (self.entry,))

    @property
    def table_label(self) -> str:
        """The table's name in errors and messages."""
        return self.entry.full_name

    @cached_property
    def syncs(self) -> bool:
        """True if the metastore is synced after the commit. Raises SettingsError."""
        return syncs_after_commit(self.settings)

    @property
    def concurrency(self) -> Concurrency:
        """How the statement shares the table. Raises SettingsError, UnsupportedTableError."""
        return writer_concurrency(self.context, self.table, self.settings)

    def write_options(self, table: HudiTable) -> WriteOptions:
        """The options for a commit after which the table has the schema of `table`.

        Called once per plan. Raises SettingsError, UnsupportedTableError.
        """
        options = write_options(self.context, table, self.settings)
        return replace(options, checkpoint=self.context.checkpoint)


def check_changeable(entry: MetastoreTable, verb: str) -> None:
    """Raise UnsupportedStatementError if the entry shows only a part of its table; messages name `verb`."""
    if is_read_optimized(entry):
        raise UnsupportedStatementError(
            f"{verb} is not possible on {entry.full_name}, which shows base files only",
            hint=f"name the table itself: {entry.database}.{entry.name.removesuffix(READ_OPTIMIZED_SUFFIX)}",
        )


@contextmanager
def open_scope(
    context: Context, entry: MetastoreTable, table: HudiTable | None = None
) -> Iterator[StatementScope]:
    """Open the table (or use the open one) for one statement, and close its resources afterwards.

    Raises UnsupportedTableError for tables that hudisql does not write to, CorruptTableError,
    NoSuchTableError.
    """
    opened = (open_hudi_entry(context, entry) if table is None else table).listed_once()
    check_writable(opened, ANY_CHANGE)
    if opened.computed_meta is not None:
        opened = replace(opened, shows_computed_meta=True)
    with ExitStack() as resources:
        settings = settings_of(context, opened, entry.parameters)
        yield StatementScope(context, entry, opened, settings, resources)
