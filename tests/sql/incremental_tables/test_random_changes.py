"""After random changes of the sources, a refreshed table has the rows of its query run afresh."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from hudisql.config.hudi_config import DRIVER_MAX_BYTES, REFRESH_DRIVER_MAX_BYTES
from hudisql.session import Session
from hudisql.sql.incremental_tables import changed_rows, maintained_columns, value_bounds
from hudisql.sql.incremental_tables.session_settings import with_settings
from tests.soak import parameters
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
CHANGES = some.lists(some.one_of(ORDER_CHANGES, CUSTOMER_CHANGES), min_size=1, max_size=2)

RandomQuery = tuple[str, str, str]
"""A query, the key of its rows, and a column that its table may be partitioned by."""

# Parts of random queries: a condition, what is read with it, and the columns of the groups.
CONDITIONS = some.one_of(
    some.builds("o.amount > {}".format, some.integers(0, 40)),
    some.builds("o.day <> '{}'".format, DAYS),
    some.builds("o.customer IN ({}, {})".format, some.integers(1, 5), some.integers(1, 5)),
    some.builds("NOT (o.amount BETWEEN 10 AND {} OR o.note IS NULL)".format, AMOUNTS),
    some.just("true"),
)
ORDERS = some.builds("orders o WHERE {}".format, CONDITIONS)
JOINED = some.one_of(
    some.builds("orders o JOIN customers c ON o.customer = c.id WHERE {}".format, CONDITIONS),
    some.builds("orders o LEFT JOIN customers c ON o.customer = c.id AND {}".format, CONDITIONS),
    some.builds("orders o LEFT JOIN customers c ON c.id = o.customer WHERE {}".format, CONDITIONS),
    some.builds(
        "orders o LEFT JOIN (SELECT customer AS id, CASE WHEN count(*) > 1 THEN 'many' ELSE 'one' END "
        "AS region FROM orders o WHERE {} GROUP BY customer) c ON o.customer = c.id".format,
        CONDITIONS,
    ),
    some.builds("orders o LEFT JOIN customers c ON o.customer = c.id AND c.region <> '{}'".format, REGIONS),
)
GROUPS_OF_ORDERS = some.lists(
    some.sampled_from(["o.customer", "o.day", "upper(o.day)", "o.amount % 3", "o.customer + o.id % 2"]),
    min_size=1,
    max_size=2,
    unique=True,
)
GROUPS_OF_JOINED = some.lists(
    some.sampled_from(["o.customer", "o.day", "coalesce(c.region, '?')", "coalesce(c.region, o.day)"]),
    min_size=1,
    max_size=2,
    unique=True,
)
AGGREGATES = some.sampled_from(
    [
        "sum(o.amount)",
        "count(DISTINCT o.amount)",
        "max(o.note)",
        "avg(o.amount)",
        "min(o.id)",
        "count(o.note)",
    ]
)
HAVING = some.sampled_from(["", " HAVING count(*) > 1", " HAVING sum(o.amount) > 30"])


def grouped(read: str, groups: list[str], aggregate: str, having: str) -> RandomQuery:
    names = [f"g{at}" for at in range(len(groups))]
    shown = ", ".join(f"{group} AS {name}" for group, name in zip(groups, names, strict=True))
    query = (
        f"SELECT {shown}, count(*) AS n, {aggregate} AS v FROM {read} GROUP BY {', '.join(groups)}{having}"
    )
    return query, ", ".join(names), "g0"


def windows(read: str, partition: str, function: str, most: int) -> RandomQuery:
    return (
        f"SELECT * FROM (SELECT o.id, {partition} AS part, o.amount, {function} OVER (PARTITION BY "
        f"{partition} ORDER BY o.amount DESC, o.id) AS v FROM {read}) WHERE id <= {most}",
        "id",
        "part",
    )


def rows(read: str, column: str) -> RandomQuery:
    return f"SELECT o.id, o.customer AS who, {column} AS v FROM {read}", "id", "who"


QUERIES_WITH_KEYS = some.one_of(
    some.builds(rows, ORDERS, some.sampled_from(["o.amount + 1", "upper(o.day)", "coalesce(o.note, o.day)"])),
    some.builds(rows, JOINED, some.sampled_from(["c.region", "concat(o.day, c.region)", "o.amount"])),
    some.builds(grouped, ORDERS, GROUPS_OF_ORDERS, AGGREGATES, HAVING),
    some.builds(grouped, JOINED, GROUPS_OF_JOINED, AGGREGATES, HAVING),
    some.builds(
        windows,
        some.one_of(ORDERS, JOINED),
        some.sampled_from(["o.customer", "o.day"]),
        some.sampled_from(["row_number()", "sum(o.amount)", "lag(o.amount)", "first_value(o.note)"]),
        some.integers(3, 9),
    ),
    some.builds(
        lambda read: (f"SELECT DISTINCT o.day, o.amount FROM {read}", "day, amount", "day"),
        some.one_of(ORDERS, JOINED),
    ),
    some.builds(
        lambda kind, condition: (
            f"SELECT id, region FROM customers c LEFT {kind} JOIN orders o ON c.id = o.customer "
            f"AND {condition}",
            "id",
            "region",
        ),
        some.sampled_from(["SEMI", "ANTI"]),
        CONDITIONS,
    ),
    some.builds(
        lambda condition, group: (
            f"SELECT 'o' AS kind, {group} AS id, count(*) AS v FROM orders o WHERE {condition} "
            f"GROUP BY {group} UNION ALL SELECT 'c', id, length(region) FROM customers",
            "kind, id",
            "kind",
        ),
        CONDITIONS,
        some.sampled_from(["o.customer", "o.amount % 4"]),
    ),
)
ROWS_OF_ORDERS = some.lists(
    some.tuples(some.integers(1, 5), DAYS, AMOUNTS, some.sampled_from(["NULL", "'a'", "'b'"])),
    min_size=1,
    max_size=6,
)
ROWS_OF_CUSTOMERS = some.lists(REGIONS, min_size=1, max_size=5)

# Query and key.
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


def run_rounds(session: Session, queries: Sequence[tuple[str, str]], rounds: Sequence[Sequence[str]]) -> None:
    """`queries` have their tables' clauses beside them."""
    for at, (text, clauses) in enumerate(queries):
        session.sql(f"DROP TABLE IF EXISTS t{at} PURGE")
        session.sql(f"CREATE INCREMENTAL TABLE t{at} {clauses} AS {text}")
    for changes in rounds:
        for change in changes:
            session.sql(change)
        for at, (text, _) in enumerate(queries):
            refresh(session, f"t{at}")
            assert_fresh(session, text, f"t{at}")


def clauses_of(query: RandomQuery, is_partitioned: bool) -> tuple[str, str]:
    text, key, partition = query
    return text, f"KEY ({key})" + (f" PARTITIONED BY ({partition})" if is_partitioned else "")


@pytest.mark.soak
@pytest.mark.parametrize("at", parameters(range(len(QUERIES)), in_ci=[5]))
def test_refresh_equals_query_run_afresh(layers: Session, at: int) -> None:
    rounds = [
        ["UPDATE orders SET customer = 2, day = 'wed' WHERE id = 1", "DELETE FROM orders WHERE id = 4"],
        ["UPDATE customers SET region = 's' WHERE id = 1", "DELETE FROM customers WHERE id = 2"],
    ]
    query, key = QUERIES[at]
    run_rounds(layers, [(query.format(5), f"KEY ({key})")], rounds)


SMALL: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.shuffle.partitions": "1",
}
"""Settings with which Spark compiles nothing and runs one task: most of what small statements cost."""


@pytest.fixture
def small(layers: Session) -> Iterator[Session]:
    with with_settings(layers.context, SMALL):
        yield layers


@pytest.mark.soak
@settings(
    max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True, database=None
)
@given(
    queries=some.lists(some.builds(clauses_of, QUERIES_WITH_KEYS, some.booleans()), min_size=2, max_size=4),
    limits=some.sampled_from([(50_000, 1_000), (50_000, 1), (1, 1_000), (1, 1)]),
    driver_bytes=some.sampled_from([8 << 20, 0]),
    orders=ROWS_OF_ORDERS,
    customers=ROWS_OF_CUSTOMERS,
    rounds=some.lists(CHANGES, min_size=1, max_size=2),
)
def test_random_changes(
    small: Session,
    queries: list[tuple[str, str]],
    limits: tuple[int, int],
    driver_bytes: int,
    orders: list[tuple[int, str, int, str]],
    customers: list[str],
    rounds: list[list[str]],
) -> None:
    """Each example begins with other rows: its sources are those of the examples before.

    `limits` lower the numbers of values from which they stay in Spark, are bounds and no list, are read by
    a task. Without `driver_bytes` tasks read and write all, and bounds are pushed.
    """
    values = ", ".join(
        f"({at}, {customer}, '{day}', {amount}, {note})"
        for at, (customer, day, amount, note) in enumerate(orders, 1)
    )
    small.sql(f"INSERT OVERWRITE orders VALUES {values}")
    values = ", ".join(f"({at}, 'c{at}', '{region}')" for at, region in enumerate(customers, 1))
    small.sql(f"INSERT OVERWRITE customers VALUES {values}")
    most_values, most_listed = limits
    with (
        mock.patch.object(maintained_columns, "MOST_VALUES", most_values),
        mock.patch.object(value_bounds, "MOST_LISTED", most_listed),
        mock.patch.object(maintained_columns, "_MOST_IN_PLAN", most_listed),
        mock.patch.object(changed_rows, "_LITTLE_BYTES", driver_bytes),
        mock.patch.object(changed_rows, "_BYTES_OF_A_VALUE", driver_bytes),
        with_settings(
            small.context,
            {each.name: str(driver_bytes) for each in (DRIVER_MAX_BYTES, REFRESH_DRIVER_MAX_BYTES)},
        ),
    ):
        run_rounds(small, queries, rounds)
