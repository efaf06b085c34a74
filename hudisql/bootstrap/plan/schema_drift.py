"""Compares the columns of one source's files, and finds one set of columns for all.

Spark's parquet scan, Apache Hudi 0.15 and 1.2 and hudisql's reader return null for a column that a file lacks
and widen what `type_safety` calls a safe widening (tests/oracle/test_schema_drift.py); other differences
would give wrong rows somewhere and are blockers. Values in, values out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import pyarrow as pa

from hudisql.bootstrap.blockers import Finding, blocker, name_some, warning
from hudisql.bootstrap.source.footers import SourceColumn, SourceSchema
from hudisql.format.schema.spark_schema import spark_type_name
from hudisql.format.schema.type_widening import widest_type
from hudisql.spark.versions import limit_of_widened_files

_WAY_OUT: Final = (
    "on_schema_drift => 'widen' accepts it: null where the column is missing, the widest type where types"
    " differ; dry_run => true names every file"
)
_NO_WAY_OUT: Final = "no type fits all of them: rewrite the fewer files, or exclude their partitions"


class SchemaDrift(StrEnum):
    """The handling of files whose columns differ."""

    FAIL = "fail"
    """Any difference is a blocker."""
    WIDEN = "widen"
    """Differences that every reader handles correctly are accepted, the others are blockers."""


@dataclass(frozen=True, slots=True)
class MergedColumns:
    """The common columns of all files, in the order of the most common schema, and the findings."""

    columns: tuple[SourceColumn, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class _Form:
    """A column in the form that some files have."""

    column: SourceColumn
    paths: list[str]

    def __str__(self) -> str:
        return f"{self.column.name} {_type_text(self.column)} in {name_some(self.paths)}"


def merge_file_schemas(
    files: Mapping[SourceSchema, Sequence[str]], drift: SchemaDrift = SchemaDrift.FAIL
) -> MergedColumns:
    """Compare the schemas of all files, ignoring the order of columns and required against optional.

    A column without a common type keeps the type that most files have, beside its blocker.
    """
    if not files:
        return MergedColumns((), ())
    forms = _forms_by_column(files)
    total = sum(len(paths) for paths in files.values())
    merged: list[SourceColumn] = []
    findings: list[Finding] = []
    for name, found in forms.items():
        column, more = _merge_column(name, found, drift)
        merged.append(column)
        findings += more
        if sum(len(form.paths) for form in found) < total:
            findings.append(_missing(name, found, files, drift))
    return MergedColumns(tuple(merged), tuple(sorted(findings, key=lambda finding: finding.message)))


def describe_file_differences(
    files: Mapping[SourceSchema, Sequence[str]], merged: Sequence[SourceColumn]
) -> Iterator[tuple[str, str]]:
    """Each file that lacks a column of `merged` or has it in another type, and how it differs; by path."""
    described = {schema: "; ".join(_differences(schema, merged)) for schema in files}
    lines = [(path, described[schema]) for schema, paths in files.items() for path in paths]
    yield from sorted(line for line in lines if line[1])


def _differences(schema: SourceSchema, merged: Sequence[SourceColumn]) -> Iterator[str]:
    own = {column.name.lower(): column for column in schema.columns}
    for column in merged:
        stored = own.get(column.name.lower())
        if stored is None:
            yield f"{column.name} is missing"
        elif (stored.name, stored.type) != (column.name, column.type):
            yield f"{stored.name} is {_type_text(stored)}, the table's {column.name} {_type_text(column)}"


def _forms_by_column(files: Mapping[SourceSchema, Sequence[str]]) -> dict[str, list[_Form]]:
    """The forms of each column by its lower-case name, the most common form first.

    Columns come in the order of the schema that most files have, further columns last.
    """
    forms: dict[str, dict[tuple[str, str], _Form]] = defaultdict(dict)
    for schema in sorted(files, key=lambda schema: len(files[schema]), reverse=True):
        for column in schema.columns:
            form = forms[column.name.lower()].setdefault((column.name, _type_text(column)), _Form(column, []))
            form.paths.extend(files[schema])
    return {
        name: sorted(by_text.values(), key=lambda form: -len(form.paths)) for name, by_text in forms.items()
    }


def _merge_column(
    name: str, forms: Sequence[_Form], drift: SchemaDrift
) -> tuple[SourceColumn, list[Finding]]:
    commonest = forms[0].column
    if len(forms) == 1:
        return commonest, []
    described = "; ".join(str(form) for form in reversed(forms))
    message = f"the files differ in column {name}: {described}"
    widest = _widest([form.column for form in forms])
    if widest is None:
        return commonest, [blocker(message, hint=_NO_WAY_OUT)]
    if drift is SchemaDrift.FAIL:
        return commonest, [blocker(message, hint=_WAY_OUT)]
    incompatibilities = frozenset().union(*(form.column.incompatibilities for form in forms))
    column = SourceColumn(commonest.name, widest, commonest.physical, incompatibilities)
    limit = limit_of_widened_files(widest)
    return column, [warning(f"{message}: it becomes {spark_type_name(widest)}{limit}")]


def _widest(columns: Sequence[SourceColumn]) -> pa.DataType | None:
    if len({column.name for column in columns}) > 1:
        return None  # Apache Hudi looks columns up by their exact name
    widest = columns[0].type
    for column in columns[1:]:
        if widest is None or column.type is None:
            return None
        widest = widest_type(widest, column.type)
    return widest


def _missing(
    name: str,
    forms: Sequence[_Form],
    files: Mapping[SourceSchema, Sequence[str]],
    drift: SchemaDrift,
) -> Finding:
    without = [
        path
        for schema, paths in files.items()
        if name not in {column.name.lower() for column in schema.columns}
        for path in paths
    ]
    having = [path for form in forms for path in form.paths]
    if len(without) <= len(having):
        message, null_where = f"column {name} is missing in {name_some(without)}", "there"
    else:
        message, null_where = f"column {name} is only in {name_some(having)}", "elsewhere"
    if drift is SchemaDrift.FAIL:
        return blocker(message, hint=_WAY_OUT)
    return warning(f"{message}: it is null {null_where}")


def _type_text(column: SourceColumn) -> str:
    return column.physical if column.type is None else spark_type_name(column.type)
