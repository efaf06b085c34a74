"""Hostile settings of the session: no value is wrapped, no row is missed, none is written twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from decimal import Decimal

import pytest

from hudisql.errors import QueryError
from hudisql.session import Session
from tests.sql.changed_tables import ROWS, ChangedTable, own_database, setting

pytestmark = [pytest.mark.spark, pytest.mark.hms]

LARGE = "CAST(1e20 AS DECIMAL(21, 0))"


@contextmanager
def settings(session: Session, **values: str) -> Iterator[None]:
    with ExitStack() as stack:
        for key, value in values.items():
            stack.enter_context(setting(session, key, value))
        yield


@pytest.mark.parametrize("policy", ["ansi", pytest.param("legacy", marks=pytest.mark.soak)])
def test_values_that_do_not_fit_are_refused_without_ansi_mode(table: ChangedTable, policy: str) -> None:
    session = table.session
    with settings(session, **{"spark.sql.ansi.enabled": "false", "spark.sql.storeAssignmentPolicy": policy}):
        texts = [
            f"INSERT INTO {{t}} (id, seq, dt) SELECT 'x', {LARGE}, '2024-03-01'",
            f"INSERT INTO {{t}} BY NAME SELECT 'x' id, {LARGE} price, '2024-03-01' dt",
            f"INSERT OVERWRITE {{t}} (id, seq, dt) SELECT 'x', {LARGE}, '2024-03-01'",
            f"UPDATE {{t}} SET seq = {LARGE} WHERE id = 'k01'",
            "UPDATE {t} SET price = 123456789012.5 WHERE id = 'k01'",
            "UPDATE {t} SET st.a = 1e300 WHERE id = 'k01'",
            f"MERGE INTO {{t}} t USING (SELECT 'k01' id, {LARGE} v) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET seq = s.v",
            f"MERGE INTO {{t}} t USING (SELECT 'new' id, {LARGE} v) s ON t.id = s.id "
            "WHEN NOT MATCHED THEN INSERT (id, seq, dt) VALUES (s.id, s.v, '2024-03-01')",
        ]
        for text in texts if policy == "ansi" else texts[3:4]:
            with pytest.raises(QueryError, match=r"CAST_OVERFLOW|OUT_OF_RANGE"):
                table.run(text)
        frame = session.spark.sql(f"SELECT 'x' id, {LARGE} seq, '2024-03-01' dt")
        for operation in ("upsert", "bulk_insert"):
            with pytest.raises(QueryError, match="CAST_OVERFLOW"):
                session.write(frame, table.name, operation)
        # The user's own expressions are the session's.
        table.run("INSERT INTO {t} (id, seq, price, dt) SELECT 'n', 1 / 0, CAST('a' AS INT), '2024-03-01'")
    assert table.rows("seq, price", "id = 'n'") == [(None, None)]
    assert len(table.rows()) == ROWS + 1


def test_a_partition_clause_s_value_is_no_other_one_without_ansi_mode(session: Session) -> None:
    with own_database(session, "clauses"), settings(session, **{"spark.sql.ansi.enabled": "false"}):
        session.sql(
            "CREATE TABLE clauses.t (id INT, p INT) USING hudi PARTITIONED BY (p) "
            "TBLPROPERTIES (primaryKey = 'id')"
        )
        for value in ("3000000000", "'3000000000'", "'abc'"):
            with pytest.raises(QueryError, match="CAST_"):
                session.sql(f"INSERT INTO clauses.t PARTITION (p = {value}) SELECT 1")
        session.sql("INSERT INTO clauses.t PARTITION (p = '12') SELECT 1")
        assert [tuple(row) for row in session.sql("SELECT id, p FROM clauses.t").rows] == [(1, 12)]


def test_text_literals_of_partition_filters_mean_what_the_session_says(table: ChangedTable) -> None:
    with settings(table.session, **{"spark.sql.parser.escapedStringLiterals": "true"}):
        assert len(table.rows(where=r"dt RLIKE '\d-0[12]$'")) == 20
        assert table.run(r"UPDATE {t} SET st.b = 'x' WHERE dt RLIKE '\d-02$' AND seq = 10") == {
            "updated": 1,
            "files_written": 1,
        }
        assert table.run(
            r"DELETE FROM {t} x WHERE x.dt RLIKE '^\d+-03-03' OR exists(array(x.dt), e -> e = '')"
        ) == {"deleted": 10}
    assert table.rows("st.a, st.b", "seq = 10") == [(10, "x")]


def test_names_in_double_quotes_are_names_where_the_session_says_so(table: ChangedTable) -> None:
    with settings(
        table.session, **{"spark.sql.ansi.enabled": "true", "spark.sql.ansi.doubleQuotedIdentifiers": "true"}
    ):
        target = '"changes"."t"'
        assert table.run(f'UPDATE {target} SET "seq" = "seq" + 100 WHERE {target}."id" = \'k01\'')["updated"]
        table.run(f'INSERT INTO {target} ("id", "dt") SELECT \'n\', "dt" FROM {target} WHERE "id" = \'k29\'')
        table.run(
            f'MERGE INTO {target} AS "x" USING (SELECT \'k02\' AS "id") AS "s" ON "x"."id" = "s"."id" '
            'WHEN MATCHED THEN UPDATE SET "seq" = 200'
        )
        table.run(f"DELETE FROM {target} WHERE \"id\" = 'k03'")
    assert table.rows("id, seq", "seq >= 100 OR id IN ('n', 'k03')") == [
        ("k01", 101),
        ("k02", 200),
        ("n", None),
    ]


def test_timestamps_keep_their_type_where_timestamp_means_another_one(table: ChangedTable) -> None:
    session = table.session
    session.sql(f"CREATE VIEW changes.times AS SELECT id, at FROM {table.name}")
    try:
        with settings(session, **{"spark.sql.timestampType": "TIMESTAMP_NTZ"}):
            assert session.sql("SELECT * FROM changes.times").schema["at"].dataType.typeName() == "timestamp"
            session.sql(f"CREATE OR REPLACE VIEW changes.times AS SELECT at, id FROM {table.name}")
            assert len(table.rows("id", "at >= TIMESTAMP_LTZ'1970-01-01 00:00:00Z'")) == ROWS
            assert table.run("UPDATE {t} SET dt = '2024-03-09' WHERE id = 'k01'")["moved"] == 1
            session.sql(f"SELECT count(*) FROM {table.name} TIMESTAMP AS OF current_timestamp()")
        assert session.sql("SELECT * FROM changes.times").schema["at"].dataType.typeName() == "timestamp"
    finally:
        session.sql("DROP VIEW changes.times")


@pytest.mark.soak
def test_a_merge_source_is_the_same_rows_when_the_cache_is_cleared(table: ChangedTable) -> None:
    session = table.session
    done = threading.Event()

    def clear() -> None:
        while not done.wait(0.02):
            session.spark.catalog.clearCache()

    clearing = threading.Thread(target=clear)
    clearing.start()
    try:
        source = (
            "SELECT DISTINCT concat('k', lpad(CAST(floor(rand() * 60) AS STRING), 2, '0')) id FROM range(90)"
        )
        table.run(
            f"MERGE INTO {{t}} t USING ({source}) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET price = 1 "
            "WHEN NOT MATCHED THEN INSERT (id, price, dt) VALUES (s.id, 2, '2024-03-01')"
        )
        table.run(
            "INSERT INTO {t} (id, price, dt) "
            "SELECT concat('i', CAST(floor(rand() * 5) AS STRING)), 3, '2024-03-01' FROM range(20)"
        )
    finally:
        done.set()
        clearing.join()
    ids = [row[0] for row in table.rows("id")]
    assert len(ids) == len(set(ids)) > ROWS


@pytest.mark.parametrize("kind", [pytest.param("cow", marks=pytest.mark.soak), "mor"])
def test_nan_is_the_highest_ordering_value_for_every_statement(session: Session, kind: str) -> None:
    nan, columns = "double('NaN')", "s(id, v, ts)"
    with own_database(session, "ordered"):
        session.sql(
            f"CREATE TABLE ordered.{kind} (id INT, v STRING, ts DOUBLE) USING hudi TBLPROPERTIES ("
            f"primaryKey = 'id', preCombineField = 'ts', type = '{kind}', "
            "'hoodie.datasource.write.payload.class' = "
            "'org.apache.hudi.common.model.DefaultHoodieRecordPayload')"
        )
        session.sql(
            f"INSERT INTO ordered.{kind} VALUES (1, 'nan', {nan}), (1, 'five', 5), (2, 'five', 5), "
            f"(2, 'nan', {nan}), (3, 'nan', {nan}), (4, 'five', 5), "
            "(5, 'zero', 0), (5, 'minus', -0.0D), (6, 'five', 5)"
        )
        session.sql(
            f"INSERT INTO ordered.{kind} VALUES (3, 'late', 5), (4, 'nan', {nan}), (5, 'late', -0.0D)"
        )
        session.sql(
            f"MERGE INTO ordered.{kind} t USING (SELECT * FROM VALUES (6, 'nan', {nan}), (6, 'four', 4D), "
            f"(7, 'four', 4D), (7, 'nan', {nan}) {columns}) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        found = [tuple(row) for row in session.sql(f"SELECT id, v FROM ordered.{kind} ORDER BY id").rows]
    assert found == [(1, "nan"), (2, "nan"), (3, "nan"), (4, "nan"), (5, "zero"), (6, "nan"), (7, "nan")]


def test_columns_of_a_source_that_differ_by_case_are_told_apart_or_refused(table: ChangedTable) -> None:
    with settings(table.session, **{"spark.sql.caseSensitive": "true"}):
        columns = "'k02' id, 'k01' ID, 100L SEQ, 700L seq, 1 price, st, tags, at, dt"
        source = f"(SELECT {columns} FROM {{t}} WHERE seq = 1)"
        merged = table.run(
            f"MERGE INTO {{t}} t USING {source} s ON t.id = s.id AND t.dt = s.dt "
            "WHEN MATCHED THEN UPDATE SET *"
        )
        assert merged["updated"] == 1
        assert table.rows("id, seq, price", "seq = 700") == [("k02", 700, Decimal(1))]
        with pytest.raises(Exception, match="Seq, SEQ"):
            table.run(
                "MERGE INTO {t} t USING (SELECT id, seq Seq, seq SEQ, price, st, tags, at, dt FROM {t}) s "
                "ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
            )
