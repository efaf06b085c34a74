"""Clustering plans: Hudi's bytes, which partitions and slices are taken, and how they are grouped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from hudisql.errors import CorruptTableError
from hudisql.format.avro.avro_container import load_codec
from hudisql.services.clustering.clustering_plan import (
    ClusteringOptions,
    ClusteringPlan,
    choose_partitions,
    parse_clustering_plan,
    plan_clustering,
    read_clustering_plan,
)
from hudisql.storage import Storage
from hudisql.table.file_slice import BaseFile, FileSlice
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from tests.opened import open_at

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
DAYS = [f"dt=2024-03-{day:02d}" for day in range(1, 31)]


@pytest.fixture
def planned(golden: Callable[[str], Any]) -> HudiTable:
    return open_at(golden("cow_clustering_scheduled").table)


def _plan(table: HudiTable) -> ClusteringPlan:
    (pending,) = table.timeline.pending
    plan = read_clustering_plan(table, pending.timestamp)
    assert plan is not None
    return plan


def _slice(path: str, file_id: str, length: int) -> FileSlice:
    base = BaseFile(f"/t/{path}/{file_id}_0-0-0_20240101000000000.parquet", length, file_id, "0-0-0", "1")
    return FileSlice(path, file_id, "20240101000000000", base)


def test_hudis_plan_is_read_and_written_again_alike(planned: HudiTable) -> None:
    plan = _plan(planned)
    assert plan.partitions == ("dt=2024-03-01", "dt=2024-03-02", "dt=2024-03-03")
    assert [len(each.slices) for each in plan.groups] == [2, 2, 2]
    (pending,) = planned.timeline.pending
    path = planned.instant_path(pending)
    codec = load_codec("HoodieRequestedReplaceMetadata")
    assert codec.decode(plan.to_avro()) == codec.decode(planned.storage.read(path))


def test_the_plan_of_the_same_table_takes_the_same_slices(planned: HudiTable) -> None:
    theirs = _plan(planned)
    ours = plan_clustering(planned.storage, load_file_slices(planned), (), ClusteringOptions())
    assert [{each.file_id for each in group.slices} for group in ours.groups] == [
        {each.file_id for each in group.slices} for group in theirs.groups
    ]
    assert {each.bootstrap_file for group in ours.groups for each in group.slices} == {
        each.bootstrap_file for group in theirs.groups for each in group.slices
    }
    excluded = {(each.partition_path, each.file_id) for group in theirs.groups for each in group.slices}
    assert (
        plan_clustering(planned.storage, load_file_slices(planned), excluded, ClusteringOptions()).groups
        == ()
    )


def test_order_and_layout_come_back_from_the_plan(planned: HudiTable) -> None:
    plan = replace(_plan(planned), sort_columns=("a", "b"), layout="hilbert")
    assert parse_clustering_plan(plan.to_avro(), "") == plan
    codec = load_codec("HoodieRequestedReplaceMetadata")
    overwrite = codec.decode(plan.to_avro()) | {"operationType": None}
    assert parse_clustering_plan(codec.encode(overwrite), "") is None
    mixed = codec.decode(plan.to_avro())
    mixed["clusteringPlan"]["inputGroups"][0]["slices"][0]["partitionPath"] = "dt=2024-03-09"
    with pytest.raises(CorruptTableError, match="not of one partition"):
        parse_clustering_plan(codec.encode(mixed), "x.requested")


def test_groups_are_bounded_and_large_files_stay() -> None:
    slices = [
        _slice("p", name, size) for name, size in (("a", 60), ("b", 50), ("c", 40), ("d", 10), ("e", 99))
    ]
    options = ClusteringOptions(small_file_limit=70, max_group_bytes=100, target_file_bytes=45)
    found = plan_clustering(Storage(), slices, (), options)
    assert [[each.file_id for each in group.slices] for group in found.groups] == [["a"], ["b", "c", "d"]]
    assert [group.output_files for group in found.groups] == [2, 3]
    assert len(plan_clustering(Storage(), slices, (), replace(options, max_groups=1)).groups) == 1
    alone = replace(options, takes_single_files=False, max_group_bytes=1000, small_file_limit=20)
    assert plan_clustering(Storage(), slices, (), alone).groups == ()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (ClusteringOptions(), DAYS),
        (ClusteringOptions(partition_filter="RECENT_DAYS"), [DAYS[29], DAYS[28]]),
        (ClusteringOptions(partition_filter="RECENT_DAYS", skip_latest=28, lookback=9), [DAYS[1], DAYS[0]]),
        (
            ClusteringOptions(partition_filter="SELECTED_PARTITIONS", first=DAYS[3], last=DAYS[5]),
            DAYS[3:6],
        ),
        (ClusteringOptions(partition_filter="DAY_ROLLING"), [DAYS[12]]),
        (ClusteringOptions(selected=(DAYS[2], "none")), [DAYS[2]]),
        (ClusteringOptions(pattern=r"dt=2024-03-1\d", partition_filter="RECENT_DAYS"), [DAYS[18], DAYS[17]]),
    ],
)
def test_partitions_are_filtered_as_in_hudi(options: ClusteringOptions, expected: list[str]) -> None:
    assert choose_partitions(DAYS, options, NOON) == expected
