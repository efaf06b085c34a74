"""One process that looks after several tables of a real metastore, and what CALL show_services says."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hudisql.catalog.metastore_table import main_entries
from hudisql.config.settings import Settings
from hudisql.console import SilentConsole
from hudisql.context import Context
from hudisql.errors import InvalidArgumentError, NoSuchTableError
from hudisql.service_process.tables.run_services import (
    REFRESH_SECONDS,
    RegisteredTable,
    ServedTables,
    TableRegistry,
    run_services,
    served_entries,
)
from hudisql.services.schedule.due_services import Service
from hudisql.session import Session
from hudisql.storage import Storage
from tests.opened import open_at
from tests.service_process.tables.test_table_watch import CountingStorage
from tests.services.schedule.test_service_loop import Lines
from tests.sql.changed_tables import ChangedTable

pytestmark = [pytest.mark.spark, pytest.mark.hms]


class LazySpark:
    """The suite's parts, of which Spark counts as started when it is first asked for."""

    has_catalog = False

    def __init__(self, session: Session) -> None:
        self._spark: Any = session.context.spark
        self.metastore = session.context.metastore
        self.started_metastore = session.context.started_metastore
        self.started_spark: Any = None

    @property
    def spark(self) -> Any:
        self.started_spark = self._spark
        return self._spark

    @property
    def spark_without_catalog(self) -> Any:
        return self.spark

    @property
    def storage(self) -> Storage:
        return Storage()


def _context(session: Session, **conf: str) -> tuple[Context, LazySpark, Lines]:
    parts, console = LazySpark(session), Lines()
    settings = Settings(conf={name.replace("__", "."): value for name, value in conf.items()})
    given: Any = parts
    return Context.of_parts(given, settings, console), parts, console


def _run_once(context: Context, *names: str) -> bool:
    return run_services(context, ServedTables(names), threading.Event(), once=True)


def _properties(table: ChangedTable, **settings: str) -> None:
    pairs = ", ".join(f"'{name.replace('__', '.')}' = '{value}'" for name, value in settings.items())
    table.session.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ({pairs})")


def _shown(session: Session, arguments: str) -> dict[str, Any]:
    rows = session.sql(f"CALL show_services({arguments})").rows
    return {f"{row.table.rpartition('.')[2]} {row.service}": row for row in rows}


@pytest.fixture
def copy_on_write(session: Session, bootstrapped_original: Path, tmp_path: Path) -> Iterator[ChangedTable]:
    yield from _registered(session, bootstrapped_original, tmp_path / "served_cow", "served_cow")


@pytest.fixture
def broken(session: Session, bootstrapped_original: Path, tmp_path: Path) -> Iterator[ChangedTable]:
    for table in _registered(session, bootstrapped_original, tmp_path / "served_broken", "served_broken"):
        Path(table.path, ".hoodie", "hoodie.properties").unlink()
        yield table


def _registered(session: Session, original: Path, path: Path, name: str) -> Iterator[ChangedTable]:
    shutil.copytree(original / "table", path)
    session.sql(f"CALL hive_sync(table => 'changes.{name}', path => '{path}')")
    yield ChangedTable(session, f"changes.{name}", str(path))
    session.context.metastore.drop_table("changes", name)


def test_due_services_of_several_tables_run_and_a_broken_one_is_reported(
    merge_on_read_table: ChangedTable, copy_on_write: ChangedTable, broken: ChangedTable
) -> None:
    session, logs, cow = merge_on_read_table.session, merge_on_read_table, copy_on_write
    logs.run("DELETE FROM {t} WHERE seq % 10 = 0")
    _properties(logs, hoodie__compact__inline__max__delta__commits="2")
    for number in range(3):
        cow.run(f"UPDATE {{t}} SET price = {number} WHERE seq = 1")
    _properties(cow, hoodie__cleaner__commits__retained="1")
    before, rows, changed = len(list(Path(cow.path).rglob("*.parquet"))), logs.rows("*"), cow.rows("*")

    shown = _shown(session, "database => 'changes'")
    assert shown["m compaction"].is_due
    assert shown["m compaction"].reason == "2 of 2 delta commits since the last compaction"
    assert shown["served_cow clean"].is_due
    assert "unknown" in shown["served_broken clean"].reason
    assert "m_ro clean" not in shown, "a table is shown once, whatever names it has"

    context, parts, console = _context(session)
    assert not _run_once(context, cow.name, broken.name)
    assert parts.started_spark is None, "a clean needs no Spark"
    (cleaned,) = [line for line in console.infos if " clean " in line]
    assert cleaned.startswith(f"{cow.name}: clean (4 commits since the last clean, due at 1): ")
    assert "2 files deleted" in cleaned
    assert before - len(list(Path(cow.path).rglob("*.parquet"))) == 2
    (failed,) = console.warnings
    assert failed.startswith(f"{broken.name}: look failed: ")

    assert _run_once(context, cow.name, logs.name)
    assert parts.started_spark is not None
    assert "3 file slices merged" in console.infos[-1]
    assert _run_once(context, cow.name, logs.name)
    assert len([line for line in console.infos if "compaction" in line]) == 1
    after = logs.rows("*")
    assert [row[:4] + row[5:] for row in after] == [row[:4] + row[5:] for row in rows]
    assert cow.rows("*") == changed

    row = _shown(session, f"table => '{logs.name}', filter => 'service = \"compaction\"'")["m compaction"]
    compacted = open_at(logs.path).timeline.commits[-1]
    assert (row.last_instant, row.is_due, row.pending) == (compacted.timestamp, False, None)
    assert row.last_completed >= row.last_instant
    assert row.reason == "0 of 2 delta commits since the last compaction"


def test_settings_are_those_of_the_command_line_then_of_the_table(merge_on_read_table: ChangedTable) -> None:
    session, table = merge_on_read_table.session, merge_on_read_table
    table.run("DELETE FROM {t} WHERE id = 'k00'")
    _properties(table, hoodie__compact__inline__max__delta__commits="3")
    by_default, _, console = _context(session)
    assert _run_once(by_default, table.name)
    assert console.infos == ["maintaining 1 Hudi table"]
    one, _, console = _context(session, hoodie__compact__inline__max__delta__commits="1")
    assert _run_once(one, table.name)
    assert f"{table.name}: compaction" in console.infos[-1]
    # A planned clustering runs whether clusterings are planned by themselves or not.
    session.sql(f"CALL run_clustering(table => '{table.name}', op => 'schedule')")
    (plan,) = session.sql(f"CALL show_clustering('{table.name}')").rows
    shown = _shown(session, f"table => '{table.name}'")["m clustering"]
    assert (shown.is_due, shown.pending) == (True, plan.timestamp)
    rows = table.rows()
    assert _run_once(by_default, table.name)
    assert session.sql(f"CALL show_clustering('{table.name}')").rows[0].state == "COMPLETED"
    assert table.rows() == rows


def test_an_idle_look_opens_nothing_and_asks_no_metastore(copy_on_write: ChangedTable) -> None:
    session, storage = copy_on_write.session, CountingStorage()
    (entry,) = served_entries(session.context, ServedTables((copy_on_write.name,)))
    nothing: Any = None
    context = Context.of_parts(nothing, Settings(), SilentConsole())
    lazy: Any = LazySpark(session)
    context._parts = lazy
    table = RegisteredTable(context, storage, entry, lambda: False)
    first = table.look()
    then = time.time() - 10
    os.utime(Path(copy_on_write.path, ".hoodie"), (then, then))
    table.look()
    context._parts = nothing
    storage.calls.clear()
    assert [table.look() for _ in range(5)] == [first] * 5
    assert storage.calls == {"info": 5}
    assert not any(state.is_due for state in first.states)


def test_the_list_of_tables_is_renewed_and_those_that_stay_keep_what_was_seen(
    session: Session, copy_on_write: ChangedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, (context, _, console) = [0.0], _context(session)
    registry = TableRegistry(context, ServedTables(database="changes"), lambda: False, lambda: now[0])
    first = {each.name: each for each in registry.tables()}
    assert copy_on_write.name in first
    now[0] += REFRESH_SECONDS
    again = {each.name: each for each in registry.tables()}
    assert all(again[name] is table for name, table in first.items())
    _properties(copy_on_write, hoodie__clean__automatic="false")
    assert registry.tables()[0] is again[registry.tables()[0].name]
    now[0] += REFRESH_SECONDS
    renewed = {each.name: each for each in registry.tables()}
    assert renewed[copy_on_write.name] is not first[copy_on_write.name]
    session.context.metastore.drop_table("changes", "served_cow")
    now[0] += REFRESH_SECONDS
    assert copy_on_write.name not in {each.name for each in registry.tables()}
    with pytest.raises(NoSuchTableError, match="was dropped"):
        renewed[copy_on_write.name].run(Service.CLEAN)
    named = TableRegistry(context, ServedTables((copy_on_write.name,)), lambda: False, lambda: now[0])
    with pytest.raises(NoSuchTableError):
        named.tables()
    monkeypatch.setattr(registry, "served", ServedTables(database="nowhere"))
    now[0] += REFRESH_SECONDS
    assert registry.tables()
    assert console.warnings == [
        "the list of tables could not be refreshed: the metastore has no database nowhere"
    ]


def test_bad_arguments_are_one_error(session: Session) -> None:
    context, _, _ = _context(session)
    for settings in ({"interval": 0.0}, {"parallelism": 0}):
        with pytest.raises(InvalidArgumentError, match="must be above 0"):
            run_services(context, ServedTables(), threading.Event(), once=True, **settings)
    with pytest.raises(InvalidArgumentError, match="table or database, not both"):
        session.sql("CALL show_services(table => 'a.b', database => 'a')")
    with pytest.raises(NoSuchTableError, match="no database nowhere"):
        session.sql("CALL show_services(database => 'nowhere')")


def test_a_table_with_several_entries_is_served_once(
    session: Session, merge_on_read_table: ChangedTable
) -> None:
    client = session.context.metastore
    names = [name for name in client.list_tables("changes") if name in ("m", "m_ro", "m_rt")]
    assert len(names) > 1
    assert [each.name for each in main_entries(client.get_tables("changes", names), Storage())] == ["m"]
    assert client.get_tables("changes", ["absent"]) == []
    assert merge_on_read_table.name == "changes.m"


@pytest.mark.soak
def test_commits_of_other_writers_are_published(copy_on_write: ChangedTable) -> None:
    session, name = copy_on_write.session, copy_on_write.name
    _properties(copy_on_write, hudisql__iceberg__sync="true")
    session.sql("SET hudisql.iceberg.sync = false")
    copy_on_write.run("UPDATE {t} SET price = 1 WHERE seq = 1")
    session.sql("RESET hudisql.iceberg.sync")
    due = _shown(session, f"table => '{name}'")["served_cow publication"]
    assert (due.is_due, due.reason) == (True, "1 commit since the last publication")
    context, parts, console = _context(session)
    assert _run_once(context, name)
    assert parts.started_spark is None, "a publication needs no Spark"
    [line] = [line for line in console.infos if " publication " in line]
    latest = open_at(copy_on_write.path).timeline.commits[-1].timestamp
    assert f": {latest}, " in line
    published = _shown(session, f"table => '{name}'")["served_cow publication"]
    assert (published.is_due, published.last_instant) == (False, latest)
    assert session.sql(f"CALL sync_iceberg(table => '{name}')").rows[0].result == "already published"
