"""A Hudi table as the source of Spark's streams: each change once, whatever stops the stream."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from hudisql.errors import HollowCommitError, InvalidArgumentError, NoSuchStateError
from hudisql.session import Session
from tests.opened import open_at
from tests.soak import parameters
from tests.spark_versions import module_since
from tests.sql.changed_tables import ChangedTable

HudiStreamReader = module_since("4.0", "Python data sources", "pyspark_hudisql.stream").HudiStreamReader
pytestmark = [pytest.mark.spark, pytest.mark.hms]

POLICY = "hoodie.read.timeline.holes.resolution.policy"
START = "hoodie.datasource.streaming.startOffset"
CDC = {
    "hoodie.datasource.query.type": "incremental",
    "hoodie.datasource.query.incremental.format": "cdc",
}
BEGIN = "hoodie.datasource.read.begin.instanttime"


@dataclass
class Stream:
    """A stream over a table that ends when it has read all; `batches` are its rows by number of the batch."""

    session: Session
    path: str
    checkpoint: Path
    options: dict[str, str] = field(default_factory=dict)
    batches: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)

    def run(self, *columns: str, fails_after: bool = False) -> list[tuple[Any, ...]]:
        """The rows of the batches of this run, sorted."""
        reader = self.session.spark.readStream.format("hudi").options(**self.options)
        before = set(self.batches)

        def take(frame: Any, number: int) -> None:
            self.batches[number] = sorted(map(tuple, frame.collect()))
            if fails_after:
                raise ZeroDivisionError

        writer = reader.load(self.path).select(*columns).writeStream.foreachBatch(take)
        query = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()
        return [row for number, rows in self.batches.items() if number not in before for row in rows]


@pytest.mark.soak
@pytest.mark.parametrize("kind", parameters(["table", "merge_on_read_table"], in_ci=["merge_on_read_table"]))
def test_a_stream_reads_each_change_once_over_stops_and_failures(
    session: Session, tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    table: ChangedTable = request.getfixturevalue(kind)
    stream = Stream(session, table.path, tmp_path / "checkpoint")
    columns = ("id", "_hoodie_commit_time")
    assert [row[0] for row in stream.run(*columns)] == [row[0] for row in table.rows()]
    assert stream.run(*columns) == []
    table.run("UPDATE {t} SET price = -1 WHERE seq < 3")
    table.run("UPDATE {t} SET price = -2 WHERE seq < 1")
    with pytest.raises(PySparkException, match="ZeroDivisionError"):
        stream.run(*columns, fails_after=True)
    instants = [each.timestamp for each in open_at(table.path).timeline.commits]
    failed = stream.batches[max(stream.batches)]
    assert failed == [("k00", instants[2]), ("k01", instants[1]), ("k02", instants[1])]
    table.run("DELETE FROM {t} WHERE seq = 1")
    table.run("INSERT INTO {t} (id, seq, dt) VALUES ('new', 99, '2024-03-01')")
    # The window that had failed is read again as it was planned, with its rows as of its end, then the rest.
    count = len(stream.batches)
    assert [row[0] for row in stream.run(*columns)] == ["new"]
    assert stream.batches[count - 1] == failed
    assert stream.run(*columns) == []


@pytest.mark.soak
def test_a_stream_begins_where_it_is_told(session: Session, table: ChangedTable, tmp_path: Path) -> None:
    table.run("UPDATE {t} SET price = -1 WHERE seq < 3")
    newest = open_at(table.path).timeline.commits[-1].timestamp
    later = Stream(session, table.path, tmp_path / "latest", {START: "latest"})
    assert later.run("id") == []
    table.run("UPDATE {t} SET price = -2 WHERE seq = 2")
    assert later.run("id") == [("k02",)]
    since = Stream(session, f"{table.path}/dt=2024-03-01", tmp_path / "since", {START: newest})
    assert since.run("id", "price") == [tuple(row) for row in table.rows("id, price", "seq = 2")]
    with pytest.raises(PySparkException, match=f"{START} is 'yesterday', which is not an instant time"):
        Stream(session, table.path, tmp_path / "refused", {START: "yesterday"}).run("id")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({BEGIN: "000", "hoodie.datasource.query.type": "incremental"}, f"{BEGIN} is an option of batches"),
        ({"hoodie.datasource.query.type": "read_optimized"}, "does not take the query type 'read_optimized'"),
        (
            {POLICY: "USE_TRANSITION_TIME"},
            "a stream's offsets are instant times",
        ),
    ],
)
def test_options_of_batches_are_refused(options: dict[str, str], said: str) -> None:
    reader = HudiStreamReader(options, StructType())
    for ask in (reader.initialOffset, reader.latestOffset):
        with pytest.raises(InvalidArgumentError, match=said):
            ask()


@pytest.fixture
def copied(golden: Callable[[str], Any], tmp_path: Path) -> Path:
    path = tmp_path / "table"
    shutil.copytree(golden("cow_bootstrap_then_upsert_delete").table, path)
    return path


def offsets(path: Path) -> list[dict[str, str]]:
    return [{"commitTime": each.timestamp} for each in open_at(path).timeline.commits]


def test_a_stream_ends_before_a_pending_commit(copied: Path) -> None:
    first, second, third = offsets(copied)
    pending = second["commitTime"]
    (copied / ".hoodie" / f"{pending}.commit").unlink()
    waits = HudiStreamReader({"path": str(copied)}, StructType())
    offset = waits.latestOffset()
    # A bootstrap is told from another one of its instant.
    assert (offset["commitTime"], set(offset)) == (first["commitTime"], {"commitTime", "bootstrap"})
    fails = HudiStreamReader({"path": str(copied), POLICY: "FAIL"}, StructType())
    with pytest.raises(HollowCommitError, match=f"{pending} .* is pending"):
        fails.latestOffset()
    # Planned before the commit was pending, and read again: Spark would go on after the third one.
    with pytest.raises(HollowCommitError, match=rf"{pending} .* is pending(?s:.*)start the stream again"):
        waits.partitions(first, third)


def test_a_stream_never_begins_before_it_was_told_to(copied: Path) -> None:
    reader = HudiStreamReader({"path": str(copied), START.lower(): "2090-01-01"}, StructType())
    begin = reader.initialOffset()
    assert reader.latestOffset(begin) == begin
    assert reader.partitions(begin, begin) == []


def test_a_stream_ends_at_a_commit_that_was_undone(copied: Path) -> None:
    _, second, third = offsets(copied)
    reader = HudiStreamReader({"path": str(copied)}, StructType())
    for file in (copied / ".hoodie").glob(f"{third['commitTime']}.*"):
        file.unlink()
    assert reader.latestOffset() == second
    with pytest.raises(NoSuchStateError, match=f"the commit {third['commitTime']} .* was undone"):
        reader.partitions(third, second)
    begun = HudiStreamReader({"path": str(copied), START.lower(): third["commitTime"]}, StructType())
    assert begun.partitions(third, third) == []


@pytest.mark.soak
def test_captured_changes_are_those_of_the_table_function(
    session: Session, table: ChangedTable, tmp_path: Path
) -> None:
    stream = Stream(session, table.path, tmp_path / "checkpoint", CDC)
    function = f"SELECT * FROM hudi_table_changes('{table.path}', 'cdc', '{{}}')"
    expected = sorted(map(tuple, session.sql(function.format("earliest")).rows), key=repr)
    assert sorted(stream.run("*"), key=repr) == expected
    first = open_at(table.path).timeline.commits[-1].timestamp
    table.run("UPDATE {t} SET price = -1 WHERE seq < 3")
    table.run("DELETE FROM {t} WHERE seq = 1")
    expected = sorted(map(tuple, session.sql(function.format(first)).rows), key=repr)
    assert [row[0] for row in expected] == ["d", "u", "u", "u"]
    assert sorted(stream.run("*"), key=repr) == expected
    reader = session.spark.read.format("hudi").options(**CDC)
    with pytest.raises(PySparkException, match=f"specify the begin instant time .* option {BEGIN}"):
        reader.load(table.path).collect()
    found = reader.option(BEGIN, first).load(table.path)
    assert found.columns == ["op", "ts_ms", "before", "after"]
    assert sorted(map(tuple, found.collect()), key=repr) == expected
    assert found.where("op = 'd'").select("ts_ms").count() == 1
