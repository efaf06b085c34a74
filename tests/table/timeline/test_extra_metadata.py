"""The extra metadata of a commit of thousands of files is read from the end of its file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hudisql.table.timeline.instant_files import read_extra_metadata
from tests.opened import open_at
from tests.requests.counted_requests import counted_requests
from tests.table.conftest import SCHEMA, TableDirectory


@pytest.mark.parametrize("is_last", [True, False])
def test_a_large_commit_is_not_read_whole(tmp_path: Path, is_last: bool) -> None:
    stats = [{"fileId": f"f{number}", "path": f"dt=a/f{number}.parquet"} for number in range(20_000)]
    extra = {"extraMetadata": {"schema": SCHEMA}}
    files = {"partitionToWriteStats": {"dt=a": stats}}
    document = {**files, **extra, "operationType": "BULK_INSERT"} if is_last else {**extra, **files}
    directory = TableDirectory(tmp_path, {})
    directory.instant("20260101000000000.commit", json.dumps(document, indent=2).encode())
    table = open_at(tmp_path)
    with counted_requests(tmp_path) as requests:
        (found,) = read_extra_metadata(table, table.timeline.commits)
    assert found == extra["extraMetadata"]
    assert requests.counts() == ({"read_end": 1} if is_last else {"read_end": 1, "read": 1})
    assert table.schema.names == ["id", "dt"]
