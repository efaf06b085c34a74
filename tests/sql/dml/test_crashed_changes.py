"""Changes crashed at their steps: readers see before or after, and the next writer clears up."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import StorageError
from hudisql.storage import Storage
from hudisql.table.hudi_table import open_table
from hudisql.write.transaction.commit import begin_commit, discard_empty_commit
from hudisql.write.transaction.failed_writes import roll_back_failed_writes
from tests.fault_injection import run_with_fault, wait_for_late_tasks
from tests.opened import open_at
from tests.sql.changed_tables import ROWS, ChangedTable

pytestmark = [pytest.mark.spark, pytest.mark.hms]

UPDATE = "UPDATE {t} SET price = price - 1 WHERE seq % 10 < 5"
STATEMENTS = {
    "update": UPDATE,
    "merge": "MERGE INTO {t} t USING (SELECT * FROM {t} WHERE seq < 1000) s "
    "ON t.id = s.id WHEN MATCHED AND s.seq = 3 THEN DELETE WHEN MATCHED THEN UPDATE SET price = t.price - 1",
    "insert": "INSERT INTO {t} (id, seq, price, dt) SELECT id, seq, price - 1, dt FROM {t} WHERE seq < 1000 "
    "UNION ALL SELECT 'i' || id, seq, 0, dt FROM {t} WHERE seq < 12",
    "overwrite": "INSERT OVERWRITE {t} (id, seq, price, dt) SELECT id, seq, price - 1, dt FROM {t}",
}


Crash = Callable[[str, str, str, int], bool]


@pytest.fixture
def crash(request: pytest.FixtureRequest, spark: Any, metastore_uri: str) -> Crash:
    """`crash(kind, statement, process, step)`: a crash, then what must hold; False if there was none."""
    inserted = count(1000)

    def run(kind: str, statement: str, process: str, step: int) -> bool:
        table: ChangedTable = request.getfixturevalue(kind)
        before, commits = table.rows(), _commits(table)
        ended = run_with_fault(
            spark,
            metastore_uri,
            statement=STATEMENTS[statement].replace("{t}", table.name),
            target=table.path,
            process=process,
            step=step,
        )
        seen = table.rows()
        assert (seen == before) is (_commits(table) == commits)
        if ended.returncode == 1:
            assert re.search("exited unexpectedly|crashed", ended.stderr), ended.stderr
            assert open_at(table.path).timeline.pending == ()
        seq = next(inserted)
        table.run(f"INSERT INTO {{t}} (id, seq, dt) VALUES ('z{seq}', {seq}, '2024-03-01')")
        assert table.rows() == sorted([*seen, (f"z{seq}", seq, None, "2024-03-01")])
        # Tasks go on although their driver is dead; they delete the files that they finish too late.
        wait_for_late_tasks(spark)
        discard_empty_commit(begin_commit(open_at(table.path), "UPSERT"))
        assert table.orphans() == []
        assert list((Path(table.path) / ".hoodie" / ".temp").iterdir()) == []
        return ended.returncode != 0

    return run


def _commits(table: ChangedTable) -> int:
    return len([each for each in table.instants() if not each.endswith("rollback")])


@pytest.mark.parametrize(
    ("kind", "statement", "process", "step"),
    [
        ("table", "update", "driver", 1),
        ("merge_on_read_table", "update", "worker", 1),
    ],
)
def test_a_crashed_change_is_seen_atomically(
    crash: Crash, kind: str, statement: str, process: str, step: int
) -> None:
    assert crash(kind, statement, process, step)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["table", "merge_on_read_table"])
@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize(("process", "steps"), [("driver", 6), ("worker", 2)])
def test_a_change_crashed_at_any_step_is_seen_atomically(
    crash: Crash, kind: str, statement: str, process: str, steps: int
) -> None:
    step = 0
    while crash(kind, statement, process, step):
        step += 1
    assert step >= steps


def test_what_was_begun_and_never_ended_is_rolled_back_by_the_next_writer(table: ChangedTable) -> None:
    storage = Storage()
    pending = begin_commit(open_table(storage, table.path), "UPSERT")
    assert table.run(UPDATE)["updated"] == 15
    kinds = [each.split()[1] for each in table.instants()]
    assert kinds == ["commit", "rollback", "commit"]
    assert pending.instant_time not in str(list(Path(table.path, ".hoodie").iterdir()))


def test_a_rollback_that_was_interrupted_is_ended(
    table: ChangedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Storage()
    begin_commit(open_table(storage, table.path), "UPSERT")
    create, created = Storage.create, []

    def create_two(self: Storage, path: str, content: bytes) -> None:
        created.append(path)
        if len(created) > 2:
            raise StorageError("injected fault")
        create(self, path, content)

    with monkeypatch.context() as patched:
        patched.setattr(Storage, "create", create_two)
        with pytest.raises(StorageError, match="injected fault"):
            roll_back_failed_writes(open_table(storage, table.path))
    assert [each.action for each in open_table(storage, table.path).timeline.pending] == ["rollback"]
    table.run(UPDATE)
    assert [each.split()[1] for each in table.instants()] == ["commit", "rollback", "commit"]
    assert open_table(storage, table.path).timeline.pending == ()
    assert len(table.rows()) == ROWS


def test_two_writers_that_read_the_same_table_cannot_both_commit(table: ChangedTable) -> None:
    from hudisql.errors import WriteConflictError

    early = open_at(table.path)
    table.run(UPDATE)
    with pytest.raises(WriteConflictError, match="another writer has committed"):
        begin_commit(early, "UPSERT")
