"""`CALL verify_bootstrap`: a bootstrapped table against its source, a row per finding and a summary.

hudisql's own; Hudi has no such procedure. The work is in `hudisql.bootstrap.verify.verify_bootstrap`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from hudisql.errors import VerificationFailedError
from hudisql.procedures.registry import (
    FAIL_ON_ERROR,
    Arguments,
    CheckedRows,
    Column,
    Parameter,
    procedure,
)
from hudisql.procedures.table_argument import find_table

if TYPE_CHECKING:
    from hudisql.bootstrap.verify.verify_bootstrap import Verification
    from hudisql.context import Context

SUMMARY: Final = "SUMMARY"


@procedure(
    name="verify_bootstrap",
    summary="Compares a bootstrapped table with its source: files, rows, keys, values.",
    parameters=(
        Parameter("table", "string", None, "the table, database.name"),
        Parameter(
            "level",
            "string",
            "sample",
            "counts: all footers, lengths and times; sample: also one row group of up to 20 files; full: also"
            " all keys, and a hash of all columns",
        ),
        Parameter("path", "string", None, "the table's directory, instead of its name"),
        FAIL_ON_ERROR,
    ),
    output=(
        Column("finding", "string"),
        Column("severity", "string"),
        Column("partition", "string"),
        Column("path", "string"),
        Column("detail", "string"),
    ),
)
def verify_bootstrap_table(context: Context, arguments: Arguments) -> Iterable[Sequence[object]]:
    """A row per finding, errors first, and a last row that sums up: severity ok or failed.

    Its error is a VerificationFailedError unless `fail_on_error` is false.
    """
    from hudisql.bootstrap.verify.verify_bootstrap import parse_level, verify_bootstrap

    level = parse_level(arguments.level)
    table = find_table(context, None if arguments.path else arguments.table, arguments.path)
    verified = verify_bootstrap(context, table, level)
    rows: list[Sequence[object]] = [
        (found.kind, "error" if found.is_error else "notice", found.partition_path, found.path, found.detail)
        for found in verified.discrepancies
    ]
    errors, notices = len(verified.errors), len(verified.discrepancies) - len(verified.errors)
    counted = f"{errors:,} errors, {notices:,} notices; {verified.level}: {verified.describe()}"
    rows.append((SUMMARY, "ok" if verified.is_good else "failed", None, verified.base_path, counted))
    if verified.is_good or not arguments.fail_on_error:
        return rows
    return CheckedRows(rows, _failure(verified))


def _failure(verified: Verification) -> VerificationFailedError:
    return VerificationFailedError(
        f"the table at {verified.base_path} does not match its source: {len(verified.errors):,} errors",
        hint="the rows name each; fail_on_error => false gives the rows alone",
    )
