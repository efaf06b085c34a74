"""Rows of one key that a MERGE inserts: hudisql keeps those that Apache Hudi keeps, or refuses the MERGE."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import RepeatedKeysError
from tests.oracle.client import HudiOracle

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms, pytest.mark.soak]

SOURCE = (
    "SELECT 2 id, 'x' v, 5 ts UNION ALL SELECT 2, 'y', 4 UNION ALL SELECT 3, 'z', 7 "
    "UNION ALL SELECT 3, 'z', 7"
)
MERGE = "MERGE INTO {t} t USING ({s}) s ON t.id = s.id {matched} WHEN NOT MATCHED THEN INSERT *"


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("matched", ["", "WHEN MATCHED THEN UPDATE SET *"])
@pytest.mark.parametrize("hudi", ["oracle_015", "oracle_120"])
def test_the_newest_of_new_rows_with_one_key_stays(
    hudi: str, matched: str, kind: str, request: pytest.FixtureRequest, session: Any, tmp_path: Path
) -> None:
    oracle: HudiOracle = request.getfixturevalue(hudi)
    sides = {"merged_by_hudisql": session.sql, "merged_by_hudi": oracle.sql}
    found = []
    for name, run in sides.items():
        run(
            f"CREATE TABLE {name} (id INT, v STRING, ts INT) USING hudi LOCATION '{tmp_path / name}' "
            f"TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', type = '{kind}')"
        )
        run(f"INSERT INTO {name} VALUES (1, 'a', 1)")
        run(MERGE.format(t=name, s=SOURCE, matched=matched))
        found.append(session.sql(f"SELECT id, v, ts FROM {name} ORDER BY id").rows)
        run(f"DROP TABLE {name}")
    assert found[0] == found[1] == [(1, "a", 1), (2, "x", 5), (3, "z", 7)]


def test_without_an_ordering_column_hudi_inserts_all_rows_of_a_key(
    session: Any, oracle_120: HudiOracle, tmp_path: Path
) -> None:
    """Or one of them, any, if a clause changes rows and a file with others takes them. hudisql refuses."""
    merge = MERGE.replace("{s}", SOURCE)
    for matched, stored in (("", [1, 2, 2, 3, 3]), ("WHEN MATCHED THEN UPDATE SET *", [1, 2, 3])):
        oracle_120.sql(
            f"CREATE TABLE merged (id INT, v STRING, ts INT) USING hudi "
            f"LOCATION '{tmp_path / str(len(stored))}' TBLPROPERTIES (primaryKey = 'id')"
        )
        oracle_120.sql("INSERT INTO merged VALUES (1, 'a', 1)")
        with pytest.raises(RepeatedKeysError, match=r"2 key\(s\)"):
            session.sql(merge.format(t="merged", matched=matched))
        oracle_120.sql(merge.format(t="merged", matched=matched))
        assert [row[0] for row in session.sql("SELECT id FROM merged ORDER BY id").rows] == stored
        session.sql("DROP TABLE merged")
