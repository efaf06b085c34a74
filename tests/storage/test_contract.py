"""What every store must do, written once and run on each."""

from __future__ import annotations

import multiprocessing
import pickle
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.errors import NoSuchPathError, PathExistsError, StorageError
from hudisql.storage import Storage, join, parent_of, scheme_of
from hudisql.storage.paths import S3_SCHEMES, staged_path
from tests.storage.conftest import Store

ODD_NAMES = (
    "a b",
    "a%20b",
    "100%",
    "ä-ü-中-😀",
    "day=2024-01-01",
    "k=%3D",
    "plus+x",
    "q?x",
    "hash#y",
    "quo'te\"",
    "br{a}[c]",
    "am&p;",
    "t~z@,!$()",
)


def test_small_files_are_written_read_replaced_and_deleted(store: Store) -> None:
    path = join(store.root, "a", "b", "file")
    store.storage.write(path, b"first")
    store.storage.write(path, b"second")
    assert store.storage.read(path) == b"second"
    info = store.storage.info(path)
    assert info is not None
    assert (info.path, info.name, info.length, info.is_directory) == (path, "file", 6, False)
    assert abs(info.modification_time_ms / 1000 - time.time()) < 60
    store.storage.delete_file(path)
    store.storage.delete_file(path)
    assert not store.storage.exists(path)


def test_a_directory_is_there_when_something_is_in_it_or_it_was_made(store: Store) -> None:
    store.storage.write(join(store.root, "full", "deep", "file"), b"1")
    store.storage.make_directories(join(store.root, "made", "empty"))
    store.storage.make_directories(join(store.root, "made", "empty"))
    for directory in ("full", "full/deep", "made", "made/empty"):
        info = store.storage.info(join(store.root, directory))
        assert info is not None
        assert info.is_directory
    assert store.storage.list_directory(join(store.root, "made", "empty")) == []
    assert store.storage.list_files(join(store.root, "made")) == []
    assert not store.storage.exists(join(store.root, "ful"))


def test_listing_is_sorted_names_files_and_directories_and_agrees_with_info(store: Store) -> None:
    for name in ("b/1", "a/x/2", "a/x-3", "c"):
        store.storage.write(join(store.root, name), name.encode())
    listed = store.storage.list_directory(store.root)
    assert [(entry.name, entry.is_directory, entry.length) for entry in listed if not entry.is_directory] == [
        ("c", False, 1)
    ]
    assert [entry.path for entry in listed] == [join(store.root, name) for name in ("a", "b", "c")]
    assert store.storage.list_file_names(store.root) == ["c"]
    files = store.storage.list_files(store.root)
    assert [file.path for file in files] == [
        join(store.root, name) for name in ("a/x-3", "a/x/2", "b/1", "c")
    ]
    assert store.storage.infos([file.path for file in files]) == files
    directories = [join(store.root, name) for name in ("b", "a")]
    assert [[entry.name for entry in entries] for entries in store.storage.list_directories(directories)] == [
        ["1"],
        ["x", "x-3"],
    ]


def test_what_is_not_there_is_named(store: Store) -> None:
    store.storage.write(join(store.root, "file"), b"1")
    missing = join(store.root, "nowhere")
    for ask in (
        store.storage.list_directory,
        store.storage.list_files,
        store.storage.read,
        store.storage.open_input,
    ):
        with pytest.raises(NoSuchPathError, match="nowhere"):
            ask(missing)
    assert store.storage.info(missing) is None
    assert store.storage.infos([missing, join(store.root, "file")])[0] is None
    with pytest.raises(StorageError, match="cannot list"):
        store.storage.list_directory(join(store.root, "file"))


@pytest.mark.parametrize("name", ODD_NAMES)
def test_every_character_of_a_path_is_kept(store: Store, name: str) -> None:
    path = join(store.root, name, name)
    assert store.storage.qualify(path) == path
    store.storage.create(path, b"12")
    with store.storage.open_input(path) as stream:
        assert stream.read() == b"12"
    with store.storage.open_output(f"{path}.out") as stream:
        stream.write(b"3")
    assert [file.path for file in store.storage.list_files(store.root)] == [path, f"{path}.out"]
    assert [entry.path for entry in store.storage.list_directory(store.root)] == [parent_of(path)]
    assert [info is not None and info.length for info in store.storage.infos([path, f"{path}.out"])] == [2, 1]
    store.storage.delete_file(path)
    assert [file.path for file in store.storage.list_files(store.root)] == [f"{path}.out"]


def test_parquet_is_written_and_read_in_parts(store: Store) -> None:
    table = pa.table({"id": range(100_000), "text": [f"row {number}" for number in range(100_000)]})
    path = join(store.root, "data.parquet")
    with store.storage.open_output(path) as stream:
        pq.write_table(table, stream, row_group_size=10_000)
    with store.storage.open_input(path) as stream:
        file = pq.ParquetFile(stream)
        assert file.read_row_group(7, columns=["id"]).column("id").to_pylist()[:2] == [70_000, 70_001]
        assert file.read().equals(table)


def test_a_file_of_known_length_is_read_as_any_other(store: Store) -> None:
    table = pa.table({"id": range(100_000), "text": [f"row {number}" for number in range(100_000)]})
    content = pa.BufferOutputStream()
    pq.write_table(table, content, row_group_size=10_000)
    whole, path = content.getvalue().to_pybytes(), join(store.root, "data.parquet")
    store.storage.write(path, whole)
    with store.storage.open_input(path, len(whole)) as stream:
        assert stream.size() == len(whole)
        assert pq.ParquetFile(stream).read().equals(table)
        stream.seek(3)
        assert stream.read(4) == whole[3:7]
        assert stream.tell() == 7
        stream.seek(len(whole) - 2)
        assert stream.read(10) == whole[-2:]
        assert stream.read(10) == stream.read() == b""
    store.storage.delete_file(path)
    with (
        pytest.raises(NoSuchPathError, match=r"data\.parquet"),
        store.storage.open_input(path, len(whole)) as stream,
    ):
        stream.read(1)


def test_a_written_file_replaces_the_one_before_with_its_checksum(store: Store) -> None:
    path = join(store.root, "part-0.parquet")
    store.storage.write(path, b"the longer content of an earlier attempt")
    if path.startswith("/"):
        store.storage.write(join(store.root, ".part-0.parquet.crc"), b"of the earlier attempt")
    with store.storage.open_output(path) as stream:
        stream.write(b"new")
    assert store.storage.read(path) == b"new"
    assert [file.path for file in store.storage.list_files(store.root)] == [path]


def test_creating_what_exists_is_refused_and_leaves_it_as_it_is(store: Store) -> None:
    path = join(store.root, "hoodie.properties")
    store.storage.create(path, b"first")
    with pytest.raises(PathExistsError, match=r"hoodie\.properties"):
        store.storage.create(path, b"second")
    assert store.storage.read(path) == b"first"
    assert [file.path for file in store.storage.list_files(store.root)] == [path]


def test_what_a_killed_creator_has_staged_goes_once_it_is_old(store: Store) -> None:
    kept = join(store.root, "hoodie.properties")
    staged = staged_path(kept)
    store.storage.create(kept, b"kept")
    store.storage.write(staged, b"half")
    made = max(file.modification_time_ms for file in store.storage.list_files(store.root))
    store.storage.delete_staged(store.root, made - 3_600_000)
    assert store.storage.exists(staged)
    store.storage.delete_staged(store.root, made + 1)
    # An object store needs nothing staged, and so looks for nothing.
    assert store.storage.exists(staged) is (scheme_of(store.root) in S3_SCHEMES)
    assert store.storage.exists(kept)


def create_all(pickled: bytes, root: str, own: bytes, paths: int, start: object, outcomes: object) -> None:
    storage: Storage = pickle.loads(pickled)
    storage.exists(root)
    start.wait()  # type: ignore[attr-defined]
    won = []
    for number in range(paths):
        try:
            storage.create(f"{root}/{number}", own * 1000)
            won.append(number)
        except PathExistsError:
            pass
    outcomes.put((own, won))  # type: ignore[attr-defined]


def test_of_two_racing_processes_exactly_one_creates_each_path(store: Store) -> None:
    processes = multiprocessing.get_context("spawn")
    start, outcomes = processes.Barrier(2), processes.Queue()
    paths = 12
    racers = [
        processes.Process(
            target=create_all,
            args=(pickle.dumps(store.storage), store.root, own, paths, start, outcomes),
        )
        for own in (b"a", b"b")
    ]
    for racer in racers:
        racer.start()
    won = dict(outcomes.get(timeout=120) for _ in racers)
    for racer in racers:
        racer.join()
    assert sorted(won[b"a"] + won[b"b"]) == list(range(paths))
    for own, numbers in won.items():
        assert all(store.storage.read(f"{store.root}/{number}") == own * 1000 for number in numbers)
    assert len(store.storage.list_files(store.root)) == paths


def test_a_directory_is_deleted_with_all_below_it_and_nothing_beside_it(store: Store) -> None:
    for name in ("gone/1", "gone/deep/2", "gone-not/3"):
        store.storage.write(join(store.root, name), b"1")
    store.storage.make_directories(join(store.root, "gone", "empty"))
    store.storage.delete_directory(join(store.root, "gone"))
    store.storage.delete_directory(join(store.root, "gone"))
    assert not store.storage.exists(join(store.root, "gone"))
    assert [file.path for file in store.storage.list_files(store.root)] == [join(store.root, "gone-not/3")]


def test_storage_travels_open_or_not(store: Store) -> None:
    store.storage.write(join(store.root, "file"), b"1")
    travelled: Storage = pickle.loads(pickle.dumps(store.storage))
    assert travelled == store.storage
    assert travelled.read(join(store.root, "file")) == b"1"


def test_an_empty_directory_is_deleted_and_one_with_something_in_it_stays(store: Store) -> None:
    path = join(store.root, "a", "file")
    store.storage.write(path, b"1")
    assert not store.storage.delete_empty_directory(parent_of(path))
    assert store.storage.read(path) == b"1"
    store.storage.make_directories(join(store.root, "b"))
    assert store.storage.delete_empty_directory(join(store.root, "b"))
    assert store.storage.delete_empty_directory(join(store.root, "b"))
    assert not store.storage.exists(join(store.root, "b"))
    assert store.storage.exists(path)


@pytest.mark.parametrize("most", [1, 5, 11, 100])
def test_the_end_of_a_file_is_read_with_its_length(store: Store, most: int) -> None:
    path = join(store.root, "file")
    store.storage.write(path, b"hello world")
    assert store.storage.read_end(path, most) == (b"hello world"[-most:], 11)
    store.storage.write(path, b"")
    assert store.storage.read_end(path, most) == (b"", 0)
    with pytest.raises(NoSuchPathError):
        store.storage.read_end(join(store.root, "missing"), most)
