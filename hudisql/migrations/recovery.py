"""Finds out whether a statement had taken effect when its run was killed.

A commit on a Hudi table carries the statement's mark in its extra metadata, which becomes visible with its
rows. Statements without a commit are classified by their effect: a setting of the session is set again, a
bootstrap is resumed, a table that now exists was created; an unknown outcome is a conflict for the user.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from hudisql.catalog.sync import sync_registered
from hudisql.errors import HudisqlError, MigrationConflictError, NoSuchTableError
from hudisql.format.timeline.instant import COMMIT_ACTIONS
from hudisql.options.table_call import location_of, open_session_table
from hudisql.sql.ddl.create_table import drop_incomplete_table, register_table_as
from hudisql.sql.query.target_table import find_entry, find_hudi_entry
from hudisql.sql.text import statements as st
from hudisql.sql.text.parser import parse_statement
from hudisql.sql.text.script import ScriptStatement
from hudisql.table.hudi_table import HudiTable
from hudisql.table.timeline.archived_timeline import read_archived_entries
from hudisql.table.timeline.instant_files import read_extra_metadata
from hudisql.write.transaction.failed_writes import roll_back_failed_writes

if TYPE_CHECKING:
    from hudisql.context import Context

MARK: Final = "hudisql.migration"
"""Key of the extra metadata: `<id of the run>/<number of the statement>/<checksum>`."""
_REPEATABLE_CALLS: Final = (
    *("show_", "stats_", "commits_", "help", "verify_", "run_", "archive_", "hive_sync"),
    *("resync_", "rewrite_", "repair_"),
)
_BOOTSTRAPS: Final = ("bootstrap_table",)
_SESSION_HEADS: Final = ("SET", "RESET", "ADD", "DECLARE", "LIST", "CLEAR")
_READ_HEADS: Final = ("SHOW", "DESCRIBE", "DESC", "EXPLAIN", "ANALYZE")


class Effect(Enum):
    """The kind of effect of a statement."""

    SESSION = "session"
    """Changes only the session: run again whenever a run resumes."""
    REPEATABLE = "repeatable"
    """Can be repeated: reads, services, `IF NOT EXISTS`, `OR REPLACE`."""
    COMMIT = "commit"
    """One commit on a Hudi table, or nothing."""
    BOOTSTRAP = "bootstrap"
    """Resumed with `resume => true`."""
    MAKES = "makes"
    """Has happened if its table exists now and did not before."""
    REMOVES = "removes"
    """Has happened if its table is gone."""
    UNKNOWN = "unknown"
    """The outcome is unknown."""


@dataclass(frozen=True)
class StatementEffect:
    """The effect of a statement, and the tables it names as its targets."""

    effect: Effect
    tables: tuple[st.TableName, ...] = ()


def effect_of(context: Context, statement: ScriptStatement, text: str) -> StatementEffect:
    """The effect of a statement whose variables are substituted. Raises SqlSyntaxError, MetastoreError."""
    parsed = parse_statement(text, line=statement.line, column=statement.column)
    if isinstance(parsed, st.CallStatement):
        return _effect_of_call(parsed)
    if isinstance(parsed, st.UseStatement | st.CacheTableStatement | st.UncacheTableStatement):
        return StatementEffect(Effect.SESSION)
    if isinstance(parsed, st.CreateViewStatement) and parsed.temporary:
        return StatementEffect(Effect.SESSION)
    if isinstance(parsed, st.CreateTableStatement):
        return StatementEffect(Effect.REPEATABLE if parsed.replaces else Effect.MAKES, (parsed.table,))
    if isinstance(parsed, st.DropTableStatement):
        return StatementEffect(Effect.REMOVES, (parsed.table,))
    if isinstance(parsed, st.ChangeStatement):
        return _effect_of_change(context, parsed)
    return StatementEffect(_effect_of_other(parsed))


def _effect_of_call(call: st.CallStatement) -> StatementEffect:
    name = call.procedure.lower().rpartition(".")[2]
    named = {key.lower(): value for key, value in call.named}
    table = named.get("table") or (call.positional[0] if call.positional else None)
    parts = tuple(str(table).split(".")) if table else ()
    tables = (st.TableName(parts),) if parts else ()
    if name in _BOOTSTRAPS:
        return StatementEffect(Effect.BOOTSTRAP, tables)
    if name.startswith(_REPEATABLE_CALLS) and name != "run_bootstrap":
        return StatementEffect(Effect.REPEATABLE, tables)
    return StatementEffect(Effect.UNKNOWN, tables)


def _effect_of_change(context: Context, parsed: st.ChangeStatement) -> StatementEffect:
    targets = parsed.targets if isinstance(parsed, st.InsertStatement) else (parsed.table,)
    if isinstance(parsed, st.AlterTableStatement) and _renames(parsed):
        return StatementEffect(Effect.REMOVES, targets)
    if isinstance(parsed, st.InsertStatement) and parsed.overwrite and len(targets) == 1:
        is_hudi = find_hudi_entry(context, targets[0]) is not None
        return StatementEffect(Effect.COMMIT if is_hudi else Effect.REPEATABLE, targets)
    if len(targets) != 1 or find_hudi_entry(context, targets[0]) is None:
        return StatementEffect(Effect.UNKNOWN, targets)
    return StatementEffect(Effect.COMMIT, targets)


def _renames(statement: st.AlterTableStatement) -> bool:
    words = [token.text.upper() for token in statement.tokens]
    return ("RENAME", "TO") in pairwise(words)


def _effect_of_other(parsed: st.Statement) -> Effect:
    if isinstance(parsed, st.BlockStatement | st.ExecuteImmediateStatement):
        return Effect.UNKNOWN  # whatever their first statement is
    words = [token.text.upper() for token in parsed.tokens]
    reads = st.QueryStatement | st.DescribeQueryStatement | st.ExplainStatement | st.RefreshTableStatement
    about = st.TableStatement
    if isinstance(parsed, reads) or words[0] in _READ_HEADS:
        return Effect.REPEATABLE
    if words[0] in _SESSION_HEADS:
        return Effect.SESSION
    is_guarded = ("IF", "NOT", "EXISTS"), ("OR", "REPLACE"), ("IF", "EXISTS")
    head = words[:8]
    if any(tuple(head[at : at + len(guard)]) == guard for guard in is_guarded for at in range(len(head))):
        return Effect.REPEATABLE
    if isinstance(parsed, st.MsckRepairStatement) or (isinstance(parsed, about) and words[0] == "ALTER"):
        return Effect.REPEATABLE
    return Effect.UNKNOWN


@dataclass(frozen=True)
class FoundCommit:
    """A commit that carries the mark of a statement; `checksum` is that of its text."""

    base_path: str
    before: str | None
    instant_time: str
    checksum: str


def targets_before(context: Context, effect: StatementEffect) -> dict[str, str | None]:
    """The latest instant of each existing target, empty for a non-Hudi table."""
    found: dict[str, str | None] = {}
    for name in effect.tables:
        entry = find_entry(context, name)
        if entry is None:
            continue
        table = _open(context, name)
        found[str(name)] = "" if table is None else table.timeline.latest_time
    return found


def find_marked_commit(context: Context, names: Sequence[str], mark: str) -> FoundCommit | None:
    """The commit of one of the tables whose mark begins with `mark`; archived ones are searched last.

    Raises StorageError, CorruptTableError.
    """
    for name in names:
        table = _open(context, st.TableName(tuple(name.split("."))))
        if table is None:
            continue
        found_commit = marked_commit(table, mark)
        if found_commit is not None:
            return found_commit
    return None


def marked_commit(table: HudiTable, mark: str) -> FoundCommit | None:
    """The commit of a table whose mark begins with `mark`. Raises StorageError, CorruptTableError."""
    for instant_time, extra_metadata in _extra_metadata(table):
        text = extra_metadata.get(MARK) or ""
        if text.startswith(f"{mark}/"):
            earlier = [
                commit.timestamp for commit in table.timeline.commits if commit.timestamp < instant_time
            ]
            before = earlier[-1] if earlier else None
            return FoundCommit(table.base_path, before, instant_time, text.rpartition("/")[2])
    return None


def sync_target(context: Context, names: Sequence[str]) -> None:
    """Sync the entries of the tables, which a run that was killed after its commit may have missed."""
    for name in names:
        parts = st.TableName(tuple(name.split(".")))
        entry, table = find_hudi_entry(context, parts), _open(context, parts)
        if entry is not None and table is not None:
            sync_registered(context.metastore, table, entry.database, entry.name)


def has_happened(context: Context, effect: StatementEffect, before: Mapping[str, str | None]) -> bool | None:
    """Whether a statement without a mark has happened; None if unknown.

    `before` are the targets that existed before it.
    """
    names = [str(table) for table in effect.tables]
    if effect.effect in (Effect.SESSION, Effect.REPEATABLE, Effect.COMMIT, Effect.BOOTSTRAP):
        return False
    if effect.effect is Effect.MAKES:
        return names[0] not in before and find_entry(context, effect.tables[0]) is not None
    if effect.effect is Effect.REMOVES:
        return names[0] in before and find_entry(context, effect.tables[0]) is None
    return None


def _extra_metadata(table: HudiTable) -> Iterator[tuple[str, Mapping[str, Any]]]:
    instants = list(reversed(table.timeline.commits))
    extra_metadata = read_extra_metadata(table, instants)
    yield from zip((instant.timestamp for instant in instants), extra_metadata, strict=True)
    for entry in reversed(read_archived_entries(table, containing=MARK.encode())):
        metadata = entry.commit_metadata if entry.instant.action in COMMIT_ACTIONS else None
        if metadata is not None:
            yield entry.instant.timestamp, metadata.extra_metadata


def _open(context: Context, name: st.TableName) -> HudiTable | None:
    entry = find_hudi_entry(context, name)
    if entry is None:
        return None
    try:
        return open_session_table(context, context.storage.qualify(location_of(entry)))
    except HudisqlError:
        return None


def settle_made_table(
    context: Context, statement: st.CreateTableAsStatement, path: str, mark: str, checksum: str
) -> FoundCommit | None:
    """Register the table of a killed CREATE TABLE AS SELECT; its commit, None if the table is removed.

    The checkpoint has `path`, written before the statement created anything there. A commit with the
    statement's mark says that the rows are complete; without one the files are an unfinished attempt.
    `mark` and `checksum` are those of the statement. Files without a commit are removed. Raises
    MigrationConflictError if others have committed to the table, StorageError, SyncFailedError.
    """
    try:
        table = open_session_table(context, path)
    except NoSuchTableError:
        return None
    found_commit = marked_commit(table, mark)
    if found_commit is not None and found_commit.checksum == checksum:
        register_table_as(context, statement, table)
        return found_commit
    if found_commit is not None or table.timeline.commits:
        raise MigrationConflictError(
            f"CREATE TABLE {statement.table} was interrupted, and the table at {path} has a commit that is "
            "not the statement's",
            hint="look at the table; then hudisql migrate repair DIR --done (it has happened), or remove it "
            "and run this again",
        )
    roll_back_failed_writes(table)
    drop_incomplete_table(context, table)
    return None
