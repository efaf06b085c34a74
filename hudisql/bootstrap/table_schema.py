"""One schema for the table, from the schemas of all files and the columns that the metastore declares.

Files must agree on every column's type; the metastore gives order, comments and, where it is safe, a wider
type. What does not fit is a blocker that names columns and files. Values in, values out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hudisql.bootstrap.findings import Finding, blocker, name_some, warning
from hudisql.bootstrap.footers import FileFooter, SourceSchema, files_by_schema
from hudisql.bootstrap.partition_columns import partition_fields
from hudisql.bootstrap.source import DeclaredColumn, PartitionColumn
from hudisql.bootstrap.type_safety import is_safe_widening, is_same_type
from hudisql.catalog.hive_types import arrow_from_hive_type
from hudisql.errors import HudisqlError
from hudisql.format.schema import commented_field
from hudisql.format.spark_schema import spark_type_name


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The table's data columns, then its partition columns, and what was found while making them."""

    schema: pa.Schema
    findings: tuple[Finding, ...]


def build_table_schema(
    footers: Sequence[FileFooter],
    declared: Sequence[DeclaredColumn] | None,
    partition_columns: Sequence[PartitionColumn],
) -> TableSchema:
    """Compare the files' schemas, fit them to the metastore's columns and add the partition columns.

    Columns whose type no table can carry are left out here; their hazard is a blocker of its own.
    """
    files = files_by_schema(footers)
    findings = compare_file_schemas(files)
    reference = max(files, key=lambda schema: len(files[schema])).columns if files else ()
    fields = [pa.field(column.name, column.type) for column in reference if column.type is not None]
    partition_names = {column.name.lower() for column in partition_columns}
    fields = [field for field in fields if field.name.lower() not in partition_names]
    if declared is not None:
        unusable = {column.name.lower() for column in reference if column.type is None}
        fields, fitted = _fit_to_declaration(fields, declared, unusable)
        findings += fitted
    return TableSchema(pa.schema([*fields, *partition_fields(partition_columns)]), tuple(findings))


def compare_file_schemas(files: Mapping[SourceSchema, Sequence[str]]) -> list[Finding]:
    """Blockers that name columns and files where the files' schemas differ; order of columns is free."""
    if len(files) < 2:
        return []
    total = sum(len(paths) for paths in files.values())
    forms: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    present: dict[str, int] = Counter()
    for schema, paths in files.items():
        for column in schema.columns:
            form = f"{column.name} {_type_text(column.type, column.physical)}"
            forms[column.name.lower()][form] += paths
            present[column.name.lower()] += len(paths)
    findings = []
    for name, by_form in sorted(forms.items()):
        if len(by_form) > 1:
            described = "; ".join(
                f"{form} in {name_some(paths)}" for form, paths in sorted(by_form.items(), key=_fewest_files)
            )
            findings.append(blocker(f"the files differ in column {name}: {described}"))
        if present[name] < total:
            without = [
                path
                for schema, paths in files.items()
                if name not in {column.name.lower() for column in schema.columns}
                for path in paths
            ]
            if len(without) <= total / 2:
                findings.append(blocker(f"column {name} is missing in {name_some(without)}"))
            else:
                having = [path for paths in by_form.values() for path in paths]
                findings.append(blocker(f"column {name} is only in {name_some(having)}"))
    return findings


def _fewest_files(entry: tuple[str, list[str]]) -> tuple[int, str]:
    return len(entry[1]), entry[0]


def _type_text(column_type: pa.DataType | None, physical: str) -> str:
    return physical if column_type is None else spark_type_name(column_type)


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
                f" {column.type_text}"
            )
        )
        return wanted
    findings.append(
        blocker(
            f"column {field.name} is {stored_name} in the files but {column.type_text} in the metastore",
            hint="correct the metastore's type with ALTER TABLE … CHANGE COLUMN, or rewrite the files",
        )
    )
    return field.type
