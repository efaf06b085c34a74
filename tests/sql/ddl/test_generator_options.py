"""New tables keep what the session says of their key generator."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from hudisql.session import Session
from tests.sql.changed_tables import setting

pytestmark = [pytest.mark.spark, pytest.mark.hms]

GENERATOR = "org.apache.hudi.keygen.TimestampBasedKeyGenerator"
SETTINGS = {"timestamp.type": "UNIX_TIMESTAMP", "output.dateformat": "yyyy-MM-dd", "timezone": "UTC"}


def _by_statement(session: Session, path: Path) -> None:
    session.sql(
        f"CREATE TABLE default.dated USING hudi PARTITIONED BY (at) LOCATION '{path}' TBLPROPERTIES "
        f"(primaryKey = 'id', 'hoodie.table.keygenerator.class' = '{GENERATOR}') "
        "AS SELECT 'a' AS id, 1700000000L AS at"
    )


def _by_frame(session: Session, path: Path) -> None:
    written = {"keygenerator.class": GENERATOR, "recordkey.field": "id", "partitionpath.field": "at"}
    options = {f"hoodie.datasource.write.{name}": value for name, value in written.items()}
    frame = session.spark.sql("SELECT 'a' AS id, 1700000000L AS at")
    session.write(frame, "default.dated", "insert", path=str(path), **options)


@pytest.mark.parametrize("make", [_by_statement, _by_frame])
def test_a_new_table_keeps_what_the_session_says_of_its_key_generator(
    session: Session, tmp_path: Path, make: Callable[[Session, Path], None]
) -> None:
    path = tmp_path / "dated"
    with ExitStack() as stack:
        for name, value in SETTINGS.items():
            stack.enter_context(setting(session, f"hoodie.keygen.timebased.{name}", value))
        make(session, path)
    try:
        session.sql("INSERT INTO default.dated VALUES ('b', 1600000000)")
        assert {each.name for each in path.iterdir() if each.name != ".hoodie"} == {
            "at=2023-11-14",
            "at=2020-09-13",
        }
    finally:
        session.sql("DROP TABLE default.dated")
