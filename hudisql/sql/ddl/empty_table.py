"""An empty table from its definition: planned as its properties, then published in one atomic step.

For CREATE TABLE and for writers that make the table they write to. Knows no metastore.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from hudisql.bootstrap.rollback.table_removal import complete_removal
from hudisql.errors import PathExistsError, TableExistsError, UnsupportedTableError
from hudisql.format import table_properties as keys
from hudisql.format.keys.bucket_rules import FIRST_RULES, BucketRules
from hudisql.format.schema.avro_schema import avro_from_arrow
from hudisql.format.schema.sized_text import render_column_lengths
from hudisql.format.timeline.timeline_layout import METADATA_DIRECTORY
from hudisql.options.writer_settings import bucket_rules_of_new_table
from hudisql.sql.ddl.generator_options import check_generator
from hudisql.sql.ddl.table_options import new_table
from hudisql.sql.schema.table_definition import TableDefinition
from hudisql.storage import Storage, join
from hudisql.table.properties.dropped_columns import unwritten_dropped_columns
from hudisql.table.properties.new_table import (
    make_timeline_directories,
    new_table_properties,
    publish_properties,
    remove_partition_markers,
)
from hudisql.table.properties.virtual_keys import unwritten_virtual_keys
from hudisql.write.index.partition_buckets import remove_bucket_rules, store_bucket_rules


@dataclass(frozen=True)
class EmptyTable:
    """A table without commits: its `hoodie.properties`, and the table version of its timeline.

    `date_columns` are the columns other than texts of which its key generator makes dates. `rules` are the
    numbers of buckets by partition that it stores, if any.
    """

    values: Mapping[str, str]
    version: int
    date_columns: tuple[str, ...]
    rules: BucketRules | None = None


def plan_empty_table(definition: TableDefinition, database: str, name: str, table_label: str) -> EmptyTable:
    """The table by its definition; `table_label` names it in errors.

    Raises InvalidArgumentError and UnsupportedTableError for properties that don't fit the definition,
    SettingsError for numbers of buckets that cannot be followed.
    """
    others = {keys.CREATE_SCHEMA: avro_from_arrow(definition.columns, name)}
    if definition.lengths:
        others[keys.COLUMN_LENGTHS] = render_column_lengths(definition.lengths)
    described = new_table(definition, database, name, others)
    values = new_table_properties(described)
    refused = unwritten_virtual_keys(keys.TableProperties(values), definition.columns)
    if refused is not None:
        raise UnsupportedTableError(
            f"hudisql does not make {table_label} without meta columns "
            f"({keys.POPULATE_META_FIELDS}=false): {refused}",
            hint=f"leave {keys.POPULATE_META_FIELDS} out",
        )
    lacking = unwritten_dropped_columns(keys.TableProperties(values), definition.columns)
    if lacking is not None:
        raise UnsupportedTableError(
            f"hudisql does not make {table_label}: {lacking}", hint=f"leave {keys.DROP_PARTITION_COLUMNS} out"
        )
    date_columns = check_generator(definition, values, table_label)
    rules = bucket_rules_of_new_table(definition.properties)
    return EmptyTable(values, described.version, tuple(date_columns), rules)


def check_free(storage: Storage, path: str) -> None:
    """Raise TableExistsError if the directory contains anything but an unfinished table."""
    complete_removal(storage, path)
    info = storage.info(path)
    if info is not None and info.is_directory:
        remove_partition_markers(storage, path)
        info = storage.info(path)
    if info is None:
        return
    timeline = join(path, METADATA_DIRECTORY)
    entries = storage.list_directory(path) if info.is_directory else [info]
    others = [entry.path for entry in entries if entry.path != timeline]
    if not others and entries:
        remove_bucket_rules(storage, path, FIRST_RULES)
        others = [file.path for file in storage.list_files(timeline)]
    if others:
        raise TableExistsError(
            f"{path} is not empty: it holds {others[0]}",
            hint="choose an empty LOCATION; CALL bootstrap_table(…) makes a Hudi table of parquet files",
        )


def publish_empty_table(storage: Storage, path: str, empty: EmptyTable) -> None:
    """Create the table's timeline and, as the last step, its properties.

    Raises TableExistsError if another table got there first, StorageError.
    """
    make_timeline_directories(storage, path, empty.version)
    try:
        if empty.rules is not None:
            store_bucket_rules(storage, path, empty.rules)
        publish_properties(storage, path, empty.values, datetime.now(UTC))
    except PathExistsError as error:
        raise TableExistsError(f"another table was created at {path} meanwhile") from error
