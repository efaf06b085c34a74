"""What each of Spark's commands needs, by the class of its unresolved plan; others are for admins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hudisql.server.rights.harmless import (
    PROVIDERS,
    harmless_functions,
    is_harmless_option,
    is_harmless_property,
    is_harmless_setting,
)
from hudisql.server.rights.parsed_names import Name, ParsedNames
from hudisql.server.rights.rights_file import Right, UserRights
from hudisql.server.rights.table_names import NamedTables
from hudisql.spark.jvm import class_name, items_of, pairs_of
from hudisql.spark.versions import storage_of_table_like

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROPERTY_OF_COMMENTS: Final = "comment"


@dataclass(frozen=True)
class Command:
    """One command: its unresolved plan (a JVM object), the names in it, and whose rights it needs."""

    spark: SparkSession
    rights: UserRights
    tables: NamedTables
    database: str
    plan: Any
    names: ParsedNames

    @property
    def kind(self) -> str:
        """The class of its plan."""
        return self.names.root

    def databases(self) -> Iterator[str]:
        """The databases that the command names, or else the current one."""
        for name in self.names.databases or {(self.database,): None}:
            yield self.tables.database_of(name)


def _nothing(_command: Command) -> None:
    """The tables of its queries and changes are all that it needs."""


def _read(command: Command) -> None:
    for name in command.names.subjects:
        command.tables.require_reading(name, command.database)


def _write(command: Command) -> None:
    for name in command.names.subjects:
        command.tables.require_writing(name, command.database)


def _drop(command: Command) -> None:
    for name in command.names.subjects:
        if not command.tables.is_own_view(name):
            command.tables.require_writing(name, command.database, exists=False)


def _rename(command: Command) -> None:
    new = tuple(str(part) for part in items_of(command.plan.newName()))
    for name in command.names.subjects:
        command.tables.require_writing(name, command.database)
        # A new name without a database is in that of the old one.
        database, _ = command.tables.qualify(name, command.database)
        command.tables.require_writing(new, database, exists=False)


def _set_properties(command: Command) -> None:
    _write(command)
    _refuse_properties(command, (key for key, _ in pairs_of(command.plan.properties())))


def _unset_properties(command: Command) -> None:
    _write(command)
    _refuse_properties(command, items_of(command.plan.propertyKeys()))


def _add_partitions(command: Command) -> None:
    _write(command)
    for part in items_of(command.plan.parts()):
        if class_name(part) != "UnresolvedPartitionSpec" or part.location().isDefined():
            raise command.rights.refuse("give a partition a LOCATION")


def _create_table(command: Command) -> None:
    for name in command.names.subjects:
        command.tables.require_writing(name, command.database, exists=False)
    spec = command.plan.tableSpec()
    if spec.location().isDefined() or spec.external():
        raise command.rights.refuse("create a table at a LOCATION")
    _refuse_provider(command, spec.provider())
    _refuse_properties(command, (key for key, _ in pairs_of(spec.properties())))
    for pair in items_of(spec.optionExpression().options()):
        if not is_harmless_option(str(pair.productElement(0))):
            raise command.rights.refuse(f"give a table the option {pair.productElement(0)}")
    if spec.serde().isDefined():
        serde = spec.serde().get()
        has_classes = serde.serde().isDefined() or serde.formatClasses().isDefined()
        if has_classes or not serde.serdeProperties().isEmpty():
            raise command.rights.refuse("create a table with classes of a SERDE or a format")
        if serde.storedAs().isDefined():
            _refuse_provider(command, serde.storedAs())
    if command.kind == "CreateTableAsSelect" and not command.plan.writeOptions().isEmpty():
        raise command.rights.refuse("create a table with options of a writer")


def _create_table_like(command: Command) -> None:
    target, source = _tables_of_like(command)
    command.tables.require_writing(target, command.database, exists=False)
    command.tables.require_reading(source, command.database)
    plan, storage = command.plan, storage_of_table_like(command.plan)
    if storage.location is not None or storage.has_format:
        raise command.rights.refuse("create a table at a LOCATION, or with a SERDE")
    _refuse_provider(command, plan.provider())
    _refuse_properties(command, (key for key, _ in pairs_of(plan.properties())))


def _create_view(command: Command) -> None:
    for name in command.names.subjects:
        command.tables.require_writing(name, command.database, exists=False)
    _refuse_properties(command, (key for key, _ in pairs_of(command.plan.properties())))


def _create_temporary_view(command: Command) -> None:
    if class_name(command.plan.viewType()) != "LocalTempView$":
        raise command.rights.refuse("create a view of all sessions")
    _refuse_properties(command, (key for key, _ in pairs_of(command.plan.properties())))


def _alter_view(command: Command) -> None:
    for name in command.names.subjects:
        if not command.tables.is_own_view(name):
            command.tables.require_writing(name, command.database)


def _set(command: Command) -> None:
    pair = command.plan.kv()
    name = str(pair.get().productElement(0)) if pair.isDefined() else ""
    if not is_harmless_setting(name):
        raise command.rights.refuse(f"use the setting {name}" if name else "list the settings")


def _reset(command: Command) -> None:
    name = str(command.plan.config().get()) if command.plan.config().isDefined() else ""
    if not is_harmless_setting(name):
        raise command.rights.refuse(f"reset {name or 'all settings'}")


def _describe_function(command: Command) -> None:
    """The text of a function that was created names tables, or a class."""
    name = [str(part) for part in items_of(command.plan.child().multipartIdentifier())]
    if len(name) != 1 or name[0].lower() not in harmless_functions():
        raise command.rights.refuse(f"describe the function {'.'.join(name)}")


def _see_database(command: Command) -> None:
    for database in command.databases():
        command.rights.require_sight_of(database)


def _use_namespace(command: Command) -> None:
    name = tuple(str(part) for part in items_of(command.plan.namespace()))
    command.rights.require_sight_of(command.tables.database_of(name))


def _write_database(command: Command) -> None:
    for database in command.databases():
        command.rights.require(Right.WRITER, database)
    if command.kind in ("CreateNamespace", "SetNamespaceProperties"):
        for key, _ in pairs_of(command.plan.properties()):
            if str(key).lower() != _PROPERTY_OF_COMMENTS:
                raise command.rights.refuse(f"give a database the property {key}")


def _tables_of_like(command: Command) -> tuple[Name, Name]:
    """The new table and its model."""
    if command.kind == "CreateTableLikeCommand":
        # Before Spark 4.1.
        target, source = command.plan.targetTable(), command.plan.sourceTable()
        return tuple(map(str, items_of(target.nameParts()))), tuple(map(str, items_of(source.nameParts())))
    subjects = list(command.names.subjects)
    # CREATE TABLE t LIKE t names one table.
    return subjects[0], subjects[-1]


def _refuse_provider(command: Command, provider: Any) -> None:
    name = str(provider.get()).lower() if provider.isDefined() else ""
    if name not in PROVIDERS:
        raise command.rights.refuse(f"create a table of the format {name}")


def _refuse_properties(command: Command, names: Iterable[Any]) -> None:
    for name in names:
        if not is_harmless_property(str(name)):
            raise command.rights.refuse(f"give a table the property {name}")


COMMANDS: Final[Mapping[str, Callable[[Command], None]]] = {
    **dict.fromkeys(("UpdateTable", "DeleteFromTable", "MergeIntoTable", "InsertIntoStatement"), _nothing),
    **dict.fromkeys(("CacheTable", "CacheTableAsSelect", "UncacheTable"), _nothing),
    **dict.fromkeys(("CreateVariable", "SetVariable", "DropVariable"), _nothing),
    **dict.fromkeys(("ShowCurrentNamespaceCommand", "ShowCatalogsCommand"), _nothing),
    **dict.fromkeys(("DescribeRelation", "DescribeColumn", "DescribeTablePartition", "ShowColumns"), _read),
    **dict.fromkeys(("ShowCreateTable", "ShowPartitions", "ShowTableProperties", "RefreshTable"), _read),
    **dict.fromkeys(("TruncateTable", "TruncatePartition", "AddColumns", "ReplaceColumns"), _write),
    **dict.fromkeys(("DropColumns", "RenameColumn", "AlterColumn", "AlterColumns"), _write),
    **dict.fromkeys(("DropPartitions", "RenamePartitions", "RecoverPartitions", "RepairTable"), _write),
    **dict.fromkeys(("AnalyzeTable", "AnalyzeColumn", "CommentOnTable"), _write),
    **dict.fromkeys(("DropTable", "DropView"), _drop),
    "RenameTable": _rename,
    **dict.fromkeys(("SetTableProperties", "SetViewProperties"), _set_properties),
    **dict.fromkeys(("UnsetTableProperties", "UnsetViewProperties"), _unset_properties),
    "AddPartitions": _add_partitions,
    "DescribeFunction": _describe_function,
    **dict.fromkeys(("CreateTable", "CreateTableAsSelect"), _create_table),
    **dict.fromkeys(("ReplaceTable", "ReplaceTableAsSelect"), _create_table),
    **dict.fromkeys(("CreateTableLike", "CreateTableLikeCommand"), _create_table_like),
    "CreateView": _create_view,
    "CreateViewCommand": _create_temporary_view,
    "AlterViewAs": _alter_view,
    "SetCommand": _set,
    "ResetCommand": _reset,
    **dict.fromkeys(("SetCatalogAndNamespace", "DescribeNamespace", "ShowFunctions"), _see_database),
    **dict.fromkeys(("ShowTables", "ShowTablesExtended", "ShowTableExtended", "ShowViews"), _see_database),
    **dict.fromkeys(("ShowNamespaces", "ShowNamespacesCommand"), _nothing),
    "SetNamespaceCommand": _use_namespace,
    **dict.fromkeys(("CreateNamespace", "DropNamespace", "CommentOnNamespace"), _write_database),
    **dict.fromkeys(("SetNamespaceProperties", "AnalyzeTables"), _write_database),
}
LISTINGS: Final = frozenset(
    {
        *("ShowTables", "ShowTablesExtended", "ShowTableExtended", "ShowViews"),
        *("ShowNamespaces", "ShowNamespacesCommand"),
    }
)
"""Commands whose rows are the names of tables, views or databases."""
COLUMN_DEFINITIONS: Final = frozenset(
    {"CreateTable", "ReplaceTable", "AddColumns", "ReplaceColumns", "AlterColumn", "AlterColumns"}
)
"""Commands that may give a column an expression."""
