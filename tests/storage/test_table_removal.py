"""Which files in a table's directories a removal takes for the table's own."""

from __future__ import annotations

import pytest

from hudisql.bootstrap.lease.target_state import TargetState
from hudisql.bootstrap.rollback.table_removal import _split_by_origin
from hudisql.storage import FileInfo


@pytest.mark.parametrize("suffix", ["", ".parquet", "_0"])
def test_each_form_of_a_partition_marker_is_the_tables_own(suffix: str) -> None:
    marker, other = (
        FileInfo(f"/t/dt=a/{name}", 1, 0, False)
        for name in (f".hoodie_partition_metadata{suffix}", "notes.txt")
    )
    assert _split_by_origin([marker, other], TargetState.TABLE) == ((marker,), (other.path,))
