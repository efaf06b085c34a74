"""New rows of a stored record key: a MERGE stops and names the keys, an INSERT follows its policy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from hudisql.errors import WriteRefusedError
from hudisql.session import Session
from hudisql.sql.dml import dml_execution
from hudisql.sql.dml.cached_merge_source import cache_merge_source
from tests.soak import parameters
from tests.sql.changed_tables import database_fixture, setting

pytestmark = [pytest.mark.spark, pytest.mark.hms]


database = database_fixture("stored_keys", scope="module")


@pytest.fixture(params=parameters(["cow", "mor"], in_ci=["mor"]))
def trips(session: Session, database: str, request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"{database}.{request.param}"
    session.sql(
        f"CREATE TABLE {name} (id INT, price DOUBLE, ts INT, dt STRING) USING hudi PARTITIONED BY (dt) "
        f"TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', type = '{request.param}')"
    )
    session.sql(f"INSERT INTO {name} VALUES (1, 10, 5, 'd1'), (2, 20, 5, 'd1')")
    # On the merge-on-read table a log file.
    session.sql(f"UPDATE {name} SET price = 30 WHERE id = 2")
    yield name
    session.sql(f"DROP TABLE {name} PURGE")


def merge(trips: str, source: str, condition: str, clauses: str = "") -> str:
    rows = f"SELECT * FROM VALUES {source} AS v(id, price, ts, dt)"
    return (
        f"MERGE INTO {trips} AS t USING ({rows}) AS s ON {condition} {clauses} WHEN NOT MATCHED THEN INSERT *"
    )


def ids(session: Session, trips: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in session.sql(f"SELECT id, price, dt FROM {trips} ORDER BY id, dt").rows]


BOTH = "t.id = s.id AND t.price = s.price"


def test_an_inserted_row_with_a_stored_key_stops_the_statement(session: Session, trips: str) -> None:
    update = "WHEN MATCHED THEN UPDATE SET *"
    for clauses, condition in (("", BOTH), (update, BOTH), ("", "false"), (update, "t.price = s.price")):
        source = "(1, 11D, 9, 'd1'), (2, 21D, 1, 'd1'), (3, 1D, 1, 'd1')"
        explained = session.sql(f"EXPLAIN {merge(trips, source, condition, clauses)}").rows[0][0]
        assert re.search(r"new keys +are looked up: one that is stored stops the statement", explained)
        with pytest.raises(WriteRefusedError, match=r"that are stored: '1', '2'; nothing was written"):
            session.sql(merge(trips, source, condition, clauses))
    assert ids(session, trips) == [(1, 10.0, "d1"), (2, 30.0, "d1")]


def test_a_key_of_another_partition_is_stored_only_for_a_global_index(session: Session, trips: str) -> None:
    with (
        setting(session, "hoodie.index.type", "GLOBAL_SIMPLE"),
        pytest.raises(WriteRefusedError, match="that are stored: '1'"),
    ):
        session.sql(merge(trips, "(1, 11D, 9, 'd2')", BOTH))
    session.sql(merge(trips, "(1, 11D, 9, 'd2')", BOTH))
    assert ids(session, trips) == [(1, 10.0, "d1"), (1, 11.0, "d2"), (2, 30.0, "d1")]


def test_a_key_whose_row_goes_by_the_same_statement_is_free(session: Session, trips: str) -> None:
    source = "(1, 10D, 6, 'd1'), (1, 11D, 7, 'd1')"
    session.sql(merge(trips, source, BOTH, "WHEN MATCHED THEN DELETE"))
    assert ids(session, trips) == [(1, 11.0, "d1"), (2, 30.0, "d1")]


def test_conditions_on_the_key_look_nothing_up(
    session: Session, trips: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(dml_execution, "refuse_stored_keys")
    session.sql(merge(trips, "(1, 11D, 9, 'd1'), (3, 1D, 1, 'd1')", "t.id = s.id AND t.dt = s.dt"))
    assert ids(session, trips) == [(1, 10.0, "d1"), (2, 30.0, "d1"), (3, 1.0, "d1")]


BY_BATCH = "WHEN NOT MATCHED BY SOURCE AND false THEN DELETE"


@pytest.mark.parametrize("clauses", ["", BY_BATCH])
def test_a_stored_key_in_the_partition_of_null_is_found(session: Session, trips: str, clauses: str) -> None:
    source = "(1, 11D, 9, NULL), (2, 21D, 9, 'd1'), (3, 1D, 1, 'd1')"
    condition = "t.id = s.id AND t.dt = s.dt"
    session.sql(merge(trips, source, condition, clauses))
    with pytest.raises(WriteRefusedError, match="that are stored: '1'; nothing was written") as refused:
        session.sql(merge(trips, source, condition, clauses))
    assert "with <=> where a column may be NULL" in str(refused.value.hint)
    session.sql(merge(trips, source, "t.id = s.id AND t.dt <=> s.dt", clauses))
    assert ids(session, trips) == [
        (1, 11.0, None),
        (1, 10.0, "d1"),
        (2, 30.0, "d1"),
        (3, 1.0, "d1"),
    ]


def test_a_stored_key_with_a_part_that_is_null_is_found(session: Session, database: str) -> None:
    session.sql(
        f"CREATE TABLE {database}.parts (id INT, region STRING, price INT) USING hudi "
        "TBLPROPERTIES (primaryKey = 'id,region')"
    )
    source = "(SELECT * FROM VALUES (1, NULL, 5), (1, 'a', 6) AS v(id, region, price))"
    for equality, is_refused in (("=", False), ("=", True), ("<=>", False)):
        text = (
            f"MERGE INTO {database}.parts AS t USING {source} AS s ON t.id = s.id AND t.region {equality} "
            "s.region WHEN NOT MATCHED THEN INSERT *"
        )
        if is_refused:
            with pytest.raises(WriteRefusedError, match="that are stored: 'id:1,region:__null__'"):
                session.sql(text)
        else:
            session.sql(text)
    found = session.sql(f"SELECT region, price FROM {database}.parts ORDER BY price").rows
    assert [tuple(row) for row in found] == [(None, 5), ("a", 6)]


def test_sources_that_are_not_small_are_searched_for_null(session: Session) -> None:
    with ExitStack() as stack:
        source = session.spark.sql("SELECT id, nullif(id, 3) AS `a b` FROM range(5)")
        cached = replace(cache_merge_source(source, stack), few=None)
        assert cached.has_null(["id", "a b"])
        assert not cached.has_null(["id"])


POLICY = "hoodie.datasource.insert.dup.policy"
SOURCE = "VALUES (1, 11, 9, 'd1'), (3, 31, 1, 'd1'), (3, 32, 2, 'd1'), (1, 12, 9, 'd2')"


@pytest.mark.parametrize("operation", parameters(["insert", "upsert"], in_ci=["upsert"]))
def test_an_insert_leaves_out_stored_keys(session: Session, trips: str, operation: str) -> None:
    with (
        setting(session, POLICY, "drop"),
        setting(session, "hoodie.spark.sql.insert.into.operation", operation),
    ):
        [row] = session.sql(f"INSERT INTO {trips} {SOURCE}").rows
        assert (row.rows_inserted, row.rows_updated) == (2, 0)
        with setting(session, "hoodie.index.type", "GLOBAL_SIMPLE"):
            [row] = session.sql(f"INSERT INTO {trips} VALUES (2, 22, 9, 'd2'), (4, 41, 1, 'd2')").rows
        assert row.rows_inserted == 1
        assert session.sql(f"INSERT INTO {trips} VALUES (1, 13, 9, 'd1')").rows[0].rows_inserted == 0
    rows = [(1, 10.0, "d1"), (1, 12.0, "d2"), (2, 30.0, "d1"), (3, 32.0, "d1"), (4, 41.0, "d2")]
    assert ids(session, trips) == rows


def test_an_insert_that_leaves_out_stored_keys_keeps_all_rows_of_a_new_one(
    session: Session, database: str
) -> None:
    name = f"{database}.unordered"
    session.sql(
        f"CREATE TABLE {name} (id INT, price DOUBLE, dt STRING) USING hudi TBLPROPERTIES (primaryKey = 'id')"
    )
    session.sql(f"INSERT INTO {name} VALUES (1, 10, 'd1')")
    with setting(session, POLICY, "drop"):
        session.sql(f"INSERT INTO {name} VALUES (1, 11, 'd1'), (3, 31, 'd1'), (3, 32, 'd1')")
    assert ids(session, name) == [(1, 10.0, "d1"), (3, 31.0, "d1"), (3, 32.0, "d1")]


def test_an_insert_of_many_rows_leaves_out_stored_keys(session: Session, trips: str) -> None:
    many = "SELECT CAST(id AS INT), 1D, 1, 'd1' FROM range(1, 5001)"
    with setting(session, POLICY, "drop"):
        [row] = session.sql(f"INSERT INTO {trips} {many}").rows
    assert row.rows_inserted == 4_998
    assert session.sql(f"SELECT sum(price) FROM {trips}").rows[0][0] == 4_998 + 10 + 30


@pytest.mark.parametrize("operation", ["insert", "upsert"])
def test_an_insert_of_stored_keys_stops_where_it_is_to_fail(
    session: Session, trips: str, operation: str
) -> None:
    before = ids(session, trips)
    with (
        setting(session, POLICY, "fail"),
        setting(session, "hoodie.spark.sql.insert.into.operation", operation),
    ):
        with pytest.raises(
            WriteRefusedError, match=r"the INSERT inserts.*are stored: '1'; nothing was written"
        ):
            session.sql(f"INSERT INTO {trips} {SOURCE}")
        assert ids(session, trips) == before
        session.sql(f"INSERT INTO {trips} VALUES (3, 31, 1, 'd1'), (3, 32, 2, 'd1')")
        session.sql(f"INSERT OVERWRITE {trips} PARTITION (dt = 'd1') VALUES (1, 14, 1), (3, 33, 3)")
    assert ids(session, trips) == [(1, 14.0, "d1"), (3, 33.0, "d1")]


def test_a_data_frame_leaves_out_stored_keys(session: Session, trips: str) -> None:
    rows = session.spark.sql(f"SELECT * FROM {SOURCE} AS v(id, price, ts, dt)")
    option = {"hoodie.datasource.write.insert.drop.duplicates": "true"}
    assert session.write(rows, trips, "upsert", **option).inserted == 2
    assert ids(session, trips) == [(1, 10.0, "d1"), (1, 12.0, "d2"), (2, 30.0, "d1"), (3, 32.0, "d1")]
