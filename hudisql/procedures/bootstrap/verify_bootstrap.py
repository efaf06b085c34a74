"""`CALL verify_bootstrap`: compares a bootstrapped table with its source; a row per finding and a summary.

A procedure of hudisql; Hudi has none. `hudisql.bootstrap.verify.verification` does the work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hudisql.errors import VerificationFailedError
from hudisql.options.table_call import find_table
from hudisql.procedures.binder import parse_choice
from hudisql.procedures.registry import (
    Arguments,
    CheckedRows,
    fail_on_error_parameter,
    parameter,
    procedure,
)

if TYPE_CHECKING:
    from hudisql.bootstrap.verify.verification import Verification
    from hudisql.context import Context

SUMMARY: Final = "SUMMARY"


@dataclass(frozen=True, kw_only=True)
class VerifyBootstrapArguments(Arguments):
    """The parameters of `verify_bootstrap`."""

    table: str | None = parameter(None, help="the table, database.name")
    level: str = parameter(
        "sample",
        help="counts: all footers, lengths and times; sample: also one row group of up to 20 files; full:"
        " also all keys, and a hash of all columns",
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

    Its error is a VerificationFailedError unless `fail_on_error` is false.
    """
    from hudisql.bootstrap.verify.verification import VerifyLevel, verify_bootstrap

    level = parse_choice(VerifyLevel, "level", arguments.level)
    table = find_table(context, None if arguments.path else arguments.table, arguments.path)
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
    errors, notices = len(verified.errors), len(verified.discrepancies) - len(verified.errors)
    counted = f"{errors:,} errors, {notices:,} notices; {verified.level}: {verified.describe()}"
    severity = "ok" if verified.is_good else "failed"
    rows.append(VerifyBootstrapRow(SUMMARY, severity, None, verified.base_path, counted))
    fails = arguments.fail_on_error and not verified.is_good
    return CheckedRows(rows, _failure(verified) if fails else None)


def _failure(verified: Verification) -> VerificationFailedError:
    return VerificationFailedError(
        f"the table at {verified.base_path} does not match its source: {len(verified.errors):,} errors",
        hint="the rows name each; fail_on_error => false gives the rows alone",
    )
