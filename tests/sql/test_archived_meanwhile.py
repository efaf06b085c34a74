"""Statements of all kinds while another writer archives what they have listed and not read yet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from hudisql.console import SilentConsole
from hudisql.context import Context
from hudisql.session import Session
from hudisql.table.timeline.schema_texts import forget_schema_texts
from hudisql.write.transaction.concurrency import FILE_SYSTEM_PROVIDER
from tests.fault_injection import ArchivingStorage
from tests.soak import parameters
from tests.sql.changed_tables import database_fixture, setting

pytestmark = [pytest.mark.spark, pytest.mark.hms]

SHARED = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": FILE_SYSTEM_PROVIDER,
    "hoodie.write.num.retries.on.conflict.failures": "3",
    "hoodie.keep.min.commits": "1000",
    "hoodie.keep.max.commits": "1001",
}


database = database_fixture("archived_meanwhile", scope="module")


class _StrictConsole(SilentConsole):
    """A service that fails after a commit is a warning: here an error."""

    def warning(self, text: str) -> None:
        raise AssertionError(text)


@dataclass
class WatchedTable:
    """A table of four rows in two partitions; another process archives while `session` uses it."""

    session: Session
    storage: ArchivingStorage
    name: str
    instants: list[str]

    def run(self, text: str) -> list[tuple[object, ...]]:
        """The rows that the statement gives; an archiver has come between."""
        # This process has read and written the schemas of all instants.
        forget_schema_texts()
        with self.storage.archives_meanwhile() as gone:
            rows = [tuple(row) for row in self.session.sql(text.replace("{t}", self.name)).rows]
        assert gone, f"{text} has read no instant"
        return rows

    def values(self) -> dict[int, int]:
        return {row.id: row.v for row in self.session.sql(f"SELECT id, v FROM {self.name}").rows}


@contextmanager
def _watched(session: Session, database: str, path: Path, kind: str, version: int) -> Iterator[WatchedTable]:
    name = f"{database}.t{uuid4().hex[:8]}"
    session.sql(
        f"CREATE TABLE {name} (id INT, v INT, p STRING) USING hudi PARTITIONED BY (p) LOCATION '{path}' "
        f"TBLPROPERTIES (type = '{kind}', primaryKey = 'id', 'hoodie.write.table.version' = '{version}', "
        f"{', '.join(f'{key!r} = {value!r}' for key, value in SHARED.items())})"
    )
    instants = [
        session.sql(f"INSERT INTO {name} VALUES ({key}, {key}, 'p{key % 2}')").rows[0].instant
        for key in range(4)
    ]
    storage = ArchivingStorage(base_path=str(path))
    context = session.context
    own = Context(context.spark, context.metastore, storage, context.settings, _StrictConsole())
    yield WatchedTable(Session(own, borrows=True), storage, name, instants)
    session.sql(f"DROP TABLE {name}")


@pytest.mark.parametrize(
    ("kind", "version"),
    parameters([("cow", 6), ("mor", 6), ("cow", 9), ("mor", 9)], in_ci=[("mor", 9)]),
)
def test_statements_go_on(session: Session, database: str, tmp_path: Path, kind: str, version: int) -> None:
    with _watched(session, database, tmp_path / "t", kind, version) as table:
        first = table.instants[0]
        changes = f"hudi_table_changes('{table.name}', 'cdc', '{first}', '{table.instants[-1]}')"
        assert len(table.run(f"SELECT * FROM {changes}")) == 3
        table.run("INSERT INTO {t} VALUES (4, 4, 'p0')")
        table.run("UPDATE {t} SET v = v + 10 WHERE id = 1")
        table.run("DELETE FROM {t} WHERE id = 2")
        table.run(
            "MERGE INTO {t} t USING (VALUES (3, 33), (5, 55)) s(id, v) ON t.id = s.id WHEN MATCHED THEN "
            "UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v, p) VALUES (s.id, s.v, 'p1')"
        )
        expected = {0: 0, 1: 11, 3: 33, 4: 4, 5: 55}
        assert table.values() == expected
        assert len(table.run("SELECT id FROM {t}")) == len(expected)
        table.run("CALL show_commits(table => '{t}')")
        with setting(session, "hoodie.cleaner.commits.retained", "1"):
            table.run("INSERT INTO {t} VALUES (7, 7, 'p0')")
            table.run("CALL run_clean(table => '{t}', retain_commits => 1)")
        with (
            setting(session, "hoodie.keep.min.commits", "2"),
            setting(session, "hoodie.keep.max.commits", "3"),
        ):
            table.run("INSERT INTO {t} VALUES (8, 8, 'p0')")
        assert table.values() == {**expected, 7: 7, 8: 8}
        table.run("INSERT OVERWRITE {t} PARTITION (p = 'p0') VALUES (6, 6)")
        assert table.values() == {1: 11, 3: 33, 5: 55, 6: 6}
