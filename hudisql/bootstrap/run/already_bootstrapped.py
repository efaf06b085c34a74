"""Repeated bootstraps: checks whether the table at the target is the one that the request describes.

Compares the request with the table's own properties. The last steps of a run that was killed after its commit
(the sync, deleting its checkpoint) are done only with `resume`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hudisql.bootstrap.blockers import name_some
from hudisql.bootstrap.lease.skeleton_checkpoint import delete_checkpoint
from hudisql.bootstrap.lease.target_lease import Lease
from hudisql.bootstrap.lease.target_state import (
    HEARTBEAT_FILE,
    TargetState,
    lease_epochs,
    read_lease,
    read_target_state,
)
from hudisql.bootstrap.plan.bootstrap_plan import target_path_of
from hudisql.bootstrap.plan.request import BootstrapRequest
from hudisql.bootstrap.plan.source_scan import scan_source
from hudisql.bootstrap.source.hive_source import location_of
from hudisql.catalog.metastore_table import NAME_SUFFIXES, hudi_base_path
from hudisql.catalog.sync import sync_table
from hudisql.catalog.sync_entries import sync_options_from
from hudisql.errors import SyncFailedError, TableExistsError
from hudisql.sql_literals import quote_string
from hudisql.storage import join
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.table.partitions.listed_partitions import list_partitions
from hudisql.table.partitions.registered_partitions import registered_partitions, with_registered

if TYPE_CHECKING:
    from hudisql.context import Context


def describe_existing_bootstrap(context: Context, request: BootstrapRequest) -> str | None:
    """A sentence if the table is already bootstrapped from this source, None if there is no table yet.

    Raises TableExistsError if the target is another table (other source, name, key or type).
    """
    target, is_registered = _find_target(context, request)
    if read_target_state(context.storage, target) is not TargetState.TABLE:
        return None
    table = open_table(context.storage, target)
    differences = list(_differences(context, request, table))
    if differences:
        raise TableExistsError(
            f"there is a Hudi table at {target} already: {'; '.join(differences)}",
            hint="choose another target_path; CALL rollback_bootstrap removes a bootstrapped table",
        )
    text = f"{request.full_name} is bootstrapped from this source already, at {target}: nothing was done"
    if missing := _missing_partitions(context, request, table):
        text += (
            f"; partition_filter also takes {name_some(missing, 'partition')} that the table does not have,"
            " and a bootstrap adds nothing to a table that exists:"
            f" CALL resync_bootstrap(table => {quote_string(request.full_name)}, partition_filter => …)"
            " takes their rows"
        )
    if request.sync and not is_registered:
        text += (
            "; the metastore does not know it:"
            f" CALL hive_sync(table => {quote_string(request.full_name)}, path => {quote_string(target)})"
        )
    return text


def finalize_bootstrap(context: Context, request: BootstrapRequest) -> str:
    """Delete the checkpoint of the run that created the table, and sync; returns a sentence about it.

    Raises SyncFailedError.
    """
    storage = context.storage
    target, _ = _find_target(context, request)
    lease = read_lease(storage, target)
    if lease is None or lease.is_expired:
        delete_checkpoint(storage, target)
        for fencing_epoch in lease_epochs(storage, target):
            Lease(target, fencing_epoch).release(storage)
        storage.delete_file(join(target, HEARTBEAT_FILE))
    if request.sync:
        sync_bootstrapped_table(context, request, target)
    return (
        f"{request.full_name} is bootstrapped from this source already, at {target}: nothing was left to do"
    )


def sync_bootstrapped_table(context: Context, request: BootstrapRequest, target: str) -> None:
    """Register the table at `target` in the metastore. Raises SyncFailedError."""
    options = sync_options_from(request.sync_options)
    table = open_table(context.storage, target)
    try:
        sync_table(context.metastore, table, request.database, request.name, options)
    except SyncFailedError as error:
        if not options.ignore_failures:
            raise
        context.console.warning(str(error))


def _missing_partitions(context: Context, request: BootstrapRequest, table: HudiTable) -> list[str]:
    """The partitions that match the request's filter but are not in the table."""
    if request.partition_filter is None:
        return []
    source, _, _ = scan_source(context, request)
    partitions = with_registered(table, list_partitions(table), registered_partitions(table))
    existing = {partition.path for partition in partitions}
    return sorted(partition.path for partition in source.partitions if partition.path not in existing)


def _find_target(context: Context, request: BootstrapRequest) -> tuple[str, bool]:
    """The table's directory, and whether the metastore has an entry with it."""
    storage = context.storage
    target = target_path_of(context, request) if request.target_path is not None else None
    uses_metastore = request.sync or request.target_path is None
    for suffix in NAME_SUFFIXES if uses_metastore else ():
        entry = context.metastore.get_table(request.database, request.name + suffix)
        location = None if entry is None else hudi_base_path(entry)
        if location is None:
            continue
        registered = storage.qualify(location)
        if target is None or storage.resolve(target) == storage.resolve(registered):
            return registered, True
    return target or target_path_of(context, request), False


def _differences(context: Context, request: BootstrapRequest, table: HudiTable) -> Iterator[str]:
    storage, properties = table.storage, table.properties
    source = _source_path(context, request)
    if properties.bootstrap_base_path is None:
        yield "it was not bootstrapped"
    elif source is not None:
        stored = storage.qualify(properties.bootstrap_base_path)
        if storage.resolve(stored) != storage.resolve(source):
            yield f"its source is {stored}"
    database = properties.database_name or request.database
    if (database.lower(), properties.name.lower()) != (request.database.lower(), request.name.lower()):
        yield f"it is {database}.{properties.name}"
    key = [name.lower() for name in properties.record_key_fields]
    if key != [name.lower() for name in request.record_key]:
        yield f"its record key is {','.join(properties.record_key_fields) or 'generated'}"
    if properties.table_type != request.table_type:
        yield f"it is {properties.table_type}"
    # A table that was upgraded since is the same table.
    if properties.version < request.table_version:
        yield f"it has table version {properties.version}"


def _source_path(context: Context, request: BootstrapRequest) -> str | None:
    if request.source_path is not None:
        return context.storage.qualify(request.source_path)
    assert request.source_table is not None  # the request has one of the two
    entry = context.metastore.get_table(*request.source_table)
    location = None if entry is None else location_of(entry)
    return None if location is None else context.storage.qualify(location)
