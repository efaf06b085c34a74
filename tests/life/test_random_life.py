"""A table's random life, held against a model after every step: short in CI, long in `make soak`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from hudisql.session import Session
from tests.life.machine import DAYS, MakeTable, RandomLife
from tests.life.model import Values, put
from tests.life.table import COLUMNS, TYPES, LivingTable
from tests.oracle.client import HudiOracle
from tests.sql.changed_tables import own_database

pytestmark = [pytest.mark.spark, pytest.mark.hms]

STEPS = int(os.environ.get("HUDISQL_LIFE_STEPS") or 2000)
STEPS_OF_A_LIFE = 40
BOOTSTRAP = "00000000000001"


def _first_rows() -> list[Values]:
    return [
        {"id": id_, "note": f"first{id_}", "price": id_ / 2, "ts": id_, "dt": DAYS[id_ % 2]}
        for id_ in range(8)
    ]


@pytest.fixture(scope="module")
def make_table(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeTable]:
    """Makes the tables of lives: bootstrapped ones are copies of one, others begin empty."""
    directory = tmp_path_factory.mktemp("lives")
    numbers = count()
    with own_database(session, "life"):
        for type_ in ("cow", "mor"):
            _bootstrap(session, directory, type_)

        def make(type_: str, bootstrapped: bool, properties: dict[str, str]) -> LivingTable:
            number = next(numbers)
            table = LivingTable(session, f"life.t{number}", str(directory / f"table{number}"))
            listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
            if bootstrapped:
                shutil.copytree(directory / type_, table.path)
                session.sql(f"CALL hive_sync(table => '{table.name}', path => '{table.path}')")
                session.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ({listed})")
                table.history.commit(BOOTSTRAP, put(_first_rows()))
            else:
                session.sql(
                    f"CREATE TABLE {table.name} (id BIGINT, note STRING, price DOUBLE, ts BIGINT, dt STRING) "
                    f"USING hudi PARTITIONED BY (dt) LOCATION '{table.path}' TBLPROPERTIES "
                    f"(primaryKey = 'id', preCombineField = 'ts', type = '{type_}', {listed})"
                )
                rows = ", ".join(str(tuple(row[name] for name in COLUMNS)) for row in _first_rows())
                table.run(f"INSERT INTO {{t}} VALUES {rows}", put(_first_rows()))
            return table

        yield make


def _bootstrap(session: Session, directory: Path, type_: str) -> None:
    source = directory / f"{type_}-source"
    for day in DAYS:
        place = source / f"dt={day}"
        place.mkdir(parents=True)
        rows = [row for row in _first_rows() if row["dt"] == day]
        schema = pa.schema([(name, TYPES[name]) for name in COLUMNS if name != "dt"])
        pq.write_table(pa.Table.from_pylist(rows, schema), place / "part-0.parquet")
    session.sql(
        f"CALL bootstrap_table(table => 'life.{type_}', source => '{source}', record_key => 'id', "
        f"precombine => 'ts', table_type => '{type_}', target_path => '{directory / type_}', sync => false)"
    )


@pytest.fixture
def live(make_table: MakeTable) -> Callable[..., dict[str, int]]:
    """Live some lives; gives what happened in them."""

    def run(lives: int, steps: int, oracle: HudiOracle | None = None, **more: Any) -> dict[str, int]:
        counted: dict[str, int] = {}

        class Life(RandomLife):
            counts = counted

        Life.make_table = staticmethod(make_table)
        Life.oracle = oracle
        chosen = settings(
            max_examples=lives,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
            **more,
        )
        run_state_machine_as_test(Life, settings=chosen)
        return counted

    return run


def test_a_short_life(live: Callable[..., dict[str, int]]) -> None:
    counted = live(1, 16, derandomize=True, phases=(Phase.generate,), database=None)
    assert counted["steps"] > 12, counted


@pytest.mark.soak
@pytest.mark.oracle
def test_long_lives(live: Callable[..., dict[str, int]], oracle_015: HudiOracle) -> None:
    lives = -(-STEPS // STEPS_OF_A_LIFE)
    counted = live(lives, STEPS_OF_A_LIFE, oracle_015, phases=(Phase.generate,), database=None)
    print(counted)
    assert counted["steps"] >= STEPS // 2, counted
