"""Stored views: the definitions of Spark and Hive, and CREATE VIEW over Hudi tables with the user's text.

Follows Spark's `CatalogTable` view properties (`view.catalogAndNamespace`, `view.query.out.col`,
`view.sqlConfig`) and Hive's expanded view text. Other modules find the tables that a view reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.errors import QueryError
from hudisql.format.schema.spark_schema import quote_name, with_local_zone
from hudisql.spark.jvm import analyzed_plan, clone_session, java_class, pairs_of, session_state
from hudisql.spark.versions import (
    VIEW_SETTING,
    frame_of_plan,
    scala_sequence,
    set_active_session,
    settings_stored_with_views,
)
from hudisql.sql.query.references import parse_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_NAMESPACE = "view.catalogAndNamespace."
_QUERY_COLUMNS = "view.query.out."
_SCHEMA = "spark.sql.sources.schema"


@dataclass(frozen=True)
class ViewColumn:
    """A column that a view shows; `type` is Spark's or Hive's type text."""

    name: str
    type: str


@dataclass(frozen=True)
class ViewDefinition:
    """A stored view: `text` is its query, whose names belong to `database`.

    `query_columns` are the names that the query must return, in the order of `columns` (None: by position, as
    in Hive). `configuration` has the SQL settings of the session that created the view.
    """

    name: str
    database: str
    text: str
    columns: tuple[ViewColumn, ...]
    query_columns: tuple[str, ...] | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)
    is_temporary: bool = False

    @property
    def fingerprint(self) -> str:
        """A hash of everything that determines the view's rows."""
        return sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def definition_of_metastore_view(view: MetastoreTable) -> ViewDefinition | None:
    """The definition of a metastore's view; None if it belongs to another Spark catalog or has no text."""
    text = view.view_text or view.view_original_text
    namespace = _numbered(view.parameters, _NAMESPACE + "numParts", _NAMESPACE + "part.")
    if not text or (namespace and (namespace[0].lower() != "spark_catalog" or len(namespace) != 2)):
        return None
    database = view.parameters.get("view.default.database") or view.database
    return ViewDefinition(
        name=view.full_name,
        database=namespace[1] if namespace else database,
        text=text,
        columns=_stored_columns(view),
        query_columns=_query_columns(view.parameters),
        configuration=_configuration(view.parameters),
    )


def stored_schema(parameters: Mapping[str, str]) -> str:
    """Spark's JSON of the columns in a metastore entry; empty if Spark stored none."""
    parts = _numbered(parameters, _SCHEMA + ".numParts", _SCHEMA + ".part.")
    return parameters.get(_SCHEMA) or "".join(parts)


def find_temporary_view(spark: SparkSession, name: str, *, is_global: bool = False) -> ViewDefinition | bool:
    """The definition of a temporary view; True if it has no text (made from a DataFrame), False if none."""
    catalog = session_state(spark).catalog()
    found = catalog.getRawGlobalTempView(name) if is_global else catalog.getRawTempView(name)
    if not found.isDefined():
        return False
    return _definition_of_catalog_table(found.get().tableMeta(), name, is_temporary=True) or True


def find_spark_view(spark: SparkSession, database: str, name: str) -> ViewDefinition | None:
    """The definition of a view in Spark's catalog, for sessions whose catalog is not hudisql's metastore."""
    catalog = session_state(spark).catalog().externalCatalog()
    if not catalog.tableExists(database, name):
        return None
    described = catalog.getTable(database, name)
    if str(described.tableType().name()) != "VIEW":
        return None
    return _definition_of_catalog_table(described, f"{database}.{name}", is_temporary=False)


def _definition_of_catalog_table(described: Any, name: str, *, is_temporary: bool) -> ViewDefinition | None:
    properties = {str(key): str(value) for key, value in pairs_of(described.properties())}
    namespace = _numbered(properties, _NAMESPACE + "numParts", _NAMESPACE + "part.")
    if not described.viewText().isDefined() or len(namespace) != 2 or namespace[0] != "spark_catalog":
        return None
    return ViewDefinition(
        name=name,
        database=namespace[1],
        text=str(described.viewText().get()),
        columns=_columns_of(str(described.schema().json())),
        query_columns=_query_columns(properties),
        configuration=_configuration(properties),
        is_temporary=is_temporary,
    )


def shape_view(frame: DataFrame, definition: ViewDefinition) -> DataFrame:
    """`frame`, the result of the view's query, with the view's own column names and types.

    Raises QueryError if the query no longer returns a column of the view.
    """
    from pyspark.sql import functions

    names = frame.columns
    chosen = list(range(len(names)))
    if definition.query_columns and len(set(definition.query_columns)) == len(definition.query_columns):
        chosen = [_position_of(query_column, names, definition) for query_column in definition.query_columns]
    if len(chosen) < len(definition.columns):
        raise QueryError(
            f"the view {definition.name} has {len(definition.columns)} columns, "
            f"its query now gives {len(chosen)}",
            hint="a table below it has changed: create the view again",
        )
    positional = frame.toDF(*(f"c{position}" for position in range(len(names))))
    shown = []
    for column, position in zip(definition.columns, chosen, strict=False):
        value = functions.col(f"c{position}")
        data_type = frame.schema.fields[position].dataType
        if data_type.simpleString().lower() != column.type.lower():
            value = value.cast(with_local_zone(column.type))
        shown.append(value.alias(column.name))
    return positional.select(*shown)


def session_of_view(spark: SparkSession, definition: ViewDefinition) -> SparkSession:
    """The session in which to analyze the view's query: `spark`, or a copy of it with the view's settings.

    As `View.effectiveSQLConf` of Spark: settings that the view did not store have their defaults. The session
    itself is not changed, since other threads use it meanwhile.
    """

    if not definition.configuration:
        # Hive stores no settings.
        return spark
    changed = {
        key: value
        for key, value in {
            **dict.fromkeys(settings_stored_with_views(spark)),
            **definition.configuration,
        }.items()
        if spark.conf.get(key, None) != value and spark.conf.isModifiable(key)
    }
    if not changed:
        return spark
    copied = clone_session(spark)
    for key, value in changed.items():
        if value is None:
            copied.conf.unset(key)
        else:
            copied.conf.set(key, value)
    return copied


@contextmanager
def active_session(session: SparkSession, before: SparkSession) -> Iterator[None]:
    """Make `session` the thread's active one, whose settings Spark's parser reads; restore it afterwards."""
    if session is before:
        yield
        return
    set_active_session(session)
    try:
        yield
    finally:
        set_active_session(before)


def in_session(frame: DataFrame, spark: SparkSession) -> DataFrame:
    """The analyzed rows of a session as rows of another one that shares its SparkContext."""
    if frame.sparkSession is spark:
        return frame
    return frame_of_plan(spark, analyzed_plan(frame))


def query_text_of(statement: Any) -> str:
    """The query in a parsed CREATE VIEW, ALTER VIEW … AS or CACHE TABLE … AS, as the user wrote it."""
    original = statement.originalText()
    return str(original.get() if hasattr(original, "get") else original)


def store_view(spark: SparkSession, statement: Any, schema: StructType) -> None:
    """Run the parsed CREATE VIEW or ALTER VIEW … AS, whose query returns rows of `schema`.

    Spark stores the user's own query text, column names, comments and settings; hudisql only provides the
    schema, which Spark would get by resolving the query.
    """
    columns = ", ".join(
        f"CAST(NULL AS {with_local_zone(column.dataType.simpleString())}) AS {quote_name(column.name)}"
        for column in schema.fields
    )
    stand_in = parse_plan(spark, f"SELECT {columns}")
    children = [
        stand_in if position == statement.children().size() - 1 else statement.children().apply(position)
        for position in range(statement.children().size())
    ]
    complete = statement.withNewChildren(scala_sequence(spark, children))
    mode = java_class(spark, "org.apache.spark.sql.execution.CommandExecutionMode").ALL()
    session_state(spark).executePlan(complete, mode).assertCommandExecuted()


def _position_of(name: str, names: list[str], definition: ViewDefinition) -> int:
    for position, given in enumerate(names):
        if given == name:
            return position
    for position, given in enumerate(names):
        if given.lower() == name.lower():
            return position
    raise QueryError(
        f"the view {definition.name} needs the column '{name}', which its query no longer gives",
        hint="a table below it has changed: create the view again",
    )


def _stored_columns(view: MetastoreTable) -> tuple[ViewColumn, ...]:
    if text := stored_schema(view.parameters):
        return _columns_of(text)
    return tuple(ViewColumn(column.name, column.type) for column in view.columns)


def _columns_of(schema_json: str) -> tuple[ViewColumn, ...]:
    from pyspark.sql.types import StructType

    schema = StructType.fromJson(json.loads(schema_json))
    return tuple(ViewColumn(column.name, column.dataType.simpleString()) for column in schema.fields)


def _query_columns(properties: Mapping[str, str]) -> tuple[str, ...] | None:
    found = _numbered(properties, _QUERY_COLUMNS + "numCols", _QUERY_COLUMNS + "col.")
    return tuple(found) if found else None


def _configuration(properties: Mapping[str, str]) -> dict[str, str]:
    size = len(VIEW_SETTING)
    return {key[size:]: value for key, value in properties.items() if key.startswith(VIEW_SETTING)}


def _numbered(properties: Mapping[str, str], count_key: str, item_prefix: str) -> list[str]:
    count = int(properties.get(count_key, "0"))
    return [properties[f"{item_prefix}{position}"] for position in range(count)]
