"""Splits that are killed before any of their changes of the store: the table reads as before or after."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path

import pytest

from hudisql.format import table_properties as keys
from tests.ingest.split.test_split_partitions import PARTITION, SMALL, model_of, split_all, split_of
from tests.ingest.test_table_feed import Fed, event, events
from tests.opened import open_at
from tests.oracle.line_process import LineProcess
from tests.soak import parameters
from tests.write.crashed_commits import crash


@pytest.mark.parametrize("every", parameters([1, 9], in_ci=[9]))
def test_a_split_that_is_killed_at_any_step_loses_and_repeats_nothing(
    tmp_path: Path, committer: LineProcess, every: int
) -> None:
    fed = Fed(tmp_path / "table", keys.MERGE_ON_READ, split_limits=SMALL, split="never")
    fed.flush(*events(range(800), 1))
    fed.flush(*events(range(0, 800, 7), 2), event(5, 3, _hoodie_is_deleted=True))
    model = model_of(fed)
    was_split = set()
    for step in count(0, every):
        path = tmp_path / str(step)
        shutil.copytree(tmp_path / "table", path)
        left = Fed.__new__(Fed)
        left.path, left.bad, left.sent, left.split_limits = str(path), [], fed.sent, SMALL
        killed = crash(
            committer, str(path), step, action="split", partition=PARTITION, bucket_bytes=SMALL.bucket_bytes
        )
        assert model_of(left) == model
        was_split.add(split_of(left) is not None)
        left.take_over(split="now")
        left.flush(*events(range(790, 810), 9))
        assert model_of(left) == {**model, **dict.fromkeys(range(790, 810), 9)}
        split_all(left)
        assert split_of(left) is not None
        assert model_of(left) == {**model, **dict.fromkeys(range(790, 810), 9)}
        assert not open_at(left.path).timeline.pending
        if not killed:
            break
    assert step > 15
    assert was_split == {False, True}
