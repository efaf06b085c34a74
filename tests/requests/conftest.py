"""Two tables that differ only in their number of partitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.requests.wide_tables import WideTable, wide_table


@pytest.fixture(scope="module")
def small_table(session: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WideTable]:
    with wide_table(session, "small_table", tmp_path_factory.mktemp("small"), 20) as table:
        yield table


@pytest.fixture(scope="module")
def large_table(session: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WideTable]:
    with wide_table(session, "large_table", tmp_path_factory.mktemp("large"), 120) as table:
        yield table
