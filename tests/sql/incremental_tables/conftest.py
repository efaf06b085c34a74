"""A database with two sources, orders and customers, for incremental tables over them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hudisql.session import Session

DATABASE = "layers"


@pytest.fixture
def layers(session: Session, tmp_path: Path) -> Iterator[Session]:
    """The session, in which `orders` and `customers` of the database `layers` have some rows."""
    session.sql(f"CREATE DATABASE {DATABASE} LOCATION '{tmp_path / 'layers'}'")
    session.sql(f"USE {DATABASE}")
    session.sql(
        "CREATE TABLE orders (id INT, customer INT, day STRING, amount INT, note STRING) USING hudi "
        "TBLPROPERTIES (primaryKey = 'id')"
    )
    session.sql(
        "CREATE TABLE customers (id INT, name STRING, region STRING) USING hudi "
        "TBLPROPERTIES (primaryKey = 'id')"
    )
    session.sql(
        "INSERT INTO orders VALUES (1, 1, 'mon', 10, 'a'), (2, 1, 'tue', 20, 'b'), (3, 2, 'mon', 30, 'c'), "
        "(4, 3, 'wed', 40, NULL)"
    )
    session.sql("INSERT INTO customers VALUES (1, 'ann', 'n'), (2, 'bob', 's'), (4, 'eve', 's')")
    yield session
    session.sql("USE default")
    for row in session.sql(f"SHOW TABLES IN {DATABASE}").rows:
        session.sql(f"DROP TABLE IF EXISTS {DATABASE}.{row['tableName']}")
    session.sql(f"DROP DATABASE {DATABASE} CASCADE")
