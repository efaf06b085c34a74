"""Tables with a consistent hashing index: hudisql and Apache Hudi route each key to one file group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudisql.errors import UnsupportedTableError
from hudisql.format.keys.hash_ring import ring_hashes
from hudisql.write.index.hash_rings import HashRings
from tests.opened import open_at
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.shapes import SHAPES
from tests.oracle.sources import put_over, sample_rows
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark]

INDEX: Mapping[str, str] = {
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "4",
    "hoodie.bucket.index.min.num.buckets": "2",
    "hoodie.bucket.index.max.num.buckets": "16",
}
_STRATEGIES = "org.apache.hudi.client.clustering"
# Each bucket is split.
SPLITS: Mapping[str, str] = {
    "hoodie.clustering.plan.strategy.class": (
        f"{_STRATEGIES}.plan.strategy.SparkConsistentBucketClusteringPlanStrategy"
    ),
    "hoodie.clustering.execution.strategy.class": (
        f"{_STRATEGIES}.run.strategy.SparkConsistentBucketClusteringExecutionStrategy"
    ),
    "hoodie.clustering.updates.strategy": (
        f"{_STRATEGIES}.update.strategy.SparkConsistentBucketDuplicateUpdateStrategy"
    ),
    "hoodie.bucket.index.split.threshold": "0.00001",
    "hoodie.bucket.index.merge.threshold": "0.0000001",
    "hoodie.clustering.inline.max.commits": "1",
}
# Neighbours are merged until two buckets are left.
MERGES: Mapping[str, str] = {
    "hoodie.bucket.index.merge.threshold": "0.1",
    "hoodie.bucket.index.split.threshold": "10",
}
# As Hudi halves them: rounded down.
HALVES = (268435455, 536870912, 805306368, 1073741824, 1342177280, 1610612736, 1879048191, 2147483647)
COMPACTION: Mapping[str, str] = {
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "1",
}
_SHAPE = replace(SHAPES[0], name="ring", table_type="MERGE_ON_READ")


class _Table:
    """A table that Hudi and hudisql change in turn; `rows` are what it must hold."""

    def __init__(self, oracle: HudiOracle, session: Any, path: Path, name: str, version: str | None) -> None:
        self.oracle, self.session, self.path, self.name = oracle, session, str(path), name
        self.options = {
            **_SHAPE.write_options(),
            **INDEX,
            "hoodie.table.name": name.rpartition(".")[2],
        }
        if version is not None:
            self.options |= {"hoodie.write.table.version": version, "hoodie.write.auto.upgrade": "false"}
        self.rows = _rows(0, 1, "").slice(0, 0)

    def theirs(self, start: int, stop: int, note: str, **options: str) -> None:
        rows = _rows(start, stop, note)
        self.oracle.upsert(rows, self.path, self.options | options)
        self.rows = put_over(self.rows, rows)

    def ours(self, start: int, stop: int, note: str) -> Any:
        rows = _rows(start, stop, note)
        result = self.session.write(self.session.spark.createDataFrame(rows), self.name, "upsert", **INDEX)
        self.rows = put_over(self.rows, rows)
        return result

    def register(self) -> None:
        self.session.sql(f"CALL hive_sync(table => '{self.name}', path => '{self.path}')")

    def resize(self, **options: str) -> str:
        """Let hudisql resize the buckets; gives the state of the clustering."""
        given = ",".join(f"{key}={value}" for key, value in {**INDEX, **options}.items())
        [row] = self.session.sql(f"CALL run_clustering(table => '{self.name}', options => '{given}')").rows
        return str(row.state)

    def rings(self) -> list[tuple[int, tuple[int, ...]]]:
        """Number and values of the ring of each partition."""
        rings = HashRings(open_at(self.path), 4)
        found = [rings.of(f"dt=2024-03-0{day}") for day in (1, 2, 3)]
        return [(ring.number, ring.values) for ring in found]

    def check(self) -> None:
        """Both read the rows, each once and in its bucket."""
        theirs = self.oracle.read(self.path)
        assert_same_rows(theirs.select(self.rows.column_names), self.rows, sort_by=["seq"])
        ours = self.session.sql(f"SELECT * FROM {self.name}").arrow()
        assert_same_rows(ours, theirs, sort_by=["seq"])
        check_buckets(self.path, theirs, ["id"])


def _rows(start: int, stop: int, note: str) -> pa.Table:
    return _SHAPE.with_partition_columns(sample_rows(start, stop, note))


def check_buckets(path: str, rows: pa.Table, fields: list[str]) -> None:
    """Each row lies in the file group of its key in the ring of its partition."""
    table = open_at(path)
    rings = HashRings(table, 4)
    for partition in rows["_hoodie_partition_path"].unique().to_pylist():
        of_path = rows.filter(pc.equal(rows["_hoodie_partition_path"], partition))
        ring = rings.of(partition)
        hashes = ring_hashes(of_path["_hoodie_record_key"].combine_chunks(), fields, version=table.version)
        file_ids = [name.lstrip(".").split("_")[0] for name in of_path["_hoodie_file_name"].to_pylist()]
        assert [ring.file_id(bucket) for bucket in ring.buckets_of(hashes).tolist()] == file_ids


@contextmanager
def declared(session: Any) -> Iterator[None]:
    for key in list(INDEX)[:3]:
        session.sql(f"SET {key} = {INDEX[key]}")
    try:
        yield
    finally:
        for key in list(INDEX)[:3]:
            session.sql(f"RESET {key}")


@pytest.mark.soak
@pytest.mark.parametrize(
    ("who", "version"), parameters([("015", None), ("120", "6"), ("120", "9")], in_ci=[("015", None)])
)
def test_hudi_and_hudisql_write_one_table_in_turn(
    request: pytest.FixtureRequest, session: Any, tmp_path: Path, who: str, version: str | None
) -> None:
    oracle = request.getfixturevalue(f"oracle_{who}")
    table = _Table(oracle, session, tmp_path / "t", f"oracle.ring_{who}_{version or 6}".lower(), version)
    table.theirs(0, 20, "first")
    table.register()
    table.check()
    result = table.ours(10, 60, "second")
    assert (result.updated, result.inserted) == (10, 40)
    table.check()
    table.theirs(15, 70, "third")
    with declared(session):
        session.sql(f"DELETE FROM {table.name} WHERE seq = 69")
        session.sql(f"UPDATE {table.name} SET note = 'fourth' WHERE seq < 3")
    table.rows = table.rows.filter(pc.less(table.rows["seq"], 69))
    notes = pc.if_else(pc.less(table.rows["seq"], 3), "fourth", table.rows["note"])
    table.rows = table.rows.set_column(table.rows.schema.get_field_index("note"), "note", notes)
    table.check()
    table.theirs(65, 75, "fifth", **COMPACTION)
    table.ours(60, 80, "sixth")
    table.check()


@pytest.mark.soak
@pytest.mark.parametrize(("who", "version"), [("015", None), ("120", "6"), ("120", "9")])
def test_resized_buckets_are_read_and_written(
    request: pytest.FixtureRequest, session: Any, tmp_path: Path, who: str, version: str | None
) -> None:
    oracle = request.getfixturevalue(f"oracle_{who}")
    name = f"oracle.resized_{who}_{version or 6}"
    table = _Table(oracle, session, tmp_path / "t", name, version)
    table.theirs(0, 40, "first")
    table.register()
    table.theirs(20, 60, "second", **COMPACTION)
    # Planned, and upserts go to the old and to the new file groups.
    schedule = {"hoodie.clustering.schedule.inline": "true", "hoodie.clustering.inline": "false"}
    table.theirs(55, 70, "third", **SPLITS, **schedule)
    table.theirs(50, 75, "fourth", **SPLITS)
    table.check()
    with pytest.raises(UnsupportedTableError, match=r"a clustering \(\d+\) .* is pending"):
        table.ours(60, 80, "refused")
    for statement in (
        f"UPDATE {name} SET note = 'refused' WHERE seq = 1",
        f"DELETE FROM {name} WHERE seq = 1",
        f"INSERT INTO {name} SELECT * FROM {name} WHERE seq = 1",
    ):
        with declared(session), pytest.raises(UnsupportedTableError, match="is pending"):
            session.sql(statement)
    with declared(session), pytest.raises(UnsupportedTableError, match="has written to the buckets"):
        session.sql(f"CALL run_clustering(table => '{name}', op => 'execute')")
    table.check()
    # Hudi runs what is planned, and plans no other resizing. Of keys that it upserts twice while one is
    # pending, it keeps some in their first version.
    run = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "100"}
    table.theirs(75, 80, "fifth", **{**SPLITS, **run})
    assert table.rings() == [(1, HALVES)] * 3
    table.check()
    result = table.ours(70, 95, "sixth")
    assert (result.updated, result.inserted) == (10, 15)
    table.check()
    # 0.15's compaction would read decimals of its own clustering 100 times too large.
    table.theirs(90, 100, "seventh", **{"hoodie.compact.inline": "false"})
    with declared(session):
        session.sql(f"DELETE FROM {name} WHERE seq = 99")
    table.rows = table.rows.filter(pc.less(table.rows["seq"], 99))
    table.check()


@pytest.mark.soak
@pytest.mark.parametrize(("who", "version"), [("015", None), ("120", "6"), ("120", "9")])
def test_hudi_and_hudisql_resize_buckets_in_turn(
    request: pytest.FixtureRequest, session: Any, tmp_path: Path, who: str, version: str | None
) -> None:
    oracle = request.getfixturevalue(f"oracle_{who}")
    name = f"oracle.resizing_{who}_{version or 6}"
    table = _Table(oracle, session, tmp_path / "t", name, version)
    table.theirs(0, 120, "first")
    table.register()
    table.ours(60, 180, "second")
    assert table.resize(**SPLITS) == "COMPLETED"
    assert table.rings() == [(1, HALVES)] * 3
    table.check()
    table.theirs(150, 200, "third")
    table.check()
    result = table.ours(190, 220, "fourth")
    assert (result.updated, result.inserted) == (10, 20)
    # Neighbours become one bucket, and Hudi goes on with the ring.
    table.resize(**MERGES)
    assert table.rings() == [(2, HALVES[-2:])] * 3
    table.check()
    table.theirs(180, 240, "fifth", **COMPACTION)
    table.check()
    run = {"hoodie.clustering.inline": "true", "hoodie.compact.inline": "false"}
    table.theirs(230, 250, "sixth", **SPLITS, **run)
    assert [number for number, _ in table.rings()] == [3] * 3
    table.check()
    table.ours(240, 260, "seventh")
    table.check()


@pytest.mark.soak
@pytest.mark.parametrize("who", ["015", "120"])
@pytest.mark.parametrize("fields", ["id,note", "note"])
def test_complex_keys_are_hashed_as_hudi_hashes_them(
    request: pytest.FixtureRequest, tmp_path: Path, who: str, fields: str
) -> None:
    oracle = request.getfixturevalue(f"oracle_{who}")
    shape = replace(SHAPES[2], name="parts", table_type="MERGE_ON_READ", record_key=("id", "note"))
    rows = sample_rows(0, 300)
    texts = (None, "", "a:b", "x,y", "名", "a long text of more than sixteen bytes")
    notes = [texts[n % 7] if n % 7 < len(texts) else f"n{n}" for n in range(rows.num_rows)]
    rows = rows.set_column(rows.schema.get_field_index("note"), "note", pa.array(notes, pa.string()))
    path = str(tmp_path / "t")
    options = {**shape.write_options(), **INDEX, "hoodie.bucket.index.hash.field": fields}
    if who == "120":
        # In version 6 it hashes some of these keys otherwise than 0.15.
        options["hoodie.write.table.version"] = "9"
    oracle.upsert(rows, path, options)
    stored = oracle.read(path)
    assert stored.num_rows == rows.num_rows
    check_buckets(path, stored, fields.split(","))


@pytest.mark.soak
def test_a_new_partition_gets_the_ring_that_hudi_makes(
    oracle_015: HudiOracle, session: Any, tmp_path: Path
) -> None:
    tables = {}
    for who in ("theirs", "ours"):
        table = _Table(oracle_015, session, tmp_path / who, f"oracle.made_{who}", None)
        if who == "theirs":
            table.theirs(0, 20, "first")
        else:
            columns = ", ".join(f"{field.name} {_SQL[str(field.type)]}" for field in table.rows.schema)
            listed = ", ".join(f"'{key}' = '{value}'" for key, value in INDEX.items())
            session.sql(
                f"CREATE TABLE {table.name} ({columns}) USING hudi PARTITIONED BY (dt) "
                f"LOCATION '{table.path}' TBLPROPERTIES (primaryKey = 'id', preCombineField = 'seq', "
                f"type = 'mor', {listed})"
            )
            table.ours(0, 20, "first")
            table.theirs(10, 30, "second")
            table.ours(25, 40, "third")
            table.check()
        rings = HashRings(open_at(table.path), 7)
        tables[who] = [rings.of(f"dt=2024-03-0{day}") for day in (1, 2, 3)]
    assert tables["ours"] == tables["theirs"]


_SQL = {
    "string": "STRING",
    "int32": "INT",
    "int64": "BIGINT",
    "double": "DOUBLE",
    "decimal128(12, 2)": "DECIMAL(12, 2)",
    "bool": "BOOLEAN",
    "date32[day]": "DATE",
    "timestamp[us, tz=UTC]": "TIMESTAMP",
    "struct<a: int64, b: string>": "STRUCT<a: BIGINT, b: STRING>",
    "list<element: int32>": "ARRAY<INT>",
    "map<string, string>": "MAP<STRING, STRING>",
}
