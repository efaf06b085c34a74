"""Runs of a project that are killed: each layer is its old or its new state, and the next run is right."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator

import pytest

from tests.fault_injection import run_with_fault, wait_for_late_tasks
from tests.layers.conftest import LayerProject

pytestmark = [pytest.mark.spark, pytest.mark.hms, pytest.mark.soak]

TOP = """CREATE INCREMENTAL TABLE {db}.top KEY (id) AS
SELECT * FROM (SELECT id, customer, amount, row_number() OVER (PARTITION BY customer ORDER BY amount DESC, id)
AS place FROM {db}.paid) WHERE place <= 2"""
SIZES = """-- test: unique(orders)
CREATE INCREMENTAL TABLE {db}.sizes AS
SELECT orders, count(*) AS customers FROM {db}.buyers GROUP BY orders"""
# Changes of all files and of the metastore that one run makes when each layer changes.
MOST_STEPS = 80


def upsert(table: str, values: str) -> str:
    return (
        f"MERGE INTO {{db}}.{table} t USING (SELECT {values}) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def changes(dice: random.Random) -> Iterator[str]:
    """Some statements that change the sources."""
    for _ in range(dice.randint(1, 3)):
        order, customer = dice.randint(1, 30), dice.randint(1, 6)
        yield dice.choice(
            [
                f"DELETE FROM {{db}}.orders WHERE id = {order}",
                f"UPDATE {{db}}.orders SET customer = {customer}, state = 'paid' WHERE id % 5 = {order % 5}",
                f"UPDATE {{db}}.orders SET state = 'open' WHERE customer = {customer}",
                f"UPDATE {{db}}.customers SET region = '{dice.choice('nsw')}' WHERE id = {customer}",
                f"DELETE FROM {{db}}.customers WHERE id = {customer}",
                upsert(
                    "orders", f"{order} id, {customer} customer, {dice.randint(1, 90)} amount, 'paid' state"
                ),
                upsert("customers", f"{customer} id, '{dice.choice('nsw')}' region"),
            ]
        )


def rebuilt(project: LayerProject) -> dict[str, str]:
    """The query of each model over the sources alone, with those of the models below inside."""
    texts: dict[str, str] = {}
    for name in ("paid", "sales", "buyers", "top", "sizes"):
        file = next(project.directory.rglob(f"{name}.sql"))
        query = file.read_text().split(" AS\n", 1)[1]
        for below, text in texts.items():
            query = query.replace(f"{project.database}.{below}", f"({text})")
        texts[name] = query
    return texts


def rows_of(project: LayerProject, query: str) -> list[str]:
    return sorted(repr(row) for row in project.sql(query))


def states(project: LayerProject, columns: dict[str, str]) -> dict[str, list[str]]:
    """The rows of each layer that is there."""
    known = {row[1] for row in project.sql("SHOW TABLES IN {db}")}
    return {
        name: rows_of(project, f"SELECT {columns[name]} FROM {{db}}.{name}") if name in known else []
        for name in columns
    }


@pytest.mark.parametrize("seed", [1])
def test_killed_runs(project: LayerProject, metastore_uri: str, seed: int) -> None:
    dice = random.Random(seed)
    project.write("dws/top.sql", TOP)
    project.write("ads/sizes.sql", SIZES)
    queries = rebuilt(project)
    columns = {
        name: ", ".join(project.session.sql(f"SELECT * FROM ({query}) LIMIT 0").names)
        for name, query in queries.items()
    }
    killed = 0
    for number in range(30):
        before = states(project, columns)
        for change in changes(dice):
            project.sql(change)
        after = {name: rows_of(project, query) for name, query in queries.items()}
        step = dice.randrange(MOST_STEPS)
        ended = run_with_fault(project.session.spark, metastore_uri, layers=str(project.directory), step=step)
        assert ended.returncode in (-signal.SIGKILL, 0), ended.stderr
        killed += ended.returncode != 0
        wait_for_late_tasks(project.session.spark)
        for name, found in states(project, columns).items():
            assert found in (before[name], after[name]), (number, step, name)
        project.run("apply")
        assert states(project, columns) == after, (number, step)
        print(f"round {number}, step {step}: {'killed' if ended.returncode else 'ended'}", flush=True)
    assert killed > 10
