"""Tables that DataFrames made by Hudi's options: Apache Hudi goes on with the same options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql import write_table
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.shapes import SHAPES
from tests.oracle.sources import sample_rows

pytestmark = [pytest.mark.oracle, pytest.mark.spark]


@pytest.mark.soak
def test_hudi_015_goes_on_with_a_table_that_a_frame_made_by_its_options(
    oracle_015: HudiOracle, session: Any, tmp_path: Path
) -> None:
    shape, path = SHAPES[0], str(tmp_path / "table")
    options = {**shape.write_options(), "hoodie.table.name": "made_by_frame"}
    first = shape.with_partition_columns(sample_rows(0, 60))
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    write_table(session.spark.createDataFrame(first), "oracle.made_by_frame", **options, path=path)
    second = shape.with_partition_columns(sample_rows(60, 90))
    frame = session.spark.createDataFrame(second)
    frame.write.format("hudi").option("hoodie.datasource.write.operation", "bulk_insert").options(
        **options
    ).mode("append").save(path)
    oracle_015.upsert(shape.with_partition_columns(sample_rows(50, 100, "third")), path, options)
    kept = shape.with_partition_columns(sample_rows(0, 50))
    expected = pa.concat_tables([kept, shape.with_partition_columns(sample_rows(50, 100, "third"))])
    theirs = oracle_015.read(path)
    assert_same_rows(theirs.select(expected.column_names), expected, sort_by=["seq"])
    ours = session.sql("SELECT * FROM oracle.made_by_frame").arrow()
    assert_same_rows(ours, theirs, sort_by=["seq"])
