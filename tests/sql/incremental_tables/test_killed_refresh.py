"""A refresh that is killed leaves the old rows or has written the new ones, and the next one is right."""

from __future__ import annotations

import signal

import pytest

from hudisql.session import Session
from hudisql.sql.query.target_table import find_hudi_entry, open_hudi_entry
from hudisql.sql.text.statements import TableName
from tests.fault_injection import run_with_fault
from tests.soak import parameters
from tests.sql.incremental_tables.refreshed import assert_fresh, refresh

pytestmark = [pytest.mark.spark, pytest.mark.hms]

QUERY = "SELECT customer, sum(amount) AS total FROM orders GROUP BY customer"
SUMS = "SELECT customer, total FROM t ORDER BY customer"


@pytest.mark.parametrize("step", parameters(range(12), in_ci=[6]))
def test_killed_refresh(layers: Session, metastore_uri: str, step: int) -> None:
    layers.sql(f"CREATE INCREMENTAL TABLE t AS {QUERY}")
    before = layers.sql(SUMS).rows
    layers.sql("UPDATE orders SET customer = 2 WHERE id = 1")
    after = layers.sql(f"{QUERY} ORDER BY customer").rows
    entry = find_hudi_entry(layers.context, TableName(("layers", "t")))
    assert entry is not None
    target = open_hudi_entry(layers.context, entry).base_path
    ended = run_with_fault(
        layers.spark,
        metastore_uri,
        statement="REFRESH INCREMENTAL TABLE layers.t",
        target=target,
        step=step,
    )
    assert ended.returncode in (-signal.SIGKILL, 0), ended.stderr
    found = layers.sql(SUMS).rows
    assert found in (before, after)
    assert (refresh(layers)["way"] == "nothing") == (found == after)
    assert_fresh(layers, QUERY)


@pytest.mark.parametrize("step", parameters(range(0, 24, 3), in_ci=[]))
def test_killed_create_goes_on(layers: Session, metastore_uri: str, step: int) -> None:
    query = QUERY.replace("FROM orders", "FROM layers.orders")
    create = f"CREATE INCREMENTAL TABLE layers.t AS {query}"
    ended = run_with_fault(layers.spark, metastore_uri, statement=create, step=step)
    assert ended.returncode in (-signal.SIGKILL, 0), ended.stderr
    if find_hudi_entry(layers.context, TableName(("layers", "t"))) is None:
        layers.sql(create)
    assert_fresh(layers, query)
    refresh(layers)
    assert refresh(layers)["way"] == "nothing"
