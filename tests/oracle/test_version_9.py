"""Tables that Apache Hudi 1.2 makes by its defaults, in version 9: hudisql reads the same rows.

1.2 reads with data skipping off: by its own statistics it leaves out files that have matching rows.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hudisql.table.files.snapshot import load_file_slices
from tests.opened import open_at
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows, our_rows
from tests.soak import parameters

pytestmark = pytest.mark.oracle

OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.write.table.version": "9",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "seq",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.metadata.enable": "true",
}
MERGED = OPTIONS | {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}


def _rows(first: int, last: int, seq: int, note: str, deleted: tuple[int, ...] = ()) -> pa.Table:
    keys = range(first, last)
    return pa.table(
        {
            "id": [f"k{key:03d}" for key in keys],
            "seq": pa.array([seq] * len(keys), pa.int64()),
            "more": pa.array([key % 3 for key in keys], pa.int32()),
            "note": [note] * len(keys),
            "_hoodie_is_deleted": [key in deleted for key in keys],
        }
    )


def _assert_read_alike(oracle: HudiOracle, path: str) -> int:
    ours = our_rows(open_at(path))
    theirs = oracle.read(path, options={"hoodie.enable.data.skipping": "false"})
    assert_same_rows(theirs.select(ours.column_names), ours, sort_by=["_hoodie_record_key"])
    return int(ours.num_rows)


@pytest.mark.parametrize(
    "settings",
    parameters(
        [
            {},
            {"hoodie.datasource.write.precombine.field": "seq,more"},
            {"hoodie.datasource.write.precombine.field": ""},
            {"hoodie.logfile.data.block.format": "parquet"},
        ],
        in_ci=[{"hoodie.datasource.write.precombine.field": "seq,more"}],
    ),
    ids=lambda settings: next(iter(settings.values()), "defaults") or "no ordering",
)
def test_late_rows_deletes_and_compactions(
    oracle_120: HudiOracle, tmp_path: Path, settings: dict[str, str]
) -> None:
    path = str(tmp_path / "table")
    options = MERGED | settings
    oracle_120.upsert(_rows(0, 30, 10, "base"), path, options)
    oracle_120.upsert(_rows(0, 12, 12, "new", deleted=(1, 2)), path, options)
    oracle_120.upsert(_rows(6, 20, 11, "late", deleted=(7, 13)), path, options)
    assert any(each.log_files for each in load_file_slices(open_at(path)))
    _assert_read_alike(oracle_120, path)
    inline = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    oracle_120.upsert(_rows(18, 34, 13, "last", deleted=(19,)), path, options | inline)
    assert 20 < _assert_read_alike(oracle_120, path) < 34


@pytest.mark.soak
def test_a_table_that_is_clustered_cleaned_and_archived(oracle_120: HudiOracle, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    services = {
        "hoodie.clustering.inline": "true",
        "hoodie.clustering.inline.max.commits": "3",
        "hoodie.clean.commits.retained": "1",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
    }
    actions = set()
    for number in range(6):
        rows = _rows(number * 4, number * 4 + 10, number, f"write {number}")
        oracle_120.upsert(rows, path, OPTIONS | services)
        actions |= {each.action for each in open_at(path).timeline.completed}
    assert {"replacecommit", "clean"} <= actions
    assert _assert_read_alike(oracle_120, path) == 30
    assert len(open_at(path).timeline.commits) < 6
