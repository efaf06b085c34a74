"""SQL on real Hive Metastores 3.1.3 and 4.0.1: bootstrap, sync, changes, renames and migrations."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from scripts.setup_metastores import install_metastore_client
from tests.catalog.metastores.server import OtherMetastore, metastore_on_postgres, other_metastore
from tests.soak import parameters
from tests.sources import fingerprint, orders, write_parquet

pytestmark = [pytest.mark.spark, pytest.mark.hms, pytest.mark.oracle]
RunMetastore = Callable[[str, Path], AbstractContextManager[OtherMetastore]]
RUNNER = Path(__file__).parent / "metastores" / "run_statements.py"
CHANGES = (
    "MERGE INTO {0} t USING (SELECT 'k00001' id, 5.5D amount) c ON t.id = c.id "
    "WHEN MATCHED THEN UPDATE SET amount = c.amount",
    "UPDATE {0} SET amount = 7.5 WHERE seq = 2",
    "DELETE FROM {0} WHERE seq = 3",
    "ALTER TABLE {0} ADD COLUMNS (note string)",
    "ALTER TABLE {0} SET TBLPROPERTIES ('team' = 'sales')",
)


def run_statements(
    metastore: OtherMetastore, statements: Sequence[str], conf: Mapping[str, str] | None = None
) -> list[Any]:
    """What the statements answered in a session of their own."""
    command = [sys.executable, str(RUNNER), metastore.uri, str(metastore.warehouse)]
    done = subprocess.run(
        [*command, json.dumps(conf or {}), json.dumps(statements)],
        capture_output=True,
        text=True,
        cwd=metastore.warehouse.parent,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers: list[Any] = json.loads(done.stdout)
    return answers


def errors_of(answers: Sequence[Any]) -> list[str]:
    return [answer["error"] for answer in answers if isinstance(answer, dict)]


def write_source(directory: Path) -> Path:
    for number in range(2):
        write_parquet(directory / f"{number}.parquet", orders(number * 20))
    return directory


def hudi_statements(source: Path) -> Sequence[str]:
    """Everything of Hudi tables, with 40 rows of the source: one is deleted, two get another amount."""
    bootstrap = f"CALL bootstrap_table(source => '{source}', record_key => 'id', precombine => 'seq', "
    return [
        "CREATE DATABASE d",
        f"{bootstrap} table => 'd.cow')",
        f"{bootstrap} table => 'd.mor', table_type => 'mor')",
        *(change.format(table) for table in ("d.cow", "d.mor") for change in CHANGES),
        "CREATE TABLE d.made (id int, name string) USING hudi",
        "INSERT INTO d.made SELECT 1, 'a'",
        "ALTER TABLE d.cow RENAME TO d.renamed",
        "SHOW TABLES IN d",
        "SELECT count(*), sum(amount) FROM d.renamed",
        "SELECT count(*), sum(amount) FROM d.mor",
        "SELECT count(*), sum(amount) FROM d.mor_rt",
        "SELECT count(*), sum(amount) FROM d.mor_ro",
        "SELECT count(*) FROM d.made",
        "DROP TABLE d.renamed",
        "DROP TABLE d.mor",
        "SHOW TABLES IN d",
    ]


def check_hudi_answers(answers: Sequence[Any]) -> None:
    """Compare what `hudi_statements` answered."""
    assert not errors_of(answers)
    merged = [["39", "206.5"]]
    assert [sorted(row[1] for row in answers[-9]), *answers[-8:-3]] == [
        ["made", "mor", "mor_ro", "mor_rt", "renamed"],
        *(merged, merged, merged, [["40", "207.25"]], [["1"]]),
    ]
    assert sorted(row[1] for row in answers[-1]) == ["made"]


def plain_statements(source: Path) -> Sequence[str]:
    """A managed table of parquet files becomes a Hudi table of its name, and again what it was."""
    return [
        f"CREATE TABLE d.plain STORED AS parquet AS SELECT * FROM parquet.`{source}`",
        "CALL migrate_table(table => 'd.plain', record_key => 'id', precombine => 'seq')",
        "UPDATE d.plain SET amount = 0 WHERE seq = 1",
        "SELECT count(*), sum(amount) FROM d.plain",
        "SELECT count(*), sum(amount) FROM d.plain__source",
        "CALL revert_migration(table => 'd.plain', force => true)",
        "SELECT count(*), sum(amount) FROM d.plain",
        "SHOW TABLES IN d",
    ]


def check_plain_answers(answers: Sequence[Any]) -> None:
    """Compare what `plain_statements` answered."""
    assert not errors_of(answers)
    whole = [["40", "195.0"]]
    assert [answers[-5], answers[-4], answers[-2]] == [[["40", "194.75"]], whole, whole]
    assert sorted(row[1] for row in answers[-1]) == ["made", "plain"]


@pytest.mark.soak
@pytest.mark.parametrize("version", parameters(["3.1.3", "4.0.1"], in_ci=["4.0.1"]))
def test_a_bootstrapped_table_is_changed_renamed_and_dropped(tmp_path: Path, version: str) -> None:
    source = write_source(tmp_path / "source")
    files = fingerprint(source)
    with other_metastore(version, tmp_path / "metastore") as metastore:
        answers = run_statements(
            metastore,
            [
                "CREATE DATABASE d",
                f"CALL bootstrap_table(source => '{source}', record_key => 'id', table => 'd.t')",
                *(change.format("d.t") for change in CHANGES),
                "ALTER TABLE d.t RENAME TO d.renamed",
                "SELECT count(*), sum(amount) FROM d.renamed",
                "DROP TABLE d.renamed",
                "SHOW TABLES IN d",
            ],
        )
    assert not errors_of(answers)
    assert answers[-3] == [["39", "206.5"]]
    assert answers[-1] == []
    assert fingerprint(source) == files


@pytest.mark.soak
def test_hive_3_by_the_client_of_spark_itself(tmp_path: Path) -> None:
    source = write_source(tmp_path / "source")
    files = fingerprint(source)
    with other_metastore("3.1.3", tmp_path / "metastore") as metastore:
        hudi, plain = hudi_statements(source), plain_statements(source)
        answers = run_statements(metastore, [*hudi, *plain])
    check_hudi_answers(answers[: len(hudi)])
    check_plain_answers(answers[len(hudi) :])
    assert fingerprint(source) == files


@pytest.mark.soak
def test_hive_4_by_the_client_of_spark_itself(tmp_path: Path) -> None:
    source = write_source(tmp_path / "source")
    with other_metastore("4.0.1", tmp_path / "metastore") as metastore:
        hudi = hudi_statements(source)
        answers = run_statements(
            metastore,
            [
                *hudi,
                "SELECT * FROM d.absent",
                f"CREATE TABLE d.inside (id int) USING hudi LOCATION '{metastore.managed_warehouse}/inside'",
            ],
        )
    check_hudi_answers(answers[: len(hudi)])
    absent, inside = answers[len(hudi) :]
    assert "spark.sql.hive.metastore.version" in absent["hint"]
    assert "spark.sql.hive.metastore.jars" in absent["hint"]
    assert "within managed warehouse" in inside["error"]
    assert "metastore.warehouse.external.dir" in inside["hint"]


@pytest.mark.soak
@pytest.mark.parametrize("run", [other_metastore, metastore_on_postgres], ids=["derby", "postgres"])
def test_hive_4_by_its_own_client(tmp_path: Path, run: RunMetastore) -> None:
    source = write_source(tmp_path / "source")
    conf = {
        "spark.sql.hive.metastore.version": "4.0.1",
        "spark.sql.hive.metastore.jars": "path",
        "spark.sql.hive.metastore.jars.path": f"file://{install_metastore_client('4.0.1')}/*.jar",
    }
    with run("4.0.1", tmp_path / "metastore") as metastore:
        hudi, plain = hudi_statements(source), plain_statements(source)
        answers = run_statements(metastore, [*hudi, *plain], conf)
    check_hudi_answers(answers[: len(hudi)])
    check_plain_answers(answers[len(hudi) :])
