"""dbt-spark's thrift method: tables, incremental models and tests on Hudi tables."""

from __future__ import annotations

import subprocess
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


def test_models_are_made_and_merged_into(server: ThriftServer, session: Any, tmp_path: Path) -> None:
    for name, text in PROJECT.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.format(port=server.port))
    try:
        dbt(tmp_path, "run", "--vars", "{amount: 2, ts: 1, rows: 3}")
        dbt(tmp_path, "run", "--vars", "{amount: 5, ts: 2, rows: 4}")
        assert "PASS=2" in dbt(tmp_path, "test")
        rows = session.sql("SELECT id, amount FROM dbt_shop.orders ORDER BY id").rows
        assert [tuple(row) for row in rows] == [(number, 5.0) for number in range(4)]
        assert len(session.sql("CALL show_commits(table => 'dbt_shop.orders')").rows) == 2
        assert [tuple(row) for row in session.sql("SELECT * FROM dbt_shop.shown").rows] == [(4, 20.0)]
    finally:
        session.sql("USE default")
        for kind, name in (("VIEW", "shown"), ("TABLE", "totals"), ("TABLE", "orders")):
            session.sql(f"DROP {kind} IF EXISTS dbt_shop.{name}")
        session.sql("DROP DATABASE IF EXISTS dbt_shop")
