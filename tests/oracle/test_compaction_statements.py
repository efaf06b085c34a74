"""RUN, SCHEDULE and SHOW COMPACTION: Apache Hudi answers the same statements with the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.client import HudiOracle
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
