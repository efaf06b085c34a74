"""The result of a verification: a row for each finding, errors first, and a last one with the summary."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hudisql.errors import VerificationFailedError
from hudisql.procedures.registry import CheckedRows

if TYPE_CHECKING:
    from hudisql.iceberg.publication_problem import PublicationProblem

SUMMARY: Final = "SUMMARY"


@dataclass(frozen=True)
class FindingRow:
    """A finding, or the summary."""

    finding: str
    severity: str
    partition: str | None
    path: str
    detail: str


def problem_rows(problems: Iterable[PublicationProblem], prefix: str = "") -> list[FindingRow]:
    """The rows of what was found in a publication; `prefix` begins the names of the findings."""
    return [
        FindingRow(
            prefix + problem.kind,
            "error" if problem.is_error else "notice",
            problem.partition,
            problem.path,
            problem.detail,
        )
        for problem in problems
    ]


def checked_findings(
    findings: Iterable[FindingRow], path: str, scope: str, failed: str, *, fail_on_error: bool
) -> CheckedRows[FindingRow]:
    """The findings and their summary of what was looked at (`scope`) in the table at `path`.

    With errors and `fail_on_error` the result has a VerificationFailedError, which begins with `failed`.
    """
    rows = sorted(findings, key=lambda row: row.severity)
    errors = sum(row.severity == "error" for row in rows)
    counted = f"{errors:,} errors, {len(rows) - errors:,} notices; {scope}"
    rows.append(FindingRow(SUMMARY, "failed" if errors else "ok", None, path, counted))
    failure = VerificationFailedError(
        f"{failed}: {errors:,} errors",
        hint="the rows name each; fail_on_error => false gives the rows alone",
    )
    return CheckedRows(rows, failure if errors and fail_on_error else None)
