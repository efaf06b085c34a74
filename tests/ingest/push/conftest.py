"""A write-ahead log for pushes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hudisql.ingest.push.write_ahead_log import WriteAheadLog


@pytest.fixture
def log(tmp_path: Path) -> Iterator[WriteAheadLog]:
    """An empty log, closed at the end of the test."""
    log = WriteAheadLog(tmp_path / "log")
    yield log
    log.close()
