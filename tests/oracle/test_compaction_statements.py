"""RUN, SCHEDULE and SHOW COMPACTION: Apache Hudi answers the same statements with the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import HudisqlError
from tests.oracle.client import HudiOracle, OracleError
from tests.sql.changed_tables import setting

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

DUE = "hoodie.compact.inline.max.delta.commits"


@pytest.fixture
def path(session: Any, tmp_path: Path) -> Iterator[str]:
    """The path of the merge-on-read table `compacted` with a log file."""
    directory = tmp_path / "compacted"
    session.sql(
        f"CREATE TABLE compacted (id INT, v STRING) USING hudi LOCATION '{directory}' "
        "TBLPROPERTIES (primaryKey = 'id', type = 'mor')"
    )
    session.sql("INSERT INTO compacted VALUES (1, 'a'), (2, 'b')")
    session.sql("DELETE FROM compacted WHERE id = 1")
    yield str(directory)
    session.sql("DROP TABLE compacted")


def test_both_answer_the_same_statements_alike(oracle_015: HudiOracle, session: Any, path: str) -> None:
    def ask_both(text: str) -> list[tuple[Any, ...]]:
        ours, theirs = session.sql(text).arrow(), oracle_015.sql(text)
        assert ours == theirs
        return [tuple(row.values()) for row in ours.to_pylist()]

    with setting(session, DUE, "1"):
        ((first, _, state),) = session.sql("SCHEDULE COMPACTION ON compacted").rows
    assert ask_both("show compaction on compacted") == [(first, 1, state)] == [(first, 1, "REQUESTED")]
    # Each runs what is pending; nothing is left for the other.
    theirs = oracle_015.sql(f"run compaction on '{path}' at {first}")
    assert [tuple(row.values()) for row in theirs.to_pylist()] == [(first, 1, "COMPLETED")]
    assert ask_both("run compaction on compacted") == []
    session.sql("DELETE FROM compacted WHERE id = 2")
    oracle_015.sql(f"SET {DUE} = 1")
    scheduled = oracle_015.sql(f"schedule compaction on '{path}'")
    oracle_015.sql(f"RESET {DUE}")
    ((second, _, _),) = [tuple(row.values()) for row in scheduled.to_pylist()]
    assert session.sql("RUN COMPACTION ON compacted").rows == [(second, 1, "COMPLETED")]
    assert ask_both(f"show compaction on '{path}' limit 1") == [(second, 1, "COMPLETED")]
    assert [row[0] for row in ask_both("SHOW COMPACTION ON compacted LIMIT 5")] == [second, first]


@pytest.mark.soak
@pytest.mark.parametrize("hudi", ["oracle_015", "oracle_120"])
def test_both_plan_and_run_alike(
    hudi: str, request: pytest.FixtureRequest, session: Any, tmp_path: Path
) -> None:
    """`run` plans what is due and runs it, else what is pending; a timestamp alone means execute."""
    oracle: HudiOracle = request.getfixturevalue(hudi)
    properties = "TBLPROPERTIES (primaryKey = 'id', type = 'mor', hoodie.compact.inline = 'false')"
    sides: dict[str, Any] = {
        "planned_by_hudisql": lambda text: session.sql(text).rows,
        "planned_by_hudi": lambda text: [tuple(row.values()) for row in oracle.sql(text).to_pylist()],
    }
    steps = (
        *("run", "CHANGE", "due:run", "run", "CHANGE", "due:schedule", "run", "CHANGE"),
        *(
            "due:schedule",
            "CHANGE",
            "due:RUN",
            "execute",
            "CHANGE",
            "due:schedule",
            "due:scheduleAndExecute",
            "NAMED:run",
        ),
        *("CHANGE", "due:schedule", "NAMED:run", "AT:schedule", "AT:execute", "run"),
    )

    def answers(name: str, sql: Any) -> list[list[tuple[Any, ...]] | str]:
        sql(f"CREATE TABLE {name} (id INT, v INT) USING hudi LOCATION '{tmp_path / name}' {properties}")
        sql(f"INSERT INTO {name} VALUES (1, 1), (2, 2)")
        found: list[list[tuple[Any, ...]] | str] = []
        last = ""
        for step in steps:
            kind, _, operation = step.rpartition(":")
            if step == "CHANGE":
                sql(f"UPDATE {name} SET v = v + 1 WHERE id = 1")
                continue
            if kind == "due":
                sql(f"SET {DUE} = 1")
            more = {"NAMED": f", instants => '{last}'", "AT": f", timestamp => {last}"}.get(kind, "")
            try:
                rows = sql(f"CALL run_compaction(op => '{operation}', table => '{name}'{more})")
            except (OracleError, HudisqlError):
                found.append(f"{step} is refused")
                continue
            finally:
                sql(f"RESET {DUE}")
            last = rows[0][0] if rows else last
            found.append([(step, *row[1:]) for row in rows])
        found += [[row[1:]] for row in sql(f"CALL show_compaction(table => '{name}')")]
        found.append(sql(f"SELECT id, v FROM {name} ORDER BY id"))
        sql(f"DROP TABLE {name}")
        return found

    ours, theirs = (answers(name, sql) for name, sql in sides.items())
    assert ours == theirs
    planned, ran = [("due:schedule", 1, "REQUESTED")], [("run", 1, "COMPLETED")]
    assert ours[:5] == [[], [("due:run", 1, "COMPLETED")], [], planned, ran]
    assert "NAMED:run is refused" in ours
