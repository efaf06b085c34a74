"""The changes of ALTER TABLE, TRUNCATE TABLE and COMMENT ON, as Spark's own parser reads them.

One value for each kind of change; others are refused by name. It knows neither tables nor files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from hudisql.errors import UnsupportedStatementError
from hudisql.spark.jvm import class_name, items_of, pairs_of
from hudisql.spark.versions import AlteredColumn, altered_columns
from hudisql.sql.query.references import parse_plan
from hudisql.sql.schema.table_definition import column_schema, data_type_document

if TYPE_CHECKING:
    from hudisql.context import Context

# Spark's names of commands that are not supported on Hudi tables, in SQL's words.
_REFUSED: Final = {
    "ReplaceColumns": "REPLACE COLUMNS",
    "SetTableLocation": "SET LOCATION",
    "SetTableSerDeProperties": "SET SERDE",
    "RecoverPartitions": "RECOVER PARTITIONS",
}


@dataclass(frozen=True)
class RenameTable:
    """RENAME TO: the parts of the new name."""

    name: tuple[str, ...]


@dataclass(frozen=True)
class SetProperties:
    """SET TBLPROPERTIES, and COMMENT ON TABLE as the property `comment`."""

    values: Mapping[str, str]


@dataclass(frozen=True)
class UnsetProperties:
    """UNSET TBLPROPERTIES."""

    names: tuple[str, ...]
    if_exists: bool


@dataclass(frozen=True)
class AddColumns:
    """ADD COLUMNS; `places` has the column before a new one, for those with AFTER, and `parents` the structs
    around new members of structs.
    """

    columns: pa.Schema
    places: Mapping[str, str] = field(default_factory=dict)
    parents: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class DropColumns:
    """DROP COLUMN; a member of a struct is a path such as `car.color`."""

    names: tuple[str, ...]
    if_exists: bool


@dataclass(frozen=True)
class RenameColumn:
    """RENAME COLUMN."""

    name: str
    new_name: str


@dataclass(frozen=True)
class ChangeColumn:
    """The changes of one column; None keeps type, comment or place, an empty comment removes it.

    `after` is the column behind which it moves. A member of a struct (a path such as `car.color`) is only
    moved: behind another one, or to the first place without `after`.
    """

    name: str
    type: pa.DataType | None = None
    comment: str | None = None
    after: str | None = None


@dataclass(frozen=True)
class ChangeColumns:
    """ALTER COLUMN, CHANGE COLUMN, COMMENT ON COLUMN."""

    columns: tuple[ChangeColumn, ...]

    @property
    def first_moved(self) -> ChangeColumn | None:
        """The first column or member that gets another place."""
        return next((column for column in self.columns if column.after or "." in column.name), None)


@dataclass(frozen=True)
class DropPartitions:
    """DROP PARTITION and TRUNCATE TABLE: the partitions with these values; no specification means all.

    Values are texts; None is the NULL partition. With `wildcards` a `*` in a value stands for any characters.
    """

    specifications: tuple[Mapping[str, str | None], ...] = ()
    if_exists: bool = False
    wildcards: bool = False


@dataclass(frozen=True)
class AddPartitions:
    """ADD PARTITION: the values of each partition by column, as texts; None is the NULL partition."""

    specifications: tuple[Mapping[str, str | None], ...]
    if_not_exists: bool = False


ColumnAlteration = AddColumns | DropColumns | RenameColumn | ChangeColumns
Alteration = RenameTable | SetProperties | UnsetProperties | ColumnAlteration | AddPartitions | DropPartitions


def read_alteration(context: Context, text: str) -> Alteration:
    """The change of the statement.

    Raises SqlSyntaxError, UnsupportedStatementError for unsupported changes, UnsupportedTableError for types
    that Hudi tables cannot have.
    """
    plan = parse_plan(context.spark, text)
    kind = class_name(plan)
    if kind == "RenameTable":
        return RenameTable(tuple(str(part) for part in items_of(plan.newName())))
    if kind == "SetTableProperties":
        values = {str(name): str(value) for name, value in pairs_of(plan.properties())}
        return SetProperties(values)
    if kind == "CommentOnTable":
        return SetProperties({"comment": str(plan.comment())})
    if kind == "UnsetTableProperties":
        names = tuple(str(name) for name in items_of(plan.propertyKeys()))
        return UnsetProperties(names, bool(plan.ifExists()))
    if kind == "AddColumns":
        added = list(items_of(plan.columnsToAdd()))
        places = {str(column.colName()): _place_of(column) for column in added}
        columns = column_schema([_added_column(column) for column in added])
        return AddColumns(
            columns, {name: after for name, after in places.items() if after is not None}, _parents_of(added)
        )
    if kind == "DropColumns":
        names = tuple(_path(item) for item in items_of(plan.columnsToDrop()))
        return DropColumns(names, bool(plan.ifExists()))
    if kind == "RenameColumn":
        name = _path(plan.column())
        if "." in name:
            raise _member_refused(f"RENAME COLUMN {name}")
        return RenameColumn(name, str(plan.newName()))
    if (altered := altered_columns(plan)) is not None:
        return ChangeColumns(tuple(_changed_column(altered_column) for altered_column in altered))
    if kind == "DropPartitions":
        return _dropped_partitions(plan)
    if kind == "AddPartitions":
        return _added_partitions(plan)
    if kind == "RenamePartitions":
        raise UnsupportedStatementError(
            "PARTITION … RENAME TO PARTITION is not supported on Hudi tables: nothing was run",
            hint="the rows hold the values: INSERT the rows with other values, then DROP PARTITION",
        )
    if kind == "TruncateTable":
        return DropPartitions()
    if kind == "TruncatePartition":
        return DropPartitions((_specification(plan.partitionSpec()),))
    raise UnsupportedStatementError(
        f"{_REFUSED.get(kind, kind)} is not supported on Hudi tables: nothing was run",
        hint="docs/tables.md lists what ALTER TABLE can change",
    )


def _dropped_partitions(plan: Any) -> DropPartitions:
    if plan.purge():
        raise UnsupportedStatementError(
            "DROP PARTITION … PURGE is not supported: nothing was run",
            hint="without PURGE the rows are gone at once; files of older versions go with the next clean",
        )
    specifications = tuple(_specification(item) for item in items_of(plan.parts()))
    return DropPartitions(specifications, bool(plan.ifExists()), wildcards=True)


def _added_partitions(plan: Any) -> AddPartitions:
    parts = list(items_of(plan.parts()))
    if any(part.location().isDefined() for part in parts):
        raise UnsupportedStatementError(
            "ADD PARTITION … LOCATION is not supported on Hudi tables: nothing was run",
            hint="a partition's directory follows from its values: leave LOCATION out",
        )
    return AddPartitions(tuple(_specification(part) for part in parts), bool(plan.ifNotExists()))


def _specification(part: Any) -> dict[str, str | None]:
    return {str(name): None if value is None else str(value) for name, value in pairs_of(part.spec())}


def _parents_of(added: Sequence[Any]) -> dict[str, tuple[str, ...]]:
    """The structs around new members, by the members' names. Raises UnsupportedStatementError."""
    parents = {
        str(column.colName()): tuple(str(part) for part in items_of(column.path().get().name()))
        for column in added
        if column.path().isDefined()
    }
    names = [str(column.colName()).lower() for column in added]
    if parents and len(set(names)) < len(names):
        raise UnsupportedStatementError(
            "ADD COLUMNS of several members with one name is not supported on Hudi tables: nothing was run",
            hint="add them by a statement each",
        )
    return parents


def _added_column(column: Any) -> dict[str, Any]:
    name = str(column.colName())
    for clause, given in (
        ("a DEFAULT value", column.default().isDefined()),
        ("NOT NULL for a new column", not column.nullable()),
    ):
        if given:
            raise UnsupportedStatementError(
                f"column {name}: {clause} is not supported on Hudi tables: nothing was run",
                hint="new columns come last and are NULL in the rows that are there",
            )
    comment = column.comment()
    return {
        "name": name,
        "type": data_type_document(column.dataType(), name),
        "nullable": True,
        "metadata": {"comment": str(comment.get())} if comment.isDefined() else {},
    }


def _changed_column(column: AlteredColumn) -> ChangeColumn:
    name = _path(column.field)
    if "." in name and (column.data_type.isDefined() or not column.position.isDefined()):
        raise _member_refused(f"ALTER COLUMN {name}")
    for clause, given in _refused_clauses(column):
        if given:
            raise UnsupportedStatementError(
                f"column {name}: {clause} is not supported on Hudi tables: nothing was run",
                hint="a column's comment can be changed, and its type widened",
            )
    wanted = None
    if column.data_type.isDefined():
        document = {"name": name, "type": data_type_document(column.data_type.get(), name), "nullable": True}
        wanted = column_schema([document]).field(0).type
    text = str(column.comment.get()) if column.comment.isDefined() else None
    after = _place(column.position, name)
    return ChangeColumn(name, wanted, "" if column.drops_comment else text, after)


def _path(field_name: Any) -> str:
    return ".".join(str(part) for part in items_of(field_name.name()))


def _member_refused(what: str) -> UnsupportedStatementError:
    return UnsupportedStatementError(
        f"{what} is not supported on Hudi tables: nothing was run",
        hint="another name or type of a struct's member makes Apache Hudi fail on all files from before it; "
        "members are added, moved and dropped",
    )


def _place_of(column: Any) -> str | None:
    return _place(column.position(), str(column.colName()))


def _place(position: Any, name: str) -> str | None:
    """The column named by AFTER, or None."""
    if not position.isDefined():
        return None
    place = position.get().position()
    if class_name(place) == "After":
        return str(place.column())
    if "." in name:
        return None
    raise UnsupportedStatementError(
        f"column {name}: FIRST is not supported on Hudi tables: nothing was run",
        hint="the meta columns come first, in Apache Hudi, too: say AFTER a column",
    )


def _refused_clauses(column: AlteredColumn) -> Iterator[tuple[str, bool]]:
    yield "SET NOT NULL", column.nullability.isDefined() and not column.nullability.get()
    yield "a DEFAULT value", column.default.isDefined() or column.drops_default
