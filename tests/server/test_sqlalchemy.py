"""SQLAlchemy and pandas, with PyHive's dialect and impyla's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pytest
import sqlalchemy
from sqlalchemy.exc import NoSuchTableError

from hudisql.server.thrift_server import ThriftServer
from tests.server.test_process import running_server

pytestmark = [pytest.mark.spark, pytest.mark.hms]
DIALECTS = ("hive", "impala")
FRAME = pd.DataFrame({"id": [1, 2, 3], "v": ["a", "b", None], "x": [1.5, None, 2.5]})
CREATE_HUDI = "CREATE TABLE {} (id BIGINT, v STRING, x DOUBLE) USING hudi TBLPROPERTIES (primaryKey = 'id')"


def open_engine(dialect: str, port: int) -> Any:
    if dialect == "hive":
        return sqlalchemy.create_engine(
            f"hive://me@127.0.0.1:{port}/default",
            connect_args={"configuration": {"hudisql.serve.hive.show.tables": "true"}},
        )
    return sqlalchemy.create_engine(f"impala://me:p@127.0.0.1:{port}/default?auth_mechanism=PLAIN")


@pytest.fixture(params=DIALECTS)
def engine(server: ThriftServer, request: pytest.FixtureRequest) -> Iterator[Any]:
    made = open_engine(request.param, server.port)
    yield made
    made.dispose()


def run(engine: Any, *statements: str) -> None:
    with engine.connect() as connection:
        for statement in statements:
            connection.execute(sqlalchemy.text(statement))


def check_frames(engine: Any, table: str) -> None:
    """Write FRAME three times into a table that is not there, and read it by each way of pandas."""
    assert not sqlalchemy.inspect(engine).has_table(table)
    FRAME.to_sql(table, engine, index=False)
    assert sqlalchemy.inspect(engine).has_table(table)
    FRAME.assign(id=FRAME["id"] + 10).to_sql(table, engine, index=False, if_exists="append")
    FRAME.assign(id=FRAME["id"] + 20).to_sql(
        table, engine, index=False, if_exists="append", schema="default", method="multi"
    )
    expected = pd.concat([FRAME.assign(id=FRAME["id"] + more) for more in (0, 10, 20)], ignore_index=True)
    for read in (
        pd.read_sql(f"SELECT * FROM {table} ORDER BY id", engine),
        pd.read_sql(table, engine).sort_values("id", ignore_index=True),
        pd.read_sql_table(table, engine, schema="default").sort_values("id", ignore_index=True),
    ):
        pd.testing.assert_frame_equal(read, expected)


def test_pandas_writes_and_reads_tables(engine: Any) -> None:
    try:
        check_frames(engine, "framed_plain")
    finally:
        run(engine, "DROP TABLE IF EXISTS framed_plain")


def check_hudi_frames(engine: Any, dialect: str) -> None:
    """Append FRAME to a new Hudi table, reflect it, and read it."""
    # The files of a dropped Hudi table stay.
    table = f"framed_hudi_{dialect}"
    run(engine, CREATE_HUDI.format(table))
    try:
        FRAME.to_sql(table, engine, index=False, if_exists="append")
        reflected = sqlalchemy.Table(table, sqlalchemy.MetaData(), autoload_with=engine)
        assert [column.name for column in reflected.columns][5:] == ["id", "v", "x"]
        read = pd.read_sql(f"SELECT id, v, x FROM {table} ORDER BY id", engine)
        pd.testing.assert_frame_equal(read, FRAME)
    finally:
        run(engine, f"DROP TABLE {table}")


def test_pandas_appends_to_a_hudi_table(engine: Any) -> None:
    check_hudi_frames(engine, engine.dialect.name)


def test_metadata_creates_and_reflects_tables(engine: Any) -> None:
    metadata = sqlalchemy.MetaData()
    table = sqlalchemy.Table(
        *("made_by_alchemy", metadata),
        sqlalchemy.Column("id", sqlalchemy.Integer),
        sqlalchemy.Column("v", sqlalchemy.String(9)),
    )
    metadata.create_all(engine)
    metadata.create_all(engine)
    try:
        with engine.begin() as connection:
            connection.execute(table.insert(), [{"id": 1, "v": "a"}, {"id": 2, "v": None}])
            connection.execute(table.insert().values(id=3, v="c"))
        reflected = sqlalchemy.Table("made_by_alchemy", sqlalchemy.MetaData(), autoload_with=engine)
        assert [column.name for column in reflected.columns] == ["id", "v"]
        query = sqlalchemy.select(reflected).where(reflected.c.id > 1).order_by(reflected.c.id)
        with engine.connect() as connection:
            assert [tuple(row) for row in connection.execute(query)] == [(2, None), (3, "c")]
        assert "made_by_alchemy" in sqlalchemy.inspect(engine).get_table_names(schema="default")
        if engine.dialect.name == "hive":
            with pytest.raises(NoSuchTableError):
                sqlalchemy.Table("nope", sqlalchemy.MetaData(), autoload_with=engine)
    finally:
        metadata.drop_all(engine)
    assert not sqlalchemy.inspect(engine).has_table("made_by_alchemy")


def test_describe_takes_a_query_without_its_word_unless_the_client_is_of_hives_kind(
    server: ThriftServer,
) -> None:
    from pyhive import hive

    with (
        closing(hive.connect("127.0.0.1", server.port)) as connection,
        closing(connection.cursor()) as cursor,
    ):
        cursor.execute("DESCRIBE SELECT 1 one")
        assert cursor.fetchall() == [("one", "int", None)]
        cursor.execute("SET hudisql.serve.hive.show.tables=true")
        cursor.execute("DESCRIBE QUERY SELECT 1 one")
        assert cursor.fetchall() == [("one", "int", None)]
        with pytest.raises(Exception, match="behind the word QUERY"):
            cursor.execute("DESCRIBE SELECT 1 one")


@pytest.mark.soak
def test_pandas_and_reflection_through_a_server_of_its_own(tmp_path: Path, metastore_uri: str) -> None:
    with running_server(tmp_path, metastore_uri) as (_process, port):
        for dialect in DIALECTS:
            engine = open_engine(dialect, port)
            try:
                check_frames(engine, f"framed_{dialect}")
                check_hudi_frames(engine, f"{dialect}_alone")
            finally:
                run(engine, f"DROP TABLE IF EXISTS framed_{dialect}")
                engine.dispose()
