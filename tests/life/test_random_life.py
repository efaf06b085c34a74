"""A table's random life, held against a model after every step: short in CI, long in `make soak`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis.stateful import invariant

from hudisql.errors import UnsupportedTableError
from hudisql.read.scan import data_skipping
from hudisql.session import Session
from hudisql.table.hudi_table import WRITTEN_VERSION
from tests.iceberg.readers import check_readers, publish
from tests.life.hudi_actor import HudiActor
from tests.life.indexed_life import IndexedLife
from tests.life.lives import first_seed, run_lives
from tests.life.machine import MakeTable, RandomLife
from tests.life.model import Values, put
from tests.life.statements import DAYS
from tests.life.steps import StepCounts, failing
from tests.life.table import ARROW_TYPES, COLUMNS, LivingTable
from tests.oracle.client import HudiOracle
from tests.soak import parameters
from tests.sql.changed_tables import own_database

pytestmark = [pytest.mark.spark, pytest.mark.hms]

STEPS = int(os.environ.get("HUDISQL_LIFE_STEPS") or 2000)
STEPS_OF_A_LIFE = 40
PUBLISHED_STEPS = STEPS // 10
BOOTSTRAP = "00000000000001"
FIRST_ROWS: list[Values] = [
    {"id": id_, "note": f"first{id_}", "price": id_ / 2, "ts": id_, "dt": DAYS[id_ % 2]} for id_ in range(8)
]


@pytest.fixture(autouse=True)
def skips_in_small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Filters ask the statistics of each metadata table that is there."""
    monkeypatch.setattr(data_skipping, "FEWEST_TO_SKIP", 1)


@pytest.fixture(scope="module")
def make_table(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeTable]:
    """Makes the tables of lives with the first rows: bootstrapped, or by SQL alone."""
    directory = tmp_path_factory.mktemp("lives")
    numbers = count()

    def make(type_: str, bootstrapped: bool, properties: dict[str, str], version: int) -> LivingTable:
        number = next(numbers)
        given = {"hoodie.write.table.version": str(version), **properties}
        table = LivingTable(session, f"life.t{number}", str(directory / f"table{number}"))
        if bootstrapped:
            table.source = directory / f"source{number}"
            _write_source(table.source)
            session.sql(
                f"CALL bootstrap_table(table => '{table.name}', source => '{table.source}', "
                f"record_key => 'id', precombine => 'ts', table_type => '{type_}', "
                f"target_path => '{table.path}', table_version => {version})"
            )
            session.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ({_listed(properties)})")
            table.history.commit(BOOTSTRAP, put(FIRST_ROWS))
        else:
            columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
            session.sql(
                f"CREATE TABLE {table.name} ({columns}) USING hudi PARTITIONED BY (dt) "
                f"LOCATION '{table.path}' TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', "
                f"type = '{type_}', {_listed(given)})"
            )
            rows = ", ".join(str(tuple(row[name] for name in COLUMNS)) for row in FIRST_ROWS)
            table.run(f"INSERT INTO {{t}} VALUES {rows}", put(FIRST_ROWS))
        return table

    with own_database(session, "life"):
        yield make


def _listed(properties: dict[str, str]) -> str:
    return ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())


def _write_source(directory: Path) -> None:
    schema = pa.schema([(name, ARROW_TYPES[kind]) for name, kind in COLUMNS.items() if name != "dt"])
    for day in DAYS:
        place = directory / f"dt={day}"
        place.mkdir(parents=True)
        rows = [row for row in FIRST_ROWS if row["dt"] == day]
        pq.write_table(pa.Table.from_pylist(rows, schema), place / "part-0.parquet")


class PublishedLife(RandomLife):
    """A life in which readers of Iceberg give the rows of queries after each step, if it can be published."""

    @invariant()
    def iceberg_readers_give_the_rows_of_queries(self) -> None:
        if not hasattr(self, "table"):
            return
        with failing(self):
            try:
                check_readers(self.table.session, self.table.name)
            except UnsupportedTableError:
                self.counts.checks["refused publications"] += 1
            else:
                self.counts.checks["reads as Iceberg"] += 1


def _machine(
    number: int,
    make_table: MakeTable,
    counts_: StepCounts,
    oracle: HudiOracle | None,
    version_: int,
    life: type[RandomLife] = RandomLife,
) -> type[RandomLife]:
    class Life(life):  # type: ignore[misc, valid-type]
        version = version_
        type_ = ("mor", "cow")[number % 2]
        bootstrapped = number // 2 % 2 == 0
        counts = counts_
        hudi = None if oracle is None else HudiActor(oracle, with_metadata=issubclass(life, IndexedLife))

    Life.make_table = staticmethod(make_table)
    return Life


@pytest.mark.parametrize("version", parameters([6, 9], in_ci=[9]))
def test_a_short_life(make_table: MakeTable, report: Callable[[str], None], version: int) -> None:
    counts = StepCounts()
    run_lives(
        lambda number: _machine(number, make_table, counts, None, version, IndexedLife),
        counts,
        report,
        seed_of_first=1,
        length=16,
        is_enough=lambda: counts.lives == 1,
    )
    assert counts.total > 12, counts


@pytest.mark.soak
@pytest.mark.oracle
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("life", [RandomLife, IndexedLife])
def test_long_lives(
    request: pytest.FixtureRequest,
    make_table: MakeTable,
    report: Callable[[str], None],
    version: int,
    life: type[RandomLife],
) -> None:
    """Apache Hudi 0.15 changes tables of version 6, too, and 1.2 the newer ones."""
    oracle = request.getfixturevalue("oracle_015" if version == WRITTEN_VERSION else "oracle_120")
    counts = StepCounts()
    run_lives(
        lambda number: _machine(number, make_table, counts, oracle, version, life),
        counts,
        report,
        seed_of_first=first_seed(),
        length=STEPS_OF_A_LIFE,
        is_enough=lambda: counts.total >= STEPS,
    )


@pytest.mark.soak
@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("format_version", [2, 3])
def test_published_lives(
    make_table: MakeTable, report: Callable[[str], None], version: int, format_version: int
) -> None:
    def make_published(*arguments: Any) -> LivingTable:
        table = make_table(*arguments)
        table.session.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('hudisql.iceberg.sync' = 'true')")
        publish(table.session, table.name, f", format_version => {format_version}")
        return table

    counts = StepCounts()
    run_lives(
        lambda number: _machine(number, make_published, counts, None, version, PublishedLife),
        counts,
        report,
        seed_of_first=first_seed(),
        length=STEPS_OF_A_LIFE,
        is_enough=lambda: counts.total >= PUBLISHED_STEPS,
    )
    assert counts.checks["reads as Iceberg"] > counts.checks["refused publications"]
