"""The number of rows that the scans of an executed DataFrame returned, by the metrics of Spark's physical
plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from hudisql.spark.jvm import class_name, executed_plan, items_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Scans whose rows come from Python: the nodes below them are parts of the scan.
_PYTHON_SCANS: Final = frozenset({"MapInArrowExec", "MapInPandasExec", "PythonMapInArrowExec"})
_METRICS: Final = ("numOutputRows", "pythonNumRowsReceived")
_REUSED: Final = frozenset({"ReusedExchangeExec", "ReusedSubqueryExec"})


def scanned_rows(frame: DataFrame) -> int:
    """The rows that came from files, Python and the driver when `frame` ran; 0 if it has not run."""
    return sum(map(_rows_of, _scans(executed_plan(frame))))


def _scans(node: Any) -> Iterator[Any]:
    kind = class_name(node)
    if kind in _REUSED:
        return
    below = [] if kind in _PYTHON_SCANS else _plans_below(node, kind)
    if not below:
        yield node
    for item in (*below, *items_of(node.subqueries())):
        yield from _scans(item)


def _plans_below(node: Any, kind: str) -> list[Any]:
    if kind == "AdaptiveSparkPlanExec":
        return [node.executedPlan()]
    if kind.endswith("QueryStageExec"):
        return [node.plan()]
    return list(items_of(node.children()))


def _rows_of(scan: Any) -> int:
    metrics = scan.metrics()
    found = next((metrics.get(name) for name in _METRICS if metrics.contains(name)), None)
    return 0 if found is None else int(found.get().value())
