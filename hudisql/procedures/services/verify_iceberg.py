"""`CALL verify_iceberg`: compares what the published Iceberg metadata says with the Hudi table.

A procedure of hudisql; Hudi has none. `hudisql.iceberg.iceberg_verification` does the work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.options.table_call import base_path_of, find_entry, open_session_table
from hudisql.procedures.binder import parse_choice
from hudisql.procedures.finding_rows import FindingRow, checked_findings, problem_rows
from hudisql.procedures.registry import (
    Arguments,
    CheckedRows,
    fail_on_error_parameter,
    parameter,
    path_parameter,
    procedure,
    table_parameter,
)

if TYPE_CHECKING:
    from hudisql.context import Context


@dataclass(frozen=True, kw_only=True)
class VerifyIcebergArguments(Arguments):
    """The parameters of `verify_iceberg`."""

    table: str | None = table_parameter()
    level: str = parameter(
        "metadata",
        help="metadata: manifests, lengths and footers of all files, file slices, the metastore entry; full:"
        " also all rows of both tables",
    )
    reader: str = parameter(
        "auto",
        help="who reads the rows of the Iceberg table: duckdb, pyiceberg or hudisql; auto takes the first of"
        " these that is installed and reads the table",
    )
    path: str | None = path_parameter()
    fail_on_error: bool = fail_on_error_parameter()


@procedure("Compares the published Iceberg table with the Hudi table: metadata, files, rows.")
def verify_iceberg(context: Context, arguments: VerifyIcebergArguments) -> CheckedRows[FindingRow]:
    """A row per finding, errors first, and a last row with the summary: severity ok or failed.

    A publication that is behind the table is a notice. The error is a VerificationFailedError unless
    `fail_on_error` is false. Raises InvalidArgumentError if the table is not published.
    """
    from hudisql.iceberg.iceberg_verification import IcebergLevel
    from hudisql.iceberg.other_readers import IcebergReader
    from hudisql.options.iceberg_check import check_iceberg

    level = parse_choice(IcebergLevel, "level", arguments.level)
    reader = parse_choice(IcebergReader, "reader", arguments.reader)
    entry = find_entry(context, arguments.table) if arguments.table else None
    table = open_session_table(context, base_path_of(context, entry, arguments.path))
    verified = check_iceberg(context, table, entry, level, reader)
    return checked_findings(
        problem_rows(verified.problems),
        verified.metadata_file,
        f"{verified.level}: {verified.describe()}",
        f"the Iceberg table of the Hudi table at {table.base_path} does not match it",
        fail_on_error=arguments.fail_on_error,
    )
