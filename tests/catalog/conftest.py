"""Fixtures of the metastore's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hudisql.catalog.client import MetastoreClient
from tests.catalog.table_maker import TableMaker


@pytest.fixture
def client(metastore_uri: str) -> Iterator[MetastoreClient]:
    with MetastoreClient(metastore_uri) as client:
        yield client


@pytest.fixture
def database(request: pytest.FixtureRequest) -> str:
    """A name of the test's own: the metastore is shared by the whole run."""
    return request.node.name.split("[")[0].removeprefix("test_")[:60]


@pytest.fixture
def maker(tmp_path: Path) -> TableMaker:
    return TableMaker(tmp_path / "made")
