"""Metadata tables that Apache Hudi 0.15 (version 6) and 1.2 (version 9) wrote, and what they hold."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import CorruptTableError
from hudisql.format.metadata_table.column_statistics import ColumnStatistics, column_statistics
from hudisql.format.metadata_table.metadata_records import COLUMN_STATS, FILES, PARTITION_STATS
from hudisql.format.paths.file_names import log_file_name
from hudisql.table.files.listing_comparison import compare_listings
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.metadata_table.merged_records import read_merged_records
from hudisql.table.metadata_table.metadata_listing import listed_by_metadata
from hudisql.table.metadata_table.metadata_table import MetadataTable, open_metadata_table
from hudisql.table.partitions.listed_partitions import list_partitions, partitions_at
from hudisql.table.partitions.table_directories import directories_at_depth
from tests.opened import open_at
from tests.requests.counted_requests import counted_requests

GOLDEN = Path(__file__).parents[2] / "golden"
NAMES = ["v6_mor_mdt_logs", "v9_cow_mdt_compacted", "v9_cow_bootstrap_default_stats"]


def _open(path: str | Path) -> MetadataTable:
    metadata = open_metadata_table(open_at(path))
    assert metadata is not None
    return metadata


def _expected(name: str) -> dict[str, Any]:
    described: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text())["mdt"]
    return described


def _sizes(metadata: MetadataTable, path: str) -> dict[str, int]:
    listed = metadata.list_files([path])[path]
    return dict(zip(listed.names.to_pylist(), listed.sizes.to_pylist(), strict=True))


def _simple(value: Any) -> Any:
    """A value without the names of Hudi's wrappers, bytes and decimals as the golden tables describe them."""
    if isinstance(value, dict) and "typeOrdinal" not in value:
        (value,) = [each for each in value.values() if each is not None]
        return _simple(value["value"] if isinstance(value, dict) else value)
    if isinstance(value, bytes):
        return "0x" + value.hex()
    return str(value) if isinstance(value, Decimal) else value


@pytest.mark.parametrize("name", NAMES)
def test_the_merged_records_are_those_of_hudi(golden: Callable[[str], Any], name: str) -> None:
    metadata, expected = _open(golden(name).table), _expected(name)
    assert sorted(metadata.indexes) == sorted(expected["metadata_partitions"].split(","))
    assert {COLUMN_STATS, FILES} <= expected["partitions"].keys()
    for index, records in expected["partitions"].items():
        if index == FILES:
            continue
        for found in (read_merged_records(metadata, index), metadata.read_records(index)):
            assert found.keys.to_pylist() == [record["key"] for record in records]
            for record, value in zip(records, found.values.to_pylist(), strict=True):
                (fields,) = [each for each in record.values() if isinstance(each, dict)]
                for field, each in fields.items():
                    assert _simple(value[field]) == _simple(each), (record["key"], field)
        keys = found.keys.to_pylist()[1::3]
        assert metadata.read_records(index, keys).keys.to_pylist() == keys


@pytest.mark.parametrize("name", NAMES)
def test_the_listing_is_that_of_hudi_and_of_the_storage(golden: Callable[[str], Any], name: str) -> None:
    metadata = _open(golden(name).table)
    paths = metadata.list_partitions()
    assert paths == ["dt=2024-03-01", "dt=2024-03-02", "dt=2024-03-03"]
    listings = {
        record["key"]: record["filesystemMetadata"] for record in _expected(name)["partitions"][FILES]
    }
    for path in paths:
        assert _sizes(metadata, path) == {
            file: each["size"] for file, each in listings[path].items() if not each["isDeleted"]
        }
    assert [each for each in compare_listings(metadata) if each.differs] == []
    assert metadata.list_files(["dt=none"]) == {}


def test_statistics_have_the_values_of_their_types(golden: Callable[[str], Any]) -> None:
    newer = _open(golden("v9_cow_mdt_compacted").table)
    of_columns = {
        each.column_name: each
        for each in column_statistics(newer.read_records(PARTITION_STATS))
        if each.file_name == "dt=2024-03-01"
    }
    assert of_columns["amt"] == ColumnStatistics(
        "dt=2024-03-01", "amt", Decimal("0.25"), Decimal("12.25"), 5, 0
    )
    assert (of_columns["d"].least, of_columns["d"].greatest) == (date(2024, 1, 1), date(2024, 1, 13))
    assert of_columns["ts"].greatest == datetime(2024, 1, 1, 12, tzinfo=UTC)
    assert (of_columns["id"].least, of_columns["seq"].greatest) == ("k0000", 312)
    assert of_columns["name"].nulls == 1
    older = list(column_statistics(_open(golden("v6_mor_mdt_logs").table).read_records(COLUMN_STATS)))
    assert {(each.least, each.nulls) for each in older if each.column_name == "name"} >= {(None, 1)}
    assert {each.least for each in older if each.column_name == "d"} >= {date(2024, 1, 1)}


@pytest.mark.parametrize(
    ("name", "state", "is_read"),
    [
        ("v6_mor_mdt_logs", "completed", True),
        ("v6_mor_mdt_logs", "pending", False),
        ("v6_mor_mdt_logs", "gone", False),
        ("v9_cow_mdt_compacted", "pending", False),
        ("v9_cow_mdt_compacted", "gone", True),
    ],
)
def test_records_of_an_unfinished_commit_do_not_count(
    golden: Callable[[str], Any], tmp_path: Path, name: str, state: str, is_read: bool
) -> None:
    table = Path(shutil.copytree(golden(name).table, tmp_path / "table"))
    timeline = table / ".hoodie" / ("timeline" if name.startswith("v9") else "")
    completed = sorted(
        path
        for path in timeline.iterdir()
        if path.suffix in (".deltacommit", ".commit", ".clean") and path.is_file()
    )[-1]
    whole = {path: _sizes(_open(table), path) for path in _open(table).list_partitions()}
    if state != "completed":
        completed.unlink()
    if state == "gone":
        for path in timeline.glob(f"{completed.name[:17]}*"):
            path.unlink()
    metadata = _open(table)
    assert metadata.counts(completed.name[:17]) is is_read
    now = {path: _sizes(metadata, path) for path in metadata.list_partitions()}
    assert (now == whole) is is_read


def test_a_metadata_table_that_is_gone_is_an_error_with_the_way_on(
    golden: Callable[[str], Any], tmp_path: Path
) -> None:
    table = Path(shutil.copytree(golden("v9_cow_mdt_compacted").table, tmp_path / "table"))
    base_file = max(
        (table / ".hoodie/metadata/files").glob("*.hfile"), key=lambda path: path.name.rpartition("_")[2]
    )
    base_file.write_bytes(base_file.read_bytes()[:-100] + bytes(100))
    with pytest.raises(CorruptTableError, match=r"cannot read .*files-0000-0.*: it has no trailer"):
        _open(table).list_partitions()
    shutil.rmtree(table / ".hoodie/metadata")
    with pytest.raises(CorruptTableError, match=r"name a metadata table, and .* is none") as caught:
        _open(table)
    assert "drops it" in str(caught.value.hint)


def test_a_table_without_a_metadata_table_has_none(golden: Callable[[str], Any]) -> None:
    assert open_metadata_table(open_at(golden("mor_compacted").table)) is None


@pytest.mark.parametrize("name", NAMES)
def test_slices_of_the_listing_are_those_of_the_storage(golden: Callable[[str], Any], name: str) -> None:
    table = open_at(golden(name).table)
    listed = listed_by_metadata(table).listed_once()
    assert listed.lister is not None
    assert list_partitions(listed) == list_partitions(table)
    assert directories_at_depth(listed, 1) == directories_at_depth(table, 1)
    assert load_file_slices(listed) == load_file_slices(table)
    assert [each.path for each in partitions_at(listed, ["dt=2024-03-02", "dt=none"])] == ["dt=2024-03-02"]


def test_a_listing_that_is_not_that_of_the_storage_is_an_error(
    golden: Callable[[str], Any], tmp_path: Path
) -> None:
    path = Path(shutil.copytree(golden("v9_cow_mdt_compacted").table, tmp_path / "table"))
    table = open_at(path)
    (partition, *_) = list_partitions(table)
    (file_slice, *_) = load_file_slices(table, [partition])
    assert file_slice.base_file is not None
    Path(file_slice.base_file.path).unlink()
    with pytest.raises(CorruptTableError, match="lists other files of partition 'dt=2024-03-01'") as caught:
        load_file_slices(listed_by_metadata(table), [partition])
    assert "SET hoodie.metadata.enable=false" in str(caught.value.hint)
    differing = [each for each in compare_listings(_open(path)) if each.differs]
    assert [(each.name, each.stored_bytes) for each in differing] == [
        (file_slice.base_file.path.rpartition("/")[2], None)
    ]


def test_the_requests_of_a_listing_do_not_follow_the_partitions(golden: Callable[[str], Any]) -> None:
    path = golden("v9_cow_mdt_compacted").table
    table = open_at(path)
    sent = []
    for partitions in (list_partitions(table)[:1], list_partitions(table)):
        with counted_requests(path) as requests:
            load_file_slices(listed_by_metadata(table).listed_once(), partitions)
        sent.append(len(requests.sent))
    assert sent[0] == sent[1]


@pytest.mark.parametrize("name", NAMES)
def test_a_metadata_table_that_lacks_a_commit_is_not_used(
    golden: Callable[[str], Any], tmp_path: Path, name: str
) -> None:
    path = Path(shutil.copytree(golden(name).table, tmp_path / "table"))
    assert _open(path).is_current
    commit = open_at(path).timeline.commits[-1].timestamp
    for file in (path / ".hoodie/metadata/.hoodie").rglob(f"{commit}*"):
        file.unlink()
    assert not _open(path).is_current
    table = open_at(path)
    assert listed_by_metadata(table).lister is None
    # A later instant that makes another index lists no files.
    timeline = path / ".hoodie/metadata/.hoodie"
    if table.timeline.layout.has_completion_times:
        (timeline / "timeline/00000000000000009_99991231235959999.deltacommit").touch()
    else:
        (timeline / f"{commit}010.deltacommit").touch()
    assert not _open(path).is_current


def test_a_compaction_right_after_an_index_was_made_is_read(
    golden: Callable[[str], Any], tmp_path: Path
) -> None:
    # Hudi 0.15 adds 001 to the instant of the last deltacommit, here that of an index, which has 20 digits.
    path = Path(shutil.copytree(golden("v6_mor_mdt_logs").table, tmp_path / "table"))
    last = open_at(path).timeline.commits[-1].timestamp
    timeline, files = path / ".hoodie/metadata/.hoodie", path / ".hoodie/metadata/files"
    (base_file,) = files.glob("*.hfile")
    for state in (".deltacommit", ".deltacommit.requested", ".deltacommit.inflight"):
        (timeline / f"{last}010{state}").touch()
    for state in (".commit", ".compaction.requested", ".compaction.inflight"):
        (timeline / f"{last}010001{state}").touch()
    base_file.rename(files / f"files-0000-0_0-1-1_{last}010001.hfile")
    metadata = _open(path)
    assert metadata.is_current
    (file_slice,) = metadata.latest_slices(FILES)
    assert (file_slice.base_instant_time, file_slice.log_files) == (f"{last}010001", ())


def test_a_listing_without_partitions_is_an_error(golden: Callable[[str], Any], tmp_path: Path) -> None:
    table = open_at(golden("v9_cow_mdt_compacted").table)
    path = Path(shutil.copytree(table.base_path, tmp_path / "table"))
    listed = listed_by_metadata(open_at(path))
    shutil.rmtree(path / ".hoodie/metadata")
    with pytest.raises(CorruptTableError, match="does not list the partitions") as caught:
        load_file_slices(listed)
    assert "run this again" in str(caught.value.hint)


def test_log_files_of_unfinished_commits_are_no_difference(
    golden: Callable[[str], Any], tmp_path: Path
) -> None:
    path = Path(shutil.copytree(golden("v6_mor_mdt_logs").table, tmp_path / "table"))
    table = listed_by_metadata(open_at(path))
    slices = load_file_slices(table)
    for number, found in enumerate(slices):
        name = log_file_name(found.file_id, found.base_instant_time, 9, "0-0-0")
        (path / found.partition_path / name).write_bytes(b"unfinished")
        new = log_file_name(f"{number}-new", "20991231000000000", 1, "0-0-0")
        (path / found.partition_path / new).write_bytes(b"unfinished")
    assert load_file_slices(table) == slices
