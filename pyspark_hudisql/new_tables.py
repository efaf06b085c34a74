"""The table that a `df.write.format("hudi")` makes where there is none, with the defaults of Hudi's writer.

Follows `HoodieSparkSqlWriter` of Hudi 0.15: columns in the order of the DataFrame, directories named by the
plain values, generated record keys without a key. The table is made before its first commit begins. Knows no
metastore.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.types import StructType

from hudisql.errors import InvalidArgumentError, NoSuchTableError, TableExistsError
from hudisql.format import table_properties as keys
from hudisql.format.schema.meta_columns import is_meta_column
from hudisql.format.timeline.instant import ROLLBACK
from hudisql.sql.dataframe.frame_options import NAMES, FrameOptions, check_table_settings
from hudisql.sql.ddl.empty_table import check_free, plan_empty_table, publish_empty_table
from hudisql.sql.ddl.generator_options import with_generator_settings
from hudisql.sql.ddl.table_options import check_properties
from hudisql.sql.schema.table_definition import TableDefinition, definition_of_rows
from hudisql.storage import Storage
from hudisql.table.hudi_table import find_table_root, open_table
from hudisql.table.properties.new_table import remove_new_table

_HUDI_DEFAULTS: Mapping[str, str] = {
    keys.HIVE_STYLE_PARTITIONING: "false",
    keys.URL_ENCODE_PARTITIONING: "false",
}


def make_missing_table(storage: Storage, path: str, given: FrameOptions, rows: StructType) -> bool:
    """Make the table at `path` (qualified) by the options and the rows' columns, if there is none.

    Returns whether it was made. Raises InvalidArgumentError, UnsupportedTableError, NoSuchTableError for an
    operation that needs a table, TableExistsError for a path with other files or in another table.
    """
    root = find_table_root(storage, path)
    if root == path:
        return False
    if root is not None:
        raise InvalidArgumentError(
            f"{path} lies in the Hudi table at {root}", hint="save to the table itself"
        )
    if given.operation == "delete":
        raise NoSuchTableError(f"there is no Hudi table at {path}", hint="the operation 'delete' needs one")
    definition = _definition_of(given, rows)
    check_properties(definition.properties)
    check_table_settings(given)
    empty = plan_empty_table(definition, _database_of(given), _name_of(given), path)
    try:
        check_free(storage, path)
    except TableExistsError as error:
        raise TableExistsError(
            error.message, hint="save to an empty directory; Apache Hudi's overwrite would delete the files"
        ) from error
    publish_empty_table(storage, path, empty)
    return True


def remove_made_table(storage: Storage, path: str) -> None:
    """Remove a table whose first commit failed, unless another writer has begun one. Raises StorageError."""
    if find_table_root(storage, path) != path:
        return
    instants = open_table(storage, path).timeline.instants
    if all(instant.action == ROLLBACK for instant in instants):
        remove_new_table(storage, path)


def _definition_of(given: FrameOptions, rows: StructType) -> TableDefinition:
    fields = [field for field in rows if not is_meta_column(field.name)]
    named = {name.lower() for name in given.definition}
    defaults = {name: value for name, value in _HUDI_DEFAULTS.items() if name not in named}
    definition = definition_of_rows(StructType(fields), {**given.definition, **defaults}, None)
    in_order = [definition.columns.field(field.name) for field in fields]
    return with_generator_settings(replace(definition, columns=pa.schema(in_order)), given.settings)


def _database_of(given: FrameOptions) -> str:
    return next((value for name, value in given.definition.items() if name.lower() == keys.DATABASE_NAME), "")


def _name_of(given: FrameOptions) -> str:
    values = {name.lower(): value for name, value in given.definition.items()}
    name = next((values[each] for each in NAMES if values.get(each)), None)
    if name is None:
        raise InvalidArgumentError(
            f"{NAMES[0]} is not set, and there is no Hudi table at the path",
            hint=f"option('{NAMES[0]}', '<name>') makes one",
        )
    return name
