"""Pulls from one table into another keep their place in its commits: each change is taken once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import InvalidArgumentError, NoSuchStateError, NoSuchTableError, WriteConflictError
from hudisql.session import Session
from hudisql.table.hudi_table import HudiTable
from hudisql.write.transaction.pull_checkpoint import CHECKPOINT_KEY, find_checkpoint
from tests.fault_injection import run_with_fault
from tests.opened import open_at
from tests.soak import parameters
from tests.sql.changed_tables import ChangedTable

pytestmark = [pytest.mark.spark, pytest.mark.hms]

COPY = "changes.pulled"
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "seq",
    "hoodie.datasource.write.partitionpath.field": "dt",
}
# Taken twice it would double the price.
ADD = (
    f"MERGE INTO {COPY} t USING changes s ON t.id = s.id WHEN MATCHED THEN "
    "UPDATE SET price = t.price + s.price "
    "WHEN NOT MATCHED THEN INSERT (id, seq, price, dt) VALUES (s.id, s.seq, s.price, s.dt)"
)


@pytest.fixture
def copy(session: Session, table: ChangedTable, tmp_path: Path) -> Iterator[ChangedTable]:
    """A table that has pulled all of `table`."""
    path = str(tmp_path / "pulled")
    with session.incremental(table.name, into=COPY) as pull:
        pull.write(pull.df.select("id", "seq", "price", "dt"), path=path, **OPTIONS)
    yield ChangedTable(session, COPY, path)
    session.sql(f"DROP TABLE IF EXISTS {COPY}")


def add_changes(session: Session, table: ChangedTable) -> dict[str, Any]:
    """Pull by `ADD`; gives the row of the statement."""
    with session.incremental(table.name, into=COPY) as pull:
        pull.df.createOrReplaceTempView("changes")
        return pull.sql(ADD).rows[0].asDict()


def opened(table: ChangedTable) -> HudiTable:
    return open_at(table.path)


def taken_until(copy: ChangedTable, table: ChangedTable) -> str:
    place = find_checkpoint(opened(copy), table.path)
    assert place is not None
    return place.until


def newest(table: ChangedTable) -> str:
    return opened(table).timeline.commits[-1].timestamp


def test_each_change_is_taken_once(session: Session, table: ChangedTable, copy: ChangedTable) -> None:
    assert copy.rows() == table.rows()
    assert taken_until(copy, table) == newest(table)
    instants = copy.instants()
    assert add_changes(session, table)["instant"] is None
    assert copy.instants() == instants
    table.run("UPDATE {t} SET price = 100 WHERE seq < 2")
    assert add_changes(session, table)["rows_updated"] == 2
    # A commit of another writer names no place, and one before it does.
    copy.run("UPDATE {t} SET price = -1 WHERE seq = 5")
    add_changes(session, table)
    assert [int(row[2]) for row in copy.rows(where="seq IN (0, 1, 2, 5)")] == [100, 101, 2, -1]
    shown = session.sql(
        f"CALL show_commit_extra_metadata(table => '{COPY}', metadata_key => '{CHECKPOINT_KEY}')"
    )
    assert shown.rows == []


def test_changes_that_change_nothing_are_taken_too(
    session: Session, table: ChangedTable, copy: ChangedTable
) -> None:
    table.run("UPDATE {t} SET price = 100 WHERE seq < 2")
    with session.incremental(table.name, into=COPY) as pull:
        assert sorted(row.op for row in pull.cdc.collect()) == ["u", "u"]
        assert pull.write(pull.df.select("id", "seq", "price", "dt").where("seq > 50")).inserted == 0
    assert taken_until(copy, table) == newest(table)
    assert session.incremental(table.name, into=COPY).is_empty
    assert copy.rows(where="price = 100") == []


@pytest.mark.soak
def test_a_place_outlives_the_active_timeline_and_goes_back_with_the_table(
    session: Session, table: ChangedTable, copy: ChangedTable
) -> None:
    place = newest(table)
    for price in range(5):
        copy.run(f"UPDATE {{t}} SET price = {price} WHERE seq = 5")
    session.sql(
        f"CALL archive_commits(table => '{COPY}', min_commits => 2, max_commits => 3, retain_commits => 1)"
    )
    assert len(opened(copy).timeline.commits) == 2
    assert taken_until(copy, table) == place
    table.run("UPDATE {t} SET price = 100 WHERE seq < 2")
    add_changes(session, table)
    assert taken_until(copy, table) == newest(table)
    session.sql(f"CALL rollback_to_instant(table => '{COPY}', instant_time => '{newest(copy)}')")
    assert taken_until(copy, table) == place
    assert add_changes(session, table)["rows_updated"] == 2
    undone = newest(table)
    session.sql(f"CALL rollback_to_instant(table => '{table.name}', instant_time => '{undone}')")
    with pytest.raises(NoSuchStateError, match=f"the commit {undone} .* was undone by a rollback"):
        session.incremental(table.name, into=COPY)


@pytest.mark.soak
def test_of_two_pulls_at_one_time_one_takes_the_changes(
    session: Session, table: ChangedTable, copy: ChangedTable
) -> None:
    table.run("UPDATE {t} SET price = 100 WHERE seq < 2")
    late = session.incremental(table.name, into=COPY)
    add_changes(session, table)
    rows = copy.rows()
    with pytest.raises(WriteConflictError, match=f"another pull from the Hudi table at {table.path}"):
        late.write(late.df.select("id", "seq", "price", "dt"))
    assert copy.rows() == rows


@pytest.mark.usefixtures("copy")
def test_what_would_lose_or_repeat_changes_is_refused(session: Session, table: ChangedTable) -> None:
    table.run("UPDATE {t} SET price = 100 WHERE seq < 2")
    with (
        pytest.raises(InvalidArgumentError, match="was not written: its position stays"),
        session.incremental(table.name, into=COPY),
    ):
        pass
    pull = session.incremental(table.name, into=COPY)
    for text in (f"UPDATE {table.name} SET price = 1", f"TRUNCATE TABLE {COPY}", "SELECT 1"):
        with pytest.raises(InvalidArgumentError, match=f"keeps its place in commits of {COPY}"):
            pull.sql(text)
    pull.sql(f"UPDATE {COPY} SET price = 7 WHERE seq = 7")
    with pytest.raises(InvalidArgumentError, match="has been written"):
        pull.write()
    for given in ({}, {"checkpoint": "/somewhere", "into": COPY}):
        with pytest.raises(InvalidArgumentError, match="keeps its place in one of two"):
            session.incremental(table.name, **given)
    with pytest.raises(InvalidArgumentError, match="would pull its own changes"):
        session.incremental(table.name, into=table.name)
    session.sql("CREATE VIEW changes.no_table AS SELECT 1 AS one")
    with pytest.raises(NoSuchTableError, match=r"changes\.no_table is not a Hudi table"):
        session.incremental(table.name, into="changes.no_table")


@pytest.mark.parametrize("step", parameters(range(9), in_ci=[]))
def test_a_killed_pull_is_neither_lost_nor_repeated(
    session: Session, metastore_uri: str, table: ChangedTable, copy: ChangedTable, step: int
) -> None:
    table.run("UPDATE {t} SET price = 100 WHERE seq < 2")
    ended = run_with_fault(
        session.spark,
        metastore_uri,
        statement=ADD,
        pulled_from=table.name,
        into=COPY,
        target=copy.path,
        step=step,
    )
    assert ended.returncode in (-signal.SIGKILL, 0), ended.stderr
    is_taken = taken_until(copy, table) == newest(table)
    assert is_taken == ([int(row[2]) for row in copy.rows(where="seq < 2")] == [100, 101])
    add_changes(session, table)
    assert [int(row[2]) for row in copy.rows(where="seq < 3")] == [100, 101, 2]
