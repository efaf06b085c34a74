"""Refuses statements by which Spark would write to or delete directories of Hudi tables or their sources.

Spark treats the files of a Hudi table, and the source files of a bootstrapped one, as plain files. LOCATION,
OPTIONS (path …), LOAD DATA and INSERT OVERWRITE DIRECTORY name directories, and INSERT OVERWRITE deletes the
content of its target. Spark itself refuses to overwrite what a query reads, but does not see it through a
Hudi table. `command_targets` finds the tables that a statement names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hudisql.bootstrap.lease.protected_sources import refuse_touching_sources
from hudisql.catalog.metastore_table import MetastoreTable, loses_files_when_dropped
from hudisql.errors import NoSuchPathError, StorageError, UnsupportedStatementError
from hudisql.format.timeline.timeline_layout import METADATA_DIRECTORY
from hudisql.spark.jvm import class_name, items_of, pairs_of
from hudisql.spark.versions import location_of_table_like
from hudisql.sql.query.command_targets import targets_of_plan
from hudisql.sql.query.target_table import find_entry, find_hudi_root
from hudisql.sql.text.statements import InsertStatement, Statement, TableName
from hudisql.storage import check_holds_no_credentials, is_inside, parent_of

if TYPE_CHECKING:
    from hudisql.context import Context
    from hudisql.sql.query.query_plan import PlannedRelation

_MADE_BY_SPECIFICATION: Final = ("CreateTable", "CreateTableAsSelect", "ReplaceTable", "ReplaceTableAsSelect")
# The effect of Spark's commands on the files of a named table, and whether it applies to external tables.
_DELETES_OR_MOVES: Final = {
    "DropTable": ("DROP TABLE would delete files", False),
    "TruncateTable": ("TRUNCATE TABLE would delete files", True),
    "TruncatePartition": ("TRUNCATE TABLE would delete files", True),
    "DropPartitions": ("DROP PARTITION would delete files", False),
    "RenameTable": ("RENAME TO would move files", False),
    "RenamePartitions": ("RENAME PARTITION would move files", False),
}
_AS_PLAIN_FILES: Final = "as a table of plain files it would show rows of all its versions"


@dataclass(frozen=True)
class NamedDirectory:
    """A directory as the statement writes it, and the effect on a Hudi table there."""

    path: str
    effect: str
    is_overwritten: bool = False


def refuse_changes_of_files(context: Context, plan: Any) -> None:
    """Refuse a parsed statement by which Spark would change files of Hudi tables or of their sources.

    Raises UnsupportedStatementError, SourceProtectedError, InvalidArgumentError, MetastoreError,
    SettingsError.
    """
    refuse_directories_of_hudi_tables(context, plan)
    refuse_touching_sources_of_tables(context, plan)


def refuse_directories_of_hudi_tables(context: Context, plan: Any) -> None:
    """Raise UnsupportedStatementError for named directories in a Hudi table, or overwritten around one.

    Raises InvalidArgumentError for a location with credentials, that of a database included.
    """
    for location in _locations_of_databases(plan):
        check_holds_no_credentials(location)
    refuse_directories(context, directories_of_plan(plan))


def refuse_directories(context: Context, directories: Iterable[NamedDirectory]) -> None:
    """Raise UnsupportedStatementError for directories in a Hudi table, or overwritten around one."""
    for directory in directories:
        root = find_hudi_root(context, directory.path)
        if root is None and directory.is_overwritten:
            root = _find_table_below(context, directory.path)
        if root is not None:
            raise UnsupportedStatementError(
                f"{directory.path}: a Hudi table lies in {root}; {directory.effect}: nothing was run",
                hint=f"CALL hive_sync(table => 'db.name', path => '{root}') makes it a table to query",
            )


def refuse_touching_sources_of_tables(context: Context, plan: Any) -> None:
    """Raise SourceProtectedError if a parsed statement deletes or moves files of a bootstrap's source.

    Or if it writes another table's files in, above or below one. Statements that only add files to the source
    table are allowed (the Hudi table does not read them), and so are those that delete no files of external
    tables. Raises MetastoreError, SettingsError.
    """
    for name in dict.fromkeys(_overwritten_tables(plan)):
        directories = directories_of(context, find_entry(context, name))
        refuse_touching_sources(context, directories, "INSERT OVERWRITE would delete files")
    for directory, effect in _harmed_by_name(plan):
        refuse_touching_sources(context, [directory], effect)
    kind = class_name(plan)
    if kind not in _DELETES_OR_MOVES and not (kind == "LoadData" and plan.isOverwrite()):
        return
    verb, is_for_all = _DELETES_OR_MOVES.get(kind, ("LOAD DATA OVERWRITE would delete files", True))
    for name in dict.fromkeys(targets_of_plan(plan)):
        entry = find_entry(context, name)
        if entry is not None and (is_for_all or loses_files_when_dropped(entry)):
            refuse_touching_sources(context, directories_of(context, entry), verb)


def _overwritten_tables(plan: Any) -> Iterator[TableName]:
    """The tables of INSERT OVERWRITE; one statement can have several."""
    if class_name(plan) == "InsertIntoStatement" and plan.overwrite():
        yield from targets_of_plan(plan)
    for child in items_of(plan.children()):
        yield from _overwritten_tables(child)


def _harmed_by_name(plan: Any) -> Iterator[tuple[str, str]]:
    """Directories that the command itself names and writes to or moves files from, with the effect."""
    kind = class_name(plan)
    if kind == "LoadData" and not plan.isLocal():
        yield str(plan.path()), "LOAD DATA would move files away"
    elif kind in ("CreateTableAsSelect", "ReplaceTableAsSelect") and plan.tableSpec().location().isDefined():
        yield str(plan.tableSpec().location().get()), "CREATE TABLE AS would write files"
    for directory in directories_of_plan(plan):
        if directory.is_overwritten:
            yield directory.path, directory.effect


def directories_of(context: Context, entry: MetastoreTable | None) -> Iterator[str]:
    """The directories of a table's files: its own, and those of partitions elsewhere."""
    if entry is None or entry.is_view:
        return
    if entry.location:
        yield entry.location
    if entry.partition_columns:
        partitions = context.metastore.list_partitions(entry.database, entry.name)
        locations = dict.fromkeys(partition.location for partition in partitions if partition.location)
        yield from (location for location in locations if not is_inside(location, entry.location or ""))


def refuse_overwriting_what_is_read(
    context: Context, statement: Statement, plan: Any, scans: Sequence[PlannedRelation]
) -> None:
    """Raise UnsupportedStatementError if the statement overwrites files of a Hudi table that it reads.

    `plan` is its unresolved plan. Source files of bootstrapped tables count as the table's: Spark would
    delete them before it reads them.
    """
    for directory in _overwritten_directories(context, statement, plan) if scans else ():
        for scan in scans:
            if any(_overlap(context, directory, path) for path in _paths_read_by(scan)):
                entry = scan.relation.entry
                raise UnsupportedStatementError(
                    f"INSERT OVERWRITE would delete files in {directory} that the Hudi table "
                    f"{entry.database}.{entry.name}, which the statement reads, is made of: nothing was run",
                    hint="write to another table or directory",
                )


def directories_of_plan(plan: Any) -> Iterator[NamedDirectory]:
    """The directories that a command's unresolved plan names."""
    kind = class_name(plan)
    if kind == "InsertIntoDir":
        effect = "INSERT OVERWRITE DIRECTORY would delete its files"
        yield from _directory(plan.storage().locationUri(), effect, is_overwritten=True)
    elif kind in _MADE_BY_SPECIFICATION:
        yield from _directory(plan.tableSpec().location(), _AS_PLAIN_FILES)
    elif (location := location_of_table_like(plan)) is not None:
        yield from _directory(location, _AS_PLAIN_FILES)
    elif kind == "SetTableLocation":
        yield NamedDirectory(str(plan.location()), _AS_PLAIN_FILES)
    elif kind == "AddPartitions":
        for part in items_of(plan.parts()):
            if class_name(part) == "UnresolvedPartitionSpec":
                yield from _directory(part.location(), _AS_PLAIN_FILES)
    elif kind == "LoadData":
        yield NamedDirectory(str(plan.path()), "LOAD DATA would move its files away")
    elif kind == "CreateTempViewUsing":
        for key, value in pairs_of(plan.options()):
            if str(key).lower() == "path":
                yield NamedDirectory(str(value), _AS_PLAIN_FILES)
    for child in items_of(plan.children()):
        yield from directories_of_plan(child)


def _locations_of_databases(plan: Any) -> Iterator[str]:
    kind = class_name(plan)
    if kind == "SetNamespaceLocation":
        yield str(plan.location())
    elif kind == "CreateNamespace":
        yield from (str(value) for key, value in pairs_of(plan.properties()) if str(key) == "location")


def _directory(option: Any, effect: str, *, is_overwritten: bool = False) -> Iterator[NamedDirectory]:
    if option.isDefined():
        yield NamedDirectory(str(option.get()), effect, is_overwritten)


def _find_table_below(context: Context, path: str) -> str | None:
    """The first Hudi table in a subdirectory, which overwriting would delete."""
    try:
        level = [context.storage.qualify(path)]
    except StorageError:
        return None
    seen: set[str] = set()
    while level:
        try:
            listings = context.storage.list_directories(level)
        except NoSuchPathError:
            return None
        directories = [entry.path for listing in listings for entry in listing if entry.is_directory]
        for directory in directories:
            if directory.rsplit("/", 1)[-1] == METADATA_DIRECTORY:
                return parent_of(directory)
        # Symbolic links may form cycles.
        level = [directory for directory in directories if context.storage.resolve(directory) not in seen]
        seen.update(context.storage.resolve(inner_directory) for inner_directory in level)
    return None


def _overwritten_directories(context: Context, statement: Statement, plan: Any) -> Iterator[str]:
    for directory in directories_of_plan(plan):
        if directory.is_overwritten:
            yield directory.path
    if not isinstance(statement, InsertStatement) or not statement.overwrite:
        return
    for target in statement.targets:
        yield from directories_of(context, find_entry(context, target))


def _paths_read_by(scan: PlannedRelation) -> Iterator[str]:
    yield scan.table.base_path
    source = scan.table.properties.bootstrap_base_path
    if source:
        yield source
    for file_slice, _ in scan.plan.slices if scan.plan is not None else ():
        if file_slice.external_file is not None:
            yield file_slice.external_file.path


def _overlap(context: Context, directory: str, path: str) -> bool:
    storage = context.storage
    try:
        one, other = (storage.resolve(storage.qualify(location)) for location in (directory, path))
    except StorageError:
        return False
    return is_inside(one, other) or is_inside(other, one)
