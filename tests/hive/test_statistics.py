"""Statistics that ANALYZE TABLE has made in Hive do not answer for rows that have changed since."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.hive.engines import Ask, ask_beeline
from tests.hive.server import HiveServer
from tests.soak import parameters

pytestmark = [pytest.mark.hive, pytest.mark.spark, pytest.mark.hms]


MARK = "COLUMN_STATS_ACCURATE"


@pytest.mark.parametrize("is_partitioned", parameters([True, False], in_ci=[True]))
def test_hive_sees_what_was_written_after_analyze_table(
    session: Any, hive_server: HiveServer, tmp_path: Path, is_partitioned: bool
) -> None:
    ask, part = ask_beeline(hive_server), "PARTITION (dt)" if is_partitioned else ""
    session.sql("CREATE DATABASE IF NOT EXISTS analyzed")
    session.sql("DROP TABLE IF EXISTS analyzed.t")
    session.sql(
        f"CREATE TABLE analyzed.t (id INT, n INT, dt STRING) USING hudi LOCATION '{tmp_path / 't'}' "
        f"TBLPROPERTIES (primaryKey = 'id')" + (" PARTITIONED BY (dt)" if is_partitioned else "")
    )
    session.sql("INSERT INTO analyzed.t VALUES (1, 10, 'a'), (2, 20, 'b')")
    ask(f"ANALYZE TABLE analyzed.t {part} COMPUTE STATISTICS")
    ask(f"ANALYZE TABLE analyzed.t {part} COMPUTE STATISTICS FOR COLUMNS")
    assert _count_and_most(ask) == [("2",), ("20",)]
    # Hive 2.3 takes no answer from the statistics of an external table that is not partitioned.
    assert _reads_statistics(ask) is is_partitioned
    assert is_partitioned or MARK in session.context.metastore.get_table("analyzed", "t").parameters
    session.sql("UPDATE analyzed.t SET n = 30 WHERE id = 2")
    session.sql("INSERT INTO analyzed.t VALUES (3, 5, 'a')")
    assert _count_and_most(ask) == [("3",), ("30",)]
    assert MARK not in session.context.metastore.get_table("analyzed", "t").parameters
    assert not _reads_statistics(ask)


def _count_and_most(ask: Ask) -> list[tuple[Any, ...]]:
    return [*ask("SELECT count(*) FROM analyzed.t"), *ask("SELECT max(n) FROM analyzed.t")]


def _reads_statistics(ask: Ask) -> bool:
    """True if Hive answers one of the queries without reading the table."""
    plans = [ask(f"EXPLAIN SELECT {each} FROM analyzed.t") for each in ("count(*)", "max(n)")]
    return any("Map Reduce" not in str(plan) for plan in plans)
