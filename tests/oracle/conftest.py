"""Bootstrapped tables that many tests read, a Hudi 0.15 that writes delete blocks, and a second thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import pytest

from scripts.setup_oracles import install_hudi_bundle
from tests.oracle.client import SHORT_LIVED_JAVA, HudiOracle, start_oracle
from tests.oracle.shapes import MANY_FILES, SHAPES, BootstrappedTable, bootstrap_shape


@pytest.fixture(scope="session")
def bootstrapped(
    session: Any, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], BootstrappedTable]:
    """A table of each shape that hudisql bootstrapped, made once for all tests that only read it."""
    shapes = {shape.name: shape for shape in (*SHAPES, MANY_FILES)}

    @cache
    def make(name: str) -> BootstrappedTable:
        return bootstrap_shape(session, shapes[name], tmp_path_factory.mktemp(name))

    return make


@pytest.fixture(scope="module")
def oracle_on_class_path(
    tmp_path_factory: pytest.TempPathFactory, metastore_uri: str
) -> Iterator[HudiOracle]:
    """Hudi 0.15 on Java's class path: by `spark.jars` alone it may fail on delete blocks (docs/facts.md)."""
    config = {**SHORT_LIVED_JAVA, "spark.driver.extraClassPath": str(install_hudi_bundle("0.15.0"))}
    directory = tmp_path_factory.mktemp("oracle")
    oracle = start_oracle("0.15.0", directory, metastore_uri=metastore_uri, config=config)
    yield oracle
    oracle.close()


@pytest.fixture
def background() -> Iterator[ThreadPoolExecutor]:
    """A thread for the other one of two writers."""
    with ThreadPoolExecutor(1) as pool:
        yield pool
