"""A commit killed while it drops a metadata table: Hudi 0.15, told to use such tables, misses no row."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from hudisql.storage import Storage
from hudisql.table.hudi_table import open_table
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.line_process import LineProcess
from tests.oracle.shapes import SHAPES
from tests.oracle.sources import sample_rows

pytestmark = [pytest.mark.soak]

SHAPE = SHAPES[0]
WITH_METADATA = {"hoodie.metadata.enable": "true"}
OPTIONS = SHAPE.write_options() | WITH_METADATA


def _rows(first: int, last: int) -> pa.Table:
    return SHAPE.with_partition_columns(sample_rows(first, last))


def _assert_read_alike(oracle: HudiOracle, path: str) -> int:
    """By the metadata table, if there is one, and by listing directories; gives the number of rows."""
    listed = oracle.read(path)
    found = oracle.read(path, options=WITH_METADATA)
    assert_same_rows(found, listed, sort_by=["seq", "_hoodie_file_name"])
    return listed.num_rows


def test_hudi_015_reads_by_no_stale_metadata_table_and_makes_a_new_one(
    oracle_015: HudiOracle, committer: LineProcess, tmp_path: Path
) -> None:
    original, path = str(tmp_path / "original"), str(tmp_path / "table")
    for first in (0, 20):
        oracle_015.upsert(_rows(first, first + 30), original, OPTIONS)
    assert Path(original, ".hoodie", "metadata").exists()
    step, is_crashed, halves = 0, True, 0
    while is_crashed:
        # Whether the directory is whole, or its deletion was cut short.
        for gone in (None, ".hoodie", "files"):
            shutil.rmtree(path, ignore_errors=True)
            shutil.copytree(original, path)
            told = {"base_path": path, "step": step, "is_shared": False}
            is_crashed = committer.request(told, seconds=60)["code"] != 0
            metadata = Path(path, ".hoodie", "metadata")
            is_dropped = not open_table(Storage(), path).properties.metadata_partitions
            if gone is not None:
                if not (is_dropped and metadata.exists()):
                    break
                shutil.rmtree(metadata / gone)
                halves += 1
            count = _assert_read_alike(oracle_015, path)
            oracle_015.upsert(_rows(60, 62), path, OPTIONS)
            assert _assert_read_alike(oracle_015, path) == count + 2
            assert metadata.exists()
        step += 1
    assert halves == 4
