"""The steps after a statement's commit: publication, the table services that are due, the metastore's sync.

The only place where statements run table services. It also warns of a dropped metadata table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.catalog.sync import sync_registered
from hudisql.config.config_key import HudiConfig
from hudisql.config.hudi_config import ICEBERG_SYNC
from hudisql.errors import HudisqlError
from hudisql.options.table_call import TableCall, open_session_table
from hudisql.options.writer_settings import write_options
from hudisql.services.schedule.automatic import AutomaticServices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.properties.table_configuration import has_metadata_table
from hudisql.write.execution.writer_config import WriteOptions

if TYPE_CHECKING:
    from hudisql.context import Context


def after_commit(
    context: Context,
    entry: MetastoreTable,
    table: HudiTable,
    settings: HudiConfig,
    *,
    syncs: bool,
    dropped_metadata_table: bool,
    committed: HudiTable | None = None,
    is_published: bool | None = None,
) -> None:
    """Warn if the metadata table is gone, publish, run services, and sync the entries if `syncs`.

    `table` may be the one from before the commit, `committed` is as it left it; without it the table is
    opened again. `settings` are those of its writes. It is published as an Iceberg table before the services,
    since a clean may delete files that the last publication names; `is_published` is the outcome of
    HeldPublication, if there was one. A failed service or publication is a warning, and so is a table that
    can no longer be opened. Raises SyncFailedError (the commit stands).
    """
    if dropped_metadata_table:
        _warn_of_dropped(context, entry)
    try:
        has_listing = committed is not None
        committed = committed or replace(table, listing=None).reopened()
        _warn_of_dropped_indexes(context, entry, table, committed)
        call = TableCall(context, committed, entry, settings)
        if is_published is None:
            is_published = call.publish(is_just_committed=has_listing)
        serviced = _serviced(context, entry, committed, settings)
    except HudisqlError as error:
        context.console.warning(
            f"{entry.full_name}: committed, but the table cannot be opened for its services and its sync: "
            f"{error.message} (CALL hive_sync runs the sync again)"
        )
        return
    if serviced is not None and not (
        is_published and serviced.timeline.commits == committed.timeline.commits
    ):
        call.publish()
    if syncs:
        left = serviced or committed
        sync_registered(context.metastore, left, entry.database, entry.name, incremental=True)


@dataclass
class HeldPublication:
    """Publishes what a statement commits while the commit's lock is held, if that is short.

    `is_published` is the outcome of `TableCall.publish_held`, None if it was not called.
    """

    context: Context
    entry: MetastoreTable
    settings: HudiConfig
    is_published: bool | None = None

    def follow(self, options: WriteOptions) -> WriteOptions:
        """The options, with which commits are published if the settings say so."""
        with suppress(HudisqlError):  # `TableCall.publish` warns of a wrong setting
            if self.settings.get(ICEBERG_SYNC):
                concurrency = replace(options.concurrency, after_completion=self._publish)
                return replace(options, concurrency=concurrency)
        return options

    def _publish(self, committed: HudiTable) -> None:
        call = TableCall(self.context, committed, self.entry, self.settings)
        self.is_published = call.publish_held()


def _serviced(
    context: Context, entry: MetastoreTable, table: HudiTable, settings: HudiConfig
) -> HudiTable | None:
    """Run the services that are due; the table afterwards, None if none was."""
    services = AutomaticServices(
        # Services list the table as they find it.
        replace(table, listing=None),
        settings,
        lambda: write_options(context, table, settings),
        context.console.warning,
        entry.full_name,
    )
    return table.reopened() if services.run(context.spark) else None


@contextmanager
def warn_if_metadata_table_dropped(
    context: Context, entry: MetastoreTable, table: HudiTable
) -> Iterator[None]:
    """Warn if the block fails after it has dropped the metadata table of `table`."""
    try:
        yield
    except Exception:
        with suppress(HudisqlError):
            if has_metadata_table(table) and not has_metadata_table(
                open_session_table(context, table.base_path)
            ):
                _warn_of_dropped(context, entry)
        raise


def _warn_of_dropped(context: Context, entry: MetastoreTable) -> None:
    context.console.warning(
        f"{entry.full_name}: its metadata table is dropped, since hudisql does not keep it; "
        "readers list directories instead, and Apache Hudi's writers make a new one"
    )


def _warn_of_dropped_indexes(
    context: Context, entry: MetastoreTable, before: HudiTable, committed: HudiTable
) -> None:
    """Warn of indexes that the commit has dropped from a metadata table of which hudisql keeps others."""
    left = committed.properties.metadata_partitions
    dropped = [index for index in before.properties.metadata_partitions if index not in left]
    if left and dropped:
        context.console.warning(
            f"{entry.full_name}: the commit dropped {', '.join(dropped)} of its metadata table: hudisql does "
            "not keep it, rows share a record key, keys are too many or too long, or files may have a column "
            "of the name of an added one (CALL create_metadata_table makes it again; see "
            "docs/changing-rows.md)"
        )
