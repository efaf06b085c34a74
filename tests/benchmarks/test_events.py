"""The benchmark's table with UUID keys."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.events import KEY_COLUMNS, PRECOMBINE_COLUMN, make_events


def test_events_have_distinct_uuids_spread_over_the_files(tmp_path: Path) -> None:
    directory = make_events(tmp_path, scale_factor=0.001, files=4)
    files = sorted(directory.glob("*.parquet"))
    assert [pq.read_metadata(path).num_rows for path in files] == [1500] * 4
    events = pq.read_table(directory)
    keys = events[KEY_COLUMNS[0]].to_pylist()
    assert len(set(keys)) == 6000
    assert {uuid.UUID(key).version for key in keys} == {4}
    assert all(str(uuid.UUID(key)) == key for key in keys)
    times = events[PRECOMBINE_COLUMN].to_pylist()
    assert times == sorted(set(times))
    assert not any(column.null_count for column in events.columns)


def test_events_are_made_once(tmp_path: Path) -> None:
    directory = make_events(tmp_path, scale_factor=0.001, files=2)
    before = {path.name: path.stat().st_mtime_ns for path in directory.iterdir()}
    assert make_events(tmp_path, scale_factor=0.001, files=2) == directory
    assert {path.name: path.stat().st_mtime_ns for path in directory.iterdir()} == before
