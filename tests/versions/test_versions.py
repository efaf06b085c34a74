"""Other versions of PySpark and Python: the same statements give the same rows as on the newest."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import SettingsError
from hudisql.java_runtime import ensure_java_home
from hudisql.spark.versions import check_pyspark
from scripts.setup_oracles import OTHER_PYSPARK_VERSIONS, install_other_pyspark
from tests.versions.program import EXPECTED

ROOT = Path(__file__).parents[2]


def run_program(python: Path | str, directory: Path) -> dict[str, Any]:
    """What the program gives on a Python; it finds hudisql here."""
    directory.mkdir()
    ensure_java_home()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": str(python)}
    done = subprocess.run(
        [str(python), "-m", "tests.versions.program", str(directory)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def check_told(told: dict[str, Any]) -> None:
    assert {step: told[step] for step in EXPECTED} == EXPECTED, told
    assert told["warnings"] == []


@pytest.mark.soak
@pytest.mark.oracle
def test_a_table_is_bootstrapped_changed_and_compacted_on_older_pysparks(tmp_path: Path) -> None:
    pythons = [install_other_pyspark(name) for name in OTHER_PYSPARK_VERSIONS]
    with ThreadPoolExecutor(2) as threads:
        given = list(threads.map(run_program, pythons, [tmp_path / name for name in OTHER_PYSPARK_VERSIONS]))
    assert [each["pyspark"] for each in given] == list(OTHER_PYSPARK_VERSIONS.values())
    for each in given:
        check_told(each)


def installed_pythons() -> Sequence[str]:
    """The other Pythons of this machine that hudisql is for, as pyenv or the PATH has them."""
    found = []
    for minor in (12, 13):
        places = sorted((Path.home() / ".pyenv" / "versions").glob(f"3.{minor}.*/bin/python3.{minor}"))
        found += [str(place) for place in places[-1:]] or [shutil.which(f"python3.{minor}") or ""]
    return [each for each in found if each]


@pytest.mark.oracle
@pytest.mark.soak
@pytest.mark.parametrize("minor", [12, 13])
@pytest.mark.parametrize("pyspark", ["newest", "4.0", "3.5"])
def test_the_same_on_newer_pythons(tmp_path: Path, minor: int, pyspark: str) -> None:
    import pyspark as own

    makers = [each for each in installed_pythons() if each.endswith(f"python3.{minor}")]
    if not makers:
        pytest.skip(f"no Python 3.{minor} on this machine")
    version = own.__version__ if pyspark == "newest" else pyspark
    told = run_program(install_other_pyspark(version, makers[0]), tmp_path / "run")
    assert told["python"].startswith(f"3.{minor}.")
    check_told(told)


@pytest.mark.parametrize("version", [(3, 4), (5, 0)])
def test_a_pyspark_that_is_not_supported_is_refused_by_name(version: tuple[int, int]) -> None:
    with pytest.raises(
        SettingsError, match=rf"PySpark {version[0]}\.{version[1]} is installed: hudisql runs"
    ):
        check_pyspark(version)
    check_pyspark()


@pytest.mark.spark
@pytest.mark.hms
@pytest.mark.soak
def test_the_program_gives_what_is_expected_here_too(tmp_path: Path) -> None:
    check_told(run_program(sys.executable, tmp_path / "run"))
