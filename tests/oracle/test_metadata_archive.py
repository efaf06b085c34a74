"""Metadata tables whose own timeline hudisql archives: Apache Hudi loses no rows by them, and goes on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.format.timeline.instant import COMMIT
from hudisql.table.files.listing_comparison import compare_listings
from hudisql.table.metadata_table.metadata_table import MetadataTable
from hudisql.table.timeline.archived_timeline import read_archived_entries
from hudisql.write.metadata_table import metadata_compaction
from tests.opened import open_kept
from tests.oracle.client import BY_LISTING, BY_METADATA, HudiOracle
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

ARCHIVE = "CALL archive_commits(table => '{t}', min_commits => 2, max_commits => 3, retain_commits => 1)"
SOON = {
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.cleaner.commits.retained": "1",
}
WRITES = {
    **BY_METADATA,
    **SOON,
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "n",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
}


class _Archived:
    """A table of rows with `id`, `n` and `p`, of which `rows` are expected."""

    def __init__(self, session: Any, path: str, version: int, readers: tuple[HudiOracle, ...]) -> None:
        self.session, self.path, self.version, self.readers = session, path, version, readers
        self.name = f"oracle.archived{version}"
        self.rows: dict[int, int] = {}
        session.sql("CREATE DATABASE IF NOT EXISTS oracle")
        session.sql(f"DROP TABLE IF EXISTS {self.name}")
        session.sql(
            f"CREATE TABLE {self.name} (id INT, n INT, p STRING) USING hudi PARTITIONED BY (p) LOCATION "
            f"'{path}' TBLPROPERTIES (primaryKey = 'id', preCombineField = 'n', "
            f"'hoodie.write.table.version' = '{version}', 'hoodie.archive.automatic' = 'false')"
        )
        self.insert(0)
        session.sql(f"CALL create_metadata_table(table => '{self.name}')")

    def ours(self, statement: str) -> None:
        self.session.sql(statement.replace("{t}", self.name))

    def insert(self, *ids: int) -> None:
        """Each row by a commit of its own, in a partition of its own."""
        for id_ in ids:
            self.ours(f"INSERT INTO {{t}} VALUES ({id_}, {id_}, 'p{id_ % 7}')")
            self.rows[id_] = id_

    def update(self, *ids: int) -> None:
        for id_ in ids:
            self.ours(f"UPDATE {{t}} SET n = n + 100 WHERE id = {id_}")
            self.rows[id_] += 100

    def theirs(self, hudi: HudiOracle, *ids: int, options: Mapping[str, str] | None = None) -> None:
        """Apache Hudi upserts these rows, each by a write of its own."""
        for id_ in ids:
            columns = {"id": pa.array([id_], pa.int32()), "n": pa.array([1000 + id_], pa.int32())}
            rows = pa.table({**columns, "p": [f"p{id_ % 7}"]})
            of_table = {
                "hoodie.table.name": self.name.rpartition(".")[2],
                "hoodie.write.table.version": str(self.version),
            }
            hudi.upsert(rows, self.path, {**WRITES, **of_table, **(options or {})})
            self.rows[id_] = 1000 + id_

    def check(self) -> None:
        """All readers find all rows, by the metadata table and by its statistics, too."""
        expected = sorted(self.rows.items())
        found = self.session.sql(f"SELECT id, n FROM {self.name}").rows
        assert sorted((row[0], row[1]) for row in found) == expected
        for reader in self.readers:
            for options in (BY_LISTING, BY_METADATA):
                for where in (None, "n >= 3", "id = 1 OR n > 100"):
                    read = reader.read(self.path, options=options, where=where)
                    pairs = zip(read["id"].to_pylist(), read["n"].to_pylist(), strict=True)
                    matching = [
                        (id_, n)
                        for id_, n in expected
                        if where is None or (n >= 3 if where == "n >= 3" else id_ == 1 or n > 100)
                    ]
                    assert sorted(pairs) == matching

    def kept(self) -> MetadataTable:
        """hudisql keeps the metadata table, which lists what the storage has."""
        metadata = open_kept(self.path)
        assert [found for found in compare_listings(metadata) if found.differs] == []
        return metadata

    def archived(self) -> int:
        """The number of instants that were archived from the timeline of the metadata table."""
        entries = read_archived_entries(self.kept().own)
        return len({entry.instant for entry in entries if entry.instant.is_completed})


@pytest.mark.parametrize(
    ("version", "writer"), parameters([(6, "0.15"), (6, "1.2"), (9, "1.2")], in_ci=[(9, "1.2")])
)
def test_hudi_goes_on_with_a_metadata_table_whose_timeline_hudisql_archives(
    session: Any,
    oracle_015: HudiOracle,
    oracle_120: HudiOracle,
    version: int,
    writer: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 3)
    readers = (oracle_015, oracle_120) if version == 6 else (oracle_120,)
    hudi = oracle_015 if writer == "0.15" else oracle_120
    table = _Archived(session, str(tmp_path / "table"), version, readers)
    table.insert(*range(1, 8))
    table.update(1, 2, 3)
    table.ours(ARCHIVE)
    archived = table.archived()
    assert archived > 5
    table.check()
    # It compacts the metadata table, and archives, too; 1.2 cannot compact one of version 6.
    soon = {} if (version, writer) == (6, "1.2") else {"hoodie.metadata.compact.max.delta.commits": "2"}
    table.theirs(hudi, 2, 20, 4, 21, options=soon)
    table.check()
    table.insert(*range(30, 34))
    table.update(20, 30)
    assert table.archived() > archived or (version, writer) == (6, "1.2")
    archived = table.archived()
    table.ours(ARCHIVE)
    assert table.archived() > archived
    table.check()
    table.theirs(hudi, 5, 22, options=soon)
    table.check()
    table.kept()


@pytest.mark.soak
def test_hudi_finds_all_files_of_a_metadata_table_that_is_large_beside_its_changes(
    session: Any, oracle_120: HudiOracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hudi 1.2 archives what is older than the last compaction: nothing of that is left in log files."""
    monkeypatch.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 3)
    table = _Archived(session, str(tmp_path / "table"), 9, (oracle_120,))
    # Of log files of any size, none is large beside the base files.
    monkeypatch.setattr(metadata_compaction, "_BASE_BYTES_PER_LOG_BYTE", 0)
    monkeypatch.setattr(metadata_compaction, "_MOST_LOG_FILES", 6)
    table.insert(*range(1, 15))
    own = table.kept().own
    assert [each.action for each in own.timeline.completed].count(COMMIT) == 2
    table.ours(ARCHIVE)
    table.check()
    for id_ in (100, 101, 102):
        table.theirs(oracle_120, id_)
        table.check()
    assert table.archived() > 5
