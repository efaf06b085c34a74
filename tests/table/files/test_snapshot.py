from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hudisql.errors import CorruptTableError
from hudisql.format.hfile.bootstrap_index import (
    BootstrapMapping,
    write_bootstrap_index,
)
from hudisql.format.paths.external_file import ExternalFile
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import open_table
from hudisql.table.partitions.listed_partitions import list_partitions
from hudisql.table.timeline import replaced_groups
from hudisql.table.timeline.replaced_groups import replaced_file_groups
from tests.file_slices import base_file_path

COPY_ON_WRITE = [
    "cow_bootstrap_meta",
    "cow_bootstrap_2part",
    "cow_bootstrap_meta_mdt",
    "cow_bootstrap_meta_nonpart",
    "cow_bootstrap_mixed",
    "cow_bootstrap_then_upsert_delete",
    "cow_savepoint_clean",
    "mor_bootstrap_meta",
    "mor_compacted",
]
WITH_LOGS = ["mor_parquet_log", "mor_rollback", "mor_upsert_only_updates"]


def base_name(file_slice: FileSlice) -> str:
    assert file_slice.base_file is not None
    return base_file_path(file_slice).rsplit("/", 1)[-1]


def base_instants(slices: list[FileSlice]) -> dict[str, str]:
    return {found.file_id: found.base_instant_time for found in slices}


@pytest.mark.parametrize("name", COPY_ON_WRITE)
def test_golden_slices_are_the_files_that_the_rows_name(golden, storage: Storage, name: str) -> None:
    described = golden(name)
    slices = load_file_slices(open_table(storage, described.table))
    assert not any(found.has_log_files for found in slices)
    rows_per_file = Counter(
        (row["_hoodie_partition_path"], row["_hoodie_file_name"]) for row in described.meta_rows
    )
    assert {
        (found.partition_path, base_name(found)): pq.read_metadata(base_file_path(found)).num_rows
        for found in slices
    } == rows_per_file


@pytest.mark.parametrize("name", WITH_LOGS)
def test_golden_slices_with_logs_are_those_that_the_rows_name(golden, storage: Storage, name: str) -> None:
    described = golden(name)
    slices = load_file_slices(open_table(storage, described.table))
    # Rows that came from a log name the bare file id, all others their base file.
    named = {row["_hoodie_file_name"] for row in described.meta_rows}
    with_logs = [found for found in slices if found.has_log_files]
    assert with_logs
    assert {base_name(found) for found in slices} <= named
    assert named <= {base_name(found) for found in slices} | {found.file_id for found in with_logs}


def test_logs_of_a_slice_are_in_the_order_of_their_versions(golden, storage: Storage) -> None:
    slices = load_file_slices(open_table(storage, golden("mor_rollback").table))
    (with_logs,) = [found for found in slices if found.has_log_files]
    assert [log.version for log in with_logs.log_files] == [1, 2, 3]
    assert {log.base_instant_time for log in with_logs.log_files} == {"00000000000001"}


@pytest.mark.parametrize("name", [*COPY_ON_WRITE, *WITH_LOGS])
def test_skeletons_carry_an_external_file_of_their_rows_and_other_files_none(
    golden, storage: Storage, name: str
) -> None:
    described = golden(name)
    slices = load_file_slices(open_table(storage, described.table))
    skeletons = [found for found in slices if found.base_instant_time == "00000000000001"]
    assert skeletons
    assert [found for found in slices if found.is_bootstrapped] == skeletons
    for found in skeletons:
        external = found.external_file
        assert external is not None
        assert external.path.startswith(described.source)
        assert external.length == Path(external.path).stat().st_size
        skeleton_rows = pq.read_metadata(base_file_path(found)).num_rows
        assert pq.read_metadata(external.path).num_rows == skeleton_rows


@pytest.mark.parametrize(
    ("name", "files", "logs"),
    [("v6_complexkeygen_hivestyle", 3, 0), ("v6_nonpartitioned", 1, 0), ("v6_trips_8i1u", 3, 1)],
)
def test_slices_of_other_writers_are_the_latest_ones(
    third_party, storage: Storage, name: str, files: int, logs: int
) -> None:
    slices = load_file_slices(open_table(storage, third_party(name)))
    assert len(slices) == files
    assert sum(len(found.log_files) for found in slices) == logs
    directory = Path(third_party(name))
    for found in slices:
        versions = (directory / found.partition_path).glob(f"{found.file_id}_*.parquet")
        assert base_name(found).endswith(max(path.name.rsplit("_", 1)[1] for path in versions))


def test_a_table_as_of_an_earlier_instant_has_its_earlier_slices(golden, storage: Storage) -> None:
    table = open_table(storage, golden("cow_bootstrap_then_upsert_delete").table)
    before = load_file_slices(table, as_of="00000000000001")
    assert set(base_instants(before).values()) == {"00000000000001"}
    assert all(found.is_bootstrapped for found in before)
    between = base_instants(load_file_slices(table, as_of="20261120215156671"))
    now = base_instants(load_file_slices(table))
    assert set(between.values()) == {"00000000000001", "20261120215156671"}
    assert set(now.values()) == {"00000000000001", "20261120215156671", "20261120215206275"}


def test_only_the_partitions_asked_for_are_listed(golden, storage: Storage) -> None:
    table = open_table(storage, golden("cow_bootstrap_2part").table)
    chosen = [partition for partition in list_partitions(table) if partition.values[0] == "eu"]
    slices = load_file_slices(table, chosen)
    assert {found.partition_path for found in slices} == {
        "region=eu/dt=2024-03-01",
        "region=eu/dt=2024-03-02",
    }
    assert all(found.is_bootstrapped for found in slices)
    assert load_file_slices(table, []) == []


def test_files_of_a_failed_commit_are_not_seen(make_table, storage: Storage) -> None:
    directory = make_table()
    directory.partition("dt=a")
    directory.commit("20260101000000000")
    directory.instant("20260102000000000.inflight")
    directory.base_file("dt=a", "f1-0", "20260101000000000")
    directory.base_file("dt=a", "f1-0", "20260102000000000")
    directory.base_file("dt=a", "f2-0", "20260102000000000")
    directory.base_file("dt=a", "f3-0", "20260103000000000")  # an instant that was rolled back
    slices = load_file_slices(open_table(storage, str(directory.path)))
    assert base_instants(slices) == {"f1-0": "20260101000000000"}


def test_files_of_archived_commits_are_seen(make_table, storage: Storage) -> None:
    directory = make_table()
    directory.partition("dt=a")
    directory.commit("20260105000000000")
    directory.base_file("dt=a", "f1-0", "20260101000000000")
    directory.base_file("dt=a", "f2-0", "20260101000000000")
    directory.base_file("dt=a", "f2-0", "20260105000000000")
    slices = load_file_slices(open_table(storage, str(directory.path)))
    assert base_instants(slices) == {"f1-0": "20260101000000000", "f2-0": "20260105000000000"}


def test_a_bootstrap_that_was_archived_still_has_its_external_files(make_table, storage: Storage) -> None:
    directory = make_table(hoodie__bootstrap__base__path="/src")
    directory.partition("dt=a")
    directory.commit("20260105000000000")
    directory.base_file("dt=a", "f1", "00000000000001")
    external = ExternalFile("/src/dt=a/one.parquet", 7, 1)
    mapping = BootstrapMapping("dt=a", "f1", "dt=a", external)
    write_bootstrap_index(storage, str(directory.path), "/src", [mapping], 0)
    (found,) = load_file_slices(open_table(storage, str(directory.path)))
    assert found.external_file == external


def test_replaced_file_groups_are_hidden_from_the_replacement_on(make_table, storage: Storage) -> None:
    directory = make_table()
    directory.partition("dt=a")
    directory.partition("dt=b")
    directory.commit("20260101000000000")
    for partition in ("dt=a", "dt=b"):
        directory.base_file(partition, "old-0", "20260101000000000")
    directory.commit("20260102000000000", "replacecommit", replaced={"dt=a": ("old-0",)})
    directory.base_file("dt=a", "new-0", "20260102000000000")
    table = open_table(storage, str(directory.path))
    assert replaced_file_groups(table) == {("dt=a", "old-0")}
    now = {(found.partition_path, found.file_id) for found in load_file_slices(table)}
    assert now == {("dt=a", "new-0"), ("dt=b", "old-0")}
    before = {
        (found.partition_path, found.file_id) for found in load_file_slices(table, as_of="20260101000000000")
    }
    assert before == {("dt=a", "old-0"), ("dt=b", "old-0")}


def test_a_replacecommit_is_read_once_and_many_side_by_side(
    make_table, storage: Storage, monkeypatch
) -> None:
    directory = make_table()
    directory.partition("dt=a")
    directory.commit("20260101000000000")
    for number in range(40):
        directory.base_file("dt=a", f"old-{number}", "20260101000000000")
        directory.commit(
            f"202601020000000{number:02}", "replacecommit", replaced={"dt=a": (f"old-{number}",)}
        )
    together: list[int] = []
    read: list[str] = []
    read_files, read_one = Storage.read_files, Storage.read

    def count_files(self: Storage, paths: Sequence[str]) -> list[bytes]:
        together.append(len(paths))
        return read_files(self, paths)

    def count_reads(self: Storage, path: str) -> bytes:
        read.append(path)
        return read_one(self, path)

    monkeypatch.setattr(Storage, "read_files", count_files)
    monkeypatch.setattr(Storage, "read", count_reads)
    for as_of, left in ((None, 0), ("20260102000000009", 30), (None, 0)):
        assert len(load_file_slices(open_table(storage, str(directory.path)), as_of=as_of)) == left
    assert together == [40]
    # The schema is in the newest one.
    older = [path for path in read if path.endswith(".replacecommit") and "39.replace" not in path]
    assert len(older) == len(set(older)) == 39
    directory.commit("20260103000000000", "replacecommit", replaced={"dt=a": ("new",)})
    assert len(replaced_file_groups(open_table(storage, str(directory.path)))) == 41
    assert together == [40]
    assert read[-1].endswith("20260103000000000.replacecommit")


def test_what_is_remembered_of_replacecommits_is_bounded(
    make_table, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaced_groups, "MOST_GROUPS", 10)
    monkeypatch.setattr(replaced_groups, "_replaced", known := replaced_groups.ReplacedGroups())
    directory = make_table()
    for number in range(8):
        replaced = {"dt=a": (f"one-{number}", f"two-{number}")}
        directory.commit(f"202601020000000{number:02}", "replacecommit", replaced=replaced)
    for _ in range(2):
        assert len(replaced_file_groups(open_table(storage, str(directory.path)))) == 16
    assert len(known) == 3


def test_a_pending_replacement_hides_nothing(make_table, storage: Storage) -> None:
    directory = make_table()
    directory.partition("dt=a")
    directory.commit("20260101000000000")
    directory.base_file("dt=a", "old-0", "20260101000000000")
    directory.instant("20260102000000000.replacecommit.requested")
    directory.base_file("dt=a", "new-0", "20260102000000000")
    slices = load_file_slices(open_table(storage, str(directory.path)))
    assert base_instants(slices) == {"old-0": "20260101000000000"}


def test_logs_diverted_by_a_pending_compaction_go_on_top_of_the_slice_before(
    make_table, storage: Storage
) -> None:
    directory = make_table(hoodie__table__type="MERGE_ON_READ")
    directory.partition("dt=a")
    directory.commit("20260101000000000", "deltacommit")
    directory.base_file("dt=a", "f-0", "20260101000000000")
    directory.log_file("dt=a", "f-0", "20260101000000000", 2)
    directory.log_file("dt=a", "f-0", "20260101000000000", 10)
    directory.instant("20260103000000000.compaction.requested")
    directory.commit("20260104000000000", "deltacommit")
    directory.log_file("dt=a", "f-0", "20260103000000000", 1)
    unfinished = directory.base_file("dt=a", "f-0", "20260103000000000")
    (found,) = load_file_slices(open_table(storage, str(directory.path)))
    assert found.base_instant_time == "20260101000000000"
    assert found.base_file is not None
    assert base_file_path(found) != unfinished
    assert [(log.base_instant_time, log.version) for log in found.log_files] == [
        ("20260101000000000", 2),
        ("20260101000000000", 10),
        ("20260103000000000", 1),
    ]
    directory.commit("20260103000000000")
    (compacted,) = load_file_slices(open_table(storage, str(directory.path)))
    assert compacted.base_file is not None
    assert compacted.base_file.path == unfinished
    assert [log.version for log in compacted.log_files] == [1]


def test_a_file_group_of_logs_alone_is_a_slice_without_base_file(make_table, storage: Storage) -> None:
    directory = make_table(hoodie__table__type="MERGE_ON_READ")
    directory.partition("dt=a")
    directory.commit("20260101000000000", "deltacommit")
    directory.log_file("dt=a", "f-0", "20260101000000000", 1)
    (found,) = load_file_slices(open_table(storage, str(directory.path)))
    assert found.base_file is None
    assert found.has_log_files


def test_log_files_that_were_rolled_back_are_no_rows(make_table, storage: Storage) -> None:
    directory = make_table(hoodie__table__type="MERGE_ON_READ")
    directory.partition("dt=a")
    directory.commit("20260101000000000", "deltacommit")
    directory.base_file("dt=a", "f-0", "20260101000000000")
    directory.log_file("dt=a", "f-0", "20260101000000000", 1, b"")
    directory.log_file("dt=a", "g-0", "20260101000000000", 1, b"")
    (found,) = load_file_slices(open_table(storage, str(directory.path)))
    assert found.file_id == "f-0"
    assert [log.version for log in found.log_files] == [1]
    assert not found.has_log_files


def test_of_two_files_of_one_commit_the_one_that_it_names_counts(make_table, storage: Storage) -> None:
    directory = make_table()
    directory.partition("dt=a")
    kept = directory.base_file("dt=a", "f-0", "20260101000000000", "0-1-1")
    directory.base_file("dt=a", "f-0", "20260101000000000", "0-1-2")
    directory.commit("20260101000000000", written=(f"dt=a/{Path(kept).name}",))
    (found,) = load_file_slices(open_table(storage, str(directory.path)))
    assert found.base_file is not None
    assert base_file_path(found) == kept


def test_a_skeleton_that_the_index_does_not_name_is_an_error(make_table, storage: Storage) -> None:
    directory = make_table(hoodie__bootstrap__base__path="/src")
    directory.partition("dt=a")
    directory.commit("00000000000001")
    skeleton = directory.base_file("dt=a", "f", "00000000000001")
    with pytest.raises(CorruptTableError, match=Path(skeleton).name):
        load_file_slices(open_table(storage, str(directory.path)))


def test_ten_thousand_files_in_five_hundred_partitions_are_planned_in_a_second_or_so(
    make_table, storage: Storage
) -> None:
    directory = make_table(hoodie__bootstrap__base__path="/src")
    mappings = []
    for number in range(500):
        partition = f"dt={number:03d}"
        directory.partition(partition)
        for file in range(20):
            file_id = f"f{number:03d}x{file:02d}"
            directory.base_file(partition, file_id, "00000000000001")
            external = ExternalFile(f"/src/{partition}/{file}.parquet", 1, 1)
            mappings.append(BootstrapMapping(partition, file_id, partition, external))
    directory.commit("00000000000001")
    write_bootstrap_index(storage, str(directory.path), "/src", mappings, 0)
    began = time.process_time()
    table = open_table(storage, str(directory.path))
    slices = load_file_slices(table, list_partitions(table))
    seconds = time.process_time() - began
    assert len(slices) == 10_000
    assert all(found.is_bootstrapped for found in slices)
    # About 0.5 s alone on one core; the bound leaves room for a busy machine.
    assert seconds < 5
