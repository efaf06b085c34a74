"""The demo of ingest runs, in its short form: what it shows is what it produced."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from hudisql.service_process.ingest.run_ingest import WorkerOptions, run_worker
from sql.demo_ingest import run_demo
from tests.ingest.broker import KafkaBroker

pytestmark = [pytest.mark.spark, pytest.mark.hms, pytest.mark.kafka]


def test_the_demo_of_ingest(session: Any, broker: KafkaBroker) -> None:
    shown: list[dict[str, list[Any]]] = []

    def run_file(file: Path) -> None:
        """What `hudisql -f` does, with the results kept by their first words."""
        text = file.read_text().replace("${servers}", broker.servers).replace("lake", "ingest_demo")
        lines = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
        statements = [each.strip() for each in lines.split(";\n")]
        shown.append({" ".join(each.split()[:3]): session.sql(each).rows for each in statements if each})

    def catch_up() -> None:
        assert run_worker(
            session.context, threading.Event(), WorkerOptions(group="demo", until_caught_up=True)
        )

    try:
        run_demo(broker, run_file, catch_up, 30)
        first, second = shown[1:]
        assert [row.lag for row in first["CALL show_ingest()"]] == [46 - 15, 20]
        assert [row.lag for row in second["CALL show_ingest()"]] == [0, 0]
        assert [(row.clicks, row.newest) for row in first["SELECT dt, count(*)"]] == [(10, 2)] * 3
        assert [(row.clicks, row.newest) for row in second["SELECT dt, count(*)"]] == [(15, 3)] * 3
        cities = {row.city: row.customers for row in second["SELECT city, count(*)"]}
        assert cities == {"Berlin": 27, "Lyon": 26, "Oslo": 10, "Porto": 27}
        (bad,) = session.sql("SELECT * FROM ingest_demo.clicks_dead_letter").rows
        assert bytes(bad.value) == b"no JSON"
    finally:
        for table in ("clicks", "clicks_dead_letter", "customers"):
            session.sql(f"DROP TABLE IF EXISTS ingest_demo.{table}")
