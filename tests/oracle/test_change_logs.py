"""Tables with change logs (`hoodie.table.cdc.enabled`): Hudi's `cdc` queries read what hudisql wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import WriteRefusedError
from hudisql.format.table_properties import CDC_ENABLED, CDC_MODE, parse_properties
from hudisql.table.timeline.instant_files import read_commit
from tests.opened import open_at
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.test_history import assert_same_captures

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

MODES = ("data_before_after", "data_before", "op_key_only")
CASES = [(kind, mode, version) for kind in ("cow", "mor") for mode in MODES for version in (6, 9)]
COLUMNS = (
    "id INT, seq BIGINT, note STRING, price DECIMAL(10, 2), st STRUCT<a: INT, b: ARRAY<STRING>>, dt STRING"
)
# Of each partition that is replaced or dropped one row is left: 0.15 repeats one of several deleted rows.
STATEMENTS = (
    "INSERT INTO {t} VALUES (1, 1, 'a', 1.25, named_struct('a', 1, 'b', array('x', NULL)), 'x'), "
    "(2, 1, 'b', 2.25, NULL, 'x'), (3, 1, NULL, 3.25, NULL, 'y'), (4, 1, 'd', 4.25, NULL, 'y')",
    "UPDATE {t} SET note = 'updated' WHERE id IN (1, 3)",
    "DELETE FROM {t} WHERE id = 2",
    "MERGE INTO {t} USING (SELECT * FROM VALUES (1, 2), (3, 2), (5, 2) AS v(id, seq)) s ON {t}.id = s.id "
    "WHEN MATCHED AND s.id = 3 THEN DELETE WHEN MATCHED THEN UPDATE SET seq = s.seq, note = 'merged' "
    "WHEN NOT MATCHED THEN INSERT (id, seq, note, dt) VALUES (s.id, s.seq, 'new', 'z')",
    "INSERT OVERWRITE {t} PARTITION (dt = 'x') SELECT 7, 1, 'over', 7.0, NULL",
    "INSERT INTO {t} VALUES (8, 1, 'small file', 8.0, NULL, 'z')",
    "CALL run_clustering(table => '{t}')",
    "UPDATE {t} SET note = 'clustered' WHERE dt = 'z'",
    "DELETE FROM {t} WHERE dt = 'y'",
    "ALTER TABLE {t} DROP PARTITION (dt = 'x')",
)
# Merge-on-read: a row of a key that the log file before has deleted.
INSERTED_AGAIN = (
    "MERGE INTO {t} USING (SELECT 2 AS id) s ON {t}.id = s.id WHEN NOT MATCHED THEN "
    "INSERT (id, seq, note, dt) VALUES (s.id, 2, 'again', 'x')",
    "DELETE FROM {t} WHERE id = 2",
)
ONE_LOG = "hoodie.compact.inline.max.delta.commits=1"
COMPACT = f"CALL run_compaction(op => 'scheduleandexecute', table => '{{t}}', options => '{ONE_LOG}')"
COMPACTED = (
    COMPACT,
    "UPDATE {t} SET note = 'compacted' WHERE id = 8",
    "DELETE FROM {t} WHERE id = 5",
)


@pytest.fixture
def logged(session: Any) -> Iterator[None]:
    session.sql("CREATE DATABASE logged")
    yield
    session.sql("DROP DATABASE logged CASCADE")


def make(session: Any, path: Path, *, kind: str, mode: str, version: int = 6, more: str = "") -> None:
    session.sql(
        f"CREATE TABLE logged.t ({COLUMNS}) USING hudi PARTITIONED BY (dt) LOCATION '{path}' TBLPROPERTIES "
        f"(primaryKey = 'id', type = '{kind}', '{CDC_ENABLED}' = 'true', '{CDC_MODE}' = '{mode}', "
        f"'hoodie.write.table.version' = '{version}'{more})"
    )


def check_captures(session: Any, oracle: HudiOracle, path: Path) -> None:
    text = f"SELECT * FROM hudi_table_changes('{path}', 'cdc', 'earliest')"
    assert_same_captures(session.sql(text).arrow(), oracle.sql(text))


@pytest.mark.soak
@pytest.mark.usefixtures("logged")
@pytest.mark.parametrize(("kind", "mode", "version"), CASES)
def test_hudis_cdc_queries_read_the_changes_of_all_statements(
    session: Any, request: pytest.FixtureRequest, tmp_path: Path, kind: str, mode: str, version: int
) -> None:
    oracle: HudiOracle = request.getfixturevalue("oracle_015" if version == 6 else "oracle_120")
    path = tmp_path / "t"
    make(session, path, kind=kind, mode=mode, version=version)
    merge_on_read = (*STATEMENTS[:3], *INSERTED_AGAIN, *STATEMENTS[3:], *COMPACTED)
    for statement in merge_on_read if kind == "mor" else STATEMENTS:
        session.sql(statement.format(t="logged.t"))
    check_captures(session, oracle, path)
    rows = session.sql("SELECT * FROM logged.t").arrow()
    assert_same_rows(rows, oracle.read(str(path)), sort_by=["id"])


@pytest.mark.soak
@pytest.mark.usefixtures("logged")
@pytest.mark.parametrize(("kind", "mode"), [(kind, mode) for kind in ("cow", "mor") for mode in MODES])
def test_a_table_of_hudis_is_written_by_both(
    session: Any, oracle_015: HudiOracle, tmp_path: Path, kind: str, mode: str
) -> None:
    path = tmp_path / "t"
    # Of these columns 0.15 cannot write a null in an array of a struct.
    columns = COLUMNS.replace("b: ARRAY<STRING>", "b: STRING")
    oracle_015.sql(
        f"CREATE TABLE logged.t ({columns}) USING hudi PARTITIONED BY (dt) LOCATION '{path}' TBLPROPERTIES "
        f"(primaryKey = 'id', type = '{kind}', '{CDC_ENABLED}' = 'true', '{CDC_MODE}' = '{mode}')"
    )
    session.sql(STATEMENTS[0].format(t="logged.t").replace("array('x', NULL)", "'x'"))
    session.sql(STATEMENTS[1].format(t="logged.t"))
    oracle_015.sql("UPDATE logged.t SET note = 'theirs' WHERE id IN (1, 4)")
    session.sql("UPDATE logged.t SET note = 'ours' WHERE id IN (1, 2)")
    oracle_015.sql(STATEMENTS[2].format(t="logged.t"))
    session.sql("DELETE FROM logged.t WHERE id = 3")
    check_captures(session, oracle_015, path)
    oracle_015.sql("REFRESH TABLE logged.t")
    rows = session.sql("SELECT * FROM logged.t").arrow()
    assert_same_rows(rows, oracle_015.read(str(path)), sort_by=["id"])


@pytest.mark.soak
@pytest.mark.usefixtures("logged")
def test_a_clean_of_either_deletes_the_change_logs_of_old_slices(
    session: Any, oracle_015: HudiOracle, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    make(session, path, kind="cow", mode="data_before_after")
    session.sql(STATEMENTS[0].format(t="logged.t"))
    for clean in (session.sql, oracle_015.sql):
        for note in ("p", "q", "r", "s"):
            session.sql(f"UPDATE logged.t SET note = '{note}'")
        assert len(list(path.glob("dt=x/.*.cdc"))) > 2
        clean("CALL run_clean(table => 'logged.t', retain_commits => 1)")
        assert len(list(path.glob("dt=x/.*.cdc"))) == len(list(path.glob("dt=x/*.parquet"))) == 2
    assert session.sql("SELECT DISTINCT note FROM logged.t").arrow()["note"].to_pylist() == ["s"]


@pytest.mark.soak
@pytest.mark.usefixtures("logged")
def test_a_rollback_of_either_takes_the_changes_back(
    session: Any, oracle_015: HudiOracle, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    make(session, path, kind="cow", mode="data_before_after")
    session.sql(STATEMENTS[0].format(t="logged.t"))
    for call in (session.sql, oracle_015.sql):
        session.sql("UPDATE logged.t SET note = 'undone'")
        commit = open_at(path).timeline.commits[-1]
        stats = read_commit(open_at(path), commit).write_stats
        logs = {name: size for stat in stats for name, size in (stat.cdc_stats or {}).items()}
        assert {name: (path / name).stat().st_size for name in logs} == logs != {}
        call(f"CALL rollback_to_instant(table => 'logged.t', instant_time => '{commit.timestamp}')")
        # Hudi's rollback of a completed commit leaves the change log behind, also of its own commits.
        assert call != session.sql or not [name for name in logs if (path / name).exists()]
        check_captures(session, oracle_015, path)


@pytest.mark.usefixtures("logged")
def test_the_properties_are_those_of_hudis_create_table(
    session: Any, oracle_015: HudiOracle, tmp_path: Path
) -> None:
    make(session, tmp_path / "t", kind="mor", mode="data_before")
    oracle_015.sql(
        f"CREATE TABLE logged.theirs (id INT) USING hudi LOCATION '{tmp_path / 'theirs'}' TBLPROPERTIES "
        f"(primaryKey = 'id', '{CDC_ENABLED}' = 'true', '{CDC_MODE}' = 'data_before')"
    )
    ours, theirs = (
        parse_properties((tmp_path / name / ".hoodie" / "hoodie.properties").read_bytes())
        for name in ("t", "theirs")
    )
    assert [ours[key] for key in (CDC_ENABLED, CDC_MODE)] == [theirs[key] for key in (CDC_ENABLED, CDC_MODE)]


@pytest.mark.soak
@pytest.mark.usefixtures("logged")
def test_a_merge_of_log_files_is_refused_if_only_keys_are_logged(session: Any, tmp_path: Path) -> None:
    # Rows of a table with an ordering column are updated by a merge once their slice has log files.
    more = ", preCombineField = 'seq'"
    make(session, tmp_path / "t", kind="mor", mode="op_key_only", more=more)
    session.sql("INSERT INTO logged.t VALUES (1, 1, 'a', 1, NULL, 'x'), (2, 1, 'b', 1, NULL, 'x')")
    session.sql("UPDATE logged.t SET note = 'logged' WHERE id = 1")
    with pytest.raises(WriteRefusedError, match="logs the keys of changes alone"):
        session.sql("UPDATE logged.t SET note = 'merged' WHERE id = 1")
    session.sql(COMPACT.format(t="logged.t"))
    session.sql("UPDATE logged.t SET note = 'merged' WHERE id = 1")
    notes = session.sql("SELECT note FROM logged.t ORDER BY id").arrow()["note"].to_pylist()
    assert notes == ["merged", "b"]
