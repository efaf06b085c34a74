"""Past states that are gone: one error that names the earliest state that can be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hudisql.errors import NoSuchStateError
from hudisql.format.avro.avro_container import load_codec
from hudisql.format.timeline.archived_log_files import archived_entry, encode_archive_file
from hudisql.format.timeline.commit_metadata import CommitMetadata
from hudisql.format.timeline.instant import CLEAN, REPLACE_COMMIT, Instant, InstantState
from hudisql.storage import Storage
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.history.past_state import check_past_state, check_timeline_reaches
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.table.partitions.listed_partitions import list_partition_paths

FIRST, SECOND, THIRD = (f"2026010{day}000000000" for day in (1, 2, 3))


def check(table: HudiTable, as_of: str) -> None:
    slices = load_file_slices(table, as_of=as_of)
    check_past_state(table, as_of, list_partition_paths(table), slices, wanted=set)


def clean_metadata(files: dict[str, list[str]], retained: str = "") -> bytes:
    partitions = {
        partition: {
            "partitionPath": partition,
            "policy": "KEEP_LATEST_COMMITS",
            "deletePathPatterns": names,
            "successDeleteFiles": names,
            "failedDeleteFiles": [],
            "isPartitionDeleted": False,
        }
        for partition, names in files.items()
    }
    record = {
        "startCleanTime": "20260104000000000",
        "timeTakenInMillis": 1,
        "totalFilesDeleted": 1,
        "earliestCommitToRetain": retained,
        "lastCompletedCommitTimestamp": "",
        "partitionMetadata": partitions,
        "version": 2,
        "bootstrapPartitionMetadata": None,
        "extraMetadata": None,
    }
    return load_codec("HoodieCleanMetadata").encode(record)


def test_states_that_a_clean_of_apache_hudi_deleted_are_gone_and_savepointed_ones_are_not(
    golden: Callable[[str], Any], storage: Storage
) -> None:
    table = open_table(storage, golden("cow_savepoint_clean").table)
    instants = [commit.timestamp for commit in table.timeline.commits]
    readable = [instant for instant in instants if _is_readable(table, instant)]
    assert readable[0] in table.timeline.savepoints
    assert readable == [readable[0], instants[-1]]
    with pytest.raises(NoSuchStateError, match=f"earliest remaining state is that of {readable[0]}"):
        check(table, "00000000000001")


def _is_readable(table: HudiTable, as_of: str) -> bool:
    try:
        check(table, as_of)
    except NoSuchStateError:
        return False
    return True


def test_a_state_before_the_first_commit_never_was(make_table, storage: Storage) -> None:
    directory = make_table()
    directory.partition("dt=a")
    with pytest.raises(NoSuchStateError, match="it has no commit yet"):
        check_timeline_reaches(open_table(storage, str(directory.path)), FIRST)
    directory.commit(SECOND)
    with pytest.raises(NoSuchStateError, match=f"its first commit, {SECOND}, is the earliest"):
        check(open_table(storage, str(directory.path)), FIRST)
    check(open_table(storage, str(directory.path)), SECOND)


def test_a_state_whose_instants_are_archived_is_gone_but_for_savepoints(make_table, storage: Storage) -> None:
    directory = make_table()
    directory.partition("dt=a")
    directory.commit(FIRST)
    directory.instant(f"{FIRST}.savepoint")
    directory.commit(THIRD)
    directory.base_file("dt=a", "f-0", FIRST)
    directory.file(".hoodie/archived/.commits_.archive.1_1-0-1", b"#HUDI#")
    table = open_table(storage, str(directory.path))
    check(table, FIRST)
    check(table, THIRD)
    with pytest.raises(NoSuchStateError, match=f"instants are archived; .* is that of {THIRD}"):
        check(table, SECOND)


def test_only_states_that_showed_a_deleted_file_are_gone(make_table, storage: Storage) -> None:
    directory = make_table()
    for partition in ("dt=a", "dt=b"):
        directory.partition(partition)
        directory.base_file(partition, "f-0", FIRST)
    for time in (FIRST, SECOND, THIRD):
        directory.commit(time)
    directory.base_file("dt=a", "f-0", SECOND)
    (directory.path / f"dt=a/f-0_0-0-0_{FIRST}.parquet").unlink()
    cleaned = clean_metadata({"dt=a": [f"f-0_0-0-0_{FIRST}.parquet"]})
    directory.instant("20260104000000000.clean", cleaned)
    table = open_table(storage, str(directory.path))
    with pytest.raises(NoSuchStateError, match=f"files of 1 file groups .* dt=a/f-0; .* is that of {SECOND}"):
        check(table, FIRST)
    check(table, SECOND)
    # Nothing of this partition was deleted.
    check_past_state(table, FIRST, ["dt=b"], [])


def test_a_clean_that_is_pending_may_have_deleted_some_files(make_table, storage: Storage) -> None:
    directory = make_table()
    directory.partition("dt=a")
    directory.commit(FIRST)
    directory.commit(SECOND)
    first = directory.base_file("dt=a", "f-0", FIRST)
    directory.base_file("dt=a", "f-0", SECOND)
    info = {"filePath": f"file:{first}", "isBootstrapBaseFile": False}
    plan = {
        "earliestInstantToRetain": None,
        "lastCompletedCommitTimestamp": "",
        "policy": "KEEP_LATEST_COMMITS",
        "filesToBeDeletedPerPartition": None,
        "version": 2,
        "filePathsToBeDeletedPerPartition": {"dt=a": [info]},
        "partitionsToBeDeleted": None,
        "extraMetadata": None,
    }
    directory.instant(f"{THIRD}.clean.requested", load_codec("HoodieCleanerPlan").encode(plan))
    directory.instant(f"{THIRD}.clean.inflight", load_codec("HoodieCleanerPlan").encode(plan))
    check(open_table(storage, str(directory.path)), FIRST)
    (directory.path / f"dt=a/f-0_0-0-0_{FIRST}.parquet").unlink()
    with pytest.raises(NoSuchStateError):
        check(open_table(storage, str(directory.path)), FIRST)
    check(open_table(storage, str(directory.path)), SECOND)


def test_a_partition_that_a_clean_deleted_is_part_of_the_states_before(make_table, storage: Storage) -> None:
    directory = make_table()
    directory.partition("dt=a")
    directory.base_file("dt=a", "f-0", FIRST)
    for time in (FIRST, SECOND):
        directory.commit(time)
    directory.instant("20260104000000000.clean", clean_metadata({"dt=b": [f"f-1_0-0-0_{FIRST}.parquet"]}))
    table = open_table(storage, str(directory.path))
    slices = load_file_slices(table, as_of=FIRST)
    with pytest.raises(NoSuchStateError, match="such as dt=b/f-1"):
        check(table, FIRST)
    # The query asks for another partition.
    check_past_state(table, FIRST, ["dt=a"], slices, lambda gone: set(gone) - {"dt=b"})


def test_of_an_archived_table_cleaned_by_versions_only_later_states_are_known(
    make_table, storage: Storage
) -> None:
    directory = make_table()
    directory.partition("dt=a")
    directory.base_file("dt=a", "f-0", FIRST)
    for time in (FIRST, SECOND, THIRD):
        directory.commit(time)
    directory.instant(f"{FIRST}.savepoint")
    directory.instant("20260102000000001.clean", clean_metadata({}))
    check(open_table(storage, str(directory.path)), SECOND)
    directory.file(".hoodie/archived/.commits_.archive.1_1-0-1", b"#HUDI#")
    table = open_table(storage, str(directory.path))
    with pytest.raises(NoSuchStateError, match="by a clean that is archived"):
        check(table, SECOND)
    check(table, FIRST)
    check(table, THIRD)


def test_what_an_archived_clean_deleted_is_gone_whatever_later_cleans_retain(
    make_table, storage: Storage
) -> None:
    directory = make_table()
    directory.partition("dt=a")
    for time in (FIRST, SECOND, THIRD):
        directory.commit(time)
    directory.base_file("dt=a", "f-0", THIRD)
    cleaned = clean_metadata({"dt=a": [f"f-0_0-0-0_{FIRST}.parquet", f"f-0_0-0-0_{SECOND}.parquet"]})
    clean = Instant("20260104000000000", CLEAN, InstantState.COMPLETED)
    archive = encode_archive_file([archived_entry(clean, cleaned, None, "")])
    directory.file(".hoodie/archived/.commits_.archive.1_1-0-1", archive)
    table = open_table(storage, str(directory.path))
    for time in (FIRST, SECOND):
        with pytest.raises(NoSuchStateError, match=f"files of 1 file groups .*; .* is that of {THIRD}"):
            check(table, time)
    check(table, THIRD)
    # A longer retention was set since.
    directory.instant("20260105000000000.clean", clean_metadata({"dt=b": []}, FIRST))
    with pytest.raises(NoSuchStateError, match=f"files of 1 file groups .*; .* is that of {THIRD}"):
        check(open_table(storage, str(directory.path)), SECOND)


def test_file_groups_that_an_archived_commit_replaced_are_not_missed(make_table, storage: Storage) -> None:
    directory = make_table()
    directory.partition("dt=a")
    directory.commit(THIRD)
    directory.base_file("dt=a", "f-1", THIRD)
    replacing = CommitMetadata(
        partition_to_write_stats={}, partition_to_replace_file_ids={"dt=a": ("f-0",)}
    ).to_json()
    replacement = Instant(SECOND, REPLACE_COMMIT, InstantState.COMPLETED)
    archive = encode_archive_file([archived_entry(replacement, replacing, None, "")])
    directory.file(".hoodie/archived/.commits_.archive.1_1-0-1", archive)
    cleaned = clean_metadata({"dt=a": [f"f-0_0-0-0_{FIRST}.parquet"]}, THIRD)
    directory.instant("20260104000000000.clean", cleaned)
    check(open_table(storage, str(directory.path)), THIRD)
