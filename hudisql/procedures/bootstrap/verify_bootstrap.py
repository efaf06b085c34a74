"""`CALL verify_bootstrap`: compares a bootstrapped table with its source; a row per finding and a summary.

A procedure of hudisql; Hudi has none. `hudisql.bootstrap.verify.verification` does the work.
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
    procedure,
)

if TYPE_CHECKING:
    from hudisql.context import Context


@dataclass(frozen=True, kw_only=True)
class VerifyBootstrapArguments(Arguments):
    """The parameters of `verify_bootstrap`."""

    table: str | None = parameter(None, help="the table, database.name")
    level: str = parameter(
        "sample",
        help="counts: all footers, lengths and times; sample: also one row group of up to 20 files; full:"
        " also all keys, a hash of all columns, the files that the metadata table lists, and the Iceberg"
        " table if there is one",
    )
    path: str | None = parameter(None, help="the table's directory, instead of its name")
    fail_on_error: bool = fail_on_error_parameter()


@procedure(
    "Compares a bootstrapped table with its source: files, rows, keys, values.", name="verify_bootstrap"
)
def verify_bootstrap_table(context: Context, arguments: VerifyBootstrapArguments) -> CheckedRows[FindingRow]:
    """A row per finding, errors first, and a last row with the summary: severity ok or failed.

    The full level has the findings of `verify_iceberg` too if the table is published. Its error is a
    VerificationFailedError unless `fail_on_error` is false.
    """
    from hudisql.bootstrap.verify.verification import VerifyLevel, verify_bootstrap
    from hudisql.iceberg.iceberg_verification import IcebergLevel, is_published
    from hudisql.options.iceberg_check import check_iceberg

    level = parse_choice(VerifyLevel, "level", arguments.level)
    entry = find_entry(context, arguments.table) if arguments.table and not arguments.path else None
    table = open_session_table(context, base_path_of(context, entry, arguments.path))
    verified = verify_bootstrap(context, table, level)
    rows = [
        FindingRow(
            discrepancy.kind,
            "error" if discrepancy.is_error else "notice",
            discrepancy.partition_path,
            discrepancy.path,
            discrepancy.detail,
        )
        for discrepancy in verified.discrepancies
    ]
    scope = f"{verified.level}: {verified.describe()}"
    if level is VerifyLevel.FULL and is_published(table):
        iceberg = check_iceberg(context, table, entry, IcebergLevel.FULL)
        rows += problem_rows(iceberg.problems, "Iceberg: ")
        scope += f"; Iceberg: {iceberg.describe()}"
    return checked_findings(
        rows,
        verified.base_path,
        scope,
        f"the table at {verified.base_path} does not match its source",
        fail_on_error=arguments.fail_on_error,
    )
