"""Resyncs of hudisql: Apache Hudi 0.15 and 1.2 read the same rows, write to them and archive them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hudisql.table.partitions.resynced_sources import ResyncState, read_resync_lists
from tests.opened import open_at
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.newer_tables import NewerTable
from tests.oracle.shapes import SHAPES, Shape, bootstrap_shape, noted_rows
from tests.oracle.sources import sample_rows, write_readable
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

CASES = [shape for shape in SHAPES if shape.name != "prefixed"]
ARCHIVE = "min_commits=>2, max_commits=>3, retain_commits=>1, enable_metadata=>false"
# Hudi 1.2 asks whether keys of one column were written in its or in 0.15's form.
SAME_KEYS = {
    "hoodie.write.complex.keygen.validation.enable": "false",
    "hoodie.write.complex.keygen.new.encoding": "true",
}


@pytest.mark.soak
@pytest.mark.parametrize("shape", parameters(CASES, in_ci=["merge_on_read"]))
def test_both_hudis_read_and_change_what_a_resync_took(
    oracle_015: HudiOracle, oracle_120: HudiOracle, session: Any, tmp_path: Path, shape: Any
) -> None:
    made = bootstrap_shape(session, shape, tmp_path)
    name, source = f"oracle.{shape.name}", Path(made.source)
    for first in (200, 201):  # one file in a partition of the table, or two
        path = source / (shape.partition_path(first) if shape.partition_columns else "")
        write_readable(sample_rows(first, first + 1), path / f"late-{first}.parquet")
    if shape.partition_columns:
        column = list(shape.partition_columns)[-1]
        elsewhere = "/".join([*shape.partition_path(0).split("/")[:-1], f"{column}=2024-04-01"])
        (source / elsewhere).mkdir(parents=True)
        write_readable(sample_rows(300, 340), source / elsewhere / "new.parquet")
    call = f"CALL resync_bootstrap(table => '{name}')"
    taken = session.sql(call).rows
    assert taken[-1]["status"] == "TOTAL"
    assert taken[-1]["files"] == (3 if shape.partition_columns else 2)

    def check() -> Any:
        rows = session.sql(f"SELECT * FROM {name}").arrow()
        for oracle in (oracle_015, oracle_120):
            assert_same_rows(rows, oracle.read(made.path), sort_by=["seq"])
        return rows

    rows = check()
    assert rows.num_rows == shape.rows + taken[-1]["rows"]
    late = rows.filter([seq in (200, 201) for seq in rows["seq"].to_pylist()])
    assert set(late["_hoodie_commit_time"].to_pylist()) == {taken[-1]["instant"]}
    assert {shape.record_key_of(seq) for seq in (200, 201)} == set(late["_hoodie_record_key"].to_pylist())

    # 0.15 updates rows of skeletons and of the resync, then 1.2 does, then hudisql.
    for oracle, note in ((oracle_015, "by 0.15"), (oracle_120, "by 1.2")):
        for first, last in ((0, 2), (200, 202)):
            changed = noted_rows(shape, first, last, note)
            oracle.upsert(changed, made.path, {**shape.write_options(), **SAME_KEYS})
        notes = dict(zip(*(check()[column].to_pylist() for column in ("seq", "note")), strict=True))
        assert {notes[seq] for seq in (0, 1, 200, 201)} == {note}
    session.sql(f"UPDATE {name} SET note = 'ours' WHERE seq IN (1, 201)")
    check()

    oracle_015.sql(f"call archive_commits(path=>'{made.path}', {ARCHIVE})")
    lists = read_resync_lists(open_at(made.path))
    assert [lists.states[each.number] for each in lists.lists] == [ResyncState.ARCHIVED]
    again = session.sql(call).rows
    assert again[-1]["detail"] == "no new files: nothing was done; 0 changed, 0 gone"
    assert check().num_rows == rows.num_rows

    again_path = source / (shape.partition_path(201) if shape.partition_columns else "") / "again.parquet"
    write_readable(sample_rows(201, 202, "again"), again_path)
    upserted = session.sql(call.replace("')", "', mode => 'upsert')")).rows
    assert upserted[-1]["detail"].startswith("1 new file taken: 0 rows inserted, 1 updated")
    notes = dict(zip(*(check()[column].to_pylist() for column in ("seq", "note")), strict=True))
    assert notes[201] == "again 名 201"


# Hudi 1.2 refuses to upgrade tables with one key column beside several partition columns.
NEWER_CASES = [
    (shape, version) for shape in CASES for version in (8, 9) if (shape.name, version) != ("two_columns", 8)
]
ARCHIVES = {
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.metadata.enable": "false",
}


@pytest.mark.parametrize(
    ("shape", "version"),
    parameters(NEWER_CASES, in_ci=[]),
    ids=lambda value: value.name if isinstance(value, Shape) else str(value),
)
def test_hudi_12_reads_and_changes_what_a_resync_of_a_newer_table_took(
    oracle_120: HudiOracle, session: Any, tmp_path: Path, shape: Shape, version: int
) -> None:
    made, source = _newer_table(oracle_120, session, tmp_path, shape, version)
    call = f"CALL resync_bootstrap(table => '{made.name}')"

    def come(start: int, stop: int, note: str) -> None:
        path = source / (shape.partition_path(start) if shape.partition_columns else "")
        path.mkdir(exist_ok=True)
        rows = sample_rows(start, stop)
        noted = rows.set_column(rows.column_names.index("note"), "note", [[note] * len(rows)])
        write_readable(noted, path / f"late-{start}-{note}.parquet")
        made.notes |= dict.fromkeys(range(start, stop), note)

    for first in (200, 201):
        come(first, first + 1, "late")
    taken = session.sql(call).rows[-1]
    assert (taken["files"], taken["rows"]) == (2, 2)
    made.check()
    rows = session.sql(f"SELECT * FROM {made.name} WHERE seq >= 200").arrow()
    assert set(rows["_hoodie_commit_time"].to_pylist()) == {taken["instant"]}
    prefix = "id:" if shape.name == "two_columns" else ""
    keys = {prefix + shape.record_key_of(seq) for seq in (200, 201)}
    assert set(rows["_hoodie_record_key"].to_pylist()) == keys

    made.theirs(0, 2, "theirs")
    made.theirs(200, 202, "theirs")
    made.ours("ours", (1, 201))
    made.check()
    assert _states(made) == [ResyncState.COMMITTED]
    come(202, 203, "undone")
    undone = session.sql(call).rows[-1]["instant"]
    made.call_ours("rollback_to_instant", f"instant_time => '{undone}'")
    del made.notes[202]
    made.check()
    come(201, 202, "again")
    upserted = session.sql(call.replace("')", "', mode => 'upsert')")).rows[-1]
    assert upserted["detail"].startswith("2 new files taken: 1 rows inserted, 1 updated")
    made.notes[202] = "undone"
    made.check()

    where = """, where => 'dt = "2024-03-01"'""" if shape.partition_columns else ""
    rewrite = f"CALL rewrite_bootstrap_files(table => '{made.name}', only_unsafe => false{where})"
    # All file groups of the table without partitions were rewritten by the changes before.
    assert bool(session.sql(rewrite).rows) is bool(shape.partition_columns)
    made.check()
    made.theirs(3, 6, "theirs")
    made.ours("again", range(4, 8))
    made.check()

    for start in range(0, 12, 3):
        made.theirs(start, start + 3, "archived by 1.2", ARCHIVES)
    assert set(_states(made)) == {ResyncState.ARCHIVED}
    again = session.sql(call).rows[-1]
    assert again["detail"] == "no new files: nothing was done; 0 changed, 0 gone"
    made.check()


def _newer_table(
    oracle: HudiOracle, session: Any, directory: Path, shape: Shape, version: int
) -> tuple[NewerTable, Path]:
    """A table that hudisql bootstrapped, in version 9, or in version 6 before 1.2 upgraded it; its source."""
    arguments = {"table_version": "9"} if version == 9 else {}
    path = bootstrap_shape(session, shape, directory, **arguments)
    name = f"oracle.{shape.name}"
    rows = session.sql(f"SELECT seq, note FROM {name}").rows
    notes = {row["seq"]: row["note"] for row in rows}
    made = NewerTable(oracle, session, path.path, name, shape, version, notes)
    made.theirs(100, 102, "upgraded", {"hoodie.write.auto.upgrade": "true"})
    made.check()
    return made, Path(path.source)


def _states(made: NewerTable) -> list[ResyncState]:
    lists = read_resync_lists(made.opened())
    return [lists.states[each.number] for each in lists.lists]
