"""Two tables that differ only in their number of partitions, and a server of S3 with its requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hudisql.storage import Storage
from tests.requests.wide_tables import WideTable, wide_table
from tests.storage.servers import S3Request, s3_server


@pytest.fixture(scope="module")
def small_table(session: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WideTable]:
    with wide_table(session, "small_table", tmp_path_factory.mktemp("small"), 20) as table:
        yield table


@pytest.fixture(scope="module")
def large_table(session: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WideTable]:
    with wide_table(session, "large_table", tmp_path_factory.mktemp("large"), 120) as table:
        yield table


@pytest.fixture(scope="module")
def requests() -> list[S3Request]:
    """The requests that the server of `storage` is sent; tests may clear it."""
    return []


@pytest.fixture(scope="module")
def storage(requests: list[S3Request]) -> Iterator[Storage]:
    """The storage of an S3 server."""
    with s3_server(requests) as settings:
        yield Storage(settings)
