"""Prepare the executors of a cluster for hudisql's tasks.

On a master that is not local, hudisql ships a zip of its own package (`addPyFile`) and runs one small job
that compares the executors' Python and compiled packages with the driver's. Compiled packages cannot be
shipped that way: one error names all missing ones, with instructions for a packed environment.
"""

from __future__ import annotations

import atexit
import importlib.metadata
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hudisql.errors import ExecutorEnvironmentError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The packages that hudisql's tasks import; the first numbers of their versions must agree.
REQUIRED_PACKAGES: Final = ("numpy", "pandas", "pyarrow")
_SHIPPED_PACKAGES: Final = ("hudisql", "pyspark_hudisql", "pyspark_hudisql_full_name")
_MAX_CHECK_TASKS: Final = 64


@dataclass(frozen=True)
class PythonEnvironment:
    """A Python environment: `packages` maps names to versions, or to None for missing packages."""

    host: str
    python: str
    packages: Mapping[str, str | None]


def is_cluster(master: str) -> bool:
    """True if tasks run outside of the driver's own process tree and directory (`local-cluster` included)."""
    return not re.fullmatch(r"local(\[.*\])?", master)


def prepare_executors(spark: SparkSession) -> None:
    """Ship hudisql to the executors and check their packages; local tasks get this process's Python.

    PySpark without PYSPARK_PYTHON takes the first python3 on the PATH, which may lack the packages. Raises
    ExecutorEnvironmentError.
    """
    context = spark.sparkContext
    if not is_cluster(str(context.master)):
        if not (os.environ.get("PYSPARK_PYTHON") or spark.conf.get("spark.pyspark.python", None)):
            context.pythonExec = sys.executable
        return
    # The driver serves the file to new executors, so it stays until the process ends.
    directory = Path(tempfile.mkdtemp(prefix="hudisql-ship-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    build_package_archive(directory / "hudisql-package.zip")
    context.addPyFile(str(directory / "hudisql-package.zip"))
    check_executors(spark)


def build_package_archive(path: Path) -> None:
    """A zip of the installed hudisql packages, importable as it is."""
    root = Path(__file__).parents[2]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in _SHIPPED_PACKAGES:
            for file in sorted((root / package).rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    archive.write(file, file.relative_to(root))


def check_executors(spark: SparkSession) -> list[PythonEnvironment]:
    """Ask the executors for their Python and packages in one small job.

    Raises ExecutorEnvironmentError if one cannot run hudisql's tasks.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    context = spark.sparkContext
    tasks = min(max(int(context.defaultParallelism), 2), _MAX_CHECK_TASKS)
    try:
        answers: list[Any] = (
            context.parallelize(range(tasks), tasks).mapPartitions(_make_probe()).distinct().collect()
        )
    except (PySparkException, Py4JError) as error:
        raise _environment_error([_job_problem(str(error))]) from error
    python_environments = [
        PythonEnvironment(host, python, dict(packages)) for host, python, packages in answers
    ]
    problems = [
        problem for environment in python_environments for problem in compare_environment(environment)
    ]
    if problems:
        raise _environment_error(sorted(set(problems)))
    return python_environments


def compare_environment(executor: PythonEnvironment) -> list[str]:
    """The problems that prevent hudisql's tasks from running there, as texts."""
    problems = []
    driver_python = f"{sys.version_info.major}.{sys.version_info.minor}"
    if executor.python != driver_python:
        problems.append(f"{executor.host}: Python {executor.python}, the driver has {driver_python}")
    for name in REQUIRED_PACKAGES:
        here, there = importlib.metadata.version(name), executor.packages.get(name)
        if there is None:
            problems.append(f"{executor.host}: no {name} (the driver has {here})")
        elif there.split(".")[0] != here.split(".")[0]:
            problems.append(f"{executor.host}: {name} {there}, the driver has {here}")
    if executor.packages.get("hudisql") is None:
        problems.append(f"{executor.host}: the shipped hudisql package cannot be imported")
    return problems


def _make_probe() -> Any:
    names = REQUIRED_PACKAGES

    # A closure is pickled by value, so it runs without an import of hudisql.
    def probe(_numbers: Iterable[int]) -> Iterator[tuple[str, str, tuple[tuple[str, str | None], ...]]]:
        import importlib
        import socket
        import sys

        versions: list[tuple[str, str | None]] = []
        for name in (*names, "hudisql"):
            try:
                versions.append((name, str(importlib.import_module(name).__version__)))
            except ImportError:
                versions.append((name, None))
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        yield socket.gethostname(), python, tuple(versions)

    return probe


def _job_problem(message: str) -> str:
    for pattern in (r"PYTHON_VERSION_MISMATCH[^\n]*", r"Python in worker has different version[^\n]*"):
        found = re.search(pattern, message)
        if found:
            return found.group()
    words = re.findall(r"(?:\w+\.)*\w+(?:Error|Exception): ([^\n]*)", message)
    return str(words[-1] if words else message.strip().splitlines()[0])


def _environment_error(problems: list[str]) -> ExecutorEnvironmentError:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    recipe = (
        "pack an environment once and give it to the executors:\n"
        f"       python{version} -m venv packed && packed/bin/pip install hudisql venv-pack\n"
        "       packed/bin/venv-pack -o hudisql-environment.tar.gz\n"
        "       hudisql --conf spark.archives=hudisql-environment.tar.gz#environment "
        "--conf spark.pyspark.python=./environment/bin/python …"
    )
    listed = "\n".join(f"  {problem}" for problem in problems)
    return ExecutorEnvironmentError(f"the executors cannot run hudisql's tasks:\n{listed}", hint=recipe)
