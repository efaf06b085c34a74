"""The benchmark of split partitions runs, and finds each key once."""

from __future__ import annotations

from pathlib import Path

from benchmarks.ingest_buckets import compare
from hudisql.format import table_properties as keys


def test_a_split_is_measured(tmp_path: Path) -> None:
    found = compare(tmp_path, keys.MERGE_ON_READ, 600, 300, 50, 1)
    assert found.before.index_bytes > 0
    assert found.after.index_bytes == 0
    assert 300 < found.before.rows < found.after.rows
