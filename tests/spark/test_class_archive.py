"""The archive of Spark's classes: written once by a JVM that ends, used by later ones, never in their way."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from hudisql.catalog.embedded import find_spark_jars
from hudisql.java_runtime import find_java_home
from hudisql.spark.class_archive import archive_path, shared_classes

OPTIONS = "SPARK_SUBMIT_OPTS"
_MAIN = "org.apache.spark.launcher.Main"


@pytest.fixture(autouse=True)
def _no_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(OPTIONS, raising=False)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "cache directory" / "key.jsa"


def run_java(archive: Path, *, records: bool = True) -> str:
    """Run a class of Spark's jars; the log says where each class came from."""
    with shared_classes(archive, records=records) as inherited:
        java = [f"{find_java_home()}/bin/java", *shlex.split(os.environ.get(OPTIONS, ""))]
        done = subprocess.run(
            [*java, "-Xlog:class+load", "-cp", f"{find_spark_jars()}/*", _MAIN],
            capture_output=True,
            text=True,
            pass_fds=inherited,
            check=False,
        )
    assert "Not enough arguments: missing class name" in done.stderr, done.stderr
    return next(line for line in done.stdout.splitlines() if f" {_MAIN} source:" in line)


def options_of(archive: Path, *, records: bool = True) -> str:
    with shared_classes(archive, records=records):
        return os.environ.get(OPTIONS, "")


@pytest.mark.spark
def test_the_first_java_writes_the_archive_and_later_ones_use_it(archive: Path) -> None:
    assert ".jar" in run_java(archive)
    assert not archive.exists()
    assert "shared objects file (top)" in run_java(archive)
    assert [file.name for file in archive.parent.glob("*.jsa")] == ["key.jsa"]
    assert "shared objects file (top)" in run_java(archive, records=False)


@pytest.mark.spark
@pytest.mark.parametrize("content", [b"", b"no archive", bytes(100_000)])
def test_java_starts_without_an_archive_that_is_none(archive: Path, content: bytes) -> None:
    archive.parent.mkdir(parents=True)
    archive.write_bytes(content)
    assert ".jar" in run_java(archive)


def test_two_processes_at_most_write_at_a_time(archive: Path) -> None:
    held = []
    for slot in range(2):
        with shared_classes(archive, records=True) as inherited:
            assert os.environ[OPTIONS] == f'"-XX:ArchiveClassesAtExit={archive.with_suffix(f".{slot}.new")}"'
            # While one starts, others do not write.
            assert options_of(archive) == os.environ[OPTIONS]
            # As a JVM that inherits the lock and goes on running.
            held.append(os.dup(inherited[0]))
    assert options_of(archive) == ""
    archive.with_suffix(".0.new").write_bytes(b"header and more")
    assert options_of(archive) == ""
    os.close(held[0])
    assert options_of(archive) == f'"-XX:SharedArchiveFile={archive}"'
    os.close(held[1])


@pytest.mark.parametrize("modified", [None, 0])
def test_what_was_not_written_to_its_end_is_written_again(archive: Path, modified: int | None) -> None:
    written = archive.with_suffix(".0.new")
    written.parent.mkdir(parents=True)
    if modified is None:
        # The header comes last.
        written.write_bytes(bytes(4096))
    else:
        # From before the machine has started.
        written.write_bytes(b"header and more")
        os.utime(written, (modified, modified))
    assert "ArchiveClassesAtExit" in options_of(archive)
    assert not written.exists()


def test_a_session_that_does_not_write_uses_what_another_has_written(archive: Path) -> None:
    assert options_of(archive, records=False) == ""
    archive.with_suffix(".1.new").write_bytes(b"header and more")
    assert "SharedArchiveFile" in options_of(archive, records=False)


def test_archives_of_other_versions_are_deleted_when_they_are_old(archive: Path) -> None:
    archive.parent.mkdir(parents=True)
    old, recent, lock = (archive.with_name(name) for name in ("old.jsa", "recent.jsa", "old.0.lock"))
    for file in (old, recent, lock):
        file.touch()
    for file in (old, lock):
        os.utime(file, (0, 0))
    options_of(archive)
    assert (old.exists(), recent.exists(), lock.exists()) == (False, True, True)


def test_without_a_directory_that_can_be_written_nothing_is_shared(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert options_of(tmp_path / "file" / "key.jsa") == ""
    with shared_classes(None, records=True) as inherited:
        assert (inherited, OPTIONS in os.environ) == ((), False)


def test_options_of_the_user_follow_and_stay(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OPTIONS, "-Dx=y")
    assert options_of(archive).endswith('.new" -Dx=y')
    assert os.environ[OPTIONS] == "-Dx=y"


def path_of(
    jars: Path, settings: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None
) -> Path | None:
    return archive_path("/java", jars, settings or {}, {"HOME": "/home/a", **(environment or {})})


def test_an_archive_belongs_to_one_java_and_class_path(tmp_path: Path) -> None:
    jar = tmp_path / "spark.jar"
    jar.write_bytes(b"a")
    first = path_of(tmp_path)
    assert first is not None
    assert first.parent == Path("/home/a/.cache/hudisql/classes")
    assert path_of(tmp_path, {"spark.driver.memory": "2g"}) == first
    assert path_of(tmp_path, {"spark.driver.extraClassPath": "/x.jar"}) != first
    assert path_of(tmp_path, None, {"SPARK_CONF_DIR": "/conf"}) != first
    assert archive_path("/java17", tmp_path, {}, {"HOME": "/home/a"}) != first
    jar.write_bytes(b"ab")
    assert path_of(tmp_path) != first


def test_no_archive_without_a_home_or_beside_one_of_the_user(tmp_path: Path) -> None:
    assert path_of(tmp_path, None, {"HOME": ""}) is None
    assert path_of(tmp_path, {"spark.driver.extraJavaOptions": "-Xshare:off"}) is None
    assert path_of(tmp_path, None, {OPTIONS: "-XX:SharedArchiveFile=/a"}) is None
    assert path_of(tmp_path, None, {"HOME": "", "XDG_CACHE_HOME": "/c"}) is not None
