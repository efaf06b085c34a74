"""Record keys that occur twice stop a bootstrap before its commit; keys that only look alike do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudisql.bootstrap.run import key_uniqueness
from hudisql.bootstrap.run.key_uniqueness import ComparedFile, RepeatedKey, find_repeated_keys
from hudisql.bootstrap.run.plan_execution import run_bootstrap
from hudisql.context import Context
from hudisql.errors import BootstrapBlockedError, StorageError
from hudisql.format.keys.key_hashes import repeated_hashes
from hudisql.spark.task_runner import exchange_between_tasks
from tests.bootstrap.plans import plan_of


def _write(directory: Path, **files: dict[str, list[Any]]) -> Path:
    """`dt0_a={"id": [...]}` becomes directory/dt=0/a.parquet."""
    for name, columns in files.items():
        partition, file = name.split("_")
        path = directory / f"dt={partition.removeprefix('dt')}" / f"{file}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), path, row_group_size=3)
    return directory


def _bootstrap(context: Context, directory: Path, **changes: Any) -> int:
    plan = plan_of(context, directory / "s", directory / "t", **changes)
    return sum(partition.rows for partition in run_bootstrap(context, plan).partitions)


def _blocked(context: Context, directory: Path, **changes: Any) -> BootstrapBlockedError:
    with pytest.raises(BootstrapBlockedError) as raised:
        _bootstrap(context, directory, **changes)
    assert not (directory / "t").exists()
    return raised.value


@pytest.mark.spark
def test_a_key_twice_in_a_file_or_in_files_of_a_partition_stops_the_run(
    context: Context, tmp_path: Path
) -> None:
    source = _write(
        tmp_path / "s",
        dt0_a={"id": ["k1", "k9", "k2", "k3", "k5"]},
        dt0_b={"id": ["k4", "k5", "k10", "k5"]},
        dt1_a={"id": ["x2", "x1", "x3", "x2"]},
        dt1_b={"id": ["y1"]},
        dt2_a={"id": ["k1"]},
    )
    error = _blocked(context, tmp_path)
    assert "2 record keys (id) occur more than once in a partition, in 5 rows" in str(error)
    assert error.blockers == (
        f"'k5' in 3 rows: such as row 4 of {source}/dt=0/a.parquet and row 3 of {source}/dt=0/b.parquet",
        f"'x2' in 2 rows: rows 0 and 3 of {source}/dt=1/a.parquet",
    )
    assert "key_check => 'nulls'" in str(error)
    assert _bootstrap(context, tmp_path, key_check="nulls") == 15


@pytest.mark.spark
def test_keys_may_repeat_across_partitions_unless_they_are_to_be_unique_in_the_table(
    context: Context, tmp_path: Path
) -> None:
    rows = 25
    source = _write(
        tmp_path / "s",
        dt0_a={"id": list(range(rows)), "line": [1] * rows},
        dt0_b={"id": list(range(rows)), "line": [2] * rows},
        dt1_a={"id": list(range(rows)), "line": [1] * rows},
        dt1_b={"id": list(range(rows, 2 * rows)), "line": [1] * rows},
    )
    composite = {"record_key": ("id", "line")}
    error = _blocked(context, tmp_path, key_check="unique_global", **composite)
    assert "25 record keys (id, line) occur more than once in the table, in 50 rows" in str(error)
    assert len(error.blockers) == 10
    assert error.blockers[1] == (
        f"'id:1,line:1' in 2 rows: row 1 of {source}/dt=0/a.parquet and row 1 of {source}/dt=1/a.parquet"
    )
    assert "and 15 more keys" in str(error)
    assert _bootstrap(context, tmp_path, **composite) == 100


@pytest.mark.spark
def test_null_keys_and_missing_parts_of_keys(context: Context, tmp_path: Path) -> None:
    parts: dict[str, list[Any]] = {"id": ["a", None, "c"], "line": [1, None, 2]}
    _write(tmp_path / "s", dt0_a=parts, dt0_b={"id": [None, "a", ""], "line": [2, 2, 2]})
    assert "record key column id is null in 2 rows" in str(_blocked(context, tmp_path))
    composite = {"record_key": ("id", "line")}
    error = _blocked(context, tmp_path, **composite)
    assert "1 rows have a null or empty record key (id, line)" in str(error)
    _write(tmp_path / "s", dt0_a={"id": ["a", "__null__", None], "line": [1, 4, 2]})
    error = _blocked(context, tmp_path, **composite)
    assert [text.split(" rows")[0] for text in error.blockers] == ["'id:__null__,line:2' in 2"]


@pytest.mark.spark
def test_ranges_that_touch_are_compared_and_ranges_apart_are_not(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[int] = []

    def count_files(spark: Any, files: Any, *arguments: Any, **named: Any) -> Any:
        compared.append(len(files))
        return exchange_between_tasks(spark, files, *arguments, **named)

    monkeypatch.setattr(key_uniqueness, "exchange_between_tasks", count_files)
    source = _write(tmp_path / "s", dt0_a={"id": [1, 9, 5]}, dt0_b={"id": [10, 20]}, dt0_c={"id": [21, 30]})
    assert _bootstrap(context, tmp_path) == 7
    assert compared == [0]
    _write(tmp_path / "s", dt0_b={"id": [10, 20, 21]})
    with pytest.raises(BootstrapBlockedError) as raised:
        _bootstrap(context, tmp_path, target_path=str(tmp_path / "second"))
    assert raised.value.blockers == (
        f"'21' in 2 rows: row 2 of {source}/dt=0/b.parquet and row 0 of {source}/dt=0/c.parquet",
    )
    assert compared == [0, 2, 2]


def _skeletons(directory: Path, *files: tuple[int, list[str]]) -> list[ComparedFile]:
    """Files with a column of keys each, in the groups named."""
    compared = []
    for number, (group, keys) in enumerate(files):
        path = directory / f"{number}.parquet"
        pq.write_table(pa.table({"_hoodie_record_key": pa.array(keys, pa.string())}), path)
        compared.append(ComparedFile(number, group, str(path), len(keys), path.stat().st_size))
    return compared


@pytest.mark.spark
def test_keys_of_equal_hashes_are_told_apart_by_the_keys_themselves(context: Context, tmp_path: Path) -> None:
    files = _skeletons(
        tmp_path,
        (0, [f"k{number}" for number in range(500)]),
        (0, ["other", "k7"]),
        (1, ["k8", "k9"]),
    )
    for hash_bits in (0xFF << 56, 1 << 63, key_uniqueness.ALL_BITS):
        found = find_repeated_keys(context, files, label="keys", hash_bits=hash_bits)
        assert (found.keys, found.rows, found.is_cut) == (1, 2, False)
        assert found.samples == (RepeatedKey("k7", 2, (0, 7), (1, 1)),)
    unlike = [files[0], files[2]]
    assert find_repeated_keys(context, unlike, label="keys", hash_bits=0xF << 60).keys == 0


@pytest.mark.spark
def test_keys_spread_over_many_buckets_and_pieces_are_all_found(context: Context, tmp_path: Path) -> None:
    rows = 300_000
    files = _skeletons(
        tmp_path,
        (0, [f"k{number}" for number in range(rows)]),
        (0, [f"k{number}" for number in range(rows - 1000, 2 * rows)]),
        (0, ["k5"] * rows),
    )
    found = find_repeated_keys(context, files, label="keys", parallelism=5)
    assert (found.keys, found.rows, len(found.samples)) == (1001, rows + 1 + 2000, 10)
    assert found.samples[0] == RepeatedKey("k5", rows + 1, (0, 5), (2, rows - 1))
    Path(files[1].path).write_bytes(b"PAR1")
    with pytest.raises(StorageError, match=r"1\.parquet again"):
        find_repeated_keys(context, files, label="keys")


def test_a_bucket_stays_small_however_often_a_key_occurs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_uniqueness, "_HASHES_A_BUCKET", 4)
    pieces = [
        np.array(each, dtype=np.uint64).tobytes() for each in ([1, 1, 2], [1, 3, 3], [1, 4], [1, 5], [2])
    ]
    gathered = key_uniqueness._gather_suspects(9, iter(pieces))
    assert (gathered.hashes.tolist(), gathered.is_cut) == ([1, 2, 3], False)
    cut = key_uniqueness._gather_suspects(2, iter(pieces))
    assert (cut.hashes.tolist(), cut.is_cut) == ([1, 2], True)


@given(st.lists(st.integers(0, 9)))
def test_repeats_are_found_whatever_copies_were_left_out(numbers: list[int]) -> None:
    hashes = np.sort(np.array(numbers, dtype=np.uint64))
    expected = sorted({number for number in numbers if numbers.count(number) > 1})
    assert repeated_hashes(hashes).tolist() == expected
    assert repeated_hashes(key_uniqueness._at_most_two_of_each(hashes)).tolist() == expected
    assert len(key_uniqueness._at_most_two_of_each(hashes)) <= 2 * len(set(numbers))


def test_similar_keys_of_different_groups_have_different_hashes() -> None:
    keys = pa.array([str(number) for number in range(10_000)])
    hashes = [
        key_uniqueness._hash_batch(ComparedFile(0, group, "", 0, 0), keys, key_uniqueness.ALL_BITS)
        for group in range(20)
    ]
    assert len(np.unique(np.concatenate(hashes))) == 200_000
