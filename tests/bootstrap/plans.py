"""Plans of bootstraps whose request says no more than it must."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hudisql.bootstrap.plan.bootstrap_plan import BootstrapPlan, plan_bootstrap
from hudisql.bootstrap.plan.request import BootstrapRequest
from hudisql.context import Context


def plan_of(context: Context, source: Path, target: Path, **changes: Any) -> BootstrapPlan:
    """The plan of a bootstrap of the directory `source`, whose record key is `id`; nothing is synced."""
    given: Mapping[str, Any] = {
        "database": "db",
        "name": "t",
        "record_key": ("id",),
        "source_path": str(source),
        "target_path": str(target),
        "sync": False,
        **changes,
    }
    return plan_bootstrap(context, BootstrapRequest(**given))
