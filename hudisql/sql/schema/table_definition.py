"""The definition in a CREATE TABLE … USING hudi, as Spark's own parser reads it.

Columns, types, comments and clauses come from Spark's plan, so that every clause of Spark's grammar is
understood or refused by name, never ignored. It knows neither files nor the metastore.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from hudisql.errors import InvalidArgumentError, UnsupportedStatementError, UnsupportedTableError
from hudisql.format.schema.avro_schema import avro_from_arrow
from hudisql.format.schema.meta_columns import is_meta_column
from hudisql.format.schema.sized_text import SizedText, parse_sized_text
from hudisql.format.schema.spark_schema import arrow_from_spark_json
from hudisql.format.table_properties import DATABASE_NAME, NAME, PARTITION_FIELDS
from hudisql.spark.jvm import class_name, items_of, pairs_of
from hudisql.spark.versions import called_since, columns_of_create_table
from hudisql.sql.query.references import parse_plan
from hudisql.sql.schema.merge_mode_property import with_payload_of_mode

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from hudisql.context import Context

# Other statements with a provider, by the class of their plan.
_OTHER_FORMS: Final = {
    "CreateTempViewUsing": "CREATE TEMPORARY TABLE",
}
_REPLACING_FORMS: Final = {
    "ReplaceTable": "CREATE OR REPLACE TABLE",
    "ReplaceTableAsSelect": "CREATE OR REPLACE TABLE AS SELECT",
}


# The key of Spark's JSON for collations of a column's texts.
_CLAUSES_OF_SPARK_3: Final = {
    "CURRENT_DEFAULT": "a DEFAULT value",
    "GENERATION_EXPRESSION": "a generated value",
}
_COLLATIONS: Final = "__COLLATIONS"
_PARTITION_OPTIONS: Final = ("hoodie.datasource.write.partitionpath.field", PARTITION_FIELDS)
_NAME_OPTIONS: Final = (NAME, DATABASE_NAME, "hoodie.datasource.write.table.name")


@dataclass(frozen=True)
class TableDefinition:
    """The definition of a table: `columns` in table order, partition columns last, as Spark orders them.

    `properties` are TBLPROPERTIES and OPTIONS together; `location` is as written; `required` are the columns
    declared NOT NULL, `lengths` the types of those declared VARCHAR(n) or CHAR(n).
    """

    columns: pa.Schema
    partition_columns: tuple[str, ...]
    properties: Mapping[str, str]
    location: str | None = None
    comment: str | None = None
    required: frozenset[str] = frozenset()
    lengths: Mapping[str, SizedText] = dataclasses.field(default_factory=dict)


def read_table_definition(
    context: Context, text: str, query_columns: list[dict[str, Any]] | None = None
) -> TableDefinition:
    """The definition in a CREATE TABLE statement; `query_columns` (Spark's JSON) are those of its AS SELECT.

    Raises SqlSyntaxError, UnsupportedStatementError for clauses and UnsupportedTableError for types that a
    Hudi table can't have, InvalidArgumentError for columns and properties that contradict each other.
    """
    plan = parse_plan(context.spark, text)
    wanted = "CreateTable" if query_columns is None else "CreateTableAsSelect"
    if class_name(plan) in _REPLACING_FORMS:
        raise UnsupportedStatementError(
            f"{_REPLACING_FORMS[class_name(plan)]} … USING hudi is not supported: nothing was run. It would "
            "replace files, timeline and properties in several steps, and a failure between them would lose "
            "the table's rows",
            hint="INSERT OVERWRITE replaces the rows in one commit, and ALTER TABLE changes columns; or make "
            "another table, then DROP TABLE this one and ALTER TABLE … RENAME TO",
        )
    if class_name(plan) != wanted:
        raise UnsupportedStatementError(
            f"{_OTHER_FORMS.get(class_name(plan), class_name(plan))} … USING hudi is not supported:"
            " nothing was run",
            hint="CREATE TABLE [IF NOT EXISTS] makes a Hudi table, DROP TABLE … PURGE removes one",
        )
    if query_columns is None:
        columns = _column_documents(plan)
    else:
        columns = [as_nullable(column) for column in query_columns]
    partition_columns = tuple(_partition_column(item) for item in items_of(plan.partitioning()))
    columns, lengths = _without_lengths(columns)
    schema = _ordered_schema(columns, partition_columns)
    specification = plan.tableSpec()
    constraints = called_since((4, 1), specification, "constraints", None)
    if constraints is not None and constraints.size():
        raise UnsupportedStatementError(
            "table constraints are not supported on Hudi tables",
            hint="TBLPROPERTIES (primaryKey = '…') names the record key",
        )
    collation = called_since((4, 0), specification, "collation", None)
    for clause, given in (("ROW FORMAT", specification.serde()), ("COLLATION", collation)):
        if given is not None and given.isDefined():
            raise UnsupportedStatementError(f"{clause} is not supported on Hudi tables")
    properties = _properties_of(specification)
    path = next((properties.pop(key) for key in list(properties) if key.lower() == "path"), None)
    if columns:
        partition_columns = tuple(schema.names[len(schema) - len(partition_columns) :])
    return TableDefinition(
        schema,
        partition_columns,
        with_payload_of_mode(properties),
        _text(specification.location()) or path,
        _text(specification.comment()),
        frozenset(column["name"] for column in columns if not column["nullable"]),
        lengths,
    )


def as_nullable(document: Any) -> Any:
    """Spark's JSON of a column or type, with everything in it nullable, as in a Hudi table."""
    if isinstance(document, list):
        return [as_nullable(part) for part in document]
    if not isinstance(document, dict):
        return document
    flags = {"nullable", "containsNull", "valueContainsNull"}
    return {key: True if key in flags else as_nullable(value) for key, value in document.items()}


def definition_of_rows(
    rows: StructType, properties: Mapping[str, str], location: str | None
) -> TableDefinition:
    """The definition of a table that is created from a DataFrame's columns and its writer's options.

    Raises UnsupportedTableError for types that a Hudi table can't hold, InvalidArgumentError.
    """
    given = {name.lower(): value for name, value in properties.items()}
    listed = next((given[name] for name in _PARTITION_OPTIONS if name in given), "")
    # A custom key generator's fields come with their kinds, as `a:SIMPLE`.
    names = [part.partition(":")[0].strip() for part in listed.split(",") if part.strip()]
    kept = {name: value for name, value in properties.items() if name.lower() not in _NAME_OPTIONS}
    return definition_of_columns(rows, names, kept, location)


def definition_of_columns(
    rows: StructType, partition_columns: Sequence[str], properties: Mapping[str, str], location: str | None
) -> TableDefinition:
    """The definition of a table with the columns of a DataFrame; `partition_columns` in any case.

    Raises UnsupportedTableError for types that a Hudi table can't hold, InvalidArgumentError.
    """
    columns = [as_nullable(column) for column in rows.jsonValue()["fields"]]
    schema = _ordered_schema(columns, tuple(partition_columns))
    own = {field.name.lower(): field.name for field in schema}
    return TableDefinition(
        schema,
        tuple(own[name.lower()] for name in partition_columns),
        with_payload_of_mode(properties),
        location,
    )


def column_schema(documents: list[dict[str, Any]]) -> pa.Schema:
    """The Arrow schema of columns in Spark's JSON.

    Raises UnsupportedTableError for a type or a name that a Hudi table can't hold, naming the column.
    """
    for document in documents:
        name = document["name"]
        if is_meta_column(name):
            raise UnsupportedTableError(
                f"column {name}: Hudi adds its meta columns itself", hint="leave it out"
            )
        if _COLLATIONS in (document.get("metadata") or {}):
            raise UnsupportedTableError(
                f"column {name}: a Hudi table can't hold a STRING with a COLLATE clause", hint="use STRING"
            )
        _check_type(document["type"], name)
    schema = arrow_from_spark_json(json.dumps({"type": "struct", "fields": documents}))
    avro_from_arrow(schema, "table")
    return schema


def data_type_document(data_type: Any, name: str) -> Any:
    """Spark's JSON of a column's type (a JVM object). Raises UnsupportedTableError for collated texts."""
    if " COLLATE " in str(data_type.sql()):
        raise UnsupportedTableError(
            f"column {name}: a Hudi table can't hold {data_type.sql()}", hint="use STRING"
        )
    return json.loads(str(data_type.json()))


def _without_lengths(columns: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, SizedText]]:
    """The columns with STRING for VARCHAR(n) and CHAR(n), and these types."""
    lengths = {
        column["name"]: sized for column in columns if (sized := parse_sized_text(column["type"])) is not None
    }
    texts = [{**column, "type": "string"} if column["name"] in lengths else column for column in columns]
    return texts, lengths


def _column_documents(plan: Any) -> list[dict[str, Any]]:
    """Spark's JSON of the columns of a parsed CREATE TABLE."""
    columns = columns_of_create_table(plan)
    if columns is not None:
        return [_column_document(column) for column in columns]
    documents: list[dict[str, Any]] = json.loads(str(plan.tableSchema().json()))["fields"]
    for document in documents:
        for key, clause in _CLAUSES_OF_SPARK_3.items():
            if key in document["metadata"]:
                raise UnsupportedStatementError(
                    f"column {document['name']}: {clause} is not supported on Hudi tables",
                    hint="leave it out",
                )
    return documents


def _column_document(column: Any) -> dict[str, Any]:
    name = str(column.name())
    for clause, given in (
        ("a DEFAULT value", column.defaultValue()),
        ("a generated value", column.generationExpression()),
        ("an identity", column.identityColumnSpec()),
    ):
        if given.isDefined():
            raise UnsupportedStatementError(
                f"column {name}: {clause} is not supported on Hudi tables", hint="leave it out"
            )
    comment = _text(column.comment())
    return {
        "name": name,
        "type": data_type_document(column.dataType(), name),
        "nullable": bool(column.nullable()),
        "metadata": {"comment": comment} if comment else {},
    }


def _check_type(document: Any, where: str) -> None:
    """Refuse parts of Spark's types that a Hudi table would lose: lengths of texts, nested NOT NULL."""
    if isinstance(document, str):
        if parse_sized_text(document) is not None:
            raise UnsupportedTableError(
                f"column {where}: a Hudi table can't hold the length of {document.upper()}",
                hint="use STRING, or VARCHAR or CHAR for a column of CREATE TABLE",
            )
        return
    if document["type"] == "struct" and not document["fields"]:
        raise UnsupportedTableError(f"column {where}: a Hudi table can't hold a struct without fields")
    if document.get("containsNull") is False or document.get("valueContainsNull") is False:
        raise UnsupportedTableError(f"column {where}: NOT NULL is not supported inside of a type")
    for field in document.get("fields", ()):
        if not field["nullable"]:
            raise UnsupportedTableError(f"column {where}.{field['name']}: NOT NULL is not supported here")
        _check_type(field["type"], f"{where}.{field['name']}")
    for member in ("elementType", "keyType", "valueType"):
        if member in document:
            _check_type(document[member], where)


def _partition_column(transform: Any) -> str:
    if class_name(transform) != "IdentityTransform":
        # py4j finds no describe() on all of Spark's transforms.
        raise UnsupportedStatementError(
            f"PARTITIONED BY ({transform.toString()}) is not supported on Hudi tables",
            hint="PARTITIONED BY takes columns: add one that holds the value",
        )
    parts = transform.references()[0].fieldNames()
    if len(parts) != 1:
        raise UnsupportedStatementError(
            f"PARTITIONED BY {transform.describe()} is not supported: a member of a struct is not a column"
        )
    return str(parts[0])


def _ordered_schema(columns: list[dict[str, Any]], partition_columns: tuple[str, ...]) -> pa.Schema:
    seen: set[str] = set()
    for document in columns:
        if document["name"].lower() in seen:
            raise InvalidArgumentError(f"column {document['name']} is there twice")
        seen.add(document["name"].lower())
    lower = [name.lower() for name in partition_columns]
    if len(set(lower)) < len(lower):
        raise InvalidArgumentError(f"PARTITIONED BY names a column twice: {', '.join(partition_columns)}")
    if not columns:
        return pa.schema([])
    missing = [name for name in partition_columns if name.lower() not in seen]
    if missing:
        raise InvalidArgumentError(f"PARTITIONED BY names {', '.join(missing)}, which is not a column")
    if len(lower) == len(columns):
        raise InvalidArgumentError("a table needs a column besides those of PARTITIONED BY")
    by_name = {document["name"].lower(): document for document in columns}
    data = [document for document in columns if document["name"].lower() not in lower]
    return column_schema([*data, *(by_name[name] for name in lower)])


def _properties_of(specification: Any) -> dict[str, str]:
    return dict(_options_of(specification)) | {
        str(key): str(value) for key, value in pairs_of(specification.properties())
    }


def _options_of(specification: Any) -> Iterator[tuple[str, str]]:
    for pair in items_of(specification.optionExpression().options()):
        value = pair.productElement(1)
        if class_name(value) != "Literal":
            raise UnsupportedStatementError(f"OPTIONS: {pair.productElement(0)} is not a constant")
        yield str(pair.productElement(0)), str(value.toString())


def _text(option: Any) -> str | None:
    return str(option.get()) if option.isDefined() else None
