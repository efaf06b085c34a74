"""Whether the source of a bootstrap is still what it was when the plan was made.

The source is listed once more, by the same rules and with the same choice of partitions, and compared file by
file: what came, went or changed meanwhile would be missing from the table, or wrong in it. Reads only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hudisql.bootstrap.findings import blockers_of, name_some
from hudisql.bootstrap.plan.bootstrap_plan import BootstrapPlan, scan_source
from hudisql.errors import NoSuchPathError, NoSuchTableError, SourceChangedError, SourceError

if TYPE_CHECKING:
    from hudisql.context import Context


def check_source_unchanged(context: Context, plan: BootstrapPlan) -> None:
    """Raise SourceChangedError if a file changed, went or came, or the source is none any more.

    Hidden and empty files do not count, nor what lies in partitions that are not chosen. Raises StorageError.
    """
    hint = (
        "call it again when its writer is done: only the changed files are done again"
        if plan.request.resume
        else "nothing was kept; run again when its writer is done"
    )
    try:
        source, _, _ = scan_source(context, plan.request)
    except (SourceError, NoSuchPathError, NoSuchTableError) as error:
        raise SourceChangedError(
            f"the source changed while it was bootstrapped: {error.message}", hint=hint
        ) from error
    planned = {file.source.path: file.source for partition in plan.partitions for file in partition.files}
    found = {file.path: file for partition in source.partitions for file in partition.files}
    # The plan had none: now the source can no longer be read as one, so that its files say little.
    told = [str(each) for each in blockers_of(source.findings)][:1]
    if changed := [path for path, file in planned.items() if found.get(path) != file]:
        told.append(name_some(changed))
    if told:
        raise SourceChangedError(f"the source changed while it was bootstrapped: {told[0]}", hint=hint)
    came = [path for path in found if path not in planned]
    if came:
        raise SourceChangedError(
            f"files came into the source while it was bootstrapped: {name_some(came)}",
            hint=f"{hint}; partition_filter leaves out partitions that are still written",
        )
