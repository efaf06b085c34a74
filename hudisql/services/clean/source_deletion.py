"""Confirmation of a `run_clean` call that deletes source files: Hudi's setting, and the user's parameter.

The one exception of "source files are never deleted" (docs/architecture.md, rule 4).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING

from hudisql.config.table_service_keys import CLEAN_SOURCES
from hudisql.errors import InvalidArgumentError, SourceProtectedError
from hudisql.services.clean.clean_metadata import CleanedPartition, CleanMetadata
from hudisql.services.clean.clean_plan import CleanOptions, CleanPlan, plan_clean
from hudisql.services.clean.clean_sources import SourceDeletion
from hudisql.services.clean.source_references import tables_that_name
from hudisql.table.hudi_table import HudiTable
from hudisql.write.transaction.timeline_files import now_on_timeline

if TYPE_CHECKING:
    from hudisql.context import Context

_SHOWN = 3


def source_deletion(context: Context, base_path: str) -> SourceDeletion:
    """The confirmation for a clean of the table at `base_path`."""

    def tell_kept(kept: Mapping[str, str]) -> None:
        reasons = sorted(set(kept.values()))
        for why in reasons[:_SHOWN]:
            paths = sorted(path for path, each in kept.items() if each == why)
            context.console.warning(f"{_count(paths)}, such as {paths[0]}, stay: {why}")
        if len(reasons) > _SHOWN:
            context.console.warning(f"{_count(kept)} stay in all, for {len(reasons):,} reasons")

    return SourceDeletion(partial(tables_that_name, context, base_path), tell_kept)


def check_confirmed(
    table: HudiTable, options: CleanOptions, sources: SourceDeletion | None, *, is_confirmed: bool
) -> None:
    """Raise SourceProtectedError if the setting is true without the confirmation.

    Raises InvalidArgumentError for a confirmation without the setting.
    """
    if sources is None and is_confirmed:
        raise InvalidArgumentError(
            f"confirm_source_deletion => true confirms nothing while {CLEAN_SOURCES} is false",
            hint=f"add options => '{CLEAN_SOURCES}=true' to delete source files, or leave it out",
        )
    if sources is None or is_confirmed:
        return
    plan = _plan(table, options, sources)
    paths = [file.uri for files in plan.files.values() for file in files if file.is_source] if plan else []
    example = f", such as {paths[0]}" if paths else ""
    raise SourceProtectedError(
        f"{CLEAN_SOURCES} = true: a clean of {table.base_path} would delete {_count(paths)} of the "
        f"bootstrap{example}; nothing was deleted",
        hint="CALL run_clean(…, dry_run => true) lists them; confirm_source_deletion => true deletes them; "
        f"options => '{CLEAN_SOURCES}=false' cleans without them",
    )


def dry_run_of(
    table: HudiTable, options: CleanOptions, sources: SourceDeletion | None
) -> CleanMetadata | None:
    """A new plan as the metadata of a clean that has not begun; None if it would delete nothing."""
    plan = _plan(table, options, sources)
    if plan is None:
        return None
    return CleanMetadata(
        start_time="",
        milliseconds=0,
        earliest_retained="" if plan.earliest_retained is None else plan.earliest_retained.timestamp,
        last_completed=plan.last_completed,
        partitions=(),
        sources=tuple(
            CleanedPartition(partition, plan.policy, patterns=uris)
            for partition, files in plan.files.items()
            if (uris := tuple(file.uri for file in files if file.is_source))
        ),
        files_deleted=sum(not file.is_source for files in plan.files.values() for file in files),
    )


def _plan(table: HudiTable, options: CleanOptions, sources: SourceDeletion | None) -> CleanPlan | None:
    return plan_clean(table, options, now_on_timeline(table), sources=sources)


def _count(paths: Collection[str]) -> str:
    return f"{len(paths):,} source file{'' if len(paths) == 1 else 's'}"
