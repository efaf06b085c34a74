"""dbt-spark's thrift method: tables, incremental models and tests on Hudi tables."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hudisql.server.thrift_server import ThriftServer
from scripts.setup_oracles import install_dbt

pytestmark = [pytest.mark.spark, pytest.mark.hms, pytest.mark.oracle, pytest.mark.soak]
PROJECT = {
    "dbt_project.yml": "name: shop\nversion: '1.0'\nprofile: shop\nmodel-paths: [models]\n",
    "profiles.yml": """
shop:
  target: dev
  outputs:
    dev: {{type: spark, method: thrift, host: 127.0.0.1, port: {port}, schema: dbt_shop, user: me}}
""",
    "models/orders.sql": """
{{{{ config(materialized='incremental', incremental_strategy='merge', file_format='hudi', unique_key='id',
    options={{'primaryKey': 'id', 'preCombineField': 'ts'}}) }}}}
select id, cast({{{{ var('amount') }}}} as double) as amount, {{{{ var('ts') }}}} as ts
from range({{{{ var('rows') }}}})
""",
    "models/daily.sql": """
{{{{ config(materialized='incremental', incremental_strategy='merge', file_format='hudi', unique_key='id',
    partition_by=['day'], options={{'primaryKey': 'id', 'preCombineField': 'ts'}}) }}}}
select id, amount * 100 as cents, ts, day from dbt_raw.events
{{% if is_incremental() %}} where ts > (select max(ts) from {{{{ this }}}}) {{% endif %}}
""",
    "models/totals.sql": "{{{{ config(materialized='table', file_format='parquet') }}}}\n"
    "select count(*) as orders, sum(amount) as amount from {{{{ ref('orders') }}}}\n",
    "models/shown.sql": "{{{{ config(materialized='view') }}}}\nselect * from {{{{ ref('totals') }}}}\n",
    "models/schema.yml": """
models:
  - name: orders
    columns: [{{name: id, data_tests: [unique, not_null]}}]
""",
}


def dbt(directory: Path, *arguments: str) -> str:
    command = [str(install_dbt().parent / "dbt"), "--no-use-colors", *arguments, "--profiles-dir", "."]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture
def project(server: ThriftServer, session: Any, tmp_path: Path) -> Iterator[Path]:
    """The directory of PROJECT, with a Hudi table `dbt_raw.events` that a model reads."""
    for name, text in PROJECT.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.format(port=server.port))
    session.sql("CREATE DATABASE dbt_raw")
    session.sql(
        "CREATE TABLE dbt_raw.events (id INT, amount DECIMAL(9,2), ts BIGINT, day STRING) USING hudi"
        " TBLPROPERTIES (primaryKey = 'id')"
    )
    yield tmp_path
    session.sql("USE default")
    session.sql("DROP VIEW IF EXISTS dbt_shop.shown")
    for name in ("dbt_shop.totals", "dbt_shop.orders", "dbt_shop.daily", "dbt_raw.events"):
        session.sql(f"DROP TABLE IF EXISTS {name}")
    for name in ("dbt_shop", "dbt_raw"):
        session.sql(f"DROP DATABASE IF EXISTS {name}")


def test_an_incremental_model_merges_what_changed_between_two_runs(session: Any, project: Path) -> None:
    session.sql("INSERT INTO dbt_raw.events SELECT id, id, 1, concat('d', id % 2) FROM range(40)")
    dbt(project, "run", "--select", "daily")
    session.sql("UPDATE dbt_raw.events SET amount = amount + 0.25, ts = 2 WHERE id < 5")
    session.sql("INSERT INTO dbt_raw.events VALUES (90, 1.5, 2, 'd0'), (91, 2.5, 2, 'd2')")
    dbt(project, "run", "--select", "daily")
    expected = session.sql("SELECT id, amount * 100, ts, day FROM dbt_raw.events ORDER BY id").rows
    asked = "SELECT id, cents, ts, day FROM dbt_shop.daily ORDER BY id"
    assert session.sql(asked).rows == expected
    assert len(expected) == 42
    by_commit = session.sql(
        "SELECT count(*) FROM dbt_shop.daily GROUP BY _hoodie_commit_time ORDER BY _hoodie_commit_time"
    )
    assert [row[0] for row in by_commit.rows] == [35, 7]
    dbt(project, "run", "--select", "daily")
    assert session.sql(asked).rows == expected


def test_models_are_made_merged_into_and_tested(session: Any, project: Path) -> None:
    chosen = ("--exclude", "daily")
    dbt(project, "run", "--vars", "{amount: 2, ts: 1, rows: 3}", *chosen)
    dbt(project, "run", "--vars", "{amount: 5, ts: 2, rows: 4}", *chosen)
    assert "PASS=2" in dbt(project, "test")
    rows = session.sql("SELECT id, amount FROM dbt_shop.orders ORDER BY id").rows
    assert [tuple(row) for row in rows] == [(number, 5.0) for number in range(4)]
    assert len(session.sql("CALL show_commits(table => 'dbt_shop.orders')").rows) == 2
    assert [tuple(row) for row in session.sql("SELECT * FROM dbt_shop.shown").rows] == [(4, 20.0)]
