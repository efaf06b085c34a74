"""`CALL verify_bootstrap`: compares a bootstrapped table with its source; a row per finding and a summary.

A procedure of hudisql; Hudi has none. `hudisql.bootstrap.verify.verification` does the work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hudisql.errors import VerificationFailedError
from hudisql.options.table_call import base_path_of, find_entry, open_session_table
from hudisql.procedures.binder import parse_choice
from hudisql.procedures.registry import (
    Arguments,
    CheckedRows,
    fail_on_error_parameter,
    parameter,
    procedure,
)

if TYPE_CHECKING:
    from hudisql.context import Context

SUMMARY: Final = "SUMMARY"


@dataclass(frozen=True, kw_only=True)
class VerifyBootstrapArguments(Arguments):
    """The parameters of `verify_bootstrap`."""

    table: str | None = parameter(None, help="the table, database.name")
    level: str = parameter(
        "sample",
        help="counts: all footers, lengths and times; sample: also one row group of up to 20 files; full:"
        " also all keys, and a hash of all columns, and the Iceberg table if there is one",
    )
    path: str | None = parameter(None, help="the table's directory, instead of its name")
    fail_on_error: bool = fail_on_error_parameter()


@dataclass(frozen=True)
class VerifyBootstrapRow:
    """A finding, or the summary."""

    finding: str
    severity: str
    partition: str | None
    path: str
    detail: str


@procedure(
    "Compares a bootstrapped table with its source: files, rows, keys, values.", name="verify_bootstrap"
)
def verify_bootstrap_table(
    context: Context, arguments: VerifyBootstrapArguments
) -> CheckedRows[VerifyBootstrapRow]:
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
        VerifyBootstrapRow(
            discrepancy.kind,
            "error" if discrepancy.is_error else "notice",
            discrepancy.partition_path,
            discrepancy.path,
            discrepancy.detail,
        )
        for discrepancy in verified.discrepancies
    ]
    scope = verified.describe()
    if level is VerifyLevel.FULL and is_published(table):
        iceberg = check_iceberg(context, table, entry, IcebergLevel.FULL)
        rows += [
            VerifyBootstrapRow(
                f"Iceberg: {problem.kind}",
                "error" if problem.is_error else "notice",
                problem.partition,
                problem.path,
                problem.detail,
            )
            for problem in iceberg.problems
        ]
        rows.sort(key=lambda row: row.severity)
        scope += f"; Iceberg: {iceberg.describe()}"
    errors = sum(row.severity == "error" for row in rows)
    counted = f"{errors:,} errors, {len(rows) - errors:,} notices; {verified.level}: {scope}"
    severity = "failed" if errors else "ok"
    rows.append(VerifyBootstrapRow(SUMMARY, severity, None, verified.base_path, counted))
    failure = VerificationFailedError(
        f"the table at {verified.base_path} does not match its source: {errors:,} errors",
        hint="the rows name each; fail_on_error => false gives the rows alone",
    )
    return CheckedRows(rows, failure if errors and arguments.fail_on_error else None)
