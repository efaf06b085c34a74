"""Past states and changes in SQL: wherever a table can stand, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.context import Context
from hudisql.errors import (
    CorruptTableError,
    HollowCommitError,
    InvalidArgumentError,
    NoSuchInstantError,
    NoSuchStateError,
    NoSuchTableError,
    QueryError,
    UnsupportedStatementError,
    WriteConflictError,
)
from hudisql.services.archive.archive_action import archive_table
from hudisql.services.archive.archive_plan import ArchiveOptions
from hudisql.services.clean.clean_plan import CleanOptions
from hudisql.session import Session
from hudisql.sql.query.query_plan import create_view, prepare_query, run_query
from hudisql.sql.text.statements import Statement
from hudisql.write.transaction.concurrency import SINGLE_WRITER
from tests.opened import open_at
from tests.sql.changed_tables import ChangedTable, setting
from tests.sql.conftest import TablesInMemory

pytestmark = pytest.mark.spark

BOOTSTRAP = "00000000000001"


@pytest.fixture
def changed(tables: TablesInMemory, golden: Callable[[str], Any]) -> list[str]:
    """`db.c`: a table with a bootstrap, an upsert and a delete; gives their instants."""
    path = golden("cow_bootstrap_then_upsert_delete").table
    tables.add_hudi_table("db", "c", path)
    tables.add_hudi_table("db", "cleaned", golden("cow_savepoint_clean").table)
    return [commit.timestamp for commit in open_at(path).timeline.commits]


def rows(context: Context, text: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in run_query(context, text).collect()]


def test_a_version_can_stand_wherever_a_table_can(context: Context, changed: list[str]) -> None:
    now, upserted = len(rows(context, "SELECT id FROM db.c")), changed[1]
    (counts,) = rows(
        context,
        f"WITH first AS (SELECT id FROM db.c VERSION AS OF '{BOOTSTRAP}') SELECT "
        "(SELECT count(*) FROM first), count(a.id), count(b.id), count(old.id) "
        f"FROM db.c a FULL JOIN db.c FOR VERSION AS OF '{upserted}' AS b ON a.id = b.id "
        f"LEFT JOIN (SELECT id FROM db.c TIMESTAMP AS OF '{BOOTSTRAP}' old WHERE old.id < 'k000005') old "
        "ON old.id = b.id",
    )
    after_upsert = len(rows(context, f"SELECT id FROM db.c TIMESTAMP AS OF '{upserted}'"))
    # Hudi takes an instant time without quotes, too.
    assert len(rows(context, f"SELECT id FROM db.c TIMESTAMP AS OF {upserted}")) == after_upsert
    assert counts == (600, now, after_upsert, 5)
    create_view(context, f"CREATE TEMPORARY VIEW past AS SELECT id FROM db.c VERSION AS OF '{BOOTSTRAP}'")
    try:
        assert rows(context, "SELECT count(*) FROM past") == [(600,)]
        assert rows(context, f"SELECT count(*) FROM db.c VERSION AS OF {upserted}") == [(after_upsert,)]
    finally:
        context.spark.catalog.dropTempView("past")
    with pytest.raises(NoSuchInstantError, match=f"VERSION AS OF 3: .* its latest: .*{changed[-1]}"):
        run_query(context, "SELECT * FROM db.c VERSION AS OF 3")


@pytest.mark.usefixtures("changed")
def test_times_are_constant_expressions_of_the_session(context: Context) -> None:
    now = len(rows(context, "SELECT id FROM db.c"))
    for expression in ("current_timestamp()", "DATE'2030-01-01'", "current_date() + INTERVAL 30 YEARS"):
        assert rows(context, f"SELECT count(*) FROM db.c TIMESTAMP AS OF {expression}") == [(now,)]
    for expression in ("DATE'2024-01-01'", "'2024-01-01 12:00:00'", f"'{BOOTSTRAP}'"):
        assert rows(context, f"SELECT count(*) FROM db.c TIMESTAMP AS OF {expression}") == [(600,)]
    with pytest.raises((UnsupportedStatementError, QueryError)):
        run_query(context, "SELECT * FROM db.c TIMESTAMP AS OF 'yesterday evening'")
    with pytest.raises(UnsupportedStatementError, match="AS OF 202403011200001 is not a point in time"):
        run_query(context, "SELECT * FROM db.c TIMESTAMP AS OF 202403011200001")
    text = f"SELECT id FROM db.c TIMESTAMP AS OF '{BOOTSTRAP}' WHERE dt = '2024-03-01'"
    (scan,) = prepare_query(context, Statement(text)).scans
    assert scan.plan is not None
    assert scan.plan.partitions_read == 1
    assert ("as of", BOOTSTRAP) in scan.plan.describe()
    with pytest.raises(NoSuchStateError, match="the earliest remaining state is that of"):
        run_query(context, f"SELECT * FROM db.cleaned TIMESTAMP AS OF '{BOOTSTRAP}'")
    with pytest.raises(NoSuchStateError, match=f"its first commit, {BOOTSTRAP}, is the earliest state"):
        run_query(context, "SELECT * FROM db.c TIMESTAMP AS OF '00000000000000'")


def test_changes_are_rows_of_the_table_with_its_columns_and_filters(
    context: Context, changed: list[str]
) -> None:
    text = "SELECT {} FROM hudi_table_changes('db.c', 'latest_state', {}) {}"
    whole = rows(context, text.format("count(*)", "'earliest'", ""))
    assert whole == rows(context, "SELECT count(*) FROM db.c")
    since = text.format("x.k, x._hoodie_commit_time", f"'{BOOTSTRAP}', '{changed[1]}'", "AS x")
    since = since.replace("x.k", "x.id")
    found = rows(context, since)
    assert {row[1] for row in found} == {changed[1]}
    assert len(found) > 1
    filtered = text.format("id", f"'{BOOTSTRAP}'", "WHERE dt = '2000-01-01'")
    (scan,) = prepare_query(context, Statement(filtered)).scans
    assert scan.plan is not None
    assert scan.plan.partitions_read == 0
    # Times are of the session's zone; arguments may be any constants.
    assert rows(context, text.format("id", "current_timestamp()", "")) == []
    assert rows(context, text.format("count(*)", "'2024-01-01', concat('2099', '-01-01')", "")) != [(0,)]
    since = f"hudi_table_changes('db.c', 'latest_state', '{BOOTSTRAP}')"
    assert rows(context, f"SELECT count(*) FROM db.c JOIN {since} USING (id)") == rows(
        context, text.format("count(*)", f"'{BOOTSTRAP}'", "")
    )


@pytest.mark.usefixtures("changed")
def test_captured_changes_are_texts_of_before_and_after(context: Context) -> None:
    text = f"SELECT * FROM hudi_table_changes('db.c', 'cdc', '{BOOTSTRAP}') c(op, at, b, a) WHERE op != 'i'"
    found = rows(context, text)
    assert {row[0] for row in found} == {"u", "d"}
    updated = next(row for row in found if row[0] == "u")
    before, after = json.loads(updated[2]), json.loads(updated[3])
    assert before["id"] == after["id"]
    assert (before["note"], after["note"]) != (after["note"], before["note"])
    assert list(after) == open_columns(context)
    assert all(row[3] is None and json.loads(row[2])["id"] for row in found if row[0] == "d")
    assert rows(context, "SELECT * FROM hudi_table_changes('db.c', 'cdc', '20990101000000000')") == []


def open_columns(context: Context) -> list[str]:
    return [name for name in run_query(context, "SELECT * FROM db.c").columns if name[:8] != "_hoodie_"]


def test_the_timeline_and_the_file_slices_are_tables(context: Context, changed: list[str]) -> None:
    text = "SELECT Timestamp, Action, State, Total_Records_Written FROM hudi_query_timeline('db.cleaned')"
    found = rows(context, text)
    assert {row[1] for row in found} == {"commit", "savepoint", "clean"}
    assert all((row[3] == -1) == (row[1] in ("savepoint", "clean")) for row in found)
    slices = "SELECT Partition_Path, Base_Instant_Time FROM hudi_filesystem_view('db.c'{}) ORDER BY ALL"
    every = rows(context, slices.format(""))
    assert {row[1] for row in every} == {BOOTSTRAP, *changed[1:]}
    some = rows(context, slices.format(", '*03-01'"))
    assert some == [row for row in every if row[0] == "dt=2024-03-01"]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        ("hudi_table_changes('db.c', 'cdc')", InvalidArgumentError, "expect arguments .table_name or table"),
        ("hudi_table_changes('db.c', 'all', 'earliest')", InvalidArgumentError, "doesn't support `all`"),
        ("hudi_table_changes('db.c', 'cdc', NULL)", InvalidArgumentError, "is NULL"),
        ("hudi_table_changes('db.c', 'cdc', 'soon')", InvalidArgumentError, "'soon', which is not an"),
        ("hudi_table_changes('db.nope', 'cdc', '000')", NoSuchTableError, "no Hudi table db.nope"),
        ("hudi_table_changes('/no/where', 'cdc', '000')", NoSuchTableError, "/no/where"),
        (
            "hudi_query('db.c')",
            InvalidArgumentError,
            "expect arguments .table_name or table_path, query_type",
        ),
        ("hudi_query('db.c', 'incremental')", InvalidArgumentError, "'hudi_query' doesn't support `increm"),
        ("hudi_query_timeline('db.c', 'maybe')", InvalidArgumentError, "true or false"),
        ("hudi_filesystem_view()", InvalidArgumentError, "hudi_filesystem_view"),
    ],
)
@pytest.mark.usefixtures("changed")
def test_bad_calls_are_one_clear_error(
    context: Context, call: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        run_query(context, f"SELECT * FROM {call}").collect()


@pytest.mark.soak
@pytest.mark.hms
def test_past_states_are_sources_of_statements(session: Session, merge_on_read_table: ChangedTable) -> None:
    table = merge_on_read_table
    table.run("UPDATE {t} SET price = -1 WHERE seq < 3")
    table.run("DELETE FROM {t} WHERE seq = 4")
    now, (first, *later) = table.rows(), [each.split()[0] for each in table.instants()]
    past = f"SELECT * FROM {table.name} VERSION AS OF '{first}'"
    session.sql(f"CREATE TABLE changes.copied USING parquet AS {past}")
    try:
        count = "SELECT count(*), min(price) FROM changes.copied"
        assert [tuple(row) for row in session.sql(count).rows] == [(30, 0)]
    finally:
        session.sql("DROP TABLE changes.copied")
    # Undo what happened since the first commit.
    table.run(
        f"MERGE INTO {{t}} t USING (SELECT * FROM {table.name} TIMESTAMP AS OF '{first}') s ON t.id = s.id "
        "WHEN MATCHED AND t.price <> s.price THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert (len(table.seqs()), table.seqs("price < 0")) == (30, [])
    table.run(
        "INSERT OVERWRITE {t} SELECT id, seq, price, st, tags, at, dt FROM {t} VERSION AS OF "
        f"'{later[-1]}'"
    )
    assert table.rows() == now
    with setting(session, "hoodie.read.timeline.holes.resolution.policy", "BLOCK"):
        text = f"SELECT DISTINCT op FROM hudi_table_changes('{table.name}', 'cdc', '{first}', '{later[-1]}')"
        assert sorted(row[0] for row in session.sql(text).rows) == ["d", "u"]
    (pending := open_at(table.path)).storage.write(
        f"{pending.base_path}/.hoodie/{first[:-1]}2.deltacommit.requested", b""
    )
    with pytest.raises(HollowCommitError, match="is pending"):
        session.sql(f"SELECT * FROM hudi_table_changes('{table.name}', 'latest_state', '{first}')")


@pytest.mark.hms
def test_a_pull_takes_what_came_since_the_last_one(
    session: Session, table: ChangedTable, tmp_path: Path
) -> None:
    checkpoint = str(tmp_path / "checkpoint")

    def pull() -> list[Any]:
        with session.incremental(table.name, checkpoint) as found:
            return sorted(row.id for row in found.df.select("id").collect())

    assert len(pull()) == 30
    assert pull() == []
    table.run("UPDATE {t} SET price = -1 WHERE seq < 2")
    failed = session.incremental(table.name, checkpoint)
    with pytest.raises(ZeroDivisionError), failed:
        raise ZeroDivisionError
    assert not failed.is_empty
    table.run("INSERT INTO {t} (id, seq, dt) VALUES ('new', 99, '2024-03-01')")
    # What was planned before stays what it was.
    assert failed.df.count() == 2
    assert pull() == ["k00", "k01", "new"]
    with pytest.raises(WriteConflictError, match="another pull"):
        replace(failed, end=max(table.instants()).split()[0]).commit()
    other = session.incremental(table.name, str(tmp_path / "other"), begin=failed.end)
    assert [row.id for row in other.df.collect()] == ["new"]
    (path,) = tmp_path.glob(f"checkpoint/{failed.begin}.json")
    path.write_text('{"table": "/elsewhere", "end": "2"}')
    path.rename(tmp_path / "checkpoint/99990101000000000.json")
    with pytest.raises(CorruptTableError, match="belongs to the Hudi table at /elsewhere"):
        pull()
    with pytest.raises(NoSuchTableError, match=r"no Hudi table changes\.nope"):
        session.incremental("changes.nope", checkpoint)
    policy = setting(session, "hoodie.read.timeline.holes.resolution.policy", "USE_TRANSITION_TIME")
    with policy, pytest.raises(InvalidArgumentError, match="pulls keep instant times"):
        session.incremental(table.name, checkpoint)


@pytest.mark.hms
def test_a_past_state_has_files_of_a_clustering_that_ran_after_a_column_was_widened(
    session: Session, tmp_path: Path
) -> None:
    name = "widened_before_a_clustering"
    session.sql(
        f"CREATE TABLE {name} (id INT, c INT, d FLOAT, dt STRING) USING hudi PARTITIONED BY (dt) "
        f"LOCATION '{tmp_path}' TBLPROPERTIES (primaryKey = 'id')"
    )
    session.sql(f"INSERT INTO {name} VALUES (1, 10, 0.5, 'a')")
    session.sql(f"CALL run_clustering(op => 'schedule', table => '{name}')")
    session.sql(f"INSERT INTO {name} VALUES (2, 20, 1.5, 'b')")
    past = open_at(tmp_path).timeline.commits[-1].timestamp
    session.sql(f"ALTER TABLE {name} ALTER COLUMN c TYPE BIGINT")
    session.sql(f"UPDATE {name} SET c = 5000000000 WHERE id = 2")
    session.sql(f"CALL run_clustering(op => 'execute', table => '{name}')")
    found = session.sql(f"SELECT id, c, d FROM {name} TIMESTAMP AS OF '{past}' ORDER BY id").arrow()
    assert [tuple(row.values()) for row in found.to_pylist()] == [(1, 10, 0.5), (2, 20, 1.5)]
    assert found.schema.types == [pa.int32(), pa.int64(), pa.float32()]
    # The clustering is no longer on the timeline.
    session.sql(f"CALL run_clean(table => '{name}', retain_commits => 3)")
    archive_table(
        open_at(tmp_path), ArchiveOptions(3, 4, clean=CleanOptions(commits_retained=1)), SINGLE_WRITER
    )
    assert open_at(tmp_path).timeline.commits[0].timestamp == past
    assert session.sql(f"SELECT id, c, d FROM {name} TIMESTAMP AS OF '{past}' ORDER BY id").arrow() == found
    session.sql(f"DROP TABLE {name}")
