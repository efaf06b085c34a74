from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hudisql.format.log_file.log_block import LOG_WITHOUT_ROWS
from hudisql.storage import Storage
from hudisql.table.hudi_table import open_table
from hudisql.table.partitions.listed_partitions import list_partitions
from hudisql.table.partitions.non_empty_partitions import list_non_empty_partitions
from tests.catalog.table_maker import TableMaker

SCHEMA = pa.schema([("id", pa.string()), ("dt", pa.string())])


@pytest.fixture
def maker(tmp_path: Path) -> TableMaker:
    return TableMaker(tmp_path / "made").create(SCHEMA, ["dt"]).commit(SCHEMA, ["dt=a", "dt=b"])


def paths_of(maker: TableMaker) -> list[str]:
    return [each.path for each in list_non_empty_partitions(maker.open())]


def test_a_dropped_partition_is_none_until_it_is_written_to_again(maker: TableMaker) -> None:
    maker.drop(["dt=a"])
    assert paths_of(maker) == ["dt=b"]
    (maker.base_path / "dt=a" / "g-0_0-0-0_20240301000004000.parquet").touch()
    assert paths_of(maker) == ["dt=b"]
    maker.commit(SCHEMA)
    assert paths_of(maker) == ["dt=a", "dt=b"]


def test_rows_of_a_commit_that_a_drop_did_not_see_keep_their_partition(maker: TableMaker) -> None:
    # The drop began after that commit, was completed before it, and so names none of its files.
    maker.drop(["dt=a", "dt=b"], file_id="of-another-group-0")
    assert paths_of(maker) == ["dt=a", "dt=b"]


def test_a_directory_with_files_of_a_failed_write_alone_is_no_partition(maker: TableMaker) -> None:
    failed = maker.base_path / "dt=c"
    failed.mkdir()
    (failed / ".hoodie_partition_metadata").write_bytes(
        (maker.base_path / "dt=a" / ".hoodie_partition_metadata").read_bytes()
    )
    assert paths_of(maker) == ["dt=a", "dt=b"]
    (failed / "f-0_0-0-0_20240301000009000.parquet").touch()
    log_file = failed / ".f-0_20240301000002000.log.1_0-0-0"
    for rolled_back in (b"", LOG_WITHOUT_ROWS):
        log_file.write_bytes(rolled_back)
        assert paths_of(maker) == ["dt=a", "dt=b"]
    log_file.write_bytes(b"#HUDI#")
    assert paths_of(maker) == ["dt=a", "dt=b", "dt=c"]


@pytest.mark.parametrize("name", ["mor_parquet_log", "mor_upsert_only_updates", "cow_bootstrap_mixed"])
def test_all_partitions_with_rows_are_live(golden, storage: Storage, name: str) -> None:
    described = golden(name)
    table = open_table(storage, described.table)
    live = {each.path for each in list_non_empty_partitions(table)}
    assert {row["_hoodie_partition_path"] for row in described.meta_rows} <= live
    assert live <= {each.path for each in list_partitions(table)}
