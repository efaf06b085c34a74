"""What is special of kept metadata tables of versions 6 and 8: forms, names, archives, indexes by name."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import UnsupportedTableError
from hudisql.format.avro.avro_container import load_codec
from hudisql.format.metadata_table import metadata_writing
from hudisql.format.metadata_table.metadata_records import COLUMN_STATS, FILES, RECORD_INDEX
from hudisql.format.metadata_table.metadata_writing import (
    ColumnRange,
    encode_range,
    first_form,
    fits_first_form_values,
)
from hudisql.services.archive.archive_action import archive_instants
from hudisql.services.archive.archive_plan import ArchiveOptions, compacted_until, plan_archive
from hudisql.services.clean.clean_plan import CleanOptions
from hudisql.storage import Storage
from hudisql.table.files.listing_comparison import compare_listings
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.table.metadata_table.kept_metadata_table import find_kept
from hudisql.table.metadata_table.metadata_table import MetadataTable
from hudisql.table.metadata_table.statistics_columns import statistics_columns
from hudisql.table.properties.table_configuration import update_table_properties
from hudisql.write.metadata_table import metadata_compaction
from tests.fault_injection import run_and_kill
from tests.opened import open_at, open_kept
from tests.write.crashed_commits import commit_a_file

Golden = Callable[[str], Any]
MOST_STEPS = 80


@pytest.fixture
def path(golden: Golden, tmp_path: Path) -> str:
    """A table of version 6 with the metadata table that Apache Hudi 0.15 made."""
    return str(shutil.copytree(golden("v6_mor_mdt_logs").table, tmp_path / "table"))


def _kept(path: str) -> MetadataTable:
    metadata = open_kept(path)
    assert [found for found in compare_listings(metadata) if found.differs] == []
    return metadata


def _overwrite(path: str) -> None:
    commit_a_file(Storage(), path, overwrites=True)


def test_ranges_of_the_first_form_have_wrappers_of_their_types() -> None:
    days = first_form(ColumnRange("d", "IntWrapper", 12, 1, 2, 3, 0))
    exact = first_form(ColumnRange("c", "BytesWrapper", 10, b"\x19", b"\xff\x1f", 3, 1, "20,2"))
    none = first_form(ColumnRange("n", "BytesWrapper", 10, None, None, 3, 3, "20,2"))
    stored = [
        load_codec("HoodieMetadata").decode_body(encode_range(found, "file"))["ColumnStatsMetadata"]
        for found in (days, exact, none)
    ]
    assert [found["valueType"] for found in stored] == [None] * 3
    model = "org.apache.hudi.avro.model"
    assert stored[0]["minValue"] == (f"{model}.DateWrapper", {"value": 1})
    assert stored[1]["minValue"] == (f"{model}.DecimalWrapper", {"value": Decimal("0.25")})
    assert stored[1]["maxValue"] == (f"{model}.DecimalWrapper", {"value": Decimal("-2.25")})
    assert stored[2]["maxValue"] is None


def test_columns_of_version_6_are_those_that_the_records_have(path: str) -> None:
    meta = ("time", "seqno")
    columns = statistics_columns(open_at(path), ())
    assert columns is not None
    assert {f"_hoodie_commit_{name}" for name in meta} <= {*columns}
    before = {*columns}
    _overwrite(path)
    assert {*(statistics_columns(open_at(path), ["dt=2024-03-01"]) or ())} == before


def test_deltacommits_of_version_6_are_numbered_log_files_and_compacted(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 3)
    for _ in range(9):
        _overwrite(path)
        assert _kept(path).indexes == (COLUMN_STATS, FILES, RECORD_INDEX)
    metadata = Path(path, ".hoodie/metadata")
    compactions = {found.name.partition(".")[0] for found in metadata.glob(".hoodie/*001.commit")}
    assert len(compactions) >= 2
    for index in (COLUMN_STATS, FILES, RECORD_INDEX):
        bases = {found.stem.rpartition("_")[2] for found in (metadata / index).glob("*.hfile")}
        assert len(bases) == 2
        assert bases <= {*compactions, "00000000000000010"}


def test_instants_of_version_6_are_archived_up_to_a_compaction_of_the_metadata_table(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 100)
    options = ArchiveOptions(1, 2, clean=CleanOptions(commits_retained=1))
    for _ in range(5):
        _overwrite(path)
    assert compacted_until(open_at(path)) == ""
    assert plan_archive(open_at(path), options) == []
    with pytest.raises(UnsupportedTableError, match="has not compacted all instants up to"):
        archive_instants(open_at(path), list(open_at(path).timeline.commits[:1]), lambda: None)
    monkeypatch.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 1)
    _overwrite(path)
    table = open_at(path)
    bound = compacted_until(table)
    assert bound == f"{table.timeline.commits[-2].timestamp}001"
    archive_instants(table, list(table.timeline.commits[:3]), lambda: None)
    assert len(open_at(path).timeline.commits) < len(table.timeline.commits)
    _overwrite(path)
    _kept(path)


def test_decimals_of_too_many_digits_drop_the_statistics_alone(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The form of version V1 has 15 digits before the point."""
    within, beyond = (
        ColumnRange("c", "BytesWrapper", 10, None, bound.to_bytes(16, "big", signed=True), 1, 0, "20,2")
        for bound in (10**17 - 1, -(10**17))
    )
    assert fits_first_form_values(within)
    assert not fits_first_form_values(beyond)
    monkeypatch.setattr(metadata_writing, "FIRST_DIGITS", -2)
    _overwrite(path)
    assert _kept(path).indexes == (FILES, RECORD_INDEX)


@pytest.mark.parametrize("name", ["v6_mor_mdt_logs", "v9_cow_mdt_compacted"])
def test_an_index_that_is_not_kept_is_dropped_by_name(golden: Golden, tmp_path: Path, name: str) -> None:
    path = str(shutil.copytree(golden(name).table, tmp_path / "table"))
    kept = open_at(path).properties.metadata_partitions
    directory = Path(path, ".hoodie/metadata/bloom_filters")
    directory.mkdir()
    changes = {"hoodie.table.metadata.partitions": ",".join(sorted({*kept, "bloom_filters"}))}
    update_table_properties(Storage(), path, changes)
    assert find_kept(open_at(path)) is None
    _overwrite(path)
    assert _kept(path).indexes == kept
    assert not directory.exists()


def test_the_list_of_files_of_a_bootstrapped_table_of_version_6_is_kept(
    golden: Golden, tmp_path: Path
) -> None:
    path = str(shutil.copytree(golden("cow_bootstrap_meta_mdt").table, tmp_path / "table"))
    update_table_properties(Storage(), path, {"hoodie.table.metadata.partitions": "column_stats,files"})
    _overwrite(path)
    assert _kept(path).indexes == (FILES,)


def _compact(table: HudiTable) -> bool:
    return metadata_compaction.prepare_metadata_table(table)


def test_a_killed_compaction_of_version_6_is_undone(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _overwrite(path)
    killed = str(tmp_path / "killed")
    for step in range(MOST_STEPS):
        monkeypatch.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 1)
        shutil.copytree(path, killed)
        is_killed = run_and_kill(
            killed,
            lambda storage: metadata_compaction.prepare_metadata_table(open_table(storage, killed)),
            step,
        )
        monkeypatch.undo()
        _overwrite(killed)
        _kept(killed)
        shutil.rmtree(killed)
        if not is_killed:
            return
    raise AssertionError("the compaction never came to its end")


def test_a_log_file_with_blocks_of_a_failed_write_and_others_drops_the_metadata_table(path: str) -> None:
    """Apache Hudi appends to log files where the storage can; such a block cannot be taken out again."""
    commit_a_file(Storage(), path)
    timeline = Path(path, ".hoodie")
    last = open_at(path).timeline.commits[-1]
    Path(timeline, f"{last.timestamp}.deltacommit").unlink()
    logs = sorted(Path(timeline, "metadata/files").glob(".files-*.log.*"))
    newest = max(logs, key=lambda log: int(log.name.split(".log.")[1].split("_")[0]))
    before = next(log for log in logs if log.name.split(".log.")[1].startswith("2_"))
    before.write_bytes(before.read_bytes() + newest.read_bytes())
    newest.unlink()
    _overwrite(path)
    assert open_at(path).properties.metadata_partitions == ()
