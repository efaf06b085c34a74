"""Tables with a compaction or clustering that Apache Hudi has planned: statements go on, and so does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import UnsupportedTableError
from hudisql.format.timeline.commit_metadata import CommitMetadata, WriteStat, read_commit_metadata
from hudisql.storage import Storage
from tests.opened import open_at
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import read_by_both
from tests.oracle.shapes import SHAPES, Shape, noted_rows

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]


def _make(oracle: HudiOracle, session: Any, shape: Shape, path: str, name: str) -> dict[str, str]:
    options = {**shape.write_options(), "hoodie.table.name": name, "hoodie.metadata.enable": "false"}
    oracle.upsert(noted_rows(shape, 0, 60), path, options)
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    session.sql(f"CALL hive_sync(table => 'oracle.{name}', path => '{path}')")
    return options


def _notes(oracle: HudiOracle, session: Any, name: str, path: str) -> dict[int, str]:
    """The notes by seq, which both readers agree on."""
    theirs = read_by_both(oracle, session, f"oracle.{name}", path)
    return dict(zip(theirs["seq"].to_pylist(), theirs["note"].to_pylist(), strict=True))


def _last_commit(path: str) -> CommitMetadata:
    table = open_at(path)
    return read_commit_metadata(Storage(), table.instant_path(table.timeline.commits[-1]))


def _shape_of(stat: WriteStat) -> tuple[object, ...]:
    assert stat.log_write is not None
    return (stat.prev_commit, stat.log_write.base_file, stat.log_write.log_version)


@pytest.mark.soak
def test_changes_beside_a_planned_compaction_are_kept_when_hudi_015_runs_it(
    oracle_015: HudiOracle, session: Any, tmp_path: Path
) -> None:
    shape = next(shape for shape in SHAPES if shape.table_type == "MERGE_ON_READ")
    path, name = str(tmp_path / "table"), "planned_compaction"
    options = _make(oracle_015, session, shape, path, name)
    oracle_015.upsert(noted_rows(shape, 0, 30, "second"), path, options)
    told = "hoodie.metadata.enable=false,hoodie.compact.inline.max.delta.commits=1"
    oracle_015.sql(f"call run_compaction(op=>'schedule', path=>'{path}', options=>'{told}')")
    (planned,) = open_at(path).timeline.pending
    assert planned.action == "compaction"

    # A delete is appended, an update of a slice with logs is merged, both with a compaction pending.
    session.sql(f"DELETE FROM oracle.{name} WHERE dt = '2024-03-01' AND seq < 10")
    (ours,) = _last_commit(path).write_stats
    assert f"_{planned.timestamp}.log." in (ours.path or "")
    session.sql(f"UPDATE oracle.{name} SET note = 'updated' WHERE dt = '2024-03-02' AND seq < 40")
    session.sql(f"INSERT INTO oracle.{name} (id, seq, note, dt) VALUES ('k1000', 1000, 'new', '2024-03-01')")
    expected = dict.fromkeys(range(30), "second") | dict.fromkeys(range(30, 60), "first")
    expected = {seq: note for seq, note in expected.items() if seq % 3 or seq >= 10}
    expected |= {seq: "updated" for seq in range(40) if seq % 3 == 1}
    expected |= {1000: "new"}
    assert _notes(oracle_015, session, name, path) == expected

    # Apache Hudi appends to the compaction's slices, and to the one that was merged, as we do.
    oracle_015.upsert(noted_rows(shape, 50, 56, "third"), path, options)
    expected |= dict.fromkeys(range(50, 56), "third")
    assert _notes(oracle_015, session, name, path) == expected
    theirs = {stat.file_id: stat for stat in _last_commit(path).write_stats}
    assert _shape_of(theirs[ours.file_id])[:2] == _shape_of(ours)[:2] == (planned.timestamp, "")

    oracle_015.sql(f"call run_compaction(op=>'run', path=>'{path}', options=>'{told}')")
    assert open_at(path).timeline.pending == ()
    assert _notes(oracle_015, session, name, path) == expected
    session.sql(f"UPDATE oracle.{name} SET note = 'again' WHERE seq >= 20 AND seq < 25")
    oracle_015.upsert(noted_rows(shape, 25, 30, "fourth"), path, options)
    expected |= dict.fromkeys(range(20, 25), "again") | dict.fromkeys(range(25, 30), "fourth")
    assert _notes(oracle_015, session, name, path) == expected


@pytest.mark.soak
def test_only_file_groups_outside_a_planned_clustering_are_changed(
    oracle_015: HudiOracle, session: Any, tmp_path: Path
) -> None:
    shape = SHAPES[0]
    path, name = str(tmp_path / "table"), "planned_clustering"
    options = _make(oracle_015, session, shape, path, name)
    call = f"call run_clustering(path=>'{path}', options=>'hoodie.metadata.enable=false'"
    oracle_015.sql(f"{call}, op=>'schedule', selected_partitions=>'dt=2024-03-01', order=>'seq')")
    (planned,) = open_at(path).timeline.pending
    for statement in (
        f"UPDATE oracle.{name} SET note = 'refused' WHERE seq = 3",
        f"TRUNCATE TABLE oracle.{name}",
    ):
        with pytest.raises(UnsupportedTableError, match=f"{planned.timestamp}.*dt=2024-03-01/"):
            session.sql(statement)
    session.sql(f"UPDATE oracle.{name} SET note = 'updated' WHERE seq = 4")
    session.sql(f"INSERT INTO oracle.{name} (id, seq, note, dt) VALUES ('k1000', 1000, 'new', '2024-03-01')")
    expected = dict.fromkeys(range(60), "first") | {4: "updated", 1000: "new"}
    assert _notes(oracle_015, session, name, path) == expected
    oracle_015.sql(f"{call}, op=>'execute')")
    assert open_at(path).timeline.pending == ()
    assert _notes(oracle_015, session, name, path) == expected
    session.sql(f"UPDATE oracle.{name} SET note = 'again' WHERE seq = 3")
    oracle_015.upsert(noted_rows(shape, 6, 7, "theirs"), path, options)
    assert _notes(oracle_015, session, name, path) == expected | {3: "again", 6: "theirs"}
