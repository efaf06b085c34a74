"""Metadata tables of version 6 that hudisql makes: Hudi 0.15 and 1.2 lose no rows by them, and go on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hudisql.format.metadata_table.metadata_records import RECORD_INDEX
from hudisql.table.metadata_table.metadata_table import readable_metadata_table
from hudisql.table.properties.table_configuration import COLUMN_STATS_ENABLE
from hudisql.write.metadata_table import metadata_compaction
from tests.opened import open_at, open_kept
from tests.oracle.client import BY_METADATA, HudiOracle, OracleError
from tests.oracle.kept_table import FILTERS, OURS, OURS_OF_PARTITIONS, SERVICE_OF, TableWithMetadata
from tests.oracle.shapes import SHAPES, bootstrap_shape
from tests.write.metadata_table.kept_indexes import assert_finds_all_keys

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

SHAPE_OF = {shape.name: shape for shape in SHAPES}
BY_STATISTICS = {**BY_METADATA, "hoodie.metadata.index.column.stats.enable": "true"}
"""By these Hudi 0.15 skips files, too."""
BY_RECORDS = {"hoodie.metadata.record.index.enable": "true", "hoodie.index.type": "RECORD_INDEX"}
COMPACTED = {"hoodie.metadata.compact.max.delta.commits": "1"}
MORE_FILTERS = (
    *FILTERS,
    "_hoodie_record_key >= 'k000100' AND seq >= 100 AND fare > 1.0",
    "_hoodie_commit_seqno IS NOT NULL AND seq = 14",
    "_hoodie_file_name IS NOT NULL AND total > 400000000000",
    "note IS NULL AND _hoodie_record_key >= 'k000010'",
    "seq = 14 OR _hoodie_record_key = 'k000033'",
)
"""By statistics of the skeletons themselves both lose rows of filters with AND."""
OF_PARTITIONS = ("dt = '2024-03-01' AND seq > 50", "dt = '2024-03-02' OR seq = 3", "dt > '2024-03-01'")
OF_A_NEW_COLUMN = (
    "extra_note IS NULL",
    "extra_note = 'new' AND seq = 6",
    "extra_note IS NULL AND seq > 50",
    "extra_note IS NULL AND _hoodie_record_key > 'k000050'",
)
ADD_A_COLUMN = (
    "ALTER TABLE {t} ADD COLUMNS (extra_note STRING)",
    "UPDATE {t} SET extra_note = 'new' WHERE seq = 6",
)
MERGE = (
    "MERGE INTO {t} t USING (SELECT id FROM {t} WHERE seq IN (30, 31)) s ON t.id = s.id "
    "WHEN MATCHED THEN DELETE"
)
CLEAN = "CALL run_clean(table => '{t}', retain_commits => 1)"
ARCHIVE = "CALL archive_commits(table => '{t}', min_commits => 3, max_commits => 4, retain_commits => 1)"


class MadeTable(TableWithMetadata):
    """A table of version 6."""

    by_metadata = BY_STATISTICS

    def check_kept(self) -> None:
        """The statistics are those of the source files, and the record index has the places of all keys."""
        metadata = open_kept(self.path)
        assert metadata.has_statistics_of_sources
        if RECORD_INDEX in metadata.indexes:
            assert_finds_all_keys(metadata)


def _bootstrap(
    session: Any, name: str, suffix: str, tmp_path: Path, readers: tuple[HudiOracle, ...], indexes: str
) -> MadeTable:
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    shape = replace(SHAPE_OF[name], name=f"made_{name}_{suffix}")
    made = bootstrap_shape(session, shape, tmp_path / suffix, indexes=indexes)
    filters = (*MORE_FILTERS, *(OF_PARTITIONS if shape.partition_columns else ()))
    table = MadeTable(readers, session, made.path, f"oracle.{shape.name}", shape, filters=filters)
    table.check_kept()
    return table


def test_hudi_reads_and_writes_by_the_metadata_table_of_a_bootstrap(
    session: Any, oracle_015: HudiOracle, oracle_120: HudiOracle, tmp_path: Path
) -> None:
    readers = (oracle_015, oracle_120)
    table = _bootstrap(session, "partitioned", "short", tmp_path, readers, "column_stats")
    table.filters = (*MORE_FILTERS[-6:], OF_PARTITIONS[0])
    table.check()
    table.upsert(oracle_015, 30, 31, BY_STATISTICS)
    table.upsert(oracle_120, 31, 32, {})
    table.ours(OURS[0])
    table.check()


@pytest.mark.soak
@pytest.mark.parametrize("name", ["partitioned", "not_partitioned", "merge_on_read"])
def test_hudi_loses_no_rows_by_a_metadata_table_that_all_write(
    session: Any,
    oracle_on_class_path: HudiOracle,
    oracle_120: HudiOracle,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 3)
    oracle_015 = oracle_on_class_path
    table = _bootstrap(session, name, "long", tmp_path, (oracle_015, oracle_120), "record_index")
    by_records = {**BY_STATISTICS, **BY_RECORDS}
    table.check()
    for statement in (*OURS, MERGE):
        table.ours(statement)
    table.check()
    table.upsert(oracle_015, 40, 42, by_records)
    table.check()
    table.upsert(oracle_120, 42, 44, BY_RECORDS)
    table.check_kept()
    table.check()
    of_partitions = OURS_OF_PARTITIONS if table.shape.partition_columns else ()
    for statement in (*of_partitions, OURS[0], SERVICE_OF[table.shape.table_type], CLEAN):
        table.ours(statement)
    table.check()
    table.upsert(oracle_120, 44, 46, {**BY_RECORDS, **COMPACTED})
    table.ours(OURS[2])
    table.upsert(oracle_015, 46, 48, {**by_records, **COMPACTED})
    table.check()
    for statement in (OURS[0], CLEAN, ARCHIVE, OURS[1], *ADD_A_COLUMN):
        table.ours(statement)
    table.filters = (*table.filters, *OF_A_NEW_COLUMN)
    table.check()
    assert list(Path(table.path, ".hoodie/metadata/files").glob("*001.hfile"))


@pytest.mark.soak
def test_writers_of_hudi_keep_the_statistics_on_their_defaults(
    session: Any, oracle_015: HudiOracle, oracle_120: HudiOracle, tmp_path: Path
) -> None:
    """And refuse to upgrade the table, or to drop them."""
    readers = (oracle_015, oracle_120)
    table = _bootstrap(session, "partitioned", "defaults", tmp_path, readers, "column_stats")
    for number in range(4):
        table.upsert(readers[number % 2], 30 + number, 31 + number, {})
        table.check_kept()
        table.check()
    for options in ({"hoodie.write.table.version": "9"}, {COLUMN_STATS_ENABLE: "false"}):
        with pytest.raises(OracleError, match="Config conflict"):
            table.upsert(oracle_120, 34, 35, options)
    table.ours(OURS[0])
    table.check()
    session.sql(f"CALL delete_metadata_table(table => '{table.name}')")
    table.upsert(oracle_015, 34, 35, {})
    table.upsert(oracle_120, 35, 36, {"hoodie.write.table.version": "9"})
    table.readers = (oracle_120,)
    table.check()


@pytest.mark.soak
@pytest.mark.parametrize("name", ["partitioned", "not_partitioned"])
def test_an_upgrade_by_hudi_12_adds_wrong_statistics_of_partitions(
    session: Any, oracle_120: HudiOracle, name: str, tmp_path: Path
) -> None:
    """By its procedure alone; it keeps those of files."""
    table = _bootstrap(session, name, "upgraded", tmp_path, (oracle_120,), "column_stats")
    with oracle_120.settings({"hoodie.metadata.enable": "true"}):
        oracle_120.sql("RESET hoodie.write.table.version")
        oracle_120.sql(f"CALL upgrade_table(table => '{table.name}', to_version => 'NINE')")
        oracle_120.sql(OURS[0].replace("{t}", table.name))
    metadata = readable_metadata_table(open_at(table.path))
    assert metadata is not None
    assert not metadata.has_statistics_of_sources
    assert bool(table.lost(oracle_120)) == (name == "partitioned")
    table.ours("CALL create_metadata_table(table => '{t}')")
    table.check()
