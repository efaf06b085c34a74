"""Tables that hudisql bootstrapped, one of each shape, made once for all tests that only read them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from tests.oracle.shapes import MANY_FILES, SHAPES, BootstrappedTable, bootstrap_shape


@pytest.fixture(scope="session")
def bootstrapped(
    session: Any, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], BootstrappedTable]:
    shapes = {shape.name: shape for shape in (*SHAPES, MANY_FILES)}

    @cache
    def make(name: str) -> BootstrappedTable:
        return bootstrap_shape(session, shapes[name], tmp_path_factory.mktemp(name))

    return make
