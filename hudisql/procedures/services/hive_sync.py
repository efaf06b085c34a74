"""`hive_sync`, with Hudi's names: syncs the metastore with a Hudi table.

Unlike Hudi's it sets nothing in the session, can show its plan first, and accepts the table's directory, so
that a table without a metastore entry can be synced too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.errors import InvalidArgumentError, SyncFailedError
from hudisql.options.table_call import find_table
from hudisql.procedures.registry import Arguments, parameter, procedure

if TYPE_CHECKING:
    from hudisql.catalog.client import MetastoreClient
    from hudisql.catalog.sync_entries import SyncOptions
    from hudisql.context import Context
    from hudisql.table.hudi_table import HudiTable

# Hudi's parsers of directory names; hudisql uses the table's own properties, which say the same.
_KNOWN_EXTRACTORS = frozenset(
    {
        "MultiPartKeysValueExtractor",
        "HiveStylePartitionValueExtractor",
        "SinglePartPartitionValueExtractor",
        "NonPartitionedExtractor",
    }
)
_SUCCESS = "hive sync success."


@dataclass(frozen=True, kw_only=True)
class HiveSyncArguments(Arguments):
    """The parameters of `hive_sync`: Hudi's, then `path`, `dry_run` and `options`."""

    table: str = parameter(help="name in the metastore, database.name")
    metastore_uri: str = parameter("", help="another metastore than the session's")
    username: str = parameter("", help="user to act as (default: yours)")
    password: str = parameter("", help="accepted and ignored: the metastore's protocol does not use it")
    use_jdbc: str = parameter("", help="only false: hudisql connects to the metastore directly")
    mode: str = parameter("", help="only hms")
    partition_fields: str = parameter("", help="must be the table's own, if given")
    partition_extractor_class: str = parameter("", help="accepted and ignored: values are the table's own")
    strategy: str = parameter("", help="entries of a merge-on-read table: ALL (default), RO or RT")
    sync_incremental: str = parameter(
        "", help="false: compare all partitions, not only those changed since the last sync"
    )
    path: str | None = parameter(None, help="the table's directory, if the metastore does not know it yet")
    dry_run: bool = parameter(False, help="show what would be changed")
    options: Mapping[str, str] | None = parameter(None, help="hoodie.datasource.hive_sync.* settings")


@dataclass(frozen=True)
class HiveSyncRow:
    """Hudi's success message, or a line of the plan."""

    result: str


@procedure("Syncs the metastore's entries of a Hudi table with the table.")
def hive_sync(context: Context, arguments: HiveSyncArguments) -> Iterable[HiveSyncRow]:
    """Hudi's "hive sync success.", or for a dry run the plan's lines."""
    from hudisql.catalog.sync import read_existing, sync_table
    from hudisql.catalog.sync_plan import plan_sync

    _refuse_other_modes(arguments)
    options = _options_of(arguments)
    table = find_table(context, None if arguments.path else arguments.table, arguments.path)
    database, name = _synced_name(context, arguments, table)
    _check_partition_fields(arguments.partition_fields, table)
    with _metastore_of(context, arguments) as client:
        if arguments.dry_run:
            existing = read_existing(client, table, database, name, options)
            lines = plan_sync(table, database, name, existing, options).describe()
            return [HiveSyncRow(line) for line in lines or ["nothing to change"]]
        try:
            result = sync_table(
                client, table, database, name, options, metastore_uri=arguments.metastore_uri or None
            )
        except SyncFailedError as error:
            if not options.ignore_failures:
                raise
            context.console.warning(str(error))
            return [HiveSyncRow(f"hive sync failed: {error.message}")]
    context.console.info(result.summary)
    return [HiveSyncRow(_SUCCESS)]


def _options_of(arguments: HiveSyncArguments) -> SyncOptions:
    from hudisql.catalog.sync_entries import INCREMENTAL_OPTION, STRATEGY_OPTION, sync_options_from

    values = dict(arguments.options or {})
    if arguments.strategy:
        values[STRATEGY_OPTION] = arguments.strategy
    values.setdefault(INCREMENTAL_OPTION, "true")
    if arguments.sync_incremental:
        values[INCREMENTAL_OPTION] = arguments.sync_incremental
    return sync_options_from(values)


def _refuse_other_modes(arguments: HiveSyncArguments) -> None:
    if (arguments.mode or "hms").lower() != "hms" or (arguments.use_jdbc or "false").lower() == "true":
        raise InvalidArgumentError(
            "hive_sync connects to the metastore directly: it supports only Hudi's mode hms",
            hint="leave out mode and use_jdbc",
        )
    extractor = arguments.partition_extractor_class.rsplit(".", 1)[-1]
    if extractor and extractor not in _KNOWN_EXTRACTORS:
        raise InvalidArgumentError(
            f"hive_sync does not know the partition_extractor_class {arguments.partition_extractor_class}",
            hint="leave it out: the table's own properties say how its directories are named",
        )


def _check_partition_fields(given: str, table: HudiTable) -> None:
    from hudisql.table.partitions.listed_partitions import directory_columns

    wanted = [name.strip().lower() for name in given.split(",") if name.strip()]
    fields = [column.name.lower() for column in directory_columns(table)]
    if wanted and wanted != fields:
        raise InvalidArgumentError(
            f"partition_fields is {','.join(wanted)}, but the table is partitioned by "
            f"{','.join(fields) or 'nothing'}",
            hint="leave partition_fields out",
        )


def _synced_name(context: Context, arguments: HiveSyncArguments, table: HudiTable) -> tuple[str, str]:
    """The name without `_ro` or `_rt`, if it is such an entry of a merge-on-read table."""
    from hudisql.catalog.table_entries import main_name

    database, name = context.qualify_table_name(arguments.table)
    return database, name if arguments.path else main_name(context.metastore, table, database, name)


@contextmanager
def _metastore_of(context: Context, arguments: HiveSyncArguments) -> Iterator[MetastoreClient]:
    if not arguments.metastore_uri and not arguments.username:
        yield context.metastore
        return
    from hudisql.catalog.client import MetastoreClient
    from hudisql.catalog.metastore_login import metastore_security

    security = metastore_security(context.settings, arguments.username or "")
    uris = arguments.metastore_uri or context.metastore.uris
    with MetastoreClient(uris, security=security) as client:
        yield client
