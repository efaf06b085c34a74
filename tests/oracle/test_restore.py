"""Savepoints, restores and rollbacks: what one of hudisql and Apache Hudi has begun the other completes."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from hudisql.format.avro.avro_container import load_codec
from hudisql.format.timeline.instant import InstantState
from hudisql.services.rollback.savepoint import read_savepoint
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.write.transaction.concurrency import FILE_SYSTEM_PROVIDER
from tests.oracle.client import HudiOracle, OracleError
from tests.oracle.comparison import assert_same_rows
from tests.oracle.line_process import LineProcess
from tests.oracle.shapes import SHAPES, bootstrap_shape
from tests.oracle.sources import sample_rows
from tests.soak import parameters
from tests.write.crashed_commits import crash

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

STORAGE = Storage()
SHAPE = next(shape for shape in SHAPES if shape.table_type == "MERGE_ON_READ")
SHARED = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": FILE_SYSTEM_PROVIDER,
    "hoodie.cleaner.policy.failed.writes": "LAZY",
}
COMPACTION = "hoodie.metadata.enable=false,hoodie.compact.inline.max.delta.commits=1"


@dataclass
class RestoredTable:
    """A bootstrapped merge-on-read table, changed and restored by both."""

    session: Any
    oracle: HudiOracle
    name: str
    path: str

    @property
    def opened(self) -> HudiTable:
        return open_table(STORAGE, self.path)

    def call(self, by: str, procedure: str, arguments: str = "") -> list[tuple[Any, ...]]:
        """The rows of a procedure that takes `path`."""
        text = f"CALL {procedure}(path => '{self.path}'{arguments})"
        if by == "hudisql":
            return [tuple(row) for row in self.session.sql(text).rows]
        return [tuple(row.values()) for row in self.oracle.sql(text).to_pylist()]

    def notes(self) -> dict[int, str]:
        """The rows, which both read alike."""
        theirs = self.oracle.read(self.path)
        assert_same_rows(self.session.sql(f"SELECT * FROM {self.name}").arrow(), theirs, sort_by=["seq"])
        return dict(zip(theirs["seq"].to_pylist(), theirs["note"].to_pylist(), strict=True))

    def update(self, by: str, remainder: int) -> None:
        """Change the note of every thirteenth row."""
        if by == "hudisql":
            self.session.sql(f"UPDATE {self.name} SET note = 'again' WHERE seq % 13 = {remainder}")
            return
        rows = SHAPE.with_partition_columns(sample_rows(remainder, remainder + 1))
        self.oracle.upsert(rows, self.path, {**SHAPE.write_options(), "hoodie.compact.inline": "false"})

    def change_in_every_way(self) -> None:
        """Log files, a planned compaction that is run beside them, a new partition, and its overwrite."""
        self.session.sql(f"DELETE FROM {self.name} WHERE seq % 7 = 0")
        self.call("hudi", "run_compaction", f", op => 'schedule', options => '{COMPACTION}'")
        self.session.sql(f"UPDATE {self.name} SET note = 'later' WHERE seq % 5 = 1")
        self.call("hudi", "run_compaction", f", op => 'run', options => '{COMPACTION}'")
        columns = "* EXCEPT (dt)"
        select = f"SELECT {columns}, '2024-04-01' FROM {self.name} WHERE seq % 3 = 1"
        self.session.sql(f"INSERT OVERWRITE {self.name} PARTITION (dt) {select}")


@pytest.fixture
def table(oracle_015: HudiOracle, session: Any, tmp_path: Path) -> RestoredTable:
    made = bootstrap_shape(session, SHAPE, tmp_path)
    # Hudi's own procedures turn the metadata table on.
    oracle_015.sql("SET hoodie.metadata.enable = false")
    session.sql(f"UPDATE oracle.{SHAPE.name} SET note = 'updated' WHERE seq % 5 = 0")
    return RestoredTable(session, oracle_015, f"oracle.{SHAPE.name}", made.path)


@pytest.mark.parametrize(
    ("saver", "restorer"),
    parameters(product(("hudisql", "hudi"), repeat=2), in_ci=[]),
)
def test_a_savepoint_of_one_is_restored_by_the_other(
    table: RestoredTable, oracle_120: HudiOracle, saver: str, restorer: str
) -> None:
    before = table.notes()
    assert table.call(saver, "create_savepoint", ", user => 'me', comments => 'why'") == [(True,)]
    (saved,) = table.opened.timeline.savepoints
    found = read_savepoint(table.opened, saved)
    assert (found.user, found.comments) == ("me", "why")
    assert all(Path(table.path, path, name).exists() for path, names in found.files.items() for name in names)
    table.change_in_every_way()
    assert table.notes() != before
    assert table.call(restorer, "rollback_to_savepoint") == [(True,)]
    assert table.notes() == before
    timeline = table.opened.timeline
    assert timeline.pending == ()
    assert [each.action for each in timeline.instants if each.timestamp > saved] == ["restore"]
    assert_same_rows(oracle_120.read(table.path), table.oracle.read(table.path), sort_by=["seq"])
    for by in ("hudisql", "hudi"):
        assert table.call(by, "show_savepoints") == [(saved,)]
    # Both go on, and the latest commit is rolled back.
    table.update("hudisql", 1)
    table.update("hudi", 2)
    expected = table.notes()
    assert expected[1] == "again"
    table.update(saver, 3)
    latest = table.opened.timeline.commits[-1].timestamp
    call = f"CALL rollback_to_instant(table => '{table.name}', instant_time => '{latest}')"
    assert [tuple(row) for row in table.session.sql(call).rows] == [(True,)]
    assert table.notes() == expected
    table.update("hudi", 4)
    table.notes()


@pytest.mark.soak
def test_an_interrupted_restore_of_one_is_completed_by_the_other(
    table: RestoredTable, committer: LineProcess, tmp_path: Path
) -> None:
    before = table.notes()
    table.call("hudisql", "create_savepoint")
    table.change_in_every_way()
    changed = tmp_path / "changed"
    shutil.copytree(table.path, changed)
    # A completed instant is inflight again; it is deleted, and its rollback is not complete.
    for left in ({"restore", "rollback", "replacecommit"}, {"restore", "rollback"}):
        step = 0
        while {each.action for each in table.opened.timeline.pending} != left or step < 5:
            shutil.rmtree(table.path)
            shutil.copytree(changed, table.path)
            assert crash(committer, table.path, step, action="restore")
            step += 1
        (restore,) = [each for each in table.opened.timeline.pending if each.action == "restore"]
        assert table.call("hudi", "rollback_to_savepoint") == [(True,)]
        assert table.notes() == before
        assert table.opened.timeline.pending == ()
    path = table.opened.instant_path(restore.in_state(InstantState.COMPLETED))
    assert load_codec("HoodieRestoreMetadata").decode(STORAGE.read(path), path)["instantsToRollback"]
    # The plan of Apache Hudi's, and a table of which nothing is rolled back yet.
    shutil.rmtree(table.path)
    shutil.copytree(changed, table.path)
    table.call("hudi", "rollback_to_savepoint")
    (restored,) = [each for each in table.opened.timeline.completed if each.action == "restore"]
    plan = Path(table.opened.instant_path(restored.in_state(InstantState.REQUESTED)))
    shutil.copy(plan, changed / ".hoodie" / plan.name)
    shutil.rmtree(table.path)
    shutil.copytree(changed, table.path)
    assert table.call("hudisql", "rollback_to_savepoint") == [(True,)]
    assert table.notes() == before


@pytest.mark.soak
def test_hudisql_completes_a_restore_that_hudi_refuses_beside_a_commit_in_flight(
    table: RestoredTable, committer: LineProcess
) -> None:
    before = table.notes()
    table.call("hudisql", "create_savepoint")
    assert crash(committer, table.path, 6, is_shared=True)
    assert [each.state for each in table.opened.timeline.pending] == [InstantState.INFLIGHT]
    for key, value in SHARED.items():
        table.session.sql(f"SET {key} = {value}")
    table.update("hudisql", 1)
    for key in SHARED:
        table.session.sql(f"RESET {key}")
    with pytest.raises(OracleError, match="Found in-flight commits after time"):
        table.call("hudi", "rollback_to_savepoint")
    assert {each.action for each in table.opened.timeline.pending} == {"deltacommit", "restore", "rollback"}
    assert table.call("hudisql", "rollback_to_savepoint") == [(True,)]
    assert table.opened.timeline.pending == ()
    assert table.notes() == before


@pytest.mark.soak
def test_an_interrupted_rollback_is_completed_by_the_next_write_of_the_other(
    table: RestoredTable, committer: LineProcess, tmp_path: Path
) -> None:
    expected = table.notes()
    table.update("hudisql", 1)
    latest = table.opened.timeline.commits[-1].timestamp
    changed = tmp_path / "changed"
    shutil.copytree(table.path, changed)
    for step in (2, 4, 6):
        shutil.rmtree(table.path)
        shutil.copytree(changed, table.path)
        assert crash(committer, table.path, step, action="rollback", instant=latest)
        table.update("hudi", 2)
        timeline = table.opened.timeline
        assert timeline.pending == ()
        assert latest not in {each.timestamp for each in timeline.instants}
        assert {seq: note for seq, note in table.notes().items() if seq != 2} == {
            seq: note for seq, note in expected.items() if seq != 2
        }
