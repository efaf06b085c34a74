"""Groups of a clustering that Spark sorts have numbers without gaps: each is one of Spark's partitions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from hudisql.write.execution.cluster_slices import RowOrder, SliceGroup, _Job


def test_groups_that_spark_sorts_come_first() -> None:
    context: Any = None
    sizes = (1, 3, 1, 2)
    groups = tuple(SliceGroup(f"dt={number}", (), size) for number, size in enumerate(sizes))
    values = tuple({"dt": number} for number in range(len(sizes)))
    job, count = _Job(
        context, groups, values, RowOrder(("id",)), pa.schema([("id", pa.string())])
    ).with_single_tasks_last()
    assert count == 2
    assert [each.output_files for each in job.groups] == [3, 2, 1, 1]
    assert [each["dt"] for each in job.values] == [1, 3, 0, 2]
    assert [job.is_single_task(number) for number in range(4)] == [False, False, True, True]
