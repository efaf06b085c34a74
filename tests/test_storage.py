from __future__ import annotations

import os
import pickle
import threading
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from hudisql.errors import InvalidArgumentError, NoSuchPathError, PathExistsError, StorageError
from hudisql.storage import Storage, ancestors_of, is_inside, join, parent_of


def test_local_paths_of_every_spelling_become_one(storage: Storage, tmp_path: Path) -> None:
    plain = str(tmp_path / "a b%3A")
    assert storage.qualify(plain) == plain
    assert storage.qualify(f"file:{plain}") == plain
    assert storage.qualify(f"file://{plain}/") == plain
    assert storage.qualify("x/../y") == str(Path.cwd() / "y")
    assert storage.hadoop_uri(plain) == f"file:{plain}"


def test_an_unknown_scheme_is_refused_by_name(storage: Storage) -> None:
    with pytest.raises(StorageError, match="'gs:'"):
        storage.qualify("gs://bucket/key")


def test_of_racing_creators_exactly_one_wins_and_the_content_is_whole(
    storage: Storage, tmp_path: Path
) -> None:
    path = str(tmp_path / "new" / "hoodie.properties")
    outcomes: list[str] = []
    barrier = threading.Barrier(8)

    def create(number: int) -> None:
        barrier.wait()
        try:
            storage.create(path, str(number).encode() * 10_000)
            outcomes.append(str(number))
        except PathExistsError:
            outcomes.append("lost")

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [outcome for outcome in outcomes if outcome != "lost"]
    assert len(winners) == 1
    assert storage.read(path) == winners[0].encode() * 10_000
    assert [entry.name for entry in (tmp_path / "new").iterdir()] == ["hoodie.properties"]


def test_a_stale_hadoop_checksum_goes_with_the_content_it_described(storage: Storage, tmp_path: Path) -> None:
    checksum = tmp_path / ".x.properties.crc"
    for change in (lambda: storage.write(str(tmp_path / "x.properties"), b"1"),):
        checksum.write_bytes(b"old")
        change()
        assert not checksum.exists()
    checksum.write_bytes(b"old")
    storage.delete_file(str(tmp_path / "x.properties"))
    assert not checksum.exists()


def test_listing_is_recursive_sorted_and_names_missing_directories(storage: Storage, tmp_path: Path) -> None:
    for name in ("b/1", "a/x/2", "c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    assert [file.path for file in storage.list_files(str(tmp_path))] == [
        str(tmp_path / name) for name in ("a/x/2", "b/1", "c")
    ]
    assert [(entry.name, entry.is_directory) for entry in storage.list_directory(str(tmp_path))] == [
        ("a", True),
        ("b", True),
        ("c", False),
    ]
    with pytest.raises(NoSuchPathError, match="nowhere"):
        storage.list_directory(str(tmp_path / "nowhere"))


def test_deleting_a_directory_removes_links_but_not_what_they_point_to(
    storage: Storage, tmp_path: Path
) -> None:
    (tmp_path / "kept").write_text("source")
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory" / "link").symlink_to(tmp_path / "kept")
    storage.delete_directory(str(tmp_path / "directory"))
    assert (tmp_path / "kept").read_text() == "source"
    assert not (tmp_path / "directory").exists()


def test_files_are_asked_one_by_one_where_their_directory_cannot_be_listed(
    storage: Storage, tmp_path: Path
) -> None:
    paths = [str(tmp_path / name) for name in ("a", "b", "absent")]
    for path in paths[:2]:
        Path(path).write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    assert storage.infos_by_directory(paths) == storage.infos(paths)


def test_a_link_to_nothing_is_named_and_a_file_that_vanishes_is_left_out(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kept").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StorageError, match="link is a symbolic link to nothing"):
        storage.list_directory(str(tmp_path))
    (tmp_path / "link").unlink()
    (tmp_path / "gone").write_text("x")
    scan = os.scandir

    def scan_and_delete(path: str) -> AbstractContextManager[list[os.DirEntry[str]]]:
        with scan(path) as entries:
            found = list(entries)
        (tmp_path / "gone").unlink()
        return nullcontext(found)

    monkeypatch.setattr(os, "scandir", scan_and_delete)
    assert [entry.name for entry in storage.list_directory(str(tmp_path))] == ["kept"]


@pytest.mark.parametrize("root", ["/", "s3a://bucket", "hdfs://name-node:8020"])
def test_the_directories_above_a_path_end_with_its_root(root: str) -> None:
    path = join(root, "a", "b")
    assert list(ancestors_of(path)) == [join(root, "a"), root]
    assert parent_of(root) == root
    assert list(ancestors_of(root)) == []


def test_path_arithmetic() -> None:
    assert join("/a/", "", "b/c", "d") == "/a/b/c/d"
    assert is_inside("/a/b", "/a")
    assert not is_inside("/ab", "/a")


def test_storage_travels_with_a_task_and_never_shows_its_settings() -> None:
    storage = Storage({"fs.s3a.secret.key": "hush"})
    assert pickle.loads(pickle.dumps(storage)) == storage
    assert "hush" not in repr(storage)


@pytest.mark.parametrize("path", ["s3a://KEY:SEC/RET@bucket/x", "s3://KEY@bucket/x", "hdfs://me:RET@host/x"])
def test_a_path_with_credentials_is_refused_and_not_shown(path: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"://\*{6}@") as caught:
        Storage().qualify(path)
    assert "RET" not in str(caught.value)
    for plain in ("s3a://bucket/a@b:c@d", "hdfs://me@host:8020/x", "/data/me:x@y"):
        assert Storage().qualify(plain) == plain
