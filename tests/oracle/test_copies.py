"""The same CALL copy_to_table and copy_to_temp_view in hudisql and in Apache Hudi gives the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

STATES = (
    "",
    ", query_type => 'read_optimized'",
    ", as_of_instant => '{second}'",
    ", as_of_instant => '{first}', query_type => 'snapshot'",
    ", query_type => 'incremental', begin_instance_time => '{first}', end_instance_time => '{second}'",
    ", query_type => 'incremental', begin_instance_time => '000', end_instance_time => '{third}'",
)


@pytest.fixture(params=parameters(["cow", "mor"], in_ci=["mor"]))
def times(request: pytest.FixtureRequest, session: Any, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The instant times of the three commits of the table `copied`."""
    session.sql(
        "CREATE TABLE copied (id INT, v STRING, day STRING) USING hudi PARTITIONED BY (day) "
        f"LOCATION '{tmp_path / 'copied'}' TBLPROPERTIES (primaryKey = 'id', type = '{request.param}')"
    )
    session.sql("INSERT INTO copied VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y')")
    session.sql("UPDATE copied SET v = 'second' WHERE id <= 2")
    session.sql("INSERT INTO copied VALUES (4, 'third', 'z')")
    commits = session.sql("CALL show_commits(table => 'copied')").rows
    yield dict(zip(("first", "second", "third"), sorted(row[0] for row in commits), strict=True))
    for name in ("copied", "copied_by_hudisql", "copied_by_hudi"):
        session.sql(f"DROP TABLE IF EXISTS {name}")


def rows(session: Any, name: str) -> pa.Table:
    session.sql(f"REFRESH TABLE {name}")
    table: pa.Table = session.sql(f"SELECT * FROM {name}").arrow()
    return table


@pytest.mark.parametrize("state", parameters(STATES, in_ci=STATES[2:3]))
def test_a_table_is_copied_as_hudi_does(
    oracle_015: HudiOracle, session: Any, times: dict[str, str], state: str
) -> None:
    for save_mode in ("overwrite", "append", "overwrite"):
        arguments = f"{state.format(**times)}, save_mode => '{save_mode}'"
        said = session.sql(
            f"CALL copy_to_table(table => 'copied', new_table => 'copied_by_hudisql'{arguments})"
        )
        theirs = oracle_015.sql(
            f"call copy_to_table(table=>'copied', new_table=>'copied_by_hudi'{arguments})"
        )
        assert said.arrow() == theirs
        ours = rows(session, "copied_by_hudisql")
        assert ours.num_rows > 0
        assert_same_rows(ours, rows(session, "copied_by_hudi"), sort_by=["id", "_hoodie_commit_time"])


@pytest.mark.parametrize("state", parameters(STATES, in_ci=STATES[:2]))
def test_a_temporary_view_shows_what_hudis_does_and_no_later_commit(
    oracle_015: HudiOracle, session: Any, times: dict[str, str], state: str
) -> None:
    arguments = f"table => 'copied', view_name => 'shown', replace => true{state.format(**times)}"
    assert session.sql(f"CALL copy_to_temp_view({arguments})").arrow() == oracle_015.sql(
        f"call copy_to_temp_view({arguments})"
    )
    ours = session.sql("SELECT * FROM shown").arrow()
    assert ours.num_rows > 0
    assert_same_rows(ours, oracle_015.sql("select * from shown"), sort_by=["id"])
    session.sql("INSERT INTO copied VALUES (5, 'later', 'z')")
    assert_same_rows(session.sql("SELECT * FROM shown").arrow(), ours, sort_by=["id"])


def test_columns_are_chosen_as_hudi_12_does(
    oracle_120: HudiOracle, session: Any, times: dict[str, str]
) -> None:
    assert times
    chosen = "columns => 'id,upper(v) AS name'"
    session.sql(f"CALL copy_to_table(table => 'copied', new_table => 'copied_by_hudisql', {chosen})")
    oracle_120.sql(f"call copy_to_table(table => 'copied', new_table => 'copied_by_hudi', {chosen})")
    ours = rows(session, "copied_by_hudisql")
    assert ours.column_names == ["id", "name"]
    assert_same_rows(ours, rows(session, "copied_by_hudi"), sort_by=["id"])
