"""Turns a plain table into a Hudi table under its old name: bootstrap, register, exchange the names.

The Hudi table is complete, registered with partitions, properties and grants under a temporary name, before
any name changes. Each step checks the current state, so that a call after a kill continues. Statistics are
not carried over: Hive answers `count(*)` and `max(…)` from those that are marked as accurate, and nothing
updates them when rows change (docs/adr/0013-names-change-by-two-renames.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hudisql.bootstrap.blockers import Finding, blocker, name_some
from hudisql.bootstrap.lease.target_state import TargetState, read_target_state
from hudisql.bootstrap.migrate_table.exchange_names import (
    complete_exchange,
    exchange_names,
    mark_source,
    unmark_source,
)
from hudisql.bootstrap.migrate_table.migration_lock import MigrationLock, hold_migration_lock
from hudisql.bootstrap.migrate_table.migration_state import (
    MIGRATION_PROPERTY,
    MigrationNames,
    MigrationState,
    MigrationStep,
    read_mark,
    read_migration_state,
)
from hudisql.bootstrap.plan.bootstrap_plan import target_path_of
from hudisql.bootstrap.plan.request import BootstrapRequest
from hudisql.bootstrap.resync.resync_plan import ResyncRequest, plan_resync
from hudisql.bootstrap.rollback.rollback_plan import plan_rollback
from hudisql.bootstrap.rollback.table_removal import run_removal
from hudisql.bootstrap.run.verified_bootstrap import (
    BootstrapPreview,
    BootstrapReport,
    ExistingBootstrap,
    bootstrap_table,
    preview_bootstrap,
)
from hudisql.catalog.metastore_table import FURTHER_SUFFIXES, MetastoreTable, hudi_base_path
from hudisql.catalog.sync import read_entries, run_sync, sync_table
from hudisql.catalog.sync_entries import EntryKind, SyncOptions, entry_kinds, sync_options_from
from hudisql.catalog.sync_plan import plan_sync
from hudisql.errors import CorruptTableError, InvalidArgumentError, SourceChangedError, TableExistsError
from hudisql.table.hudi_table import HudiTable, open_table

if TYPE_CHECKING:
    from hudisql.catalog.client import MetastoreClient
    from hudisql.context import Context

# Statistics of Hive and Spark, properties of the plain files, and properties that the metastore maintains.
_LEFT_BEHIND: Final = frozenset(
    {
        "column_stats_accurate",
        "numfiles",
        "numrows",
        "rawdatasize",
        "totalsize",
        "numpartitions",
        "numfileserasurecoded",
        "stats_generated",
        "stats_generated_via_stats_task",
        "do_not_update_stats",
        "external",
        "external.table.purge",
        "translated_to_external",
        "auto.purge",
        "discover.partitions",
        "partition.retention.period",
        "transient_lastddltime",
        "last_modified_by",
        "last_modified_time",
        "totals",
        "partition_level_privilege",
        "bucketing_version",
    }
)
_LEFT_PREFIXES: Final = (
    "spark.sql.",
    "hudisql_",
    "hudisql.",
    "hoodie.",
    "last_commit_",
    "parquet.",
    "impala.",
)


@dataclass(frozen=True)
class MigrationPreview:
    """What a migration would do; `bootstrap` is None once the names are exchanged or about to be."""

    step: MigrationStep
    target_path: str
    bootstrap: BootstrapPreview | ExistingBootstrap | None
    properties: tuple[str, ...]
    grants: int
    blockers: tuple[Finding, ...]


@dataclass(frozen=True)
class MigrationReport:
    """A completed migration; `found` is the step at which the call began."""

    found: MigrationStep
    target_path: str
    bootstrap: BootstrapReport | ExistingBootstrap | None


def preview_migration(
    context: Context, request: BootstrapRequest, findings: Sequence[Finding] = ()
) -> MigrationPreview:
    """What `migrate_table` would do; writes nothing."""
    names = MigrationNames(request.database.lower(), request.name.lower())
    state = read_migration_state(context.metastore, names)
    request = _placed(context, request, state)
    target = context.storage.qualify(request.target_path or "")
    preview = None
    if state.step in (MigrationStep.PLAIN, MigrationStep.STAGED):
        preview = preview_bootstrap(context, request, findings)
    blockers = tuple(_taken_names(context, names, request))
    blockers += preview.plan.blockers if isinstance(preview, BootstrapPreview) else ()
    return MigrationPreview(
        state.step,
        target,
        preview,
        tuple(sorted(carried_properties(state.source))),
        len(context.metastore.list_grants(state.source)),
        blockers,
    )


def migrate_table(
    context: Context, request: BootstrapRequest, findings: Sequence[Finding] = (), *, verify: bool = True
) -> MigrationReport:
    """Bootstrap the plain table `request` names, and give its name to the Hudi table.

    A killed migration continues where it stopped; a completed one stays unchanged. Raises TableLockedError if
    another run works on this table, SourceChangedError if files came to the source since the bootstrap,
    MetastoreError; the old table then keeps its name, unchanged.
    """
    names = MigrationNames(request.database.lower(), request.name.lower())
    with hold_migration_lock(context, names) as lock:
        state = read_migration_state(context.metastore, names)
        request = _placed(context, request, state)
        bootstrapped: BootstrapReport | ExistingBootstrap | None = None
        if state.step is MigrationStep.BETWEEN and state.hudi is None:
            raise CorruptTableError(
                f"the migration of {names.full_name} stopped between two renames, and its Hudi table"
                f" {names.database}.{names.staged} is gone",
                hint=f"CALL revert_migration(table => '{names.full_name}') gives the plain table its name",
            )
        if state.step in (MigrationStep.PLAIN, MigrationStep.STAGED):
            bootstrapped = _bootstrap(context, names, state, request, findings, verify=verify)
            table = open_table(context.storage, request.target_path or "")
            _stage(context, names, table, request)
            _check_source(context, names, table)
            exchange_names(context.metastore, names, lock)
        elif state.step is MigrationStep.BETWEEN:
            complete_exchange(context.metastore, names, lock)
        _register_further_names(context, names, request, lock)
    return MigrationReport(state.step, request.target_path or "", bootstrapped)


def _placed(context: Context, request: BootstrapRequest, state: MigrationState) -> BootstrapRequest:
    """The request with the directory of the Hudi table, by default beside the plain one."""
    storage, mark = context.storage, read_mark(state.source)
    wanted = request.target_path and storage.qualify(request.target_path)
    if mark is None or read_target_state(storage, mark.target_path) is TargetState.NOTHING:
        default = replace(request, name=state.names.staged)
        return replace(request, target_path=wanted or target_path_of(context, default))
    if wanted and storage.resolve(wanted) != storage.resolve(mark.target_path):
        raise InvalidArgumentError(
            f"the migration of {request.full_name} has begun at {mark.target_path}, not at {wanted}",
            hint=f"leave target_path out; CALL revert_migration(table => '{request.full_name}') gives that"
            " migration up",
        )
    return replace(request, target_path=mark.target_path)


def _bootstrap(
    context: Context,
    names: MigrationNames,
    state: MigrationState,
    request: BootstrapRequest,
    findings: Sequence[Finding],
    *,
    verify: bool,
) -> BootstrapReport | ExistingBootstrap:
    """Bootstrap into the target, or complete a killed run there."""
    taken = list(_taken_names(context, names, request))
    if taken:
        raise TableExistsError(str(taken[0]))
    target = context.storage.qualify(request.target_path or "")
    target_state = read_target_state(context.storage, target)
    if target_state is TargetState.ROLLBACK:
        run_removal(context, plan_rollback(context, target, (names.database, names.staged)).removal)
    is_begun = target_state in (TargetState.RUN, TargetState.TABLE)
    mark_source(context.metastore, state.source, target)
    try:
        return bootstrap_table(context, replace(request, resume=is_begun), findings, verify=verify)
    except BaseException:
        if read_target_state(context.storage, target) is TargetState.NOTHING:
            unmark_source(context.metastore, names)
        raise


def _stage(context: Context, names: MigrationNames, table: HudiTable, request: BootstrapRequest) -> None:
    """Register the table under its temporary name, complete with partitions, properties and grants."""
    metastore = context.metastore
    source = metastore.get_table(names.database, names.name)
    if source is None:
        raise SourceChangedError(f"the table {names.full_name} no longer exists")
    options = sync_options_from(request.sync_options)
    kinds = (_staged_kind(table, names, options),)
    existing = read_entries(metastore, table, names.database, kinds, options)
    plan = plan_sync(table, names.database, names.staged, existing, options, kinds)
    parameters = {**carried_properties(source), MIGRATION_PROPERTY: "hudi"}
    run_sync(metastore, plan.with_parameters(parameters).with_owner(source.owner))
    staged = metastore.get_table(names.database, names.staged)
    assert staged is not None
    carry_grants(metastore, source, staged)


def _staged_kind(table: HudiTable, names: MigrationNames, options: SyncOptions) -> EntryKind:
    """The kind of rows that the plain name shows by these options, under the temporary name."""
    for kind in entry_kinds(table, names.name, options):
        if kind.name == names.name:
            return replace(kind, name=names.staged)
    raise InvalidArgumentError(
        "hoodie.meta.sync.sync_snapshot_with_table_name=false leaves the table's own name without an entry",
        hint="a migration gives that name to the Hudi table: leave the option out",
    )


def _check_source(context: Context, names: MigrationNames, table: HudiTable) -> None:
    """Raise SourceChangedError if the plain table has files that the Hudi table lacks."""
    request = ResyncRequest(name=names.full_name, source_table=(names.database, names.name))
    plan = plan_resync(context, table, request)
    if not plan.partitions and not plan.changed:
        return
    new = [file.file.path for partition in plan.partitions for file in partition.files]
    changed = [source_file.taken.file.path for source_file in plan.changed]
    described = [
        f"{label} {name_some(paths)}" for label, paths in (("new", new), ("changed", changed)) if paths
    ]
    raise SourceChangedError(
        f"{names.full_name} has files that its Hudi table lacks: {'; '.join(described)}",
        hint=f"CALL resync_bootstrap(table => '{names.database}.{names.staged}', source_table =>"
        f" '{names.full_name}') takes new ones, then call migrate_table again; CALL revert_migration(table =>"
        f" '{names.full_name}') gives the migration up",
    )


def _taken_names(context: Context, names: MigrationNames, request: BootstrapRequest) -> list[Finding]:
    """Blockers for `_ro` and `_rt` names of a merge-on-read table that other tables have."""
    if not request.is_merge_on_read:
        return []
    target = context.storage.qualify(request.target_path or "")
    entries = context.metastore.get_tables(
        names.database, [names.name + suffix for suffix in FURTHER_SUFFIXES]
    )
    return [
        blocker(
            f"the metastore has a table {entry.full_name} already, a name that the merge-on-read table"
            f" {names.full_name} gets",
            hint="rename that table, or give table_type => 'COPY_ON_WRITE'",
        )
        for entry in entries
        if _location(context, entry) != target
    ]


def _location(context: Context, entry: MetastoreTable) -> str | None:
    location = hudi_base_path(entry)
    return None if location is None else context.storage.qualify(location)


def _register_further_names(
    context: Context, names: MigrationNames, request: BootstrapRequest, lock: MigrationLock
) -> None:
    """Register `_ro` and `_rt` of a merge-on-read table, unless they exist."""
    table = open_table(context.storage, request.target_path or "")
    options = sync_options_from(request.sync_options)
    wanted = [kind.name for kind in entry_kinds(table, names.name, options)]
    if len(context.metastore.get_tables(names.database, wanted)) < len(wanted):
        lock.check_held()
        sync_table(context.metastore, table, names.database, names.name, options)


def carried_properties(source: MetastoreTable) -> dict[str, str]:
    """The table properties that describe the table rather than its files, including the comment."""
    return {
        key: value
        for key, value in source.parameters.items()
        if key.lower() not in _LEFT_BEHIND and not key.lower().startswith(_LEFT_PREFIXES)
    }


def carry_grants(metastore: MetastoreClient, source: MetastoreTable, target: MetastoreTable) -> int:
    """Copy the grants on table and columns that `source` has and `target` lacks; returns the number of all.

    Raises MetastoreError.
    """
    wanted = metastore.list_grants(source)
    existing = set(metastore.list_grants(target)) if wanted else set()
    missing = [grant for grant in wanted if grant not in existing]
    metastore.add_grants(target, missing)
    return len(missing)
