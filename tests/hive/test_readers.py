"""The matrix of docs/readers.md: what each reader gives of a table at each point of its life.

One bootstrapped table of each type is changed step by step. After each step every reader is asked by name or
path; its rows are compared with a model of the table, and what it did with the matrix and with the answer of
`CALL check_readers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from hudisql.compatibility.reader_rules import Reads
from tests.hive.beeline import HiveError
from tests.hive.server import HiveServer
from tests.oracle.client import HudiOracle
from tests.oracle.shapes import call_bootstrap
from tests.oracle.sources import sample_rows, write_source
from tests.oracle.test_hudi_rs import read_with_hudi_rs

pytestmark = [
    pytest.mark.hive,
    pytest.mark.oracle,
    pytest.mark.spark,
    pytest.mark.hms,
    pytest.mark.usefixtures("lake_database"),
]

Rows = list[tuple[Any, ...]]
PAGE = Path(__file__).parents[2] / "docs" / "readers.md"
TITLES = {"cow": "Copy-on-write", "mor": "Merge-on-read"}
QUERY = "SELECT id, seq, fare FROM {}"


@dataclass
class ReadTable:
    """A table, the model of its rows by id, and the readers as functions that give their rows."""

    session: Any
    name: str
    path: str
    model: dict[str, tuple[str, int, float]]
    readers: dict[str, Callable[[], Rows]] = field(default_factory=dict)

    def run(self, statement: str) -> None:
        self.session.sql(statement.format(t=self.name))

    def change(self, step: str) -> None:
        """Do a step of the matrix to the table and to the model."""
        if step == "MERGE":
            self.run(
                "MERGE INTO {t} t USING (SELECT 'k000002' id, 2 seq, 99.5D fare, '0' region UNION ALL "
                "SELECT 'k000100', 100, 1.5D, '0') s ON t.id = s.id AND t.region = s.region "
                "WHEN MATCHED THEN UPDATE SET fare = s.fare "
                "WHEN NOT MATCHED THEN INSERT (id, seq, fare, region) VALUES (s.id, s.seq, s.fare, s.region)"
            )
            self.model |= {"k000002": ("k000002", 2, 99.5), "k000100": ("k000100", 100, 1.5)}
        elif step == "UPDATE":
            self.run("UPDATE {t} SET fare = 7 WHERE seq = 4")
            self.model["k000004"] = ("k000004", 4, 7.0)
        elif step == "compaction":
            self.run("CALL run_compaction(op => 'scheduleandexecute', table => '{t}')")
        elif step == "clustering":
            self.run("CALL run_clustering(table => '{t}', op => 'scheduleandexecute')")
        elif step == "partition dropped":
            self.run("ALTER TABLE {t} DROP PARTITION (region = '1')")
            self.model = {key: row for key, row in self.model.items() if row[1] % 2 == 0}
        elif step == "column added":
            self.run("ALTER TABLE {t} ADD COLUMNS (tip DOUBLE)")
            self.run("UPDATE {t} SET tip = 1 WHERE seq = 6")


def _sorted(rows: Rows) -> Rows:
    return sorted(
        (
            (str(row[0]), None if row[1] is None else int(row[1]), None if row[2] is None else float(row[2]))
            for row in rows
        ),
        key=str,
    )


def _tuples(table: Any) -> Rows:
    return [tuple(row.values()) for row in table.select(["id", "seq", "fare"]).to_pylist()]


def _by_hive(hive: HiveServer, name: str) -> Rows:
    try:
        return [tuple(row.values()) for row in hive.query(QUERY.format(name))]
    except HiveError:
        # An error of the JVM's linker ends HiveServer2's connection.
        hive.disconnect()
        raise


def _by_name(oracle: HudiOracle, name: str) -> Rows:
    oracle.sql(f"REFRESH TABLE {name}")
    return _tuples(oracle.sql(QUERY.format(name)))


def _readers(
    table: ReadTable,
    spark: Any,
    hive: HiveServer,
    oracle_015: HudiOracle,
    oracle_120: HudiOracle,
    directory: Path,
) -> Iterator[tuple[str, Callable[[], Rows]]]:
    def by_hive(name: str) -> Callable[[], Rows]:
        return lambda: _by_hive(hive, name)

    yield "hudisql", lambda: [tuple(row) for row in table.session.sql(QUERY.format(table.name)).rows]
    yield "Hive 2.3", by_hive(table.name)
    if table.name.endswith("mor"):
        yield "Hive 2.3, _rt", by_hive(f"{table.name}_rt")
        yield "Hive 2.3, _ro", by_hive(f"{table.name}_ro")
    yield "Spark 3.5 + Hudi 0.15 bundle", lambda: _by_name(oracle_015, table.name)
    yield "Spark 3.5 + Hudi 1.x bundle", lambda: _by_name(oracle_120, table.name)
    yield (
        "PySpark 4 with hudisql, by path",
        lambda: [
            tuple(row)
            for row in spark.read.format("hudi").load(table.path).select("id", "seq", "fare").collect()
        ],
    )
    yield "PySpark 4 with hudisql, by name", lambda: [tuple(row) for row in spark.table(table.name).collect()]
    yield "hudi-rs", lambda: _tuples(read_with_hudi_rs(table.path, directory))


def _outcome(table: ReadTable, reader: str) -> Reads:
    try:
        found = _sorted(table.readers[reader]())
    except (AssertionError, PySparkException):  # those of Hive and of Apache Hudi, and Spark's own
        return Reads.FAILS
    expected = list(table.model.values())
    if reader.endswith("_ro"):
        expected = [tuple(row) for row in table.session.sql(QUERY.format(f"{table.name}_ro")).rows]
    return Reads.RIGHT if found == _sorted(expected) else Reads.WRONG


def _answers(table: ReadTable) -> dict[str, Reads]:
    """What CALL check_readers says, by the readers' names in the matrix."""
    rows = [row.asDict() for row in table.session.sql(f"CALL check_readers(table => '{table.name}')").rows]
    found = {}
    for row in rows:
        suffix = (row["name"] or "")[len(table.name) :] if row["reader"] == "Hive 2.3" else ""
        found[row["reader"] + (f", {suffix}" if suffix else "")] = Reads(row["reads"])
    return found


def matrix_of(kind: str) -> Mapping[str, Mapping[str, Reads]]:
    """The page's table for a table type: what each reader does after each step, in their order."""
    part = PAGE.read_text(encoding="utf-8").split(f"### {TITLES[kind]}\n")[1]
    lines = [line for line in part.split("\n#")[0].splitlines() if line.startswith("|")]
    cells = [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]
    steps = cells[0][1:]
    return {
        step: {row[0]: Reads(row[position]) for row in cells[2:]} for position, step in enumerate(steps, 1)
    }


@pytest.mark.soak
@pytest.mark.parametrize(
    ("kind", "indexes"), [("cow", ""), ("mor", ""), ("cow", "column_stats"), ("mor", "column_stats")]
)
def test_readers_read_as_the_matrix_and_check_readers_say(
    session: Any,
    spark: Any,
    hive_server: HiveServer,
    oracle_015: HudiOracle,
    oracle_120: HudiOracle,
    tmp_path: Path,
    kind: str,
    indexes: str,
) -> None:
    """With a metadata table and without one."""
    rows = sample_rows(0, 20)
    source = write_source(tmp_path / "source", rows, lambda seq: f"region={seq % 2}")
    name, path = f"lake.read_{kind}", str(tmp_path / "table")
    call_bootstrap(
        session,
        {
            "table": name,
            "source": str(source),
            "record_key": "id",
            "precombine": "seq",
            "target_path": path,
            "table_type": kind,
            "indexes": indexes,
        },
    )
    model = {row["id"]: (row["id"], row["seq"], row["fare"]) for row in rows.to_pylist()}
    table = ReadTable(session, name, path, model)
    table.readers = dict(_readers(table, spark, hive_server, oracle_015, oracle_120, tmp_path))
    differing = []
    for step, expected in matrix_of(kind).items():
        assert set(expected) == set(table.readers)
        table.change(step)
        answers = _answers(table)
        for reader in table.readers:
            outcome, said = _outcome(table, reader), answers[reader]
            if outcome is not expected[reader] or said not in (outcome, Reads.UNKNOWN):
                differing.append((step, reader, f"did {outcome}", f"page {expected[reader]}", f"CALL {said}"))
    assert not differing, "\n".join(map(str, differing))
