"""Streams over one table, of hudisql and of Apache Hudi: each micro batch has the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.write.transaction.pull_checkpoint import find_checkpoint
from tests.opened import open_at
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows, read_by_both
from tests.oracle.shapes import SHAPES
from tests.oracle.sources import sample_rows
from tests.oracle.test_history import CLUSTER, COMPACT, assert_same_captures
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

START = "hoodie.datasource.streaming.startOffset"
CDC = {
    "hoodie.datasource.query.type": "incremental",
    "hoodie.datasource.query.incremental.format": "cdc",
}


def our_batches(session: Any, path: str, checkpoint: Path, options: dict[str, str]) -> pa.Table:
    """The rows that hudisql's stream with this checkpoint reads now."""
    found: list[pa.Table] = []
    frame = session.spark.readStream.format("hudi").options(**options).load(path)
    writer = frame.writeStream.foreachBatch(lambda rows, _: found.append(rows.toArrow()))
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return pa.concat_tables(found)


@pytest.mark.soak
@pytest.mark.parametrize("name", parameters(["partitioned", "merge_on_read"], in_ci=["merge_on_read"]))
def test_micro_batches_are_those_of_apache_hudi(
    oracle_015: HudiOracle, session: Any, tmp_path: Path, name: str
) -> None:
    shape = next(shape for shape in SHAPES if shape.name == name)
    path = str(tmp_path / "table")
    services = COMPACT if shape.table_type == "MERGE_ON_READ" else CLUSTER

    def check_next(expected: int, **options: str) -> None:
        theirs = oracle_015.stream(path, tmp_path / "theirs", options=options)
        ours = our_batches(session, path, tmp_path / "ours", options)
        assert_same_rows(ours, theirs, sort_by=["seq"])
        assert theirs.num_rows == expected

    def upsert(first: int, last: int, **options: str) -> None:
        rows = shape.with_partition_columns(sample_rows(first, last, f"from {first}"))
        oracle_015.upsert(rows, path, {**shape.write_options(), **options})

    upsert(0, 60)
    upsert(50, 70)
    check_next(70, **{START: "earliest"})
    upsert(20, 30, **services)
    upsert(28, 33)
    check_next(13)
    session.sql("DROP TABLE IF EXISTS oracle.streamed")
    session.sql(f"CALL hive_sync(table => 'oracle.streamed', path => '{path}')")
    session.sql("DELETE FROM oracle.streamed WHERE seq = 3")
    session.sql("UPDATE oracle.streamed SET note = 'updated' WHERE seq < 8")
    check_next(7)


@pytest.mark.soak
def test_captured_changes_of_streams_are_those_of_apache_hudi(
    oracle_015: HudiOracle, session: Any, tmp_path: Path
) -> None:
    shape = next(shape for shape in SHAPES if shape.name == "partitioned")
    path = str(tmp_path / "table")
    options = {**shape.write_options(), "hoodie.table.cdc.enabled": "true"}
    batch = {**CDC, "hoodie.datasource.read.begin.instanttime": "000"}
    for first, last in ((0, 30), (20, 40)):
        rows = shape.with_partition_columns(sample_rows(first, last, f"from {first}"))
        oracle_015.upsert(rows, path, options)
        theirs = oracle_015.stream(path, tmp_path / "theirs", options=CDC)
        ours = our_batches(session, path, tmp_path / "ours", CDC)
        assert_same_captures(ours, theirs)
    assert_same_captures(
        session.spark.read.format("hudi").options(**batch).load(path).toArrow(),
        oracle_015.read(path, options=batch),
    )


@pytest.mark.soak
def test_apache_hudi_writes_on_into_the_target_of_pulls_and_its_place_stays(
    oracle_015: HudiOracle, session: Any, tmp_path: Path
) -> None:
    shape = next(shape for shape in SHAPES if shape.name == "merge_on_read")
    source, target = str(tmp_path / "source"), str(tmp_path / "target")

    options = {**shape.write_options(), "hoodie.table.name": "pulled"}

    def upsert(first: int, last: int, path: str) -> None:
        rows = shape.with_partition_columns(sample_rows(first, last, f"from {first}"))
        oracle_015.upsert(rows, path, options)

    upsert(0, 30, source)
    for name in ("streamed", "pulled"):
        session.sql(f"DROP TABLE IF EXISTS oracle.{name}")
    session.sql(f"CALL hive_sync(table => 'oracle.streamed', path => '{source}')")
    with session.incremental("oracle.streamed", into="oracle.pulled") as pull:
        pull.write(path=target, **options)
    upsert(20, 40, source)
    with session.incremental("oracle.streamed", into="oracle.pulled") as pull:
        assert pull.write(pull.df.where("seq > 100")).instant_time is not None
    place = find_checkpoint(open_at(target), source)
    assert place is not None
    assert place.until == open_at(source).timeline.commits[-1].timestamp
    upsert(28, 33, target)
    assert read_by_both(oracle_015, session, "oracle.pulled", target).num_rows == 33
    assert find_checkpoint(open_at(target), source) == place
