"""Tables whose columns have the names of hudisql's internal columns are written as any other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hudisql
from hudisql.session import Session
from tests.soak import parameters
from tests.sql.changed_tables import database_fixture, setting
from tests.sql.incremental_tables.refreshed import assert_fresh, refresh

pytestmark = [pytest.mark.spark, pytest.mark.hms]

OTHER_NAMES = (
    "__hudisql_stored_partition",
    "__hudisql_stored_id",
    "__hudisql_old_id",
    "__hudisql_old_partition",
    "_hudisql_deleted",
    "_hudisql_new",
    "_hudisql_place",
    "_hudisql_file",
    "path",
    "key",
    "value",
    "_metadata",
    "bytes",
    "b",
    "d",
    "n",
    "o",
    "p",
    "q",
    "s",
    "t",
    *(f"{letter}{number}" for letter in "cnopv" for number in range(2)),
    "__hash",
    "__partition",
)
DATABASE = "internal_names"
INDEX = "hoodie.index.type"
MOVES = "hoodie.simple.index.update.partition.path"


database = database_fixture(DATABASE, scope="module")


def _names() -> list[str]:
    """What the package calls its internal columns, with the prefixes that a table's column could have."""
    calls = re.compile(r"internal_(?:column|prefix)\(\"(\w+)\"\)")
    package = Path(hudisql.__file__).parent
    kinds = {kind for path in package.rglob("*.py") for kind in calls.findall(path.read_text("utf-8"))}
    assert len(kinds) > 20
    names = {prefix + kind for kind in kinds for prefix in ("", "__hudisql_")} | set(OTHER_NAMES)
    return sorted(names - {"partition", "id"})


@pytest.mark.parametrize("kind", parameters(("cow", "mor"), in_ci=[]))
def test_a_table_with_columns_of_all_internal_names(session: Session, database: str, kind: str) -> None:
    names = _names()
    columns = ", ".join(f"`{name}` INT" for name in names)
    session.sql(
        f"CREATE TABLE {database}.{kind} (id INT, {columns}, `partition` STRING) USING hudi "
        f"PARTITIONED BY (`partition`) TBLPROPERTIES (type = '{kind}', primaryKey = 'id')"
    )
    table = f"{database}.{kind}"

    def values(key: int, number: int, partition: str) -> str:
        return f"({key}, {', '.join([str(number)] * len(names))}, '{partition}')"

    def stored() -> dict[int, tuple[int, str]]:
        found = session.sql(
            f"SELECT id, {', '.join(f'`{name}`' for name in names)}, `partition` FROM {table}"
        )
        assert all(len(set(row[1:-1])) == 1 for row in found.rows)
        return {row[0]: (row[1], row[-1]) for row in found.rows}

    expected = {1: (1, "a"), 2: (2, "a"), 3: (3, "b")}
    session.sql(f"INSERT INTO {table} VALUES {values(1, 1, 'a')}, {values(2, 2, 'a')}, {values(3, 3, 'b')}")
    assert stored() == expected
    query = f"SELECT id, `deleted`, `_hudisql_place`, `__hudisql_new` FROM {table}"
    session.sql(f"CREATE INCREMENTAL TABLE {table}_layer KEY (id) ORDERING `_hudisql_place` AS {query}")

    def check() -> None:
        assert stored() == expected
        refresh(session, f"{table}_layer")
        assert_fresh(session, query, f"{table}_layer")

    for moves, partition in (("false", "a"), ("true", "c")):
        with setting(session, INDEX, "GLOBAL_SIMPLE"), setting(session, MOVES, moves):
            for operation in ("upsert", "insert"):
                with setting(session, "hoodie.spark.sql.insert.into.operation", operation):
                    key = {"upsert": 1, "insert": 10 + len(expected)}[operation]
                    session.sql(f"INSERT INTO {table} VALUES {values(key, key + 20, 'c')}")
                    expected[key] = (key + 20, partition if operation == "upsert" else "c")
                    assert stored() == expected
    check()
    session.sql(f"UPDATE {table} SET {', '.join(f'`{name}` = 7' for name in names)} WHERE id = 2")
    expected[2] = (7, "a")
    session.sql(f"UPDATE {table} SET `partition` = 'd', id = 33 WHERE `__hudisql_stored_partition` = 3")
    expected[33] = (expected.pop(3)[0], "d")
    check()
    given = ", ".join(
        f"{number} AS `{name}`" for number, name in enumerate(("id", "source_row", "action"), 2)
    )
    assigned = ", ".join(f"`{name}` = s.`action` + t.id" for name in names)
    session.sql(
        f"MERGE INTO {table} t USING (SELECT {given} UNION ALL SELECT 33, 1, 1) s ON t.id = s.id "
        f"WHEN MATCHED AND s.`source_row` = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET {assigned} "
        f"WHEN NOT MATCHED BY SOURCE AND t.id = 1 THEN UPDATE SET `partition` = 'e'"
    )
    del expected[33]
    expected[2], expected[1] = (6, "a"), (expected[1][0], "e")
    check()
    session.sql(f"DELETE FROM {table} WHERE `__hudisql_operation` = 6")
    del expected[2]
    check()
