"""INSERT goes by the names of the query's columns where all are the table's, else by position, as in Hudi."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest

from hudisql.console import PlainConsole
from hudisql.errors import WriteConflictError, WriteRefusedError
from hudisql.session import Session
from hudisql.sql.dml import dml_execution
from hudisql.write.transaction.concurrency import FILE_SYSTEM_PROVIDER
from tests.sql.changed_tables import own_database, setting

pytestmark = [pytest.mark.spark, pytest.mark.hms]


@pytest.fixture(scope="module")
def people(session: Session) -> Iterator[str]:
    """A table with two columns of one type and a struct with two members of one type."""
    with own_database(session, "by_name"):
        session.sql(
            "CREATE TABLE by_name.people (id INT, first STRING, last STRING, "
            "home STRUCT<street: STRING, town: STRING>) USING hudi TBLPROPERTIES (primaryKey = 'id')"
        )
        yield "by_name.people"


@pytest.fixture
def said(session: Session, monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What the session's console prints."""
    stream = io.StringIO()
    monkeypatch.setattr(session.context, "console", PlainConsole(stream))
    return stream


def row_of(session: Session, number: int) -> tuple[Any, ...]:
    row = session.sql(f"SELECT first, last, home.street, home.town FROM by_name.people WHERE id = {number}")
    return tuple(row.rows[0])


NAMES = "'Smith' AS last, 'Ann' AS first"
HOME = "named_struct('town', 'Delft', 'street', 'Oude') AS home"
HOUSE = HOME.replace("AS home", "AS house")


def test_columns_and_members_go_by_name_with_one_warning(
    session: Session, people: str, said: io.StringIO
) -> None:
    session.sql(f"INSERT INTO {people} SELECT {HOME}, {NAMES}, 1 AS id")
    assert row_of(session, 1) == ("Ann", "Smith", "Oude", "Delft")
    [warning] = said.getvalue().splitlines()
    assert warning.startswith(f"WARNING: INSERT into {people}: the query's columns go by their names")
    assert "home, home.town, home.street, last, first, id" in warning


def test_a_missing_name_makes_all_go_by_position_without_a_word(
    session: Session, people: str, said: io.StringIO
) -> None:
    session.sql(f"INSERT INTO {people} SELECT 2 AS id, {NAMES}, {HOUSE}")
    assert row_of(session, 2) == ("Smith", "Ann", "Delft", "Oude")
    unknown_member = HOME.replace("'town'", "'city'")
    session.sql(f"INSERT INTO {people} SELECT 3 AS id, {NAMES}, {unknown_member}")
    assert row_of(session, 3) == ("Smith", "Ann", "Delft", "Oude")
    with setting(session, "spark.sql.caseSensitive", "true"):
        session.sql(f"INSERT INTO {people} SELECT 4 AS id, {NAMES.upper()}, {HOME}")
    assert row_of(session, 4) == ("SMITH", "ANN", "Delft", "Oude")
    assert said.getvalue() == ""


def test_what_says_which_column_it_means_is_not_warned_of(
    session: Session, people: str, said: io.StringIO
) -> None:
    session.sql(f"INSERT INTO {people} (id, last, first) SELECT 5 AS id, 'Smith' AS first, 'Ann' AS last")
    assert row_of(session, 5)[:2] == ("Ann", "Smith")
    session.sql(f"INSERT INTO {people} BY NAME SELECT {NAMES}, 6 AS id")
    assert row_of(session, 6)[:2] == ("Ann", "Smith")
    session.sql(f"INSERT INTO {people} SELECT 7 AS ID, 'Ann' AS first, 'Smith' AS last, NULL AS home")
    assert row_of(session, 7)[:2] == ("Ann", "Smith")
    assert said.getvalue() == ""


def test_a_repeated_name_of_the_table_is_refused(session: Session, people: str) -> None:
    with pytest.raises(WriteRefusedError, match="names the column 'first' twice"):
        session.sql(f"INSERT INTO {people} SELECT 8 AS id, 'Ann' AS first, 'Lee' AS first, {HOME}")


def test_a_statement_that_runs_again_warns_once(
    session: Session, people: str, said: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = dml_execution.execute
    attempts: list[object] = []

    def conflict_first(plan: Any, **options: Any) -> Any:
        attempts.append(plan)
        if len(attempts) == 1:
            raise WriteConflictError("another writer was first")
        return real(plan, **options)

    monkeypatch.setattr(dml_execution, "execute", conflict_first)
    with (
        setting(session, "hoodie.write.concurrency.mode", "OPTIMISTIC_CONCURRENCY_CONTROL"),
        setting(session, "hoodie.write.lock.provider", FILE_SYSTEM_PROVIDER),
        setting(session, "hoodie.write.num.retries.on.conflict.failures", "1"),
    ):
        session.sql(f"INSERT INTO {people} SELECT {HOME}, {NAMES}, 9 AS id")
    assert len(attempts) == 2
    assert said.getvalue().count("go by their names") == 1
