"""Tables that events are written to, for the tests of this directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hudisql.catalog.client import MetastoreClient
from tests.ingest.broker import KafkaBroker
from tests.ingest.fed_tables import FedTables, fed_tables


@pytest.fixture
def tables(broker: KafkaBroker, metastore_uri: str, tmp_path: Path) -> Iterator[FedTables]:
    """Tables that are unregistered after the test."""
    with closing(MetastoreClient(metastore_uri)) as client:
        yield from fed_tables(broker, client, tmp_path)
