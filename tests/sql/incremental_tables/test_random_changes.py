"""After random changes of the sources, a refreshed table has the rows of its query run afresh."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from hudisql.session import Session
from tests.sql.incremental_tables.refreshed import assert_fresh, refresh

pytestmark = [pytest.mark.spark, pytest.mark.hms]

IDS = some.integers(1, 8)
DAYS = some.sampled_from(["mon", "tue", "wed"])
AMOUNTS = some.integers(0, 60)
REGIONS = some.sampled_from(["n", "s", "w"])

ORDER_CHANGES = some.one_of(
    some.builds("DELETE FROM orders WHERE id = {}".format, IDS),
    some.builds("UPDATE orders SET customer = {} WHERE id = {}".format, some.integers(1, 5), IDS),
    some.builds("UPDATE orders SET day = '{}', amount = {} WHERE customer = {}".format, DAYS, AMOUNTS, IDS),
    some.builds(
        "MERGE INTO orders t USING (SELECT {} id, {} customer, '{}' day, {} amount) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET customer = s.customer, day = s.day, amount = s.amount "
        "WHEN NOT MATCHED THEN INSERT (id, customer, day, amount) "
        "VALUES (s.id, s.customer, s.day, s.amount)".format,
        IDS,
        some.integers(1, 5),
        DAYS,
        AMOUNTS,
    ),
)
CUSTOMER_CHANGES = some.one_of(
    some.builds("DELETE FROM customers WHERE id = {}".format, some.integers(1, 5)),
    some.builds("UPDATE customers SET region = '{}' WHERE id = {}".format, REGIONS, some.integers(1, 5)),
    some.builds(
        "MERGE INTO customers t USING (SELECT {} id, '{}' region) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET region = s.region "
        "WHEN NOT MATCHED THEN INSERT (id, name, region) VALUES (s.id, 'new', s.region)".format,
        some.integers(1, 5),
        REGIONS,
    ),
)
CHANGES = some.lists(some.one_of(ORDER_CHANGES, CUSTOMER_CHANGES), min_size=1, max_size=3)
# Query, key, and the way that changes of orders take.
QUERIES = (
    ("SELECT id, day, amount + 1 AS more FROM orders WHERE amount > {}", "id"),
    (
        "SELECT customer, count(*) AS n, max(amount) AS most FROM orders WHERE amount > {} GROUP BY customer",
        "customer",
    ),
    (
        "SELECT day, upper(day) AS shown, sum(amount) AS total FROM orders GROUP BY day "
        "HAVING sum(amount) > {}",
        "day",
    ),
    (
        "SELECT o.id, o.amount, c.region FROM orders o JOIN customers c ON o.customer = c.id "
        "WHERE o.amount > {}",
        "id",
    ),
    (
        "SELECT o.id, o.amount, coalesce(c.region, '?') AS region FROM orders o LEFT JOIN customers c "
        "ON o.customer = c.id AND o.amount > {}",
        "id",
    ),
    (
        "SELECT coalesce(c.region, '?') AS region, day, sum(amount) AS total FROM orders o "
        "LEFT JOIN customers c ON o.customer = c.id WHERE o.amount > {} GROUP BY 1, 2",
        "region, day",
    ),
    (
        "SELECT * FROM (SELECT id, customer, amount, row_number() OVER (PARTITION BY customer "
        "ORDER BY amount DESC, id) AS place FROM orders WHERE amount > {}) WHERE place <= 2",
        "id",
    ),
    (
        "WITH big AS (SELECT * FROM orders WHERE amount > {}), totals AS (SELECT customer, sum(amount) total "
        "FROM big GROUP BY customer) SELECT big.id, big.amount, totals.total FROM big JOIN totals "
        "ON big.customer = totals.customer",
        "id",
    ),
    (
        "SELECT c.id, c.region, o.n FROM customers c LEFT JOIN (SELECT customer, count(*) AS n FROM orders "
        "WHERE amount > {} GROUP BY customer) o ON c.id = o.customer",
        "id",
    ),
    ("SELECT DISTINCT day, amount FROM orders WHERE amount > {}", "day, amount"),
    (
        "SELECT 'order' AS kind, id, amount AS value FROM orders WHERE amount > {} "
        "UNION ALL SELECT 'customer', id, length(name) FROM customers",
        "kind, id",
    ),
    (
        "SELECT id, region FROM customers c LEFT SEMI JOIN orders o ON c.id = o.customer AND o.amount > {}",
        "id",
    ),
    (
        "SELECT id, region FROM customers c LEFT ANTI JOIN orders o ON c.id = o.customer AND o.amount > {}",
        "id",
    ),
    ("SELECT id, amount FROM orders WHERE amount > (SELECT avg(amount) - {} FROM orders)", "id"),
)


def run_rounds(
    session: Session, queries: Sequence[tuple[str, str]], limit: int, rounds: Sequence[Sequence[str]]
) -> None:
    texts = [query.format(limit) for query, _ in queries]
    for at, (text, (_, key)) in enumerate(zip(texts, queries, strict=True)):
        session.sql(f"DROP TABLE IF EXISTS t{at} PURGE")
        session.sql(f"CREATE INCREMENTAL TABLE t{at} KEY ({key}) AS {text}")
    for changes in rounds:
        for change in changes:
            session.sql(change)
        for at, text in enumerate(texts):
            refresh(session, f"t{at}")
            assert_fresh(session, text, f"t{at}")


@pytest.mark.parametrize("at", [5, pytest.param(6, marks=pytest.mark.soak)])
def test_refresh_equals_query_run_afresh(layers: Session, at: int) -> None:
    rounds = [
        ["UPDATE orders SET customer = 2, day = 'wed' WHERE id = 1", "DELETE FROM orders WHERE id = 4"],
        ["UPDATE customers SET region = 's' WHERE id = 1", "DELETE FROM customers WHERE id = 2"],
    ]
    run_rounds(layers, [QUERIES[at]], 5, rounds)


@pytest.mark.soak
@settings(
    max_examples=30, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True, database=None
)
@given(limit=some.integers(0, 40), rounds=some.lists(CHANGES, min_size=1, max_size=3))
def test_random_changes(layers: Session, limit: int, rounds: list[list[str]]) -> None:
    run_rounds(layers, QUERIES, limit, rounds)
