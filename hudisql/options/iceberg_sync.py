"""Publishes a table as an Iceberg table by the table's settings: under its lock, and the entry follows.

`sync_iceberg` does it on demand; tables with `hudisql.iceberg.sync` after each commit, by `TableCall.sync`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hudisql.catalog.iceberg_entry import check_iceberg_name, find_iceberg_entry, sync_iceberg_entry
from hudisql.catalog.table_entries import main_name
from hudisql.errors import HudisqlError
from hudisql.iceberg.publication import Publication, publish, publish_small_change
from hudisql.iceberg.publication_tasks import TaskRunner
from hudisql.spark.task_runner import run_on_files

if TYPE_CHECKING:
    from hudisql.catalog.client import MetastoreClient
    from hudisql.catalog.metastore_table import MetastoreTable
    from hudisql.console import Console
    from hudisql.table.hudi_table import HudiTable
    from hudisql.write.transaction.concurrency import Concurrency


def publish_table(
    metastore: MetastoreClient | None,
    table: HudiTable,
    entry: MetastoreTable | None,
    concurrency: Concurrency,
    *,
    register: bool = False,
    dry_run: bool = False,
    format_version: int | None = None,
    is_just_committed: bool = False,
    tasks: TaskRunner | None = None,
) -> tuple[Publication, str | None]:
    """Publish the table as it stands under its lock; the publication and the name of its Iceberg entry.

    `format_version` and `tasks` are as for `publish`. A table that is just committed is published as the
    commit left it, unless others have committed since.

    The entry follows, if there is one or with `register`; without a `metastore` there is none. Raises the
    errors of `publish`, TableLockedError, TableExistsError if another table has the entry's name,
    MetastoreError.
    """
    names = None
    if metastore is not None and entry is not None:
        names = entry.database, main_name(metastore, table, entry.database, entry.name)
        if register:
            check_iceberg_name(metastore, table, *names)
    with concurrency.hold():
        is_same = is_just_committed and table.is_current()
        table = table.with_listing() if is_same else table.reopened().listed_once()
        published = publish(
            table,
            dry_run=dry_run,
            format_version=format_version,
            tasks=tasks,
            is_just_committed=is_just_committed,
        )
        if metastore is None or names is None or dry_run:
            return published, None
        return published, _sync_entry(metastore, table, names, published, register=register)


def publish_held_table(
    metastore: MetastoreClient | None, table: HudiTable, entry: MetastoreTable | None
) -> tuple[Publication, str | None] | None:
    """`publish_table` for the holder of the table's lock, whose commit has just left the table so.

    None if others would have to wait long for the lock (`publish_small_change`).
    """
    published = publish_small_change(table.with_listing())
    if published is None or metastore is None or entry is None:
        return None if published is None else (published, None)
    names = entry.database, main_name(metastore, table, entry.database, entry.name)
    return published, _sync_entry(metastore, table, names, published, register=False)


def _sync_entry(
    metastore: MetastoreClient,
    table: HudiTable,
    names: tuple[str, str],
    published: Publication,
    *,
    register: bool,
) -> str | None:
    """Let the Iceberg entry of the table show the publication; its name, None if it has and gets none."""
    if not register and find_iceberg_entry(metastore, table.storage, table.base_path, *names) is None:
        return None
    return sync_iceberg_entry(metastore, table, *names, published.metadata_path).full_name


def spark_tasks(spark: Callable[[], Any], console: Console) -> TaskRunner:
    """Tasks of the session that `spark` gives, which is called for the first of them."""

    def run(items: Sequence[Any], work: Callable[[Iterable[Any]], Iterator[Any]], label: str) -> list[Any]:
        return run_on_files(spark(), items, work, weight=lambda _: 0, label=label, console=console)

    return run


def failure_text(label: str, base_path: str, error: Exception) -> str:
    """What to say of a commit that could not be published: `label` is the table's name, if it has one."""
    text = error.message if isinstance(error, HudisqlError) else f"{type(error).__name__}: {error}"
    hint = f"{error.hint}; " if isinstance(error, HudisqlError) and error.hint else ""
    table = f"table => '{label}'" if label else f"path => '{base_path}'"
    return (
        f"{label or base_path}: committed, but its Iceberg table does not show it yet: {text} "
        f"({hint}the next commit publishes both, or CALL sync_iceberg({table}))"
    )
