"""Maven, Java, and the directory that holds what they fetch, for the scripts that set up oracles."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


class SetupError(RuntimeError):
    """An oracle cannot be set up here; the message says what is missing."""


def cache_directory() -> Path:
    """The directory that holds all oracles."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hudisql"


def copy_artifacts(artifacts: Sequence[str], directory: Path) -> None:
    """Copy Maven artifacts (`group:name:version`) into `directory`; a broken-off download leaves none
    there.
    """
    staging = directory.parent / f"{directory.name}.part-{os.getpid()}"
    for artifact in artifacts:
        # A failed download may still leave Maven's answer file: what counts is the jar.
        run(
            [
                find_maven(),
                "-q",
                "-B",
                "dependency:copy",
                f"-Dartifact={artifact}",
                f"-DoutputDirectory={staging}",
            ],
            directory=directory.parent,
        )
    directory.mkdir(parents=True, exist_ok=True)
    for jar in staging.glob("*.jar"):
        jar.replace(directory / jar.name)
    shutil.rmtree(staging)


def find_maven() -> str:
    """Return the command of Maven. Raises SetupError without one."""
    maven = shutil.which("mvn")
    if maven is None:
        raise SetupError("Maven (mvn) is not on the PATH: it fetches Apache Hudi and Hive, install it")
    return maven


def find_java() -> str:
    """Return the command of Java: that of JAVA_HOME, else the first on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


def run(
    command: Sequence[str], directory: Path | None = None, environment: Mapping[str, str] | None = None
) -> None:
    """Run a command to its end. Raises SetupError with the end of its output if it fails."""
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        command, cwd=directory, env=environment, text=True, capture_output=True, check=False
    )
    if done.returncode != 0:
        raise SetupError(
            f"{' '.join(command)} failed ({done.returncode}):\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        )


@contextmanager
def installing(name: str) -> Iterator[None]:
    """One installer at a time, over processes."""
    directory = cache_directory() / "locks"
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / name).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
