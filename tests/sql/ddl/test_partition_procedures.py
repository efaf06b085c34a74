"""`CALL drop_partition` and `CALL truncate_table`: partitions by their paths, and all rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hudisql
from hudisql.errors import HudisqlError, InvalidArgumentError, NoSuchTableError, UnsupportedStatementError
from hudisql.session import Session
from tests.warning_console import WarningConsole

pytestmark = [pytest.mark.spark, pytest.mark.hms]

NAME = "default.visits"


@pytest.fixture
def warnings() -> WarningConsole:
    return WarningConsole()


@pytest.fixture
def visits(spark: Any, warnings: WarningConsole, tmp_path: Path) -> Iterator[Session]:
    """A session with a table of six rows: three days with the hours 1 and 2."""
    with hudisql.connect(spark=spark, console=warnings) as session:
        session.sql(
            f"CREATE TABLE {NAME} (id INT, v STRING, day STRING, hour INT) USING hudi "
            f"PARTITIONED BY (day, hour) LOCATION '{tmp_path / 't'}' "
            "TBLPROPERTIES (primaryKey = 'id', type = 'mor')"
        )
        rows = [
            f"({day + hour}, 'v', '{name}', {hour})"
            for day, name in ((10, "2023-08-01"), (20, "2023-08-02"), (30, "2023-09-01"))
            for hour in (1, 2)
        ]
        session.sql(f"INSERT INTO {NAME} VALUES {', '.join(rows)}")
        yield session
        session.sql(f"DROP TABLE {NAME}")


def ids(session: Session) -> list[int]:
    return [row[0] for row in session.sql(f"SELECT id FROM {NAME} ORDER BY id").rows]


def partitions(session: Session) -> list[str]:
    return sorted(session.context.metastore.list_partition_names("default", "visits"))


def test_partitions_are_dropped_by_paths_and_patterns_of_paths(
    visits: Session, warnings: WarningConsole
) -> None:
    called = visits.sql(f"CALL drop_partition(table => '{NAME}', partition => 'day=2023-08-01/hour=1')")
    assert (called.rows, called.schema.names) == ([("Success",)], ["result"])
    assert ids(visits) == [12, 21, 22, 31, 32]
    visits.sql(f"CALL drop_partition('{NAME}', 'day=2023-08-02/*, day=2023-09-01/hour=2')")
    assert ids(visits) == [12, 31]
    assert partitions(visits) == ["day=2023-08-01/hour=2", "day=2023-09-01/hour=1"]
    assert warnings.texts == []
    visits.sql(f"CALL drop_partition('{NAME}', '*')")
    assert ids(visits) == []


def test_a_path_without_rows_drops_nothing_and_is_warned_of(
    visits: Session, warnings: WarningConsole
) -> None:
    for path in ("day=2023-08-01", "day=2023-10-*", "hour=1", "day=2023-08-01/hour=?"):
        warnings.texts.clear()
        assert visits.sql(f"CALL drop_partition('{NAME}', '{path}')").rows == [("Success",)]
        assert warnings.texts == [f"CALL drop_partition: {NAME} has no partition '{path}' with rows"]
    assert len(ids(visits)) == 6


def test_a_table_or_some_of_its_partitions_are_truncated(visits: Session) -> None:
    called = visits.sql(f"CALL truncate_table(table => '{NAME}', partitions => 'day=2023-08-*')")
    ((result, milliseconds),) = called.rows
    assert (result, milliseconds >= 0) == ("SUCCESS", True)
    assert called.schema.names == ["result", "time_cost"]
    assert ids(visits) == [31, 32]
    visits.sql(f"CALL truncate_table('{NAME}')")
    assert (ids(visits), partitions(visits)) == ([], [])
    visits.sql(f"INSERT INTO {NAME} VALUES (1, 'again', '2023-08-01', 1)")
    assert ids(visits) == [1]


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        ("drop_partition('default.visits')", InvalidArgumentError, "required and not given: partition"),
        ("drop_partition('default.visits', ' , / ')", InvalidArgumentError, "partition names no partition"),
        ("truncate_table('default.visits', ',')", InvalidArgumentError, "partitions names no partition"),
        ("truncate_table('default.nowhere')", NoSuchTableError, "has no table default.nowhere"),
        ("drop_partition('default.visits_ro', '*')", UnsupportedStatementError, "CALL drop_partition is not"),
        ("truncate_table('default.visits_rt')", UnsupportedStatementError, "CALL truncate_table is not"),
    ],
)
def test_bad_calls_change_nothing(visits: Session, call: str, kind: type[HudisqlError], message: str) -> None:
    with pytest.raises(kind, match=message):
        visits.sql(f"CALL {call}")
    assert len(ids(visits)) == 6
