"""Metadata tables of versions 6 and 8, made by Apache Hudi: hudisql keeps them, and Hudi goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from hudisql.format.metadata_table.metadata_records import COLUMN_STATS, RECORD_INDEX
from hudisql.read.scan import data_skipping
from hudisql.write.metadata_table import metadata_compaction
from tests.opened import open_at, open_kept
from tests.oracle.client import BY_METADATA, HudiOracle
from tests.oracle.indexed_table import COMPACTION
from tests.oracle.kept_table import TableWithMetadata
from tests.oracle.shapes import SHAPES, noted_rows
from tests.soak import parameters
from tests.write.metadata_table.kept_indexes import assert_finds_all_keys

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

SHAPE = next(shape for shape in SHAPES if shape.name == "partitioned")
WITH_INDEXES = {
    **BY_METADATA,
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    # Each write lists and archives what it may.
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
    "hoodie.clean.commits.retained": "2",
}
BY_RECORDS, BY_BLOOM = {"hoodie.index.type": "RECORD_INDEX"}, {"hoodie.index.type": "BLOOM"}
OURS = (
    "INSERT INTO {t} SELECT concat('n', id), seq + 1000, total, fare, price, is_even, day, at, 'ours', "
    "place, labels, extra, dt FROM {t} WHERE seq < 6",
    "UPDATE {t} SET note = 'ours' WHERE seq IN (3, 14, 77)",
    "DELETE FROM {t} WHERE seq IN (20, 21)",
    "MERGE INTO {t} t USING (SELECT id FROM {t} WHERE seq IN (30, 31)) s ON t.id = s.id "
    "WHEN MATCHED THEN DELETE",
)
OURS_AFTERWARDS = (
    "UPDATE {t} SET note = NULL, price = -seq WHERE seq IN (4, 32, 78)",
    "UPDATE {t} SET dt = '2024-03-02' WHERE seq IN (6, 9, 1001)",
    "INSERT OVERWRITE {t} PARTITION (dt = '2024-03-02') SELECT id, seq, total, fare, price, is_even, day, "
    "at, 'ours', place, labels, extra FROM {t} WHERE dt = '2024-03-02' AND seq < 60",
    "CALL run_clustering(table => '{t}')",
    "ALTER TABLE {t} DROP PARTITION (dt = '2024-03-03')",
    "CALL run_clean(table => '{t}', retain_commits => 1)",
)
ARCHIVE = "CALL archive_commits(table => '{t}', min_commits => 3, max_commits => 4, retain_commits => 1)"


@dataclass
class OlderTable(TableWithMetadata):
    """A table of `writer`, which makes the `indexes`."""

    writer: HudiOracle
    options: Mapping[str, str]
    indexes: tuple[str, ...]

    def theirs(self, start: int, stop: int, options: Mapping[str, str]) -> None:
        """Apache Hudi upserts by its index: no key has two rows, and the metadata table is kept then."""
        self.upsert(self.writer, start, stop, {**self.options, **options})
        self.check_kept()
        assert self.writer.sql(f"CALL validate_metadata_table_files(table => '{self.name}')").num_rows == 0
        self.check()

    def check_kept(self) -> None:
        """All indexes are kept, and the places of all keys."""
        metadata = open_kept(self.path)
        assert metadata.indexes == self.indexes
        if RECORD_INDEX in self.indexes:
            assert_finds_all_keys(metadata)


@pytest.mark.parametrize(
    ("writer", "version", "table_type", "is_long"),
    parameters(
        [
            *(
                (writer, version, table_type, True)
                for writer, version in (("1.2", 8), ("0.15", 6), ("1.2", 6))
                for table_type in ("COPY_ON_WRITE", "MERGE_ON_READ")
            ),
            ("1.2", 8, "MERGE_ON_READ", False),
            ("0.15", 6, "COPY_ON_WRITE", False),
            ("0.15", 6, "MERGE_ON_READ", False),
            ("1.2", 6, "MERGE_ON_READ", False),
        ],
        in_ci=[],
    ),
)
def test_hudi_goes_on_with_the_metadata_table_that_both_keep(
    session: Any,
    oracle_on_class_path: HudiOracle,
    oracle_120: HudiOracle,
    writer: str,
    version: int,
    table_type: str,
    is_long: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 4)
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    name = f"older_{version}_{table_type[:4].lower()}_{writer[0]}_{int(is_long)}"
    shape = replace(SHAPE, table_type=table_type, name=name)
    options = {**shape.write_options(), "hoodie.table.name": name}
    options |= WITH_INDEXES if is_long or version == 8 else BY_METADATA
    if writer == "1.2":
        options["hoodie.write.table.version"] = str(version)
    hudi = oracle_120 if writer == "1.2" else oracle_on_class_path
    readers = (oracle_on_class_path, oracle_120) if version == 6 and is_long else (hudi,)
    path = str(tmp_path / "t")
    hudi.upsert(noted_rows(shape, 0, 120), path, options)
    indexes = open_at(path).properties.metadata_partitions
    table = OlderTable(readers, session, path, f"oracle.{name}", shape, hudi, options, indexes)
    session.sql(f"CALL hive_sync(table => '{table.name}', path => '{path}')")
    for statement in OURS[: None if is_long else 2]:
        table.ours(statement)
    if not is_long:
        # On its defaults: the list of files, 1.2 with statistics.
        table.theirs(10, 40, {})
        return
    table.theirs(10, 40, BY_RECORDS)
    assert {COLUMN_STATS, RECORD_INDEX} <= {*indexes}
    services = (COMPACTION,) if table_type == "MERGE_ON_READ" else ()
    for statement in (*services, *OURS_AFTERWARDS, ARCHIVE):
        table.ours(statement)
    table.check()
    assert list(Path(path, ".hoodie/metadata/record_index").glob("*.hfile"))
    # Without the rows that were moved to another partition, where that index does not look.
    table.theirs(40, 130, {**BY_BLOOM, "hoodie.metadata.compact.max.delta.commits": "1"})
    for statement in OURS:
        table.ours(statement)
    for start in (0, 40):
        table.theirs(start, start + 30, BY_RECORDS)
    for statement in (*OURS, ARCHIVE):
        table.ours(statement)
    table.check()


@pytest.mark.soak
def test_hudi_goes_on_with_the_metadata_table_that_hudisql_makes_in_version_8(
    session: Any, oracle_120: HudiOracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_skipping, "FEWEST_TO_SKIP", 1)
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    shape, path = replace(SHAPE, name="older_made"), str(tmp_path / "t")
    options = {**shape.write_options(), **WITH_INDEXES, "hoodie.write.table.version": "8"}
    without = {**options, "hoodie.metadata.enable": "false"}
    oracle_120.upsert(noted_rows(shape, 0, 60), path, without)
    name = f"oracle.{shape.name}"
    session.sql(f"CALL hive_sync(table => '{name}', path => '{path}')")
    indexes = ("column_stats", "files", "partition_stats", "record_index")
    table = OlderTable((oracle_120,), session, path, name, shape, oracle_120, options, indexes)
    table.ours("CREATE INDEX record_index ON {t} (id)")
    table.check()
    # The statistics are those of hudisql: queries ask them.
    query = f"EXPLAIN SELECT id FROM {name} WHERE seq > 1000"
    assert "skipped by statistics" in str(session.sql(query).rows)
    table.theirs(30, 70, BY_RECORDS)
    assert "skipped by statistics" in str(session.sql(query).rows)
    table.ours(OURS[1])
    table.check()
