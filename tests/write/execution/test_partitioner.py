"""Planning which file slices a commit writes, from counts alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hudisql.table.file_slice import BaseFile, ExternalFile, FileSlice, LogFile
from hudisql.write.execution.partitioner import (
    HASH_RANGE,
    BucketInfo,
    FileSizing,
    assign_buckets,
    assign_hash_buckets,
    buckets_a_task,
)

SIZING = FileSizing(small_file_bytes=1000, max_file_bytes=2000, bytes_per_row=10.0)


def _slice(file_id: str, length: int, partition: str = "p", **parts: object) -> FileSlice:
    base = BaseFile(f"/t/{partition}/{file_id}", length, file_id, "0-0-0", "1")
    return FileSlice(partition, file_id, "1", base, **parts)  # type: ignore[arg-type]


def test_changed_rows_go_to_the_group_that_holds_them() -> None:
    plan = assign_buckets([_slice("a", 5000), _slice("b", 5000)], {("p", "a"): 3, ("p", "b"): 4}, {}, SIZING)
    assert [(each.file_slice.file_id, each.rows) for each in plan.buckets if each.file_slice] == [
        ("a", 3),
        ("b", 4),
    ]
    assert plan.of_file_group == {("p", "a"): 0, ("p", "b"): 1}


def test_new_rows_fill_small_files_and_make_others_of_the_right_size() -> None:
    slices = [_slice("small", 500), _slice("large", 1500), _slice("other", 10, partition="q")]
    plan = assign_buckets(slices, {("p", "small"): 1}, {"p": 600}, SIZING)
    shares = [(each.file_slice and each.file_slice.file_id, each.rows) for each in plan.buckets]
    assert shares == [("small", 151), (None, 150), (None, 150), (None, 150)]
    assert plan.of_new_rows["p"].buckets == (0, 1, 2, 3)
    assert plan.of_new_rows["p"].bounds[-1] == HASH_RANGE


def test_slices_with_logs_take_no_new_rows_and_skeletons_count_with_their_source() -> None:
    log = LogFile("/t/p/.l", 1, "l", "1", 1, "0-0-0")
    bootstrapped = _slice("s", 10, external_file=ExternalFile("/source/f", 5000, 0))
    assert bootstrapped.base_length == 5010
    plan = assign_buckets([_slice("l", 10, log_files=(log,)), bootstrapped], {}, {"p": 5}, SIZING)
    assert [each.file_slice for each in plan.buckets] == [None]


def test_small_slices_share_a_task_and_large_ones_do_not() -> None:
    def together(lengths: list[int], parallelism: int = 2) -> int:
        buckets = [
            BucketInfo(number, "p", _slice(f"f{number}", each), 1) for number, each in enumerate(lengths)
        ]
        return buckets_a_task(buckets, 100.0, parallelism)

    assert together([10_000] * 1_000) == 16
    assert together([10_000] * 1_000, parallelism=1_000) == 1
    assert together([100_000_000] * 24) == 1
    assert together([100_000_000, *[10_000] * 999]) == 16
    assert together([10_000] * 3) == 1


@given(
    st.dictionaries(st.sampled_from("pqr"), st.integers(1, 10_000), min_size=1),
    st.lists(st.tuples(st.sampled_from("pqr"), st.integers(1, 3000)), max_size=8),
)
def test_every_new_row_has_one_bucket(new_rows: dict[str, int], files: list[tuple[str, int]]) -> None:
    slices = [_slice(f"f{number}", length, partition) for number, (partition, length) in enumerate(files)]
    plan = assign_buckets(slices, {}, new_rows, SIZING)
    for partition, rows in new_rows.items():
        spread = plan.of_new_rows[partition]
        assert sum(plan.buckets[number].rows for number in spread.buckets) == rows
        assert list(spread.bounds) == sorted(spread.bounds)
        assert spread.bounds[-1] == HASH_RANGE
        assert {plan.buckets[number].partition_path for number in spread.buckets} == {partition}


def test_new_rows_of_a_bucket_index_go_to_the_group_of_their_bucket() -> None:
    log = LogFile("/t/p/.l", 1, "b1", "1", 1, "0-0-0")
    first, second = _slice("b0", 5000), _slice("b1", 5000, log_files=(log,))
    groups = {("p", 0): first, ("p", 1): second}
    new_rows = {("p", 0): 5, ("p", 1): 6, ("p", 3): 7, ("q", 3): 8}
    plan = assign_hash_buckets(
        [first, second], {("p", "b1"): 2}, new_rows, groups, lambda path, bucket: f"{path}{bucket}"
    )
    found = [(each.partition_path, each.file_slice and each.file_slice.file_id) for each in plan.buckets]
    assert found == [("p", "b1"), ("p", "b0"), ("p", None), ("q", None)]
    assert [each.file_id_prefix for each in plan.buckets] == [None, None, "p3", "q3"]
    assert plan.of_new_rows["p"].buckets == (1, 0, -1, 2)
    assert plan.of_new_rows["q"].buckets == (-1, -1, -1, 3)
