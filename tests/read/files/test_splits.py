from __future__ import annotations

from collections import defaultdict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hudisql.read.files.splits import ScanTask, Split, plan_splits
from hudisql.table.file_slice import BaseFile, ExternalFile, FileSlice

MIB = 1024 * 1024


def _slice(number: int, length: int, external_length: int | None = None) -> FileSlice:
    name = f"file-{number}"
    external = None if external_length is None else ExternalFile(f"/source/{name}", external_length, 0)
    return FileSlice("", name, "1", BaseFile(f"/t/{name}", length, name, "0", "1"), external_file=external)


def _plan(lengths: list[int], **options: int) -> tuple[ScanTask, ...]:
    slices: list[tuple[FileSlice, dict[str, Any]]] = [
        (_slice(number, 10, length), {}) for number, length in enumerate(lengths)
    ]
    return plan_splits(slices, needs_data=True, **{"parallelism": 4, **options})


@given(
    st.lists(st.integers(0, 2000), max_size=40),
    st.integers(1, 500),
    st.integers(1, 50),
    st.integers(1, 16),
)
def test_every_byte_of_every_file_is_in_exactly_one_split(
    lengths: list[int], max_split_bytes: int, open_cost_bytes: int, parallelism: int
) -> None:
    tasks = _plan(
        lengths,
        max_split_bytes=max_split_bytes,
        open_cost_bytes=open_cost_bytes,
        parallelism=parallelism,
    )
    pieces = defaultdict(list)
    for task in tasks:
        assert task.works
        for work in task.works:
            assert work.file_slice.external_file is not None
            whole = Split(0, work.file_slice.external_file.length)
            pieces[work.file_slice.file_id].append(work.split or whole)
    assert len(pieces) == len(lengths)
    for number, length in enumerate(lengths):
        position = 0
        for piece in sorted(pieces[f"file-{number}"], key=lambda split: split.start):
            assert piece.start == position
            assert piece.length <= max(max_split_bytes, open_cost_bytes)
            position += piece.length
        assert position == length


def test_large_files_are_cut_and_small_ones_are_packed() -> None:
    assert len(_plan([1024 * MIB], parallelism=2)) == 8
    assert len(_plan([64 * MIB], parallelism=4)) == 4
    assert len(_plan([1000] * 10_000, parallelism=4)) == 10_000 // 32 + 1


def test_a_read_of_meta_columns_alone_is_cut_by_the_skeleton() -> None:
    (task,) = plan_splits([(_slice(0, 1000, 500 * MIB), {})], needs_data=False, parallelism=4)
    assert [work.split for work in task.works] == [None]


def test_no_slices_are_no_tasks() -> None:
    assert _plan([]) == ()
