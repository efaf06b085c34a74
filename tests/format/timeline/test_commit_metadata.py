from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from hudisql.errors import CorruptTableError
from hudisql.format.timeline.commit_metadata import (
    CommitMetadata,
    RuntimeStats,
    WriteStat,
    extra_metadata_at_end,
    extra_metadata_in,
    parse_commit_document,
    parse_commit_metadata,
    read_commit_metadata,
    replaced_file_ids_in,
)
from hudisql.format.timeline.commit_metadata_avro import render_commit_metadata
from hudisql.format.timeline.instant import Instant, InstantState
from hudisql.format.timeline.timeline_layout import LAYOUT_V1, instant_path
from hudisql.storage import Storage

GOLDENS = [
    "cow_bootstrap_meta",
    "cow_bootstrap_2part",
    "cow_bootstrap_mixed",
    "cow_bootstrap_then_upsert_delete",
    "cow_savepoint_clean",
    "mor_compacted",
    "mor_rollback",
    "mor_upsert_only_updates",
]


@pytest.mark.parametrize("name", GOLDENS)
def test_commits_of_apache_hudi_are_written_again_byte_for_byte(golden, name: str) -> None:
    directory = Path(golden(name).table) / ".hoodie"
    files = [*directory.glob("*commit"), *directory.glob("*.inflight")]
    contents = [content for file in files if (content := file.read_bytes()) and content[:1] == b"{"]
    assert contents
    for content in contents:
        assert parse_commit_metadata(content).to_json() == content


def test_a_write_of_a_skeleton_is_read_with_all_its_fields(golden, storage: Storage) -> None:
    commit = Instant("00000000000001", "commit", InstantState.COMPLETED)
    path = instant_path(golden("cow_bootstrap_meta").table, LAYOUT_V1, commit)
    found = read_commit_metadata(storage, path)
    stats = list(found.write_stats)
    assert found.operation_type == "BOOTSTRAP"
    assert sum(stat.num_inserts for stat in stats) == len(golden("cow_bootstrap_meta").rows)
    assert {stat.prev_commit for stat in stats} == {"null"}
    assert all(stat.file_size_in_bytes == stat.total_write_bytes > 0 for stat in stats)
    assert found.schema == extra_metadata_in(storage.read(path), path)["schema"]


def test_a_write_into_a_log_names_its_base_file(golden, storage: Storage) -> None:
    table = golden("mor_upsert_only_updates").table
    commit = Instant("20261120215313869", "deltacommit", InstantState.COMPLETED)
    (stat,) = read_commit_metadata(storage, instant_path(table, LAYOUT_V1, commit)).write_stats
    assert stat.log_write is not None
    assert stat.log_write.log_version == 2
    assert len(stat.log_write.log_files) == 2
    assert str(stat.log_write.base_file).endswith("_00000000000001.parquet")


def test_replaced_file_groups_come_last_and_are_read_back() -> None:
    written = CommitMetadata(
        partition_to_write_stats={
            "dt=a": (WriteStat(file_id="new", path="dt=a/new", partition_path="dt=a", runtime_stats=None),)
        },
        extra_metadata={"schema": "{}", "note": 'a "quoted" ünicode\n'},
        operation_type="INSERT_OVERWRITE",
        partition_to_replace_file_ids={"dt=a": ("old-0", "old-1"), "dt=b": ()},
    )
    text = written.to_json().decode()
    assert text.endswith(
        '  "partitionToReplaceFileIds" : {\n    "dt=a" : [ "old-0", "old-1" ],\n    "dt=b" : [ ]\n  }\n}'
    )
    assert parse_commit_metadata(text.encode()) == written
    assert replaced_file_ids_in(text.encode(), "path") == {"dt=a": ["old-0", "old-1"], "dt=b": []}


def test_fields_of_newer_writers_are_ignored() -> None:
    stat = WriteStat(
        file_id="f", path="p", partition_path="", runtime_stats=RuntimeStats(total_create_time=3)
    )
    written = CommitMetadata(partition_to_write_stats={"": (stat,)}, operation_type="UPSERT")
    text = written.to_json().decode().replace('"fileId"', '"numUpdatedColumns" : 1,\n      "fileId"')
    assert parse_commit_metadata(text.encode()) == written


def test_an_empty_inflight_file_is_empty_metadata() -> None:
    assert parse_commit_metadata(b"").partition_to_write_stats == {}


@pytest.mark.parametrize("content", [b"{", b"[]", b"Obj\x01", b'{"partitionToWriteStats":{"a":[{}]}}'])
def test_damaged_commits_are_named(storage: Storage, tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".hoodie").mkdir()
    (tmp_path / ".hoodie" / "00000000000009.commit").write_bytes(content)
    commit = Instant("00000000000009", "commit", InstantState.COMPLETED)
    with pytest.raises(CorruptTableError, match=r"00000000000009\.commit"):
        read_commit_metadata(storage, instant_path(str(tmp_path), LAYOUT_V1, commit))


def test_ten_thousand_write_stats_are_laid_out_in_time() -> None:
    stat = WriteStat(file_id="f", path="p", partition_path="dt=a")
    stats = tuple(replace(stat, file_id=f"f{number}") for number in range(10_000))
    began = time.process_time()
    content = CommitMetadata(partition_to_write_stats={"dt=a": stats}).to_json()
    assert len(parse_commit_metadata(content).partition_to_write_stats["dt=a"]) == 10_000
    assert time.process_time() - began < 5


@pytest.mark.parametrize("name", GOLDENS)
def test_the_end_of_a_commit_has_its_extra_metadata(golden, name: str) -> None:
    for file in (Path(golden(name).table) / ".hoodie").glob("*commit"):
        content = file.read_bytes()
        if content:
            start = content.rindex(b'"extraMetadata"')
            whole = extra_metadata_in(content, str(file))
            assert extra_metadata_at_end(content[start:]) == extra_metadata_at_end(content) == whole
            assert extra_metadata_at_end(content[start + 1 :]) is None


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b'{"a": 1, "extraMetadata": {"k": "v"}, "operationType": "X"}', {"k": "v"}),
        (
            b'{"extraMetadata": {"k": "\\"extraMetadata\\": {\\"b\\": 1}"}}',
            {"k": '"extraMetadata": {"b": 1}'},
        ),
        (b'{"extraMetadata": {"a": "b"}, "z": {"extraMetadata": {"c": "d"}}}', None),
        (b'{"extraMetadata": {"k": "v"}, "operationTyp', None),
        (b'{"extraMetadata": null, "operationType": "X"}', None),
    ],
)
def test_only_the_outermost_extra_metadata_counts(content: bytes, found: dict[str, str] | None) -> None:
    assert extra_metadata_at_end(content) == found


@pytest.mark.parametrize("stats", [1, 30_000])
def test_members_of_avro_are_those_of_the_whole_document(stats: int) -> None:
    stat = WriteStat(file_id="f" * 36, path="dt=a/name.parquet", partition_path="dt=a", num_writes=7)
    metadata = CommitMetadata(
        partition_to_write_stats={"dt=a": (stat,) * stats},
        extra_metadata={"schema": "{}", "empty": ""},
        operation_type="INSERT_OVERWRITE",
        partition_to_replace_file_ids={"dt=a": ("old-0", "old-1"), "dt=b": ()},
    )
    content = render_commit_metadata(metadata)
    document = parse_commit_document(content)
    assert extra_metadata_in(content, "path") == document["extraMetadata"]
    assert replaced_file_ids_in(content, "path") == document["partitionToReplaceFileIds"]
    for damaged in (content[:-40], content[: len(content) // 2], content.replace(b"name.parquet", b"", 1)):
        with pytest.raises(CorruptTableError, match="cannot decode path"):
            extra_metadata_in(damaged, "path")
