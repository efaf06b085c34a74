"""A partition that Apache Hudi 1.2 has deleted from its metadata table, and that hudisql writes to again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import PendingCleanError
from hudisql.format.metadata_table.metadata_records import FILES
from hudisql.services.clean.clean_action import schedule_clean
from hudisql.services.clean.clean_plan import CleanOptions, CleanPolicy, read_clean_plan
from hudisql.table.files.listing_comparison import compare_listings
from hudisql.write.execution import commit_files
from hudisql.write.metadata_table import metadata_compaction
from hudisql.write.transaction.concurrency import SINGLE_WRITER
from tests.opened import open_at, open_kept
from tests.oracle.client import BY_METADATA, HudiOracle
from tests.oracle.indexed_table import SETTINGS
from tests.soak import parameters

KEEP_ONE_VERSION = CleanOptions(CleanPolicy.KEEP_LATEST_FILE_VERSIONS, versions_retained=1)

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

CLEAN = (
    "CALL run_clean(table => '{}', clean_policy => 'KEEP_LATEST_FILE_VERSIONS', file_versions_retained => 1)"
)


@pytest.mark.parametrize(
    ("table_type", "version"),
    parameters([("cow", 9), ("mor", 9), ("cow", 6), ("mor", 6)], in_ci=[("mor", 9), ("cow", 6)]),
)
def test_hudi_lists_none_of_the_files_that_it_has_cleaned(
    session: Any,
    oracle_120: HudiOracle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    table_type: str,
    version: int,
) -> None:
    name, path = f"oracle.deleted_partitions_{table_type}_{version}", tmp_path / "t"
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    session.sql(
        f"CREATE TABLE {name} (id INT, n INT, dt STRING) USING hudi PARTITIONED BY (dt) LOCATION '{path}' "
        f"TBLPROPERTIES (primaryKey = 'id', preCombineField = 'n', type = '{table_type}', "
        f"'hoodie.write.table.version' = '{version}')"
    )
    settings = {**SETTINGS, **BY_METADATA, "hoodie.write.table.version": str(version)}
    with oracle_120.settings(settings):
        oracle_120.sql(f"INSERT INTO {name} VALUES (1, 1, 'a'), (2, 1, 'a'), (3, 1, 'b')")
        oracle_120.sql(f"ALTER TABLE {name} DROP PARTITION (dt = 'a')")
        # The base file of the index then names the files of the dropped partition.
        with monkeypatch.context() as patched:
            patched.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 1)
            patched.setattr(metadata_compaction, "_MOST_LOG_FILES", 1)
            for number in (4, 5):
                session.sql(f"INSERT INTO {name} VALUES ({number}, 1, 'b')")
        (compacted,) = open_kept(str(path)).read_layers_of_keys(FILES, ["dt=a"])
        assert compacted[0].keys.to_pylist() == ["dt=a"]
        oracle_120.sql(CLEAN.format(name))
        assert not list(path.glob("dt=a/*.parquet"))
        # Each with a record on top of the deletion.
        for key in (1, 2):
            session.sql(f"INSERT INTO {name} VALUES ({key}, 2, 'a')")
        listed = oracle_120.sql(f"CALL show_metadata_table_files(table => '{name}', partition => 'dt=a')")
        stored = sorted(each.name for each in path.glob("dt=a/*.parquet"))
        assert sorted(listed["file_path"].to_pylist()) == stored
        assert not any(found.differs for found in compare_listings(open_kept(str(path))))
        oracle_120.sql(f"REFRESH TABLE {name}")
        oracle_120.sql(f"UPDATE {name} SET n = 3 WHERE id = 1")
        found = oracle_120.sql(f"SELECT id, n, dt FROM {name} ORDER BY id").to_pylist()
    rows = [(1, 3, "a"), (2, 2, "a"), (3, 1, "b"), (4, 1, "b"), (5, 1, "b")]
    assert found == [dict(zip(("id", "n", "dt"), row, strict=True)) for row in rows]
    assert session.sql(f"SELECT id, n, dt FROM {name} ORDER BY id").arrow().to_pylist() == found
    session.sql(f"DROP TABLE {name}")


@pytest.mark.parametrize(
    ("version", "is_indexed"),
    parameters([(9, True), (9, False), (6, True), (6, False)], in_ci=[(9, True), (6, False)]),
)
def test_no_row_goes_into_a_partition_that_hudi_deletes(
    session: Any,
    oracle_120: HudiOracle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: int,
    is_indexed: bool,
) -> None:
    name, path = f"oracle.partition_to_delete_{version}_{is_indexed}".lower(), tmp_path / "t"
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    session.sql(
        f"CREATE TABLE {name} (id INT, n INT, dt STRING) USING hudi PARTITIONED BY (dt) LOCATION '{path}' "
        f"TBLPROPERTIES (primaryKey = 'id', preCombineField = 'n', 'hoodie.clean.automatic' = 'false', "
        f"'hoodie.write.table.version' = '{version}')"
    )
    session.sql(f"INSERT INTO {name} VALUES (1, 1, 'a'), (2, 1, 'a'), (3, 1, 'b')")
    session.sql(f"ALTER TABLE {name} DROP PARTITION (dt = 'a')")
    if is_indexed:
        session.sql(f"CALL create_metadata_table(table => '{name}')")

    def schedule() -> None:
        requested = schedule_clean(open_at(path), KEEP_ONE_VERSION, SINGLE_WRITER)
        assert requested is not None
        assert read_clean_plan(open_at(path), requested).partitions_to_delete == ("dt=a",)

    def set_property(key: str, value: str) -> None:
        session.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{key}' = '{value}')")

    schedule()
    insert = f"INSERT INTO {name} VALUES (1, 2, 'a')"
    finish = commit_files.finish_commit
    cleaned: list[bool] = []

    def clean_and_finish(*arguments: Any, **named: Any) -> Any:
        if not cleaned:
            cleaned.append(True)
            assert list(path.glob("dt=a/*.parquet"))
            oracle_120.sql(f"CALL run_clean(table => '{name}', schedule_in_line => false)")
            assert not (path / "dt=a").exists()
        return finish(*arguments, **named)

    set_property("hoodie.write.num.retries.on.conflict.failures", "1")
    with oracle_120.settings({**SETTINGS, **BY_METADATA, "hoodie.write.table.version": str(version)}):
        with monkeypatch.context() as patched:
            patched.setattr(commit_files, "finish_commit", clean_and_finish)
            session.sql(insert)
        assert cleaned
        _check_rows(session, oracle_120, name, [(1, 2, "a"), (3, 1, "b")])
        session.sql(f"ALTER TABLE {name} DROP PARTITION (dt = 'a')")
        schedule()
        set_property("hoodie.write.concurrency.mode", "optimistic_concurrency_control")
        with pytest.raises(PendingCleanError, match=r"pending clean \d+ deletes partitions .*: dt=a"):
            session.sql(insert)
        set_property("hoodie.write.concurrency.mode", "single_writer")
        session.sql(insert)
        _check_rows(session, oracle_120, name, [(1, 2, "a"), (3, 1, "b")])
        oracle_120.sql(f"UPDATE {name} SET n = 3 WHERE id = 1")
        _check_rows(session, oracle_120, name, [(1, 3, "a"), (3, 1, "b")])
    session.sql(f"DROP TABLE {name}")


def _check_rows(session: Any, hudi: HudiOracle, name: str, rows: list[tuple[int, int, str]]) -> None:
    """Both read the rows, as `id`, `n` and `dt`."""
    query = f"SELECT id, n, dt FROM {name} ORDER BY id"
    hudi.sql(f"REFRESH TABLE {name}")
    for found in (hudi.sql(query), session.sql(query).arrow()):
        assert [tuple(row.values()) for row in found.to_pylist()] == rows
