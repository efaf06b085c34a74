"""The metastore sync of a `df.write.format("hudi")`, by Hudi's options, which also name the metastore.

Follows `HoodieSparkSqlWriter.metaSync` of Hudi 0.15, with its mode hms alone. A data source sees no
metastore of a session.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.sync import sync_table
from hudisql.catalog.sync_entries import SyncOptions, sync_options_from
from hudisql.catalog.sync_settings import SYNC_PREFIX
from hudisql.errors import InvalidArgumentError
from hudisql.storage import Storage
from hudisql.table.hudi_table import open_table

_ENABLE: Final = (f"{SYNC_PREFIX}enable", "hoodie.datasource.meta.sync.enable")
_URIS: Final = f"{SYNC_PREFIX}metastore.uris"


@dataclass(frozen=True)
class SyncTarget:
    """The metastore and the name that follow a commit."""

    uris: str
    database: str
    name: str
    options: SyncOptions


def sync_target(options: Mapping[str, str], table_name: str) -> SyncTarget | None:
    """The target by the options, asked once whether it answers; None if they enable no sync.

    Raises InvalidArgumentError for settings that hudisql does not follow, MetastoreUnavailableError.
    """
    given = {name.lower(): value.strip() for name, value in options.items()}
    if not any(given.get(name, "").lower() == "true" for name in _ENABLE):
        return None
    uris = given.get(_URIS, "")
    if not uris:
        raise InvalidArgumentError(
            f"df.write.format('hudi') syncs only the metastore that {_URIS} names: nothing was written",
            hint=f"option('{_URIS}', 'thrift://host:9083'), or hudisql.write_table(df, 'db.table', …)",
        )
    chosen = sync_options_from({name: value for name, value in given.items() if name.startswith("hoodie.")})
    target = SyncTarget(
        uris,
        given.get(f"{SYNC_PREFIX}database") or "default",
        given.get(f"{SYNC_PREFIX}table") or table_name,
        chosen,
    )
    with MetastoreClient(uris) as client:
        client.list_databases()
    return target


def run_sync(target: SyncTarget, storage: Storage, path: str) -> None:
    """Sync the metastore with the committed table. Raises SyncFailedError, whose hint syncs it again."""
    with MetastoreClient(target.uris) as client:
        sync_table(
            client,
            open_table(storage, path),
            target.database.lower(),
            target.name.lower(),
            target.options,
            metastore_uri=target.uris,
        )
