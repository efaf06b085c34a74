"""`spark.catalog` with the names of Hudi tables, where Spark's own catalog is not the metastore."""

from __future__ import annotations

from pyspark.sql.catalog import Catalog, Table

from hudisql.catalog.metastore_table import is_hudi_table
from hudisql.format.schema.spark_schema import quote_name
from hudisql.pyspark_names.serving import serving_of
from hudisql.sql.concerned_tables import find_named_entry
from hudisql.sql.dispatch import execute
from hudisql.sql.spark_databases import has_own_databases
from hudisql.sql_literals import quote_string


class ServedCatalog(Catalog):
    """A catalog whose `tableExists` and `listTables` know Hudi tables."""

    def tableExists(self, tableName: str, dbName: str | None = None) -> bool:  # noqa: N802, N803
        """As Spark's."""
        if super().tableExists(tableName, dbName):
            return True
        serving = serving_of(self._sparkSession)
        if serving is None:
            return False
        name = tableName if dbName is None else f"{quote_name(dbName)}.{quote_name(tableName)}"
        entry = find_named_entry(serving.session.context, name)
        return entry is not None and is_hudi_table(entry)

    def listTables(self, dbName: str | None = None, pattern: str | None = None) -> list[Table]:  # noqa: N802, N803
        """As Spark's; Hudi tables come last. Raises MetastoreError."""
        serving = serving_of(self._sparkSession)
        database = self.currentDatabase() if dbName is None else dbName
        if serving is None or not has_own_databases(serving.session.context):
            return list(super().listTables(dbName, pattern))
        context = serving.session.context
        if context.metastore.get_database(database) is None:
            return list(super().listTables(dbName, pattern))
        like = "" if pattern is None else f" LIKE {quote_string(pattern)}"
        # Makes the database in Spark's catalog, too, if only the metastore has it.
        shown = execute(context, f"SHOW TABLES IN {quote_name(database)}{like}").df.collect()
        tables = list(super().listTables(dbName, pattern))
        names = {table.name for table in tables}
        missing = [row.tableName for row in shown if row.tableName not in names]
        for entry in sorted(context.metastore.get_tables(database, missing), key=lambda entry: entry.name):
            if is_hudi_table(entry):
                kind = "EXTERNAL" if entry.is_external else "MANAGED"
                comment = entry.parameters.get("comment")
                tables.append(
                    Table(entry.name, "spark_catalog", [database], comment, kind, isTemporary=False)
                )
        return tables
