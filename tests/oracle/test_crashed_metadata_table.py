"""A commit killed while it writes to a kept metadata table: Apache Hudi misses no row, and goes on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from hudisql.table.files.listing_comparison import compare_listings
from tests.opened import open_at, open_kept
from tests.oracle.client import BY_LISTING, BY_METADATA, HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.line_process import LineProcess
from tests.oracle.shapes import SHAPES
from tests.oracle.sources import sample_rows
from tests.soak import parameters

SHAPE = SHAPES[0]
OPTIONS = {
    **SHAPE.write_options(),
    **BY_METADATA,
    "hoodie.metadata.index.column.stats.enable": "true",
}


def _rows(first: int, last: int) -> pa.Table:
    return SHAPE.with_partition_columns(sample_rows(first, last))


def _assert_read_alike(oracle: HudiOracle, path: str) -> int:
    """By the metadata table, and by listing directories; gives the number of rows."""
    listed = oracle.read(path, where="seq < 1000", options=BY_LISTING)
    found = oracle.read(path, where="seq < 1000", options=BY_METADATA)
    assert_same_rows(found, listed, sort_by=["seq", "_hoodie_file_name"])
    return listed.num_rows


@pytest.mark.parametrize("version", parameters([6, 8, 9], in_ci=[9]))
def test_hudi_goes_on_after_a_commit_that_was_killed_in_the_metadata_table(
    oracle_015: HudiOracle, oracle_120: HudiOracle, committer: LineProcess, tmp_path: Path, version: int
) -> None:
    oracle = oracle_015 if version == 6 else oracle_120
    options = OPTIONS | ({} if version == 6 else {"hoodie.write.table.version": str(version)})
    original, path = str(tmp_path / "original"), str(tmp_path / "table")
    for first in (0, 20):
        oracle.upsert(_rows(first, first + 30), original, options)
    known = _instants(original)
    step, is_crashed, crashes = 0, True, 0
    while is_crashed:
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(original, path)
        told = {"base_path": path, "step": step, "is_shared": False}
        is_crashed = committer.request(told, seconds=60)["code"] != 0
        step += 1
        table = open_at(path)
        if not is_crashed or (table.timeline.pending and _instants(path) > known):
            crashes += is_crashed
            count = _assert_read_alike(oracle, path)
            oracle.upsert(_rows(60, 62), path, options)
            assert _assert_read_alike(oracle, path) == count + 2
            metadata = open_kept(path)
            assert [found for found in compare_listings(metadata) if found.differs] == []
    assert crashes >= 4


def _instants(path: str) -> frozenset[str]:
    """The files on the timeline of the metadata table."""
    found = Path(path, ".hoodie/metadata/.hoodie").rglob("*deltacommit*")
    return frozenset(file.name for file in found if file.suffix != ".crc")
