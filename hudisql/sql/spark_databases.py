"""Databases of a user's SparkSession whose catalog is not the metastore: one without Hive's, or with a Derby.

Spark's catalog has databases of its own then, and `USE` needs them. Statements keep the two catalogs in step:
CREATE DATABASE makes a database in both, USE gives Spark's catalog one that only the metastore has. Spark
deletes the directory of a database that it drops with all that it holds, so the entries made here have
another directory than the tables of the metastore's database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hudisql.format.schema.spark_schema import quote_name
from hudisql.result import LocalResult
from hudisql.spark.jvm import metastore_uris, pairs_of, spark_sql
from hudisql.sql.catalog_names import is_listing, names_in_metastore
from hudisql.sql.text.database_names import created_database, used_database
from hudisql.sql_literals import quote_string

if TYPE_CHECKING:
    from hudisql.context import Context

_DIRECTORY: Final = ".spark_databases"


def concerns_databases(context: Context, text: str) -> bool:
    """True for a statement about databases that has to run on both catalogs."""
    is_one = created_database(text) is not None or used_database(text) is not None or is_listing(text)
    return is_one and has_own_databases(context)


def has_own_databases(context: Context) -> bool:
    """True if Spark's catalog is not the metastore."""
    return not metastore_uris(context.spark)


def provide_database(context: Context, name: str | None) -> None:
    """Make an entry in Spark's own catalog for a database that only the metastore has. Raises QueryError."""
    if name is not None and has_own_databases(context) and context.metastore.get_database(name) is not None:
        _make_entry(context, name, {})


def run_on_both(context: Context, text: str, plan: Any) -> LocalResult | None:
    """Run CREATE DATABASE, SHOW DATABASES and SHOW TABLES on both catalogs; `plan` is Spark's of the text.

    None for other statements, and where Spark's catalog is the metastore. Raises QueryError, MetastoreError.
    """
    if not concerns_databases(context, text):
        return None
    if (created := created_database(text)) is not None:
        _create_database(context, created, text, plan)
        return LocalResult(context.spark, (), ())
    listed = names_in_metastore(context, text)
    if listed is None:
        return None
    if "tableName" in listed.names and listed.values:
        provide_database(context, str(listed.values[0][0]))
    own = map(tuple, spark_sql(context.spark, text).collect())
    columns = list(zip(listed.names, (field.dataType.simpleString() for field in listed.schema), strict=True))
    return LocalResult(context.spark, columns, sorted({*listed.values, *own}))


def forget_database(context: Context, name: str) -> None:
    """Drop the entry that Spark's own catalog has for a database which the metastore no longer has.

    An entry that Spark has made by itself stays, since its directory may hold the tables' files.
    """
    if not has_own_databases(context) or not context.spark.catalog.databaseExists(name):
        return
    location = str(context.spark.catalog.getDatabase(name).locationUri)
    if context.storage.qualify(location) == _directory(context, name):
        spark_sql(context.spark, f"DROP DATABASE {quote_name(name)} CASCADE")


def _create_database(context: Context, name: str, text: str, plan: Any) -> None:
    """Spark reports a database that exists; a LOCATION is that of the metastore's database."""
    if context.metastore.get_database(name) is not None:
        _make_entry(context, name, {})
        spark_sql(context.spark, text)
        return
    properties = {str(key): str(value) for key, value in pairs_of(plan.properties())}
    _make_entry(context, name, properties)
    location = properties.get("location")
    context.metastore.create_database(
        name, None if location is None else context.storage.qualify(location), properties.get("comment")
    )


def _make_entry(context: Context, name: str, properties: dict[str, str]) -> None:
    comment = f" COMMENT {quote_string(properties['comment'])}" if "comment" in properties else ""
    directory = quote_string(_directory(context, name))
    spark_sql(
        context.spark, f"CREATE DATABASE IF NOT EXISTS {quote_name(name)}{comment} LOCATION {directory}"
    )


def _directory(context: Context, name: str) -> str:
    return f"{context.warehouse}/{_DIRECTORY}/{name}"
