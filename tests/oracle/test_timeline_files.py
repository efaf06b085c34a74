"""Exported instants and repairs are those of Hudi 0.15."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.client import HudiOracle
from tests.oracle.comparison import read_by_both
from tests.oracle.shapes import Shape, bootstrap_shape

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

# Hudi looks for partitions without marker files three directories below the table alone.
SHAPE = Shape(
    "three_levels",
    rows=20,
    files=1,
    partition_columns={"y": "2024".format, "m": "03".format, "d": lambda n: f"0{n % 2 + 1}"},
)
MARKER = ".hoodie_partition_metadata"


def _rows(of: Any, call: str) -> list[tuple[Any, ...]]:
    found = of.sql(f"CALL {call}")
    return [
        tuple(row.values()) for row in (found if isinstance(of, HudiOracle) else found.arrow()).to_pylist()
    ]


@pytest.mark.soak
def test_instants_are_exported_and_tables_repaired_as_by_hudi(
    session: Any, oracle_015: HudiOracle, tmp_path: Path
) -> None:
    made, name = bootstrap_shape(session, SHAPE, tmp_path), f"oracle.{SHAPE.name}"
    for number in range(3):
        session.sql(f"UPDATE {name} SET note = 'updated {number}' WHERE seq = {number}")
    session.sql(f"CALL run_clean(table => '{name}', retain_commits => 1)")
    session.sql(f"UPDATE {name} SET note = 'undone' WHERE seq = 3")
    commits = [row["commit_time"] for row in session.sql(f"CALL show_commits(table => '{name}')").rows]
    session.sql(f"CALL rollback_to_instant(table => '{name}', instant_time => '{commits[0]}')")
    session.sql(f"CALL create_savepoint(table => '{name}', commit_time => '{commits[1]}')")
    _check_exports(session, oracle_015, name, tmp_path)
    _check_partition_markers(session, oracle_015, name, Path(made.path))
    _check_properties(session, oracle_015, name, made.path, tmp_path)
    assert _rows(session, f"repair_corrupted_clean_files('{name}')") == [(True,)]
    assert read_by_both(oracle_015, session, name, made.path).num_rows == SHAPE.rows


def _check_exports(session: Any, oracle: HudiOracle, name: str, tmp_path: Path) -> None:
    exported = []
    for each in (session, oracle):
        directory = tmp_path / type(each).__name__
        directory.mkdir()
        ((detail,),) = _rows(each, f"export_instants(table => '{name}', local_folder => '{directory}')")
        files = {path.name: json.loads(path.read_text()) for path in directory.glob("[0-9]*")}
        exported.append((detail.replace(str(directory), ""), files))
    assert exported[0] == exported[1]
    assert {key.partition(".")[2] for key in exported[0][1]} == {"commit", "clean", "rollback", "savepoint"}


def _check_partition_markers(session: Any, oracle: HudiOracle, name: str, path: Path) -> None:
    (path / "y=2024/m=03/d=01" / MARKER).unlink()
    call = f"repair_add_partition_meta(table => '{name}')"
    found = _rows(session, call)
    assert found == sorted(_rows(oracle, call))
    assert [row[1:] for row in found] == [("No", "None"), ("Yes", "None")]
    assert session.sql(f"SELECT count(*) FROM {name}").rows[0][0] == SHAPE.rows // 2
    call = f"repair_add_partition_meta(table => '{name}', dry_run => false)"
    assert [row[1:] for row in _rows(session, call)] == [("No", "Repaired"), ("Yes", "None")]
    assert [row[1:] for row in _rows(oracle, call)] == [("Yes", "None")] * 2


def _check_properties(session: Any, oracle: HudiOracle, name: str, path: str, tmp_path: Path) -> None:
    properties = Path(path) / ".hoodie" / "hoodie.properties"
    new = tmp_path / "new.properties"
    lines = [line for line in properties.read_text().splitlines() if not line.startswith("hoodie.table.cdc")]
    new.write_text("\n".join([*lines, "hoodie.compaction.lazy.block.read=true"]) + "\n")
    before = properties.read_bytes()
    call = f"repair_overwrite_hoodie_props(table => '{name}', new_props_file_path => '{new}'"
    shown = _rows(session, f"{call}, dry_run => true)")
    assert properties.read_bytes() == before
    assert _rows(session, f"{call})") == shown
    ours = properties.read_text()
    properties.write_bytes(before)
    assert sorted(_rows(oracle, f"{call})")) == shown
    assert _settings(properties.read_text()) == _settings(ours)


def _settings(text: str) -> set[str]:
    return {line for line in text.splitlines() if not line.startswith("#")}
