"""Rollbacks of completed commits keep the metadata table: Apache Hudi reads by it, and goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from hudisql.format.metadata_table.metadata_records import RECORD_INDEX
from tests.opened import open_at, open_kept
from tests.oracle.client import BY_METADATA, HudiOracle
from tests.oracle.indexed_table import SETTINGS
from tests.oracle.kept_table import TableWithMetadata
from tests.oracle.line_process import ChildError
from tests.oracle.shapes import SHAPES, bootstrap_shape, noted_rows
from tests.soak import parameters
from tests.write.metadata_table.kept_indexes import assert_finds_all_keys

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

SHAPE = next(shape for shape in SHAPES if shape.name == "partitioned")
WITH_INDEXES = {
    **BY_METADATA,
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.datasource.write.hive_style_partitioning": "true",
}
BY_RECORDS = {"hoodie.index.type": "RECORD_INDEX"}
COMPACTS = {"hoodie.metadata.compact.max.delta.commits": "1"}
OURS = (
    "UPDATE {t} SET note = 'undone' WHERE seq IN (3, 14, 77)",
    "DELETE FROM {t} WHERE seq IN (20, 21, 30)",
    "INSERT INTO {t} SELECT concat('n', id), seq + 1000, total, fare, price, is_even, day, at, 'undone', "
    "place, labels, extra, dt FROM {t} WHERE seq < 6",
    "UPDATE {t} SET dt = '2024-03-02' WHERE seq IN (6, 9)",
    "INSERT OVERWRITE {t} PARTITION (dt = '2024-03-02') SELECT id, seq, total, fare, price, is_even, day, "
    "at, 'undone', place, labels, extra FROM {t} WHERE dt = '2024-03-02' AND seq < 60",
    "ALTER TABLE {t} DROP PARTITION (dt = '2024-03-03')",
    "ALTER TABLE {t} ADD COLUMNS (late INT)",
)
COMPACTION = (
    "CALL run_compaction(op => 'scheduleandexecute', table => '{t}', "
    "options => 'hoodie.compact.inline.max.delta.commits=1')"
)
SERVICES = {"COPY_ON_WRITE": "CALL run_clustering(table => '{t}')", "MERGE_ON_READ": COMPACTION}


@dataclass
class RolledBackTable(TableWithMetadata):
    """A table of `writer` with the `indexes`, all of which stay."""

    writer: HudiOracle
    options: Mapping[str, str]
    indexes: tuple[str, ...] = field(default=())

    def check_kept(self) -> None:
        """All indexes are kept, and the places of all keys."""
        metadata = open_kept(self.path)
        assert metadata.indexes == self.indexes
        if RECORD_INDEX in self.indexes:
            assert_finds_all_keys(metadata)

    def wrong_files(self) -> list[tuple[Any, ...]]:
        """Without the names that 1.2 makes of log files with rollback blocks in version 6 (docs/facts.md)."""
        return [found for found in super().wrong_files() if "/" not in found[1]]

    def theirs(self, start: int, stop: int, options: Mapping[str, str] = BY_RECORDS) -> None:
        """Apache Hudi upserts by its index."""
        self.upsert(self.writer, start, stop, {**self.options, **options})
        self.check_kept()

    def undo(self, count: int = 1) -> None:
        """hudisql rolls the latest commits back, and all indexes stay."""
        for _ in range(count):
            latest = open_at(self.path).timeline.commits[-1].timestamp
            self.ours(f"CALL rollback_to_instant(table => '{{t}}', instant_time => '{latest}')")
        assert open_at(self.path).properties.metadata_partitions == self.indexes
        assert Path(self.path, ".hoodie/metadata").is_dir()

    def undo_all(self, statements: Sequence[str]) -> None:
        """Each of these is rolled back by itself; all rows are as before."""
        before = self.our_rows()
        for statement in statements:
            self.session.sql(statement.replace("{t}", self.name))
            self.undo()
            assert self.our_rows() == before, statement


def _new_table(
    session: Any,
    readers: tuple[HudiOracle, ...],
    writer: HudiOracle,
    version: int,
    table_type: str,
    tmp_path: Path,
    *,
    is_bootstrapped: bool,
) -> RolledBackTable:
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    # Several tests have such a table.
    name = f"undone_{version}_{table_type[:4]}_{tmp_path.name}".lower()
    shape = replace(SHAPE, table_type=table_type, name=name)
    options = {**shape.write_options(), **WITH_INDEXES, "hoodie.table.name": name}
    if writer.version.startswith("1"):
        options["hoodie.write.table.version"] = str(version)
    full_name = f"oracle.{name}"
    if is_bootstrapped:
        made = bootstrap_shape(session, shape, tmp_path, table_version=str(version))
        path = made.path
        session.sql(f"CALL create_metadata_table(table => '{full_name}', indexes => 'record_index')")
    else:
        path = str(tmp_path / "t")
        for start in (0, 60):
            writer.upsert(noted_rows(shape, start, start + 60), path, options)
        session.sql(f"CALL hive_sync(table => '{full_name}', path => '{path}')")
    indexes = open_at(path).properties.metadata_partitions
    assert {"column_stats", "files", "record_index"} <= {*indexes}
    return RolledBackTable(readers, session, path, full_name, shape, writer, options, indexes)


@pytest.mark.parametrize(
    ("writer", "version", "table_type", "is_bootstrapped"),
    parameters(
        [
            (writer, version, table_type, is_bootstrapped)
            for writer, version in (("0.15", 6), ("1.2", 6), ("1.2", 8), ("1.2", 9))
            for table_type in ("COPY_ON_WRITE", "MERGE_ON_READ")
            for is_bootstrapped in (False, True)
            # hudisql makes no tables of version 8.
            if not (is_bootstrapped and version == 8)
        ],
        in_ci=[],
    ),
)
def test_hudi_goes_on_with_the_metadata_table_after_rollbacks(
    session: Any,
    oracle_on_class_path: HudiOracle,
    oracle_120: HudiOracle,
    writer: str,
    version: int,
    table_type: str,
    is_bootstrapped: bool,
    tmp_path: Path,
) -> None:
    hudi = oracle_120 if writer == "1.2" else oracle_on_class_path
    readers = (oracle_on_class_path, oracle_120) if version == 6 else (oracle_120,)
    table = _new_table(session, readers, hudi, version, table_type, tmp_path, is_bootstrapped=is_bootstrapped)
    # Statistics that Hudi made end with an added column.
    table.undo_all(OURS if is_bootstrapped else OURS[:-1])
    table.check()
    table.theirs(30, 70)
    table.check()
    before = table.our_rows()
    # Of Apache Hudi, and several.
    table.theirs(40, 140)
    table.ours("UPDATE {t} SET note = 'undone' WHERE seq IN (41, 100)")
    table.undo(2)
    assert table.our_rows() == before
    table.check()
    table.ours("UPDATE {t} SET note = 'ours' WHERE seq IN (3, 14, 77)")
    table.undo_all([SERVICES[table_type]])
    table.check()
    is_compacted = not (writer == "1.2" and version == 6)
    table.theirs(50, 90, {**BY_RECORDS, **(COMPACTS if is_compacted else {})})
    table.check()
    table.undo()
    table.undo_all(OURS[:2])
    table.theirs(50, 90)
    table.check()


@pytest.mark.parametrize(
    ("version", "table_type"),
    parameters([(6, "MERGE_ON_READ"), (9, "COPY_ON_WRITE")], in_ci=[(9, "COPY_ON_WRITE")]),
)
def test_a_rollback_keeps_the_metadata_table(
    session: Any,
    oracle_015: HudiOracle,
    oracle_120: HudiOracle,
    version: int,
    table_type: str,
    tmp_path: Path,
) -> None:
    hudi = oracle_015 if version == 6 else oracle_120
    table = _new_table(session, (hudi,), hudi, version, table_type, tmp_path, is_bootstrapped=False)
    before = table.our_rows()
    table.theirs(40, 140)
    table.undo()
    assert table.our_rows() == before
    table.check()
    table.theirs(30, 70)
    table.check()


@pytest.mark.soak
@pytest.mark.parametrize(("version", "table_type"), [(6, "COPY_ON_WRITE"), (9, "MERGE_ON_READ")])
def test_a_rollback_that_hudi_gave_up_is_completed_without_the_metadata_table(
    session: Any,
    oracle_015: HudiOracle,
    oracle_120: HudiOracle,
    version: int,
    table_type: str,
    tmp_path: Path,
) -> None:
    """It has compacted the deltacommit before, refuses to roll it back, and then all writes."""
    hudi = oracle_015 if version == 6 else oracle_120
    table = _new_table(session, (hudi,), hudi, version, table_type, tmp_path, is_bootstrapped=False)
    before = table.our_rows()
    table.theirs(40, 140)
    undone = open_at(table.path).timeline.commits[-1].timestamp
    settings = {**SETTINGS, **WITH_INDEXES, **COMPACTS, "hoodie.write.table.version": str(version)}
    refused = pytest.raises(ChildError, match="is earlier than the latest compaction")
    with hudi.settings(settings), refused:
        hudi.sql(f"CALL rollback_to_instant(table => '{table.name}', instant_time => '{undone}')")
    with pytest.raises(ChildError, match="is earlier than the latest compaction"):
        table.upsert(hudi, 0, 10, table.options)
    session.sql(f"UPDATE {table.name} SET note = note WHERE seq = 3")
    assert open_at(table.path).properties.metadata_partitions == ()
    assert undone not in {each.timestamp for each in open_at(table.path).timeline.instants}
    assert table.our_rows() == before
    table.check()
    table.upsert(hudi, 30, 70, table.options)
    table.check()


@pytest.mark.soak
def test_an_index_that_was_made_since_is_dropped_with_the_commit(
    session: Any, oracle_120: HudiOracle, tmp_path: Path
) -> None:
    table = _new_table(
        session, (oracle_120,), oracle_120, 9, "COPY_ON_WRITE", tmp_path, is_bootstrapped=False
    )
    before = table.our_rows()
    table.ours("UPDATE {t} SET note = 'undone' WHERE seq IN (3, 14, 77)")
    with oracle_120.settings({**SETTINGS, **WITH_INDEXES}):
        oracle_120.sql(f"CREATE INDEX late ON {table.name} (note)")
    assert open_at(table.path).properties.metadata_partitions == (*table.indexes, "secondary_index_late")
    table.undo()
    assert table.our_rows() == before
    table.check()
    table.theirs(30, 70)
    table.check()
