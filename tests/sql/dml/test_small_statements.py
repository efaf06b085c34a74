"""How many Spark jobs and tasks small statements run, with Spark's own number of shuffle partitions."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hudisql.session import Session
from tests.sql.changed_tables import setting

pytestmark = [pytest.mark.spark, pytest.mark.hms]

_INSERT = "INSERT INTO {t} VALUES ({n}1, 'a', 1.0, {n}, 'x'), ({n}2, 'b', 2.0, {n}, 'y')"


@pytest.fixture
def small(session: Session) -> Iterator[str]:
    name = f"small_{uuid.uuid4().hex[:8]}"
    session.sql(
        f"CREATE TABLE {name} (id BIGINT, rider STRING, fare DOUBLE, ts BIGINT, city STRING) USING hudi "
        "PARTITIONED BY (city) TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', type = 'cow')"
    )
    with setting(session, "spark.sql.shuffle.partitions", "200"):
        yield name
    session.sql(f"DROP TABLE {name} PURGE")


def jobs_of(session: Session, text: str) -> list[int]:
    """The completed tasks of each Spark job of the statement."""
    spark: Any = session.spark
    group = uuid.uuid4().hex
    spark.sparkContext.addJobTag(group)
    try:
        assert session.sql(text).rows
    finally:
        spark.sparkContext.removeJobTag(group)
    time.sleep(0.5)  # the listener's queue
    store = spark.sparkContext._jsc.sc().statusStore()
    jobs = store.jobsList(None)
    found = [jobs.apply(number) for number in range(jobs.size())]
    return [job.numCompletedTasks() for job in found if job.jobTags().contains(group)]


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_an_insert_of_two_rows_runs_no_job(session: Session, small: str, adaptive: str) -> None:
    with setting(session, "spark.sql.adaptive.enabled", adaptive):
        for number in range(2):
            assert jobs_of(session, _INSERT.format(t=small, n=number)) == []
    rows = session.sql(f"SELECT id, rider, fare, ts, city FROM {small} ORDER BY id").rows
    assert [row.id for row in rows] == [1, 2, 11, 12]


_CHANGES = {
    "UPDATE {t} SET fare = fare + 1, city = 'z' WHERE id IN (11, 21)": 1,
    "MERGE INTO {t} t USING (SELECT 22L AS id, 7D AS fare, 9L AS ts UNION ALL SELECT 5L, 8D, 9L) s "
    "ON t.id = s.id WHEN MATCHED THEN UPDATE SET fare = s.fare "
    "WHEN NOT MATCHED THEN INSERT (id, rider, fare, ts, city) VALUES (s.id, 'm', s.fare, s.ts, 'x')": 6,
    "DELETE FROM {t} WHERE rider = 'b' AND ts = 1": 0,
    "INSERT INTO {t} VALUES (21, 'c', 3.0, 9, 'z'), (31, 'd', 4.0, 1, 'y')": 0,
    "UPDATE {t} SET rider = NULL": 0,
}


@pytest.mark.soak
def test_changes_on_the_driver_are_those_of_the_tasks(session: Session, small: str) -> None:
    query = "SELECT count(*), sum(fare) FROM {t} WHERE ts < 9"
    before = [_INSERT.format(t=small, n=number) for number in (1, 2)]
    found = []
    for limit in ("8388608", "0"):
        with setting(session, "hudisql.driver.max.bytes", limit):
            for text in before:
                session.sql(text)
            for text, most in _CHANGES.items():
                jobs = jobs_of(session, text.format(t=small))
                assert len(jobs) <= most or limit == "0", (text, jobs)
            assert jobs_of(session, query.format(t=small)) == [1]
        found.append(session.sql(f"SELECT id, rider, fare, ts, city FROM {small} ORDER BY id").rows)
        session.sql(f"DELETE FROM {small}")
    assert found[0] == found[1]
    assert [row.id for row in found[0]] == [5, 11, 21, 22, 31]


def test_more_bytes_than_the_driver_takes_are_read_by_tasks(session: Session, small: str) -> None:
    session.sql(_INSERT.format(t=small, n=1))
    text = f"UPDATE {small} SET fare = 0 WHERE id = 11"
    assert "on the driver" in session.sql(f"EXPLAIN {text}").rows[0][0]
    with setting(session, "hudisql.driver.max.bytes", "1000"):
        assert "in 2 tasks" in session.sql(f"EXPLAIN {text}").rows[0][0]
        [written] = session.sql(text).rows
    assert written.rows_updated == 1


def test_few_rows_are_combined_and_replace_stored_ones_as_many_do(session: Session, small: str) -> None:
    session.sql(_INSERT.format(t=small, n=1))
    text = f"INSERT INTO {small} VALUES (11, 'new', 9, 5, 'x'), (11, 'old', 8, 4, 'x'), (7, 'in', 7, 1, 'z')"
    [written] = session.sql(text).rows
    assert (written.rows_inserted, written.rows_updated, written.rows_combined) == (1, 1, 1)
    rows = session.sql(f"SELECT id, rider, ts FROM {small} ORDER BY id").rows
    assert [tuple(row) for row in rows] == [(7, "in", 1), (11, "new", 5), (12, "b", 1)]


def test_a_key_that_is_null_is_refused_for_few_rows_too(session: Session, small: str) -> None:
    from hudisql.errors import WriteRefusedError

    with pytest.raises(WriteRefusedError, match="have no record key"):
        session.sql(f"INSERT INTO {small} VALUES (NULL, 'a', 1.0, 1, 'x')")
    assert session.sql(f"SELECT * FROM {small}").rows == []


def test_an_ordering_column_of_another_case_orders_few_and_many_rows(session: Session, small: str) -> None:
    entry = session.context.metastore.get_table("default", small)
    assert entry is not None
    properties = Path(session.context.storage.qualify(str(entry.location)), ".hoodie/hoodie.properties")
    properties.write_text(properties.read_text().replace("precombine.field=ts", "precombine.field=TS"))
    insert = f"INSERT INTO {small} VALUES ({{0}}, 'new', 9, 5, 'x'), ({{0}}, 'old', 8, 4, 'x')"
    merge = (
        f"MERGE INTO {small} t USING (VALUES ({{0}}L, 'a', 1L), ({{0}}L, 'b', 2L) AS s(id, rider, ts)) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET rider = s.rider, ts = s.ts"
    )
    for number, limit in enumerate(("8388608", "0")):
        with setting(session, "hudisql.driver.max.bytes", limit):
            session.sql(insert.format(number))
            [row] = session.sql(f"SELECT rider FROM {small} WHERE id = {number}").rows
            assert row.rider == "new"
            session.sql(merge.format(number))
            [row] = session.sql(f"SELECT rider FROM {small} WHERE id = {number}").rows
            assert row.rider == "b"
