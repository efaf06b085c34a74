"""An archive of the classes that Spark loads, which its JVM maps instead of loading them from jars.

Java calls it class data sharing. The first JVM that works with tables writes the archive into the user's
cache directory when it ends, later ones use it. Java itself ignores an archive that does not fit its version
and its class path, so that it starts as without one.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Final

_SUBMIT_OPTIONS: Final = "SPARK_SUBMIT_OPTS"
"""The variable with options of the driver's JVM; those of settings and of spark-defaults.conf stay."""
_OWN_SHARING: Final = ("-Xshare", "SharedArchiveFile", "ArchiveClassesAtExit", "AutoCreateSharedArchive")
# They change the class path, as these variables do.
_CLASS_PATH_SETTINGS: Final = ("spark.driver.extraClassPath", "spark.jars", "spark.jars.packages")
_CLASS_PATH_VARIABLES: Final = ("SPARK_CONF_DIR", "SPARK_DIST_CLASSPATH", "HADOOP_CONF_DIR", "YARN_CONF_DIR")
_OPTION_SETTINGS: Final = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")
# So many JVMs may be about to write the archive: one that runs for weeks must not keep the others from it.
_SLOTS: Final = 2
_UNUSED_SECONDS: Final = 30 * 24 * 3600.0


def archive_path(
    java_home: str, jars: Path, settings: Mapping[str, str], environment: Mapping[str, str]
) -> Path | None:
    """The archive for this Java, these jars and the settings that change the class path.

    None without a cache directory, or if the user's own options of Java name an archive.
    """
    given = [environment.get(_SUBMIT_OPTIONS, ""), *(settings.get(name, "") for name in _OPTION_SETTINGS)]
    cache = environment.get("XDG_CACHE_HOME") or str(Path(environment.get("HOME", "")) / ".cache")
    if not cache.startswith("/") or any(word in options for word in _OWN_SHARING for options in given):
        return None
    parts = [os.path.realpath(java_home), _stamp(Path(java_home) / "release"), str(jars)]
    parts += [f"{name}={settings.get(name, '')}" for name in _CLASS_PATH_SETTINGS]
    parts += [f"{name}={environment.get(name, '')}" for name in _CLASS_PATH_VARIABLES]
    parts += [f"{jar.name} {_stamp(jar)}" for jar in sorted(jars.glob("*.jar"))]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]
    return Path(cache) / "hudisql" / "classes" / f"{key}.jsa"


@contextmanager
def shared_classes(archive: Path | None, *, records: bool) -> Iterator[tuple[int, ...]]:
    """Let a JVM that is started in the block use the archive or, if there is none and `records`, write it.

    Yields the files that the JVM inherits: it holds their locks until it has ended. Without a cache directory
    that can be written nothing is shared.
    """
    with ExitStack() as locks:
        lock, option = None, ""
        if archive is not None:
            with suppress(OSError):
                lock, option = _use(archive) or _record(archive, locks, records=records)
        given = os.environ.get(_SUBMIT_OPTIONS)
        if option:
            os.environ[_SUBMIT_OPTIONS] = f'"{option}" {given or ""}'.rstrip()
        try:
            yield () if lock is None else (lock.fileno(),)
        finally:
            if given is not None:
                os.environ[_SUBMIT_OPTIONS] = given
            elif option:
                del os.environ[_SUBMIT_OPTIONS]


_Shared = tuple[IO[bytes] | None, str]


def _use(archive: Path) -> _Shared | None:
    if not archive.exists():
        return None
    os.utime(archive)
    return None, f"-XX:SharedArchiveFile={archive}"


def _record(archive: Path, locks: ExitStack, *, records: bool) -> _Shared:
    """Use what an ended JVM has written; else let the new one write, unless enough others are about to."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    free = []
    for slot in range(_SLOTS):
        lock = locks.enter_context(archive.with_suffix(f".{slot}.lock").open("ab"))
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            written = archive.with_suffix(f".{slot}.new")
            if _is_complete(written):
                written.replace(archive)
                return _use(archive) or (None, "")
            free.append((lock, written))
    if not free or not records:
        return None, ""
    lock, written = free[0]
    written.unlink(missing_ok=True)
    _delete_unused(archive.parent.iterdir())
    return lock, f"-XX:ArchiveClassesAtExit={written}"


def _is_complete(written: Path) -> bool:
    """True if a JVM has written its whole archive, which it does header last, and the disk has it."""
    with suppress(FileNotFoundError), written.open("rb") as file:
        # A loss of power may have cost a part of what was written before the machine has started.
        started = time.time() - time.monotonic()
        if any(file.read(4)) and os.fstat(file.fileno()).st_mtime > started:
            os.fsync(file.fileno())
            return True
    return False


def _delete_unused(files: Iterable[Path]) -> None:
    """Delete the archives of other versions; a JVM that uses one keeps its mapped file."""
    for file in files:
        with suppress(FileNotFoundError):
            if file.suffix != ".lock" and file.stat().st_mtime < time.time() - _UNUSED_SECONDS:
                file.unlink()


def _stamp(file: Path) -> str:
    try:
        entry = file.stat()
    except OSError:
        return ""
    return f"{entry.st_size} {entry.st_mtime_ns}"
