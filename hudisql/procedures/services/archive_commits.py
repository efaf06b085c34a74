"""`archive_commits`, with the name, parameters and column of Hudi's procedure.

Follows `ArchiveCommitsProcedure` and `ArchiveExecutorUtils` of Hudi 0.15. `show_archived` shows what was
archived.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from hudisql.config.table_service_keys import CLEAN_COMMITS, KEEP_MAX_COMMITS, KEEP_MIN_COMMITS
from hudisql.errors import InvalidArgumentError
from hudisql.options.table_call import open_table_call
from hudisql.procedures.registry import TableArguments, parameter, procedure

if TYPE_CHECKING:
    from hudisql.context import Context


@dataclass(frozen=True, kw_only=True)
class ArchiveCommitsArguments(TableArguments):
    """The parameters of `archive_commits`."""

    min_commits: int = parameter(KEEP_MIN_COMMITS.default_value, help="least number of commits that stay")
    max_commits: int = parameter(
        KEEP_MAX_COMMITS.default_value, help="most commits that stay; beyond it the oldest are archived"
    )
    retain_commits: int = parameter(
        CLEAN_COMMITS.default_value, help="commits that the table's cleans retain"
    )
    enable_metadata: bool = parameter(
        False, help="only false: a metadata table that is kept is followed anyway"
    )


@dataclass(frozen=True)
class ArchiveRow:
    """Hudi's success code, 0."""

    result: Annotated[int, "int"]


@procedure("Moves the oldest instants from the active timeline into the archive.")
def archive_commits(context: Context, arguments: ArchiveCommitsArguments) -> Iterable[ArchiveRow]:
    """Hudi's 0, even if there was nothing to archive.

    Raises InvalidArgumentError, NoSuchTableError, SettingsError, UnsupportedTableError, CorruptTableError,
    TableLockedError, StorageError.
    """
    from hudisql.services.archive.archive_action import archive_table
    from hudisql.services.archive.archive_plan import archive_options

    if arguments.enable_metadata:
        raise InvalidArgumentError(
            "enable_metadata must be false: a metadata table that hudisql keeps is followed anyway",
            hint="leave it out",
        )
    settings = {
        KEEP_MIN_COMMITS: arguments.min_commits,
        KEEP_MAX_COMMITS: arguments.max_commits,
        CLEAN_COMMITS: arguments.retain_commits,
    }
    call = open_table_call(context, arguments.table, arguments.path, settings=settings)
    archived = archive_table(call.table, archive_options(call.config), call.concurrency())
    context.console.info(f"{call.table.base_path}: {len(archived)} instants archived")
    return [ArchiveRow(0)]
