"""`run_ttl`, with the name, parameters and column of Hudi's procedure.

Follows `RunTTLProcedure` of Hudi 1.2, but for 25 days and more, where Hudi keeps all partitions or
drops younger ones. `path` and `dry_run` are hudisql's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.config.table_service_keys import TTL_DAYS, TTL_STRATEGY
from hudisql.options.table_call import open_table_call
from hudisql.procedures.registry import Arguments, parameter, path_parameter, procedure, table_parameter

if TYPE_CHECKING:
    from hudisql.context import Context


@dataclass(frozen=True, kw_only=True)
class RunTtlArguments(Arguments):
    """The parameters of `run_ttl`."""

    table: str | None = table_parameter()
    ttl_policy: str | None = parameter(None, help="KEEP_BY_TIME (last write) or KEEP_BY_CREATION_TIME")
    retain_days: int | None = parameter(None, help="days that partitions are kept")
    options: str | None = parameter(None, help="settings for this call, as key=value, separated by commas")
    path: str | None = path_parameter()
    dry_run: bool = parameter(False, help="only show the partitions that would be dropped")


@dataclass(frozen=True)
class TtlRow:
    """A partition that was dropped, or with `dry_run` would be."""

    deleted_partitions: str


@procedure("Drops partitions that are older than their retention time.")
def run_ttl(context: Context, arguments: RunTtlArguments) -> Iterable[TtlRow]:
    """A row for each partition; they are dropped by one replacecommit, none if there are none.

    Raises InvalidArgumentError, NoSuchTableError, SettingsError, UnsupportedTableError, CorruptTableError,
    TableLockedError, WriteConflictError, SyncFailedError, StorageError.
    """
    from hudisql.services.partition_ttl import expired_partitions, ttl_options
    from hudisql.table.properties.timeline_clock import now_on_timeline
    from hudisql.write.transaction.schema_change import commit_without_partitions

    call = open_table_call(
        context,
        arguments.table,
        arguments.path,
        arguments.options,
        {TTL_STRATEGY: arguments.ttl_policy, TTL_DAYS: arguments.retain_days},
    )
    options = ttl_options(call.config)
    expired = expired_partitions(call.table, options, now_on_timeline(call.table))
    if expired and not arguments.dry_run:
        commit = commit_without_partitions(call.table, expired, call.concurrency())
        context.console.info(
            f"{call.table.base_path}: commit {commit.instant_time} ({commit.operation_type})"
        )
        call.sync()
    return [TtlRow(partition.path) for partition in expired]
