"""The bootstrap of one table, from the request to the verified table.

The only sequence: find the same table from an earlier call, plan, run the plan, sync the metastore, verify.
`CALL bootstrap_table` and Hudi's `run_bootstrap` only convert their arguments and the report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.bootstrap.blockers import Finding
from hudisql.bootstrap.plan.bootstrap_plan import BootstrapPlan, plan_bootstrap
from hudisql.bootstrap.plan.request import BootstrapRequest
from hudisql.bootstrap.run.already_bootstrapped import (
    describe_existing_bootstrap,
    finalize_bootstrap,
    sync_bootstrapped_table,
)
from hudisql.bootstrap.run.plan_execution import BootstrapResult, run_bootstrap
from hudisql.bootstrap.run.time_estimate import TimeEstimate, estimate_time
from hudisql.bootstrap.verify.verification import VerifyLevel, verify_bootstrap
from hudisql.errors import TableExistsError, UnsupportedTableError
from hudisql.table.hudi_table import open_table

if TYPE_CHECKING:
    from hudisql.context import Context


@dataclass(frozen=True)
class ExistingBootstrap:
    """The table is bootstrapped from this source already; `description` is the message."""

    description: str


@dataclass(frozen=True)
class BootstrapPreview:
    """What a bootstrap would do, and how long it may take; `estimate` is None if nothing can be measured."""

    plan: BootstrapPlan
    estimate: TimeEstimate | None


@dataclass(frozen=True)
class BootstrapReport:
    """A completed bootstrap; `notices` are findings of the verification that are not errors."""

    plan: BootstrapPlan
    result: BootstrapResult
    notices: tuple[str, ...] = ()


def preview_bootstrap(
    context: Context, request: BootstrapRequest, findings: Sequence[Finding] = ()
) -> BootstrapPreview | ExistingBootstrap:
    """Plan the bootstrap and write nothing; `findings` are those known already.

    Another table at the target is one of the plan's blockers.
    """
    try:
        existing = describe_existing_bootstrap(context, request)
    except (TableExistsError, UnsupportedTableError):
        existing = None  # one of the plan's blockers
    if existing is not None:
        context.console.info(existing)
        return ExistingBootstrap(existing)
    plan = plan_bootstrap(context, request, findings)
    return BootstrapPreview(plan, estimate_time(context, plan))


def bootstrap_table(
    context: Context,
    request: BootstrapRequest,
    findings: Sequence[Finding] = (),
    *,
    verify: bool = True,
    prints_warnings: bool = False,
) -> BootstrapReport | ExistingBootstrap:
    """Bootstrap the table; if it is bootstrapped from this source already, only complete missing steps.

    The latter needs `resume`. `verify` compares counts and a sample with the source after the commit;
    `prints_warnings` prints the plan's warnings before the run. Raises TableExistsError if the target is
    another table, SyncFailedError and VerificationFailedError; after these two the table stays.
    """
    existing = describe_existing_bootstrap(context, request)
    if existing is not None:
        context.console.info(existing)
        return ExistingBootstrap(finalize_bootstrap(context, request) if request.resume else existing)
    plan = plan_bootstrap(context, request, findings)
    for warning in plan.warnings if prints_warnings else ():
        context.console.warning(str(warning))
    result = run_bootstrap(context, plan)
    if request.sync:
        sync_bootstrapped_table(context, request, plan.target_path)
    return BootstrapReport(plan, result, _verify(context, plan) if verify else ())


def _verify(context: Context, plan: BootstrapPlan) -> tuple[str, ...]:
    """The notices of a verification of counts and a sample."""
    table = open_table(context.storage, plan.target_path)
    verified = verify_bootstrap(context, table, VerifyLevel.SAMPLE, check_new_source_directories=False)
    verified.raise_if_bad(plan.request.full_name)
    context.console.info(f"Verified: {verified.describe()}")
    return tuple(
        f"{discrepancy.kind}: {discrepancy.path} ({discrepancy.detail})"
        for discrepancy in verified.discrepancies
    )
