"""The folders that a statement names or overwrites: none may hold a Hudi table, or a source that it reads.

Spark takes the files of a Hudi table, and the source files of a bootstrapped one, for plain files. LOCATION,
OPTIONS (path …), LOAD DATA and INSERT OVERWRITE DIRECTORY name folders, and INSERT OVERWRITE deletes what
lies in its target. Spark itself refuses to overwrite what a query reads, but cannot see it through a Hudi
table. Which tables a statement names is `guard`'s matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hudisql.errors import NoSuchPathError, StorageError, UnsupportedStatementError
from hudisql.sql.references import parse_plan
from hudisql.sql.scala_values import class_name, items_of, pairs_of
from hudisql.sql.statements import InsertStatement, Statement
from hudisql.sql.tables import find_entry, find_hudi_root
from hudisql.storage import is_inside, parent_of

if TYPE_CHECKING:
    from hudisql.context import Context
    from hudisql.sql.query import PlannedRelation

_MADE_BY_SPECIFICATION: Final = ("CreateTable", "CreateTableAsSelect", "ReplaceTable", "ReplaceTableAsSelect")
_AS_PLAIN_FILES: Final = "as a table of plain files it would show rows of all its versions"


@dataclass(frozen=True)
class NamedFolder:
    """A folder as the statement writes it, and what Spark would do to a Hudi table there."""

    path: str
    effect: str
    is_overwritten: bool = False


def find_named_folders(context: Context, text: str) -> tuple[NamedFolder, ...]:
    """The folders that a command names, as Spark's parser finds them. Raises SqlSyntaxError."""
    return tuple(folders_of_plan(parse_plan(context.spark, text)))


def refuse_folders_of_hudi_tables(context: Context, text: str) -> None:
    """Raise UnsupportedStatementError if a named folder lies in a Hudi table, or is overwritten with one."""
    refuse_folders(context, find_named_folders(context, text))


def refuse_folders(context: Context, folders: Iterable[NamedFolder]) -> None:
    """Raise UnsupportedStatementError if a folder lies in a Hudi table, or is overwritten with one."""
    for folder in folders:
        root = find_hudi_root(context, folder.path)
        if root is None and folder.is_overwritten:
            root = _find_table_below(context, folder.path)
        if root is not None:
            raise UnsupportedStatementError(
                f"{folder.path}: a Hudi table lies in {root}; {folder.effect}: nothing was run",
                hint=f"CALL hive_sync(table => 'db.name', path => '{root}') makes it a table to query",
            )


def refuse_overwriting_what_is_read(
    context: Context, statement: Statement, scans: Sequence[PlannedRelation]
) -> None:
    """Raise UnsupportedStatementError if the statement overwrites files of a Hudi table that it reads.

    Source files of bootstrapped tables count as the table's: Spark would delete them before it reads them.
    """
    for folder in _overwritten_folders(context, statement) if scans else ():
        for scan in scans:
            if any(_overlap(context, folder, path) for path in _places_of(scan)):
                entry = scan.relation.entry
                raise UnsupportedStatementError(
                    f"INSERT OVERWRITE would delete files in {folder} that the Hudi table "
                    f"{entry.database}.{entry.name}, which the statement reads, is made of: nothing was run",
                    hint="write to another table or folder",
                )


def folders_of_plan(plan: Any) -> Iterator[NamedFolder]:
    """The folders that a command's unresolved plan names."""
    kind = class_name(plan)
    if kind == "InsertIntoDir":
        effect = "INSERT OVERWRITE DIRECTORY would delete its files"
        yield from _folder(plan.storage().locationUri(), effect, is_overwritten=True)
    elif kind in _MADE_BY_SPECIFICATION:
        yield from _folder(plan.tableSpec().location(), _AS_PLAIN_FILES)
    elif kind == "CreateTableLike":
        yield from _folder(plan.location(), _AS_PLAIN_FILES)
    elif kind == "SetTableLocation":
        yield NamedFolder(str(plan.location()), _AS_PLAIN_FILES)
    elif kind == "AddPartitions":
        for part in items_of(plan.parts()):
            if class_name(part) == "UnresolvedPartitionSpec":
                yield from _folder(part.location(), _AS_PLAIN_FILES)
    elif kind == "LoadData":
        yield NamedFolder(str(plan.path()), "LOAD DATA would move its files away")
    elif kind == "CreateTempViewUsing":
        for key, value in pairs_of(plan.options()):
            if str(key).lower() == "path":
                yield NamedFolder(str(value), _AS_PLAIN_FILES)
    for child in items_of(plan.children()):
        yield from folders_of_plan(child)


def _folder(option: Any, effect: str, *, is_overwritten: bool = False) -> Iterator[NamedFolder]:
    if option.isDefined():
        yield NamedFolder(str(option.get()), effect, is_overwritten)


def _find_table_below(context: Context, path: str) -> str | None:
    """The first Hudi table in the folders below, which an overwriting deletes with all that is in them."""
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
        folders = [entry.path for listing in listings for entry in listing if entry.is_directory]
        for folder in folders:
            if folder.rsplit("/", 1)[-1] == ".hoodie":
                return parent_of(folder)
        # Symbolic links can lead in circles.
        level = [each for each in folders if context.storage.resolve(each) not in seen]
        seen.update(context.storage.resolve(each) for each in level)
    return None


def _overwritten_folders(context: Context, statement: Statement) -> Iterator[str]:
    for folder in find_named_folders(context, statement.text):
        if folder.is_overwritten:
            yield folder.path
    if not isinstance(statement, InsertStatement) or not statement.overwrite:
        return
    for target in statement.targets:
        entry = find_entry(context, target)
        if entry is None:
            continue
        if entry.location:
            yield entry.location
        if entry.partition_columns:
            partitions = context.metastore.list_partitions(entry.database, entry.name)
            yield from dict.fromkeys(each.location for each in partitions if each.location)


def _places_of(scan: PlannedRelation) -> Iterator[str]:
    yield scan.table.base_path
    source = scan.table.properties.bootstrap_base_path
    if source:
        yield source
    for file_slice, _ in scan.plan.slices if scan.plan is not None else ():
        if file_slice.external_file is not None:
            yield file_slice.external_file.path


def _overlap(context: Context, folder: str, path: str) -> bool:
    storage = context.storage
    try:
        one, other = (storage.resolve(storage.qualify(each)) for each in (folder, path))
    except StorageError:
        return False
    return is_inside(one, other) or is_inside(other, one)
