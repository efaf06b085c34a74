"""Refreshes from sources that were made again, or whose commits were undone: never `nothing`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from hudisql.format.timeline.instant import Instant
from hudisql.session import Session
from hudisql.sql.query.target_table import open_hudi_entry
from hudisql.table.hudi_table import HudiTable
from tests.soak import parameters
from tests.sources import orders, write_parquet
from tests.sql.incremental_tables.conftest import DATABASE
from tests.sql.incremental_tables.refreshed import assert_fresh, refresh

pytestmark = [pytest.mark.spark, pytest.mark.hms]

QUERY = "SELECT id, amount FROM src"


def make_source(session: Session, rows: str, kind: str = "cow", version: int = 6) -> None:
    session.sql(
        "CREATE TABLE src (id INT, amount INT) USING hudi TBLPROPERTIES (primaryKey = 'id', "
        f"type = '{kind}', 'hoodie.write.table.version' = '{version}')"
    )
    session.sql(f"INSERT INTO src VALUES {rows}")


def source_table(session: Session) -> HudiTable:
    entry = session.context.metastore.get_table(DATABASE, "src")
    assert entry is not None
    return open_hudi_entry(session.context, entry)


def assert_rebuilt(session: Session, row: dict[str, Any], reason: str) -> None:
    assert row["way"] == "whole"
    assert reason in row["reason"]
    assert_fresh(session, QUERY)
    assert refresh(session)["way"] == "nothing"


@pytest.mark.parametrize(
    ("kind", "version"),
    parameters([("cow", 6), ("mor", 6), ("cow", 9), ("mor", 9)], in_ci=[("mor", 9)]),
)
def test_a_source_that_is_dropped_and_made_again_is_run_as_a_whole(
    layers: Session, kind: str, version: int
) -> None:
    make_source(layers, "(1, 10), (2, 20)", kind, version)
    layers.sql(f"CREATE INCREMENTAL TABLE t AS {QUERY}")
    layers.sql("DROP TABLE src PURGE")
    make_source(layers, "(2, 21), (3, 30)", kind, version)
    assert_rebuilt(layers, refresh(layers), "is another table now: it was created again")


def test_a_source_that_is_made_again_without_rows_empties_the_table(layers: Session) -> None:
    make_source(layers, "(1, 10), (2, 20)")
    layers.sql(f"CREATE INCREMENTAL TABLE t AS {QUERY}")
    layers.sql("DROP TABLE src PURGE")
    layers.sql("CREATE TABLE src (id INT, amount INT) USING hudi TBLPROPERTIES (primaryKey = 'id')")
    assert_rebuilt(layers, refresh(layers), "it was created again")


def bootstrap_source(session: Session, directory: Path, kind: str, first: int) -> None:
    """The table `src` over new files."""
    source = directory / f"source{first}"
    write_parquet(source / "part-0.parquet", orders(first, 4))
    session.sql(
        f"CALL bootstrap_table(table => '{DATABASE}.src', source => '{source}', record_key => 'id', "
        f"table_type => '{kind}', target_path => '{directory / 'bootstrapped'}')"
    )


@pytest.mark.parametrize("kind", parameters(["cow", "mor"], in_ci=[]))
def test_a_source_that_is_bootstrapped_again_is_run_as_a_whole(
    layers: Session, tmp_path: Path, kind: str
) -> None:
    bootstrap_source(layers, tmp_path, kind, 0)
    layers.sql(f"CREATE INCREMENTAL TABLE t AS {QUERY}")
    assert refresh(layers)["way"] == "nothing"
    layers.sql(f"CALL rollback_bootstrap(table => '{DATABASE}.src', force => true)")
    bootstrap_source(layers, tmp_path, kind, 2)
    assert source_table(layers).timeline.commits[-1].timestamp == "00000000000001"
    assert_rebuilt(layers, refresh(layers), "it was created again")


@pytest.mark.parametrize("version", parameters([6, 9], in_ci=[9]))
def test_a_source_whose_only_rows_were_rolled_back_is_run_as_a_whole(layers: Session, version: int) -> None:
    make_source(layers, "(1, 10), (2, 20)", version=version)
    layers.sql(f"CREATE INCREMENTAL TABLE t AS {QUERY}")
    (insert,) = source_table(layers).timeline.commits
    layers.sql(f"CALL rollback_to_instant(table => '{DATABASE}.src', instant_time => '{insert.timestamp}')")
    layers.sql("ALTER TABLE src ADD COLUMNS (note STRING)")
    assert_rebuilt(layers, refresh(layers), "was undone by a rollback")
    assert layers.sql("SELECT * FROM t").rows == []


@pytest.mark.soak
def test_an_undone_commit_ahead_of_the_clock_is_run_as_a_whole(layers: Session) -> None:
    make_source(layers, "(1, 10), (2, 20)")
    path = Path(source_table(layers).base_path)
    before = path.with_name("before")
    shutil.copytree(path, before)
    layers.sql("INSERT INTO src VALUES (3, 30)")
    # As a writer with a fast clock leaves it.
    last: Instant = source_table(layers).timeline.commits[-1]
    for file in sorted(path.rglob(f"*{last.timestamp}*")):
        file.rename(file.with_name(file.name.replace(last.timestamp, "2999" + last.timestamp[4:])))
    commit = path / f".hoodie/2999{last.timestamp[4:]}.commit"
    commit.write_text(commit.read_text().replace(last.timestamp, "2999" + last.timestamp[4:]))
    for checksum in path.rglob(".*.crc"):
        checksum.unlink()
    layers.sql(f"CREATE INCREMENTAL TABLE t AS {QUERY}")
    assert layers.sql("SELECT count(*) FROM t").rows == [(3,)]
    shutil.rmtree(path)
    before.rename(path)
    row = refresh(layers)
    assert (row["way"], row["rows_deleted"]) == ("whole", 1)
    assert "was undone by a rollback" in row["reason"]
    assert_fresh(layers, QUERY)


def test_what_makes_no_new_table_of_a_source_is_followed(layers: Session) -> None:
    make_source(layers, "(1, 10), (2, 20)")
    layers.sql(f"CREATE INCREMENTAL TABLE t AS {QUERY}")
    layers.sql("ALTER TABLE src SET TBLPROPERTIES ('hoodie.keep.max.commits' = '40')")
    layers.sql("ALTER TABLE src ADD COLUMNS (note STRING)")
    path = Path(source_table(layers).base_path)
    shutil.move(path, path.with_name("elsewhere"))
    shutil.copytree(path.with_name("elsewhere"), path)
    layers.sql("UPDATE src SET amount = 11 WHERE id = 1")
    row = refresh(layers)
    assert (row["way"], row["rows_updated"]) == ("rows", 1)


@pytest.mark.soak
def test_an_archived_place_is_not_taken_for_an_undone_one(layers: Session) -> None:
    make_source(layers, "(1, 10), (2, 20)")
    layers.sql(f"CREATE INCREMENTAL TABLE t AS {QUERY}")
    for amount in range(11, 17):
        layers.sql(f"UPDATE src SET amount = {amount} WHERE id = 1")
    layers.sql(
        f"CALL archive_commits(table => '{DATABASE}.src', min_commits => 2, max_commits => 3, "
        "retain_commits => 1)"
    )
    row = refresh(layers)
    assert "undone" not in (row["reason"] or "")
    assert_fresh(layers, QUERY)
