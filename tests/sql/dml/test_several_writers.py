"""Two hudisql processes that change one table at the same time, sharing it under a lock."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from hudisql.errors import TableLockedError, UnsupportedTableError
from hudisql.write.transaction.concurrency import FILE_SYSTEM_PROVIDER
from tests.fault_injection import run_with_fault
from tests.file_slices import has_lost_its_rows
from tests.opened import open_at
from tests.sql.changed_tables import DAYS, ROWS, ChangedTable

pytestmark = [pytest.mark.spark, pytest.mark.hms]

SHARED = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": FILE_SYSTEM_PROVIDER,
    "hoodie.write.lock.client.wait_time_ms_between_retry": "50",
    "hoodie.write.lock.client.num_retries": "5000",
}
RunBoth = Callable[[ChangedTable, str, str], list[CompletedProcess[str]]]


def _share(table: ChangedTable, **more: str) -> None:
    settings = SHARED | {key.replace("__", "."): value for key, value in more.items()}
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in settings.items())
    table.session.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ({listed})")


@pytest.fixture
def run_both(spark: Any, metastore_uri: str, tmp_path: Path) -> RunBoth:
    """Run two statements, each in a process of its own: neither commits before both are writing files."""

    def run(table: ChangedTable, *statements: str) -> list[CompletedProcess[str]]:
        barrier = tmp_path / "barrier"
        barrier.mkdir()

        def one(statement: str) -> CompletedProcess[str]:
            return run_with_fault(
                spark,
                metastore_uri,
                statement=statement.replace("{t}", table.name),
                target=table.path,
                process="task",
                fault="barrier",
                barrier=str(barrier),
            )

        with ThreadPoolExecutor() as pool:
            ended = list(pool.map(one, statements))
        assert len(list(barrier.iterdir())) >= 2
        return ended

    return run


def _assert_nothing_is_left(table: ChangedTable, *, commits: int, rollbacks: int = 0) -> None:
    kinds = [each.split()[1] for each in table.instants()]
    assert kinds.count("rollback") == rollbacks
    assert len(kinds) == 1 + commits + rollbacks
    assert open_at(table.path).timeline.pending == ()
    assert table.orphans() == []
    hidden = Path(table.path, ".hoodie")
    assert not (hidden / "lock").exists()
    assert list((hidden / ".heartbeat").iterdir()) == []
    assert list((hidden / ".temp").iterdir()) == []


def test_changes_of_different_file_groups_both_stand(table: ChangedTable, run_both: RunBoth) -> None:
    _share(table)
    ended = run_both(
        table,
        f"UPDATE {{t}} SET price = -1 WHERE dt = '{DAYS[0]}'",
        f"DELETE FROM {{t}} WHERE dt = '{DAYS[2]}' AND seq > 25",
    )
    assert [each.returncode for each in ended] == [0, 0], [each.stderr for each in ended]
    assert table.seqs() == list(range(26))
    assert table.seqs("price = -1") == list(range(10))
    _assert_nothing_is_left(table, commits=2)


@pytest.mark.parametrize("kind", [pytest.param("table", marks=pytest.mark.soak), "merge_on_read_table"])
def test_of_two_changes_of_one_file_group_one_stands_and_the_other_says_why(
    request: pytest.FixtureRequest, kind: str, run_both: RunBoth
) -> None:
    table: ChangedTable = request.getfixturevalue(kind)
    _share(table)
    where = f"WHERE dt = '{DAYS[1]}'"
    files = len(list(Path(table.path, f"dt={DAYS[1]}").iterdir()))
    ended = run_both(
        table, f"UPDATE {{t}} SET price = -1 {where}", f"UPDATE {{t}} SET price = -2 {where} AND seq < 15"
    )
    assert sorted(each.returncode for each in ended) == [0, 1], [each.stderr for each in ended]
    (loser,) = [each for each in ended if each.returncode]
    winner = table.instants()[-2].split()[0]
    assert (
        f"WriteConflictError: the commit {winner} of another writer changes the same file groups"
        in loser.stderr
    )
    assert f"dt={DAYS[1]}/" in loser.stderr
    changed = table.rows("seq, price", f"price < 0 {where.replace('WHERE', 'AND')}")
    assert changed in ([(n, -1) for n in range(10, 20)], [(n, -2) for n in range(10, 15)])
    assert len(table.rows()) == ROWS
    # A log file of the loser stays, without its rows.
    left = [each for each in Path(table.path, f"dt={DAYS[1]}").iterdir() if each.suffix != ".crc"]
    assert len([each for each in left if not has_lost_its_rows(each)]) == files + 1
    _assert_nothing_is_left(table, commits=1, rollbacks=1)


def test_a_statement_that_lost_is_run_again_if_that_is_set(table: ChangedTable, run_both: RunBoth) -> None:
    _share(table, hoodie__write__num__retries__on__conflict__failures="2")
    more = f"UPDATE {{t}} SET price = price + 100 WHERE dt = '{DAYS[1]}'"
    ended = run_both(table, more, more)
    assert [each.returncode for each in ended] == [0, 0], [each.stderr for each in ended]
    found = table.rows("seq, price", f"dt = '{DAYS[1]}'")
    assert found == [(n, n + 200) for n in range(10, 20)]
    _assert_nothing_is_left(table, commits=2, rollbacks=1)


def test_inserts_into_one_partition_both_stand_unless_they_fill_up_the_same_file(
    table: ChangedTable, run_both: RunBoth
) -> None:
    _share(table, hoodie__parquet__small__file__limit="0")
    ended = run_both(
        table, *(f"INSERT INTO {{t}} (id, seq, dt) VALUES ('z{n}', 10{n}, '{DAYS[1]}')" for n in range(2))
    )
    assert [each.returncode for each in ended] == [0, 0], [each.stderr for each in ended]
    assert table.seqs("seq >= 100") == [100, 101]
    _assert_nothing_is_left(table, commits=2)


def _kill(table: ChangedTable, spark: Any, metastore_uri: str, step: int) -> None:
    """A writer of all slices that is killed before its `step`-th change of the store."""
    statement = f"UPDATE {table.name} SET price = -1"
    ended = run_with_fault(spark, metastore_uri, statement=statement, target=table.path, step=step)
    assert ended.returncode == -signal.SIGKILL


def test_a_writer_that_was_killed_is_cleared_up_after_once_its_heartbeat_is_old(
    table: ChangedTable, spark: Any, metastore_uri: str
) -> None:
    _share(table, hoodie__client__heartbeat__interval_in_ms="60000")
    # Lock, heartbeat, requested, inflight, unlock: then files are written, and strays are looked for.
    _kill(table, spark, metastore_uri, 5)
    (dead,) = open_at(table.path).timeline.pending
    assert table.orphans() != []
    table.run("INSERT INTO {t} (id, seq, dt) VALUES ('z', 1000, '2024-03-01')")
    assert open_at(table.path).timeline.pending == (dead,)
    beat = Path(table.path, ".hoodie", ".heartbeat", dead.timestamp)
    os.utime(beat, (time.time() - 121, time.time() - 121))
    table.run("INSERT INTO {t} (id, seq, dt) VALUES ('y', 1001, '2024-03-01')")
    assert table.seqs("price < 0") == []
    assert len(table.rows()) == ROWS + 2
    _assert_nothing_is_left(table, commits=2, rollbacks=1)


def test_a_lock_that_a_killed_writer_left_is_told_of_and_expires_if_that_is_set(
    table: ChangedTable, spark: Any, metastore_uri: str
) -> None:
    _share(table, hoodie__write__lock__filesystem__expire="1", hoodie__write__lock__client__num_retries="1")
    _kill(table, spark, metastore_uri, 1)
    lock = Path(table.path, ".hoodie", "lock")
    insert = "INSERT INTO {t} (id, seq, dt) VALUES ('z', 1000, '2024-03-01')"
    with pytest.raises(TableLockedError, match=r"lock .*/\.hoodie/lock: .*by hudisql .* process"):
        table.run(insert)
    os.utime(lock, (time.time() - 61, time.time() - 61))
    table.run(insert)
    assert table.seqs("seq >= 30") == [1000]
    _assert_nothing_is_left(table, commits=1)


def test_a_table_that_names_a_lock_hudisql_lacks_is_not_written(table: ChangedTable) -> None:
    before = sorted(Path(table.path).rglob("*"))
    provider = "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider"
    table.session.sql(
        f"ALTER TABLE {table.name} SET TBLPROPERTIES ('hoodie.write.lock.provider' = '{provider}')"
    )
    for statement in (
        "UPDATE {t} SET price = -1",
        "INSERT INTO {t} (id, seq, dt) VALUES ('z', 1, '2024-03-01')",
        "ALTER TABLE {t} ADD COLUMNS (more INT)",
        "TRUNCATE TABLE {t}",
    ):
        with pytest.raises(UnsupportedTableError, match="ZookeeperBasedLockProvider"):
            table.run(statement)
    assert sorted(Path(table.path).rglob("*")) == before
