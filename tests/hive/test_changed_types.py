"""Hive reads by the metastore's types: which changes of types by schema-on-read it reads in older files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.hive.server import HiveServer
from tests.sql.changed_tables import own_database

pytestmark = [pytest.mark.hive, pytest.mark.spark, pytest.mark.hms, pytest.mark.soak]

HIVE_ERROR = "org.apache.hive.service.cli.HiveSQLException"
# The column's type, its value, its new type and what Hive reads; None is an error.
CHANGES = {
    "l": ("bigint", "7", "double", "7.0"),
    "i": ("int", "7", "bigint", "7"),
    "j": ("int", "7", "float", "7.0"),
    "f": ("float", "float(1.5)", "double", "1.5"),
    "c": ("decimal(9,3)", "1.125BD", "decimal(20,5)", "1.12500"),
    "k": ("bigint", "7", "decimal(20,0)", None),
    "d": ("double", "1.005D", "decimal(10,2)", None),
    "t": ("double", "1.5D", "string", None),
    "s": ("string", "'2024-01-05'", "date", None),
    "n": ("string", "'1.255'", "decimal(10,2)", None),
    "x": ("date", "date'2024-01-05'", "string", None),
    "e": ("decimal(9,3)", "1.125BD", "string", None),
}


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_hive_reads_older_files_of_some_changed_types(
    session: Any, hive_server: HiveServer, tmp_path: Path, kind: str
) -> None:
    table = f"typed_{kind}.t"
    with own_database(session, f"typed_{kind}"):
        columns = ", ".join(f"{name} {change[0]}" for name, change in CHANGES.items())
        session.sql(
            f"CREATE TABLE {table} (id INT, {columns}) USING hudi LOCATION '{tmp_path / 't'}' "
            f"TBLPROPERTIES (primaryKey = 'id', type = '{kind}', 'hoodie.schema.on.read.enable' = 'true')"
        )
        values = ", ".join(change[1] for change in CHANGES.values())
        session.sql(f"INSERT INTO {table} VALUES (1, {values}), (2, {values})")
        session.sql(f"UPDATE {table} SET j = 7 WHERE id = 2")
        for name, (_, _, wanted, _) in CHANGES.items():
            session.sql(f"ALTER TABLE {table} ALTER COLUMN {name} TYPE {wanted}")
        for name, (*_, value) in CHANGES.items():
            found = hive_server.query(f"SELECT {name} AS v FROM {table}")
            assert found == [{"v": value}] * (0 if value is None else 2), name
        assert hive_server.beeline is not None
        # Beeline ends the result of a query that fails while rows are fetched.
        failures = hive_server.beeline.log.read_text().splitlines()
        reasons = ("cannot be cast to class", "Cannot inspect")
        assert sum(line.startswith(HIVE_ERROR) and any(r in line for r in reasons) for line in failures) >= 7
        if kind == "cow":
            session.sql(f"UPDATE {table} SET j = 8")
            rewritten = hive_server.query(f"SELECT l, k, d, t, s, n, x, e FROM {table}")
            expected = ("7.0", "7", "1.01", "1.5", "2024-01-05", "1.26", "2024-01-05", "1.125")
            assert [tuple(row.values()) for row in rewritten] == [expected] * 2
