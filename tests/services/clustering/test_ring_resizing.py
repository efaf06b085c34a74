"""Plans that resize the buckets of a consistent hashing index: what is split and merged, and the nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from hudisql.errors import CorruptTableError
from hudisql.format.keys.hash_ring import HashRing, RingNode, initial_ring, nodes_from_json
from hudisql.services.clustering.clustering_plan import ClusteringPlan, RingLimits, parse_clustering_plan
from hudisql.services.clustering.ring_resizing import plan_resizing
from hudisql.storage import Storage
from hudisql.table.file_slice import BaseFile, FileSlice

RING = initial_ring("p", 4)
LIMITS = RingLimits(min_buckets=2, max_buckets=6, split_bytes=100, merge_bytes=20)


class _Rings:
    def of(self, path: str) -> HashRing:
        return replace(RING, partition_path=path)


def _slice(bucket: int, length: int, path: str = "p") -> FileSlice:
    file_id = RING.file_id(bucket)
    base = BaseFile(f"/t/{path}/{file_id}_0-0-0_20240101000000000.parquet", length, file_id, "0-0-0", "1")
    return FileSlice(path, file_id, "20240101000000000", base)


def _plan(*slices: FileSlice, limits: RingLimits = LIMITS, excluded: Any = ()) -> ClusteringPlan:
    return plan_resizing(Storage(), slices, excluded, cast("Any", _Rings()), limits)


def _values(plan: ClusteringPlan) -> list[list[tuple[int, bool]]]:
    """The nodes of each group: the value, and whether it has a file group."""
    return [[(node.value, node.file_id_prefix is not None) for node in group.nodes] for group in plan.groups]


def test_large_buckets_are_halved_and_small_neighbours_merged() -> None:
    plan = _plan(_slice(0, 101), _slice(1, 100), _slice(2, 10), _slice(3, 10))
    first, second, third, last = RING.values
    half = (1 << 28) - 1
    assert _values(plan) == [[(half, True), (first, True)], [(third, False), (last, True)]]
    assert [group.output_files for group in plan.groups] == [2, 1]
    ring = RING.resized("20240102000000000", [node for group in plan.groups for node in group.nodes])
    assert ring.values == (half, first, second, last)
    assert (ring.number, ring.instant_time) == (1, "20240102000000000")
    assert ring.file_id_prefixes[2] == RING.file_id_prefixes[1]
    assert len({*ring.file_id_prefixes, *RING.file_id_prefixes}) == 7


def test_the_number_of_buckets_has_bounds() -> None:
    large = [_slice(bucket, 101) for bucket in range(4)]
    assert len(_plan(*large).groups) == 2
    assert _plan(*large, limits=replace(LIMITS, max_buckets=4)).groups == ()
    small = [_slice(bucket, 1) for bucket in range(4)]
    first, second, third, _ = RING.values
    assert _values(_plan(*small)) == [[(first, False), (second, False), (third, True)]]
    assert _plan(*small, limits=replace(LIMITS, min_buckets=4)).groups == ()


def test_only_neighbours_are_merged_up_to_the_threshold() -> None:
    assert _plan(_slice(0, 1), _slice(2, 1)).groups == ()
    assert _plan(_slice(0, 15), _slice(1, 15)).groups == ()
    plan = _plan(_slice(0, 15), _slice(1, 15), _slice(2, 5))
    assert _values(plan) == [[(RING.values[1], False), (RING.values[2], True)]]


def test_partitions_with_a_pending_service_are_left_out() -> None:
    large = [_slice(0, 101), _slice(0, 101, "q")]
    assert _plan(*large).partitions == ("p", "q")
    assert _plan(*large, excluded=[("p", RING.file_id(3))]).partitions == ("q",)


def test_a_plan_is_read_as_it_was_written() -> None:
    plan = _plan(_slice(0, 101), _slice(2, 10), _slice(3, 10))
    assert parse_clustering_plan(plan.to_avro(), "plan") == plan
    assert plan.resizes_buckets
    assert not ClusteringPlan(()).resizes_buckets


def test_narrow_buckets_are_not_halved() -> None:
    assert replace(RING, values=(5, 6, 7, 9)).middle(1) is None
    assert replace(RING, values=(5, 6, 7, 9)).middle(3) == 8


@pytest.mark.parametrize(
    "text", ["{", "[{}]", "[1]", '[{"value": "x", "fileIdPrefix": "f", "tag": "REPLACE"}]']
)
def test_nodes_that_are_not_valid_are_named(text: str) -> None:
    deleted = '[{"value": 1, "fileIdPrefix": null, "tag": "DELETE"}]'
    assert nodes_from_json(deleted, "plan") == (RingNode(1, None),)
    with pytest.raises(CorruptTableError, match="plan"):
        nodes_from_json(text, "plan")
