"""Upserts and deletes by key with each kind of index: the same rows are found, whatever is read for it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hudisql.console import SilentConsole
from hudisql.errors import SettingsError
from hudisql.session import Session
from hudisql.table.file_slice import FileSlice
from hudisql.table.hudi_table import HudiTable
from hudisql.write.index import key_encoding, key_lookup
from tests.sql.changed_tables import ROWS, ChangedTable, setting

pytestmark = [pytest.mark.spark, pytest.mark.hms]

COLUMNS = "id string, seq bigint, dt string"


def _write(table: ChangedTable, operation: str, *rows: tuple[Any, ...], **settings: str) -> dict[str, int]:
    frame = table.session.spark.createDataFrame(list(rows), COLUMNS)
    options = {name.replace("_", "."): value for name, value in settings.items()}
    result = table.session.write(frame, table.name, operation, **options)
    counts = {"inserted": result.inserted, "updated": result.updated, "deleted": result.deleted}
    counts |= {"moved": result.moved, "late": result.skipped_late}
    return {name: count for name, count in counts.items() if count}


def _kinds(*kinds: str) -> pytest.MarkDecorator:
    """Each kind of index with one type of table; `make soak` takes it with the other type, too."""
    tables = ("table", "merge_on_read_table")
    chosen = [(tables[number % 2], kind) for number, kind in enumerate(kinds)]
    others = [
        pytest.param(tables[1 - number % 2], kind, marks=pytest.mark.soak)
        for number, kind in enumerate(kinds)
    ]
    return pytest.mark.parametrize(("any_table", "kind"), [*chosen, *others], indirect=["any_table"])


@pytest.fixture
def any_table(request: pytest.FixtureRequest) -> ChangedTable:
    found: ChangedTable = request.getfixturevalue(request.param)
    return found


@_kinds("BLOOM", "SIMPLE", "INMEMORY")
def test_keys_are_found_in_the_partition_that_the_row_names(any_table: ChangedTable, kind: str) -> None:
    table = any_table
    rows = [("k01", 100, "2024-03-01"), ("k02", 200, "2024-03-02"), ("n", 1, "2024-03-04")]
    assert _write(table, "upsert", *rows, hoodie_index_type=kind) == {"inserted": 2, "updated": 1}
    assert sorted(table.rows("id, seq, dt", "id IN ('k01', 'k02', 'n')")) == [
        ("k01", 100, "2024-03-01"),
        ("k02", 2, "2024-03-01"),
        ("k02", 200, "2024-03-02"),
        ("n", 1, "2024-03-04"),
    ]
    # Now some slices hold base rows that were changed, others log files.
    assert _write(table, "upsert", ("k01", 101, "2024-03-01"), hoodie_index_type=kind) == {"updated": 1}
    assert _write(table, "delete", ("k01", 0, "2024-03-01"), hoodie_index_type=kind) == {"deleted": 1}
    assert _write(table, "upsert", ("k01", 5, "2024-03-01"), hoodie_index_type=kind) == {"inserted": 1}
    assert table.seqs("id = 'k01'") == [5]
    assert len(table.rows()) == ROWS + 2


@_kinds("GLOBAL_BLOOM", "GLOBAL_SIMPLE", "RECORD_INDEX")
def test_a_global_index_moves_the_row_to_the_partition_that_it_names(
    any_table: ChangedTable, kind: str
) -> None:
    table = any_table
    rows = [("k01", 100, "2024-03-02"), ("k02", 200, "2024-03-01"), ("n", 1, "2024-03-04")]
    counts = _write(table, "upsert", *rows, hoodie_index_type=kind)
    assert counts == {"inserted": 1, "updated": 1, "moved": 1}
    assert sorted(table.rows("id, seq, dt", "id IN ('k01', 'k02', 'n')")) == [
        ("k01", 100, "2024-03-02"),
        ("k02", 200, "2024-03-01"),
        ("n", 1, "2024-03-04"),
    ]
    assert _write(table, "delete", ("k01", 0, "nowhere"), hoodie_index_type=kind) == {"deleted": 1}
    assert len(table.rows()) == ROWS


@_kinds("bloom", "simple")
def test_a_global_index_may_leave_rows_where_they_are(any_table: ChangedTable, kind: str) -> None:
    settings = {
        "hoodie_index_type": f"GLOBAL_{kind.upper()}",
        f"hoodie.{kind}.index.update.partition.path": "false",
    }
    rows = [("k01", 100, "2024-03-02"), ("n", 1, "2024-03-04")]
    assert _write(any_table, "upsert", *rows, **settings) == {"inserted": 1, "updated": 1}
    assert any_table.rows("id, seq, dt", "id IN ('k01', 'n')") == [
        ("k01", 100, "2024-03-01"),
        ("n", 1, "2024-03-04"),
    ]
    assert any_table.seqs("dt = '2024-03-01' AND id = 'k01'") == [100]


def test_a_key_with_several_rows_has_one_after_a_global_upsert(table: ChangedTable) -> None:
    for day in ("2024-03-02", "2024-03-03"):
        table.run(f"INSERT INTO {{t}} (id, seq, dt) VALUES ('k01', 50, '{day}')")
    table.run("INSERT INTO {t} (id, seq, dt) VALUES ('n', 1, '2024-03-04')")
    counts = _write(table, "upsert", ("k01", 100, "2024-03-04"), hoodie_index_type="GLOBAL_BLOOM")
    assert counts == {"deleted": 2, "moved": 1}
    assert table.rows("seq, dt", "id = 'k01'") == [(100, "2024-03-04")]


def test_a_key_that_a_file_holds_twice_is_updated_twice(table: ChangedTable) -> None:
    with setting(table.session, "hoodie.spark.sql.insert.into.operation", "insert"):
        table.run("INSERT INTO {t} (id, seq, dt) VALUES ('k01', 50, '2024-03-01')")
    assert _write(table, "upsert", ("k01", 100, "2024-03-01")) == {"updated": 2}
    assert table.seqs("id = 'k01'") == [100, 100]


def test_an_older_row_moves_nothing_where_event_time_decides(
    session: Session, merge_on_read_table: ChangedTable
) -> None:
    table = merge_on_read_table
    payload = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
    session.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES (payloadClass = '{payload}')")
    rows = [("k05", 4, "2024-03-02"), ("k06", 6, "2024-03-02")]
    _write(table, "upsert", *rows, hoodie_index_type="GLOBAL_BLOOM")
    assert table.rows("id, seq, dt", "id IN ('k05', 'k06')") == [
        ("k05", 5, "2024-03-01"),
        ("k06", 6, "2024-03-02"),
    ]


@pytest.mark.soak
def test_the_table_properties_name_the_index_and_the_session_overrules_them(
    session: Session, table: ChangedTable
) -> None:
    session.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES (hoodie.index.type = 'GLOBAL_SIMPLE')")
    with ExitStack() as stack:
        stack.enter_context(setting(session, "hoodie.spark.sql.insert.into.operation", "upsert"))
        insert = "INSERT INTO {t} (id, seq, dt) VALUES ('k01', 100, '2024-03-02')"
        assert table.run(insert)["moved"] == 1
        stack.enter_context(setting(session, "hoodie.index.type", "simple"))
        assert table.run(insert.replace("-02'", "-03'"))["inserted"] == 1
    assert sorted(table.rows("seq, dt", "id = 'k01'")) == [(100, "2024-03-02"), (100, "2024-03-03")]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("hoodie.index.type", "HBASE", "must be one of BLOOM, SIMPLE, .*, not 'HBASE'"),
        ("hoodie.bloom.index.update.partition.path", "maybe", "must be true or false"),
    ],
)
def test_settings_that_are_not_understood_are_refused(
    session: Session, table: ChangedTable, key: str, value: str, said: str
) -> None:
    with setting(session, key, value), pytest.raises(SettingsError, match=said):
        _write(table, "upsert", ("k01", 1, "2024-03-01"))


@pytest.mark.usefixtures("table")
def test_the_form_of_the_keys_is_looked_for_once_a_statement(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.sql(
        f"CREATE TABLE changes.pairs (id STRING, seq INT, a INT, b INT) USING hudi PARTITIONED BY (a, b) "
        f"LOCATION '{tmp_path / 'pairs'}' TBLPROPERTIES (primaryKey = 'id', preCombineField = 'seq')"
    )
    pairs = ChangedTable(session, "changes.pairs", str(tmp_path / "pairs"))
    pairs.run("INSERT INTO {t} VALUES ('k1', 1, 1, 1), ('k2', 1, 1, 2)")
    listed: list[HudiTable] = []

    telling_slices = key_encoding._telling_slices

    def list_slices(of: HudiTable) -> list[FileSlice]:
        listed.append(of)
        return telling_slices(of)

    monkeypatch.setattr(key_encoding, "_telling_slices", list_slices)
    assert pairs.run("INSERT INTO {t} VALUES ('k1', 2, 1, 1), ('k3', 1, 2, 1)")["updated"] == 1
    assert len(listed) == 1
    assert sorted(pairs.rows("_hoodie_record_key, seq")) == [("k1", 2), ("k2", 1), ("k3", 1)]
    session.sql("DROP TABLE changes.pairs")


@pytest.mark.soak
@pytest.mark.parametrize("any_table", ["table", "merge_on_read_table"], indirect=True)
def test_a_record_index_tells_where_keys_are(
    session: Session,
    any_table: ChangedTable,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    table = any_table
    session.sql(f"CALL upgrade_table(table => '{table.name}', to_version => 'NINE')")
    session.sql(f"CALL create_metadata_table(table => '{table.name}', indexes => 'record_index')")
    rows_of_slice, searched = key_lookup._rows_of_slice, []

    def search(*arguments: Any) -> Any:
        searched.append(arguments)
        return rows_of_slice(*arguments)

    monkeypatch.setattr(key_lookup, "_rows_of_slice", search)
    rows = [("k01", 100, "2024-03-02"), ("n", 1, "2024-03-04")]
    assert _write(table, "upsert", *rows, hoodie_index_type="RECORD_INDEX") == {"inserted": 1, "updated": 1}
    assert table.rows("id, seq, dt", "id IN ('k01', 'n')") == [
        ("k01", 100, "2024-03-01"),
        ("n", 1, "2024-03-04"),
    ]
    # In a merge-on-read table the place of a key is enough.
    assert len(searched) == (0 if "merge_on_read" in request.node.callspec.id else 1)
    moves = {
        "hoodie_index_type": "GLOBAL_RECORD_LEVEL_INDEX",
        "hoodie.record.index.update.partition.path": "true",
    }
    assert _write(table, "upsert", ("k01", 101, "2024-03-02"), **moves) == {"moved": 1}
    assert _write(table, "delete", ("k02", 0, "nowhere"), **moves) == {"deleted": 1}
    table.run("UPDATE {t} SET dt = '2024-03-03' WHERE id = 'k03'")
    assert _write(table, "upsert", ("k03", 50, "2024-03-01"), **moves) == {"moved": 1}
    assert _write(table, "upsert", ("k02", 2, "2024-03-01"), **moves) == {"inserted": 1}
    assert len(table.rows()) == ROWS + 1
    indexes = {row[0] for row in session.sql(f"SHOW INDEXES FROM {table.name}").rows}
    assert "record_index" in indexes
    said: list[str] = []
    monkeypatch.setattr(SilentConsole, "warning", lambda _, text: said.append(text))
    session.sql("SET hoodie.spark.sql.insert.into.operation = insert")
    table.run("INSERT INTO {t} (id, seq, dt) VALUES ('k03', 1, '2024-03-02')")
    session.sql("RESET hoodie.spark.sql.insert.into.operation")
    assert [text for text in said if "dropped record_index of its metadata table" in text] == said
    assert len(said) == 1


def test_the_key_of_a_row_that_was_marked_as_a_delete_is_new_again(
    session: Session, table: ChangedTable
) -> None:
    marked = table.name.rpartition(".")[0] + ".marked"
    session.sql(
        f"CREATE TABLE {marked} (id STRING, seq BIGINT, _hoodie_is_deleted BOOLEAN, dt STRING) USING hudi"
        " PARTITIONED BY (dt) TBLPROPERTIES (type = 'mor', primaryKey = 'id', preCombineField = 'seq',"
        " 'hoodie.write.table.version' = '9')"
    )
    session.sql(f"INSERT INTO {marked} VALUES ('a', 1, false, 'x'), ('b', 1, false, 'x')")
    session.sql(f"CALL create_metadata_table(table => '{marked}', indexes => 'record_index')")
    for row in (("a", 2, True, "x"), ("a", 3, False, "y")):
        frame = session.spark.createDataFrame(
            [row], "id string, seq bigint, _hoodie_is_deleted boolean, dt string"
        )
        session.write(frame, marked, "upsert", **{"hoodie.index.type": "RECORD_INDEX"})
    rows = session.sql(f"SELECT id, seq, dt FROM {marked} ORDER BY id").rows
    assert [tuple(row) for row in rows] == [("a", 3, "y"), ("b", 1, "x")]
    session.sql(f"DROP TABLE {marked}")
