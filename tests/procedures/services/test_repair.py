"""CALL repair_…: each only looks if it is told so, and refuses what would make another table."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import InvalidArgumentError, UnsupportedTableError
from hudisql.table.properties.table_configuration import COLUMN_STATS_ENABLE
from tests.sql.changed_tables import ChangedTable

pytestmark = [pytest.mark.spark, pytest.mark.hms]

REPAIR, LOOK = ", dry_run => false", ", dry_run => true"


def _call(table: ChangedTable, procedure: str, more: str = "") -> list[tuple[Any, ...]]:
    return [tuple(row) for row in table.session.sql(f"CALL {procedure}(table => '{table.name}'{more})").rows]


def test_a_clean_whose_plan_is_corrupt_is_deleted(merge_on_read_table: ChangedTable) -> None:
    table = merge_on_read_table
    assert _call(table, "repair_corrupted_clean_files") == [(True,)]
    files = [
        Path(table.path) / ".hoodie" / f"20990101000000000.clean.{state}"
        for state in ("requested", "inflight")
    ]
    for path in files:
        path.write_bytes(b"torn")
    assert _call(table, "repair_corrupted_clean_files", LOOK) == [(False,)]
    assert all(path.exists() for path in files)
    assert _call(table, "repair_corrupted_clean_files") == [(True,)]
    assert not any(path.exists() for path in files)
    table.run("DELETE FROM {t} WHERE seq = 1")


def test_a_partition_without_its_marker_is_shown_and_marked(merge_on_read_table: ChangedTable) -> None:
    table = merge_on_read_table
    before = table.seqs()
    marker = Path(table.path) / "dt=2024-03-02" / ".hoodie_partition_metadata"
    marker.unlink()
    assert ("dt=2024-03-02", "No", "None") in _call(table, "repair_add_partition_meta")
    assert not marker.exists()
    assert ("dt=2024-03-02", "No", "Repaired") in _call(table, "repair_add_partition_meta", REPAIR)
    assert {row[1:] for row in _call(table, "repair_add_partition_meta")} == {("Yes", "None")}
    assert table.seqs() == before


def test_data_files_where_no_partition_can_be_are_not_marked(merge_on_read_table: ChangedTable) -> None:
    table = merge_on_read_table
    before, path = table.seqs(), Path(table.path)
    stray = next((path / "dt=2024-03-02").glob("*.parquet"))
    shutil.copy(stray, path)
    shutil.copytree(stray.parent, path / "dt=2024-03-01" / "copy")
    (path / "dt=2024-03-01" / "copy" / ".hoodie_partition_metadata").unlink()
    shutil.copytree(stray.parent, path / "elsewhere" / "copy")
    (path / "elsewhere" / "copy" / ".hoodie_partition_metadata").unlink()
    shown = _call(table, "repair_add_partition_meta")
    assert [row for row in shown if row[1] == "No"] == [
        (name, "No", "Not a partition") for name in ("", "dt=2024-03-01/copy", "elsewhere/copy")
    ]
    rows = _call(table, "repair_add_partition_meta", REPAIR)
    assert table.seqs() == before
    assert rows == shown


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (("hoodie.table.name=", "hoodie.table.nom="), InvalidArgumentError, "lacks hoodie.table.name"),
        (
            ("recordkey.fields=id", "recordkey.fields=seq"),
            InvalidArgumentError,
            "changes the record key fields",
        ),
        (
            ("hoodie.bootstrap.base.path", "hoodie.none"),
            InvalidArgumentError,
            "changes the bootstrap base path",
        ),
        (
            ("hoodie.table.version", "hoodie.archivelog.folder=old\nhoodie.table.version"),
            InvalidArgumentError,
            "changes the archive directory",
        ),
        (("hoodie.table.version=6", "hoodie.table.version=8"), UnsupportedTableError, "timeline layout 1"),
        (("hoodie.table.version=6", "hoodie.table.version=5"), UnsupportedTableError, "table version 5"),
    ],
)
def test_properties_of_another_table_are_refused(
    merge_on_read_table: ChangedTable,
    tmp_path: Path,
    change: tuple[str, str],
    error: type[Exception],
    message: str,
) -> None:
    properties = Path(merge_on_read_table.path) / ".hoodie" / "hoodie.properties"
    before = properties.read_text()
    new = tmp_path / "new.properties"
    new.write_text(before.replace(*change))
    assert new.read_text() != before
    with pytest.raises(error, match=message):
        _call(merge_on_read_table, "repair_overwrite_hoodie_props", f", new_props_file_path => '{new}'")
    assert properties.read_text() == before


def test_properties_that_were_saved_say_of_statistics_what_the_table_has(
    merge_on_read_table: ChangedTable, tmp_path: Path
) -> None:
    properties = Path(merge_on_read_table.path) / ".hoodie" / "hoodie.properties"
    saved = f"{COLUMN_STATS_ENABLE}=false"
    assert saved in properties.read_text()
    new = tmp_path / "new.properties"
    new.write_text(properties.read_text().replace(saved, f"{COLUMN_STATS_ENABLE}=true"))
    _call(merge_on_read_table, "repair_overwrite_hoodie_props", f", new_props_file_path => '{new}'")
    assert saved in properties.read_text()
