"""The worked project of layers in its short form: beeline, Hudi 0.15 and hudisql read each layer equally."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from hudisql.cli.main import app
from sql.demo_warehouse import make_source, run_demo
from tests.hive.engines import Ask, assert_rows

pytestmark = [pytest.mark.hive, pytest.mark.spark, pytest.mark.hms, pytest.mark.soak]

# What is asked of each layer, by a first column that tells the rows apart.
LAYERS: Final = {
    "dwd.customers": "SELECT segment, count(*) AS n, max(name) AS newest FROM dwd.customers GROUP BY segment",
    "dwd.order_items": "SELECT year(day) AS y, count(*) AS n, sum(revenue) AS r FROM dwd.order_items "
    "GROUP BY year(day)",
    "dws.customer_days": "SELECT customer, count(*) AS n, sum(revenue) AS r, max(orders) AS most "
    "FROM dws.customer_days GROUP BY customer",
    "ads.months": "SELECT month, revenue, orders, days FROM ads.months",
    "ads.segments": "SELECT concat(segment, year) AS place, revenue, customers FROM ads.segments",
    "ads.best_days": "SELECT customer * 10 + place AS id, revenue, day FROM ads.best_days",
}
# Rows of the sources, to compare the top with.
MONTHS: Final = """
SELECT date_format(o_orderdate, 'yyyy-MM') AS month,
  sum(CAST(l_extendedprice * (1 - l_discount) AS DECIMAL(15,2))) AS revenue,
  count(DISTINCT o_orderkey) AS orders, count(DISTINCT o_orderdate) AS days
FROM ods.orders JOIN ods.lineitem ON o_orderkey = l_orderkey WHERE l_returnflag <> 'R' GROUP BY 1"""


@pytest.fixture(scope="module")
def layers(session: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[Any]]]:
    """The rows that hudisql gives for each of LAYERS after the demo."""
    source: Path = tmp_path_factory.mktemp("tpch")
    make_source(source, "0.001")

    def hudisql(arguments: Sequence[str]) -> None:
        done = CliRunner().invoke(app, list(arguments))
        assert done.exit_code == 0, (arguments, done.stdout, done.stderr)

    run_demo(source, 1, hudisql)
    yield {name: session.sql(query).rows for name, query in LAYERS.items()}
    for database in ("ads", "dws", "dwd", "ods"):
        for row in session.sql(f"SHOW TABLES IN {database}").rows:
            if not row.isTemporary:
                session.sql(f"DROP TABLE {database}.{row.tableName}")
        session.sql(f"DROP DATABASE {database}")


def test_each_layer_is_read_equally(ask: Ask, layers: dict[str, list[Any]], session: Any) -> None:
    for name, query in LAYERS.items():
        assert_rows(ask(query), layers[name])
    assert_rows(layers["ads.months"], session.sql(MONTHS).rows)
    assert len(layers["dwd.order_items"]) == 7
