"""One schema for the table, from the schemas of all files and the columns that the metastore declares.

`schema_drift` merges the files' columns; the metastore provides order, comments and, if safe, a wider type.
Mismatches are blockers that name columns and files. Values in, values out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from hudisql.bootstrap.blockers import Finding, blocker, warning
from hudisql.bootstrap.plan.schema_drift import SchemaDrift, describe_file_differences, merge_file_schemas
from hudisql.bootstrap.source.footers import FileFooter, files_by_schema
from hudisql.bootstrap.source.partition_columns import partition_fields
from hudisql.bootstrap.source.source_files import DeclaredColumn, PartitionColumn
from hudisql.catalog.hive_types import arrow_from_hive_type
from hudisql.errors import HudisqlError
from hudisql.format.schema.avro_schema import commented_field
from hudisql.format.schema.spark_schema import spark_type_name
from hudisql.format.schema.type_widening import is_safe_widening, is_same_type
from hudisql.spark.versions import limit_of_widened_files


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The table's data columns, then its partition columns, and the findings.

    `file_differences` are the paths of files that differ from the merged columns, and how.
    """

    schema: pa.Schema
    findings: tuple[Finding, ...]
    file_differences: tuple[tuple[str, str], ...] = ()


def build_table_schema(
    footers: Sequence[FileFooter],
    declared: Sequence[DeclaredColumn] | None,
    partition_columns: Sequence[PartitionColumn],
    drift: SchemaDrift = SchemaDrift.FAIL,
) -> TableSchema:
    """Merge the files' schemas, fit them to the metastore's columns and add the partition columns.

    Columns of unsupported types are left out here; their incompatibility is a separate blocker.
    """
    files = files_by_schema(footers)
    merged = merge_file_schemas(files, drift)
    findings = list(merged.findings)
    reference = merged.columns
    fields = [pa.field(column.name, column.type) for column in reference if column.type is not None]
    if declared is not None:
        unusable = {column.name.lower() for column in reference if column.type is None}
        fields, fitted = _fit_to_declaration(fields, declared, unusable)
        findings += fitted
    return TableSchema(
        pa.schema([*fields, *partition_fields(partition_columns)]),
        tuple(findings),
        tuple(describe_file_differences(files, merged.columns)),
    )


def _fit_to_declaration(
    fields: Sequence[pa.Field], declared: Sequence[DeclaredColumn], unusable: set[str]
) -> tuple[list[pa.Field], list[Finding]]:
    """The files' columns in the metastore's order, with its comments; columns it does not know come last."""
    stored = {field.name.lower(): field for field in fields}
    findings: list[Finding] = []
    fitted: list[pa.Field] = []
    for column in declared:
        if column.name.lower() in unusable:
            continue
        field = stored.pop(column.name.lower(), None)
        try:
            wanted = arrow_from_hive_type(column.type_text)
        except HudisqlError as error:
            findings.append(blocker(f"column {column.name}: {error.message}"))
            continue
        if field is None:
            findings.append(
                warning(
                    f"column {column.name} {column.type_text} of the metastore is in no file: it will be NULL"
                )
            )
            fitted.append(commented_field(column.name, wanted, column.comment))
            continue
        fitted.append(
            commented_field(field.name, _agreed_type(field, wanted, column, findings), column.comment)
        )
    for field in stored.values():
        findings.append(
            warning(f"column {field.name} is in the files but not in the metastore's table: it comes last")
        )
        fitted.append(field)
    return fitted, findings


def _agreed_type(
    field: pa.Field, wanted: pa.DataType, column: DeclaredColumn, findings: list[Finding]
) -> pa.DataType:
    if is_same_type(wanted, field.type):
        return field.type
    stored_name = spark_type_name(field.type)
    if is_safe_widening(field.type, wanted):
        findings.append(
            warning(
                f"column {field.name}: {stored_name} in the files, safely widened to the metastore's"
                f" {column.type_text}{limit_of_widened_files(wanted)}"
            )
        )
        return wanted
    findings.append(
        blocker(
            f"column {field.name} is {stored_name} in the files but {column.type_text} in the metastore",
            hint="give source => '<the table's directory>' instead of source_table: then the files' types are"
            " used; or correct the metastore's type in Hive (beeline): ALTER TABLE … CHANGE COLUMN … CASCADE",
        )
    )
    return field.type
