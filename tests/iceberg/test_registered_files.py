"""Readers of Iceberg see register-only partitions: their source files, as these change, and lifts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.errors import SourceChangedError, UnsupportedTableError
from hudisql.iceberg import manifest_tasks
from hudisql.iceberg.publication_problem import BEHIND, FILE_MISSING, FILE_NOT_IN_TABLE
from tests.iceberg.readers import (
    check_history,
    check_readers,
    check_shown,
    duckdb_rows,
    hudisql_rows,
    metadata_of,
    publish,
    shown_file,
    verification_of,
)
from tests.requests.counted_requests import LISTINGS, counted_requests
from tests.soak import parameters
from tests.sources import fingerprint, orders, write_parquet

pytestmark = [pytest.mark.spark, pytest.mark.hms]

NAME = "oracle.registered"
COLD = "dt < '2024-03-03'"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Four days of two files each; a file of the first has a narrower type, and fewer columns."""
    directory = tmp_path / "source"
    for day in (1, 2, 3, 4):
        for part in (0, 1):
            rows = orders(day * 100 + part * 20)
            if (day, part) == (1, 1):
                rows = rows.drop_columns(["amount"]).set_column(1, "seq", rows["seq"].cast(pa.int32()))
            write_parquet(directory / f"dt=2024-03-0{day}" / f"part-{part}.parquet", rows)
    return directory


def make_table(session: Any, source: Path, more: str = "") -> str:
    """The table with the first two days register-only, by `more` arguments; its path."""
    path = source.parent / "t"
    session.sql(f"DROP TABLE IF EXISTS {NAME}")
    session.sql(
        f"CALL bootstrap_table(table => '{NAME}', source => '{source}', target_path => '{path}', "
        f"record_key => 'id', precombine => 'seq', on_schema_drift => 'widen', "
        f'register_only_where => "{COLD}"{more})'
    )
    return str(path)


@pytest.mark.soak
@pytest.mark.parametrize("table_type", parameters(["cow", "mor"], in_ci=["mor"]))
def test_their_files_are_published_and_give_way_to_a_lift(
    session: Any, source: Path, table_type: str
) -> None:
    before = fingerprint(source)
    path = make_table(session, source, f", table_type => '{table_type}'")
    filters = ("dt = '2024-03-01'", "seq > 110 AND seq < 330", "amount IS NULL", "dt <> '2024-03-02'")
    first = check_readers(session, NAME, filters)
    assert (first["source_files"], first["rows"]) == (8, 160)
    assert verification_of(path, reader="duckdb").problems == ()
    session.sql(f"ALTER TABLE {NAME} SET TBLPROPERTIES ('hudisql.iceberg.sync' = 'true')")
    rows = {metadata_of(path)["current-snapshot-id"]: hudisql_rows(session, NAME)}
    for statement in (
        "UPDATE {t} SET amount = -1 WHERE dt = '2024-03-03' AND seq = 303",
        "CALL resync_bootstrap(table => '{t}', lift => \"dt = '2024-03-01'\", on_schema_drift => 'widen')",
        "UPDATE {t} SET amount = -2 WHERE dt = '2024-03-02' AND seq = 205",
        "DELETE FROM {t} WHERE seq % 10 = 4",
    ):
        rows_before = hudisql_rows(session, NAME)
        session.sql(statement.format(t=NAME))
        check_shown(session, NAME, path)
        # The lift that a statement needs first is a commit of its own, which changes no rows.
        for snapshot in metadata_of(path)["snapshots"]:
            rows.setdefault(snapshot["snapshot-id"], rows_before)
        rows[metadata_of(path)["current-snapshot-id"]] = hudisql_rows(session, NAME)
        assert verification_of(path).problems == ()
    assert len(check_history(path, rows)) == len(rows) == 6
    assert fingerprint(source) == before


def test_a_statement_does_not_list_their_directories(session: Any, source: Path) -> None:
    path = make_table(session, source, ", iceberg_sync => true")
    with counted_requests(source, path) as requests:
        session.sql(f"UPDATE {NAME} SET amount = -1 WHERE dt = '2024-03-03' AND seq = 303")
    listed = {place for _, place in requests.below(str(source), *LISTINGS)}
    assert not any(place.endswith(("-01", "-02")) for place in listed)
    check_shown(session, NAME, path)


@pytest.mark.parametrize("files_of_one_process", parameters([1, 2_000], in_ci=[1]))
def test_files_that_change_are_shown_by_the_next_call(
    session: Any, source: Path, monkeypatch: pytest.MonkeyPatch, files_of_one_process: int
) -> None:
    monkeypatch.setattr(manifest_tasks, "FILES_OF_ONE_PROCESS", files_of_one_process)
    path, cold = make_table(session, source), source / "dt=2024-03-01"
    check_readers(session, NAME)
    write_parquet(cold / "later.parquet", orders(700))
    verified = verification_of(path)
    assert [(each.kind, each.detail.partition(":")[0]) for each in verified.problems] == [
        (BEHIND, "files of register-only partitions have changed since")
    ]
    assert verified.compared_rows == 160
    # This is such a call; a statement elsewhere leaves them for the next one.
    session.sql(f"ALTER TABLE {NAME} SET TBLPROPERTIES ('hudisql.iceberg.sync' = 'true')")
    check_shown(session, NAME, path)
    write_parquet(cold / "later.parquet", orders(800))
    session.sql(f"UPDATE {NAME} SET amount = -1 WHERE dt = '2024-03-03' AND seq = 303")
    assert duckdb_rows(shown_file(path), "seq >= 790") == []
    # The same path and length, other rows: filters go by the new bounds.
    published = check_readers(session, NAME, ("seq >= 790", "seq BETWEEN 800 AND 805"))
    assert (published["result"], published["rows"]) == ("published", 180)
    assert publish(session, NAME)["result"] == "already published"

    (cold / "later.parquet").unlink()
    kinds = {each.kind for each in verification_of(path).errors}
    assert kinds == {FILE_MISSING, FILE_NOT_IN_TABLE}
    assert check_readers(session, NAME)["rows"] == 160
    cold.rename(source.parent / "elsewhere")
    with pytest.raises(SourceChangedError, match=r"the directory of a register-only partition .* is gone"):
        publish(session, NAME)
    session.sql(f"ALTER TABLE {NAME} DROP PARTITION (dt = '2024-03-01')")
    check_shown(session, NAME, path)
    check_readers(session, NAME)


def test_a_lift_that_is_rolled_back_and_files_of_lost_times(session: Any, source: Path) -> None:
    path = make_table(session, source)
    check_readers(session, NAME)
    lift = f"CALL resync_bootstrap(table => '{NAME}', lift => 'true', on_schema_drift => 'widen')"
    lifted = session.sql(lift).rows[-1]["instant"]
    behind = verification_of(path)
    assert ([each.kind for each in behind.problems], behind.compared_rows) == ([BEHIND], 160)
    assert check_readers(session, NAME)["source_files"] == 4
    session.sql(f"CALL rollback_to_instant(table => '{NAME}', instant_time => '{lifted}')")
    os.utime(source / "dt=2024-03-01" / "part-0.parquet", (1, 1))
    assert check_readers(session, NAME)["source_files"] == 8
    os.utime(source / "dt=2024-03-03" / "part-0.parquet", (1, 1))
    with pytest.raises(SourceChangedError, match=r"dt=2024-03-03.* was modified at"):
        publish(session, NAME, ", dry_run => true")


def test_a_file_that_readers_would_misread_is_refused_by_name(session: Any, source: Path) -> None:
    make_table(session, source)
    check_readers(session, NAME)
    rows, field = orders(700), pa.field("seq", pa.int64(), metadata={"PARQUET:field_id": "7"})
    write_parquet(source / "dt=2024-03-02" / "ids.parquet", rows.set_column(1, field, rows["seq"]))
    with pytest.raises(UnsupportedTableError, match=r"ids\.parquet column seq has a field id") as refused:
        publish(session, NAME)
    assert "resync_bootstrap" in (refused.value.hint or "")
    session.sql(f"CALL resync_bootstrap(table => '{NAME}', lift => \"dt = '2024-03-02'\")")
    assert check_readers(session, NAME)["rows"] == 180
