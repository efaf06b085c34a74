"""A context on the suite's Spark session without a metastore: bootstraps that are not synced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.context import Context


@pytest.fixture
def context(spark: Any) -> Context:
    metastore: Any = None
    return Context(spark, metastore)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Two partitions of two files each, five rows a file."""
    directory = tmp_path / "source"
    for number in range(4):
        path = directory / f"dt={number // 2}" / f"part-{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = range(number * 5, number * 5 + 5)
        pq.write_table(pa.table({"id": pa.array(rows, pa.int64())}), path, row_group_size=2)
    return directory
