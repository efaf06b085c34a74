"""The demo of layers with ODS fed by a worker from Kafka: each layer has the rows of its query run afresh."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from hudisql.cli.main import app
from hudisql.service_process.ingest.run_ingest import WorkerOptions, run_worker
from hudisql.session import Session
from sql.demo_warehouse import MODELS, make_source, run_demo
from tests.ingest.broker import KafkaBroker
from tests.sql.incremental_tables.refreshed import assert_fresh

pytestmark = [pytest.mark.spark, pytest.mark.hms, pytest.mark.kafka, pytest.mark.soak]

ROUNDS: Final = 3


@pytest.fixture
def shop(session: Session) -> Iterator[Session]:
    yield session
    for database in ("ads", "dws", "dwd", "ods"):
        for row in session.sql(f"SHOW TABLES IN {database}").rows:
            if not row.isTemporary:
                session.sql(f"DROP TABLE {database}.{row.tableName}")
        session.sql(f"DROP DATABASE {database}")


def test_layers_follow_the_events(shop: Session, broker: KafkaBroker, tmp_path: Path) -> None:
    make_source(tmp_path, "0.01")

    def hudisql(arguments: Sequence[str]) -> None:
        if arguments[0] == "ingest":
            assert run_worker(
                shop.context, threading.Event(), WorkerOptions(group="layers", until_caught_up=True)
            )
            return
        done = CliRunner().invoke(app, list(arguments))
        assert done.exit_code == 0, (arguments, done.stdout, done.stderr)

    run_demo(tmp_path, ROUNDS, hudisql, broker)
    for file in sorted(MODELS.glob("*/*.sql")):
        if file.parent.name != "tests":
            query = file.read_text().split("\nAS\n", 1)[1]
            assert_fresh(shop, query, f"{file.parent.name}.{file.stem}")
    rounds = range(1, ROUNDS + 1)
    keys = pq.read_table(tmp_path / "orders")["o_orderkey"].to_pylist()
    expected = (
        len(keys) + sum(key % 499 in rounds for key in keys) - sum(key % 1999 in rounds for key in keys)
    )
    assert count(shop, "ods.orders") == expected
    lines = pq.read_table(tmp_path / "lineitem")["l_orderkey"].to_pylist()
    assert count(shop, "ods.lineitem") == len(lines) + sum(key % 499 in rounds for key in lines)
    changed = pq.read_table(tmp_path / "customer")
    before = pc.sum(pc.equal(changed["c_mktsegment"], "MACHINERY")).as_py()
    others = [
        row
        for row in changed.select(["c_custkey", "c_mktsegment"]).to_pylist()
        if row["c_custkey"] % 997 in rounds
    ]
    moved = sum(row["c_mktsegment"] != "MACHINERY" for row in others)
    assert moved > 0
    assert count(shop, "dwd.customers WHERE segment = 'machinery'") == before + moved
    assert [row.lag for row in shop.sql("CALL show_ingest()").rows] == [0, 0, 0]


def count(session: Session, text: str) -> Any:
    return session.sql(f"SELECT count(*) FROM {text}").rows[0][0]
