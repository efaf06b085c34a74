"""The partitioned record index of Apache Hudi 1.2: hudisql keeps it, and both go on with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.console import SilentConsole
from hudisql.read.scan import data_skipping
from hudisql.write.metadata_table import metadata_compaction
from tests.opened import open_at, open_kept
from tests.oracle.client import BY_LISTING, BY_METADATA, HudiOracle
from tests.oracle.indexed_table import COMPACTION, IndexedTable
from tests.soak import parameters
from tests.write.metadata_table.kept_indexes import assert_finds_all_rows_by_partition

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]


@pytest.fixture(autouse=True)
def ask_indexes_of_few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Filters ask the index of tables as small as these, too."""
    monkeypatch.setattr(data_skipping, "FEWEST_TO_SKIP", 1)


Row = tuple[str, int, str, str]
OURS = (
    "UPDATE {t} SET note = 'ours' WHERE id IN ('k03', 'k14')",
    "DELETE FROM {t} WHERE id IN ('k20', 'k21')",
    "INSERT INTO {t} VALUES ('k00', 2, 'ours', 'dt=1/2 %'), ('k99', 2, 'ours', 'dt=1/2 %'), "
    "('k00', 2, 'ours', 'p1')",
    "UPDATE {t} SET dt = 'p2' WHERE id IN ('k06', 'k99')",
    "UPDATE {t} SET dt = 'p7', note = 'moved' WHERE id = 'k09'",
    "MERGE INTO {t} t USING (SELECT 'k30' AS id, 'p0' AS dt UNION ALL SELECT 'k31', 'p1' UNION ALL "
    "SELECT 'k31', 'p8') s ON t.id = s.id AND t.dt = s.dt WHEN MATCHED THEN UPDATE SET note = 'merged' "
    "WHEN NOT MATCHED THEN INSERT (id, seq, note, dt) VALUES (s.id, 3, 'merged', s.dt)",
    "MERGE INTO {t} t USING (SELECT 'k33' AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
)
OURS_OF_PARTITIONS = (
    "INSERT OVERWRITE {t} PARTITION (dt = 'p2') SELECT id, seq + 1, 'kept' FROM {t} WHERE dt = 'p2' AND "
    "id < 'k20'",
    "ALTER TABLE {t} DROP PARTITION (dt = 'p1')",
    "INSERT INTO {t} VALUES ('k00', 5, 'again', 'p1'), ('k01', 5, 'again', 'p1')",
    "CALL run_clustering(table => '{t}')",
    "CALL run_clean(table => '{t}', retain_commits => 1)",
)
FILTERS: tuple[tuple[tuple[str, ...], str | None], ...] = (
    *((("k00",), partition) for partition in (None, "p0", "p1", "dt=1/2 %")),
    *((("k06", "k09", "k20", "k31"), partition) for partition in (None, "p2", "p8")),
)
"""Record keys, and a partition or none."""


@dataclass
class PartitionedIndex(IndexedTable):
    """A table of 1.2 with a partitioned record index."""

    options: Mapping[str, str]

    def theirs(self, *rows: Row, **options: str) -> None:
        """1.2 upserts the rows, or runs another operation with them."""
        self.hudi.upsert(_table_of(rows), self.path, {**self.options, **options})
        self.check()

    def check(self) -> None:
        """Both read the same rows, and find them by key and partition."""
        self.check_index()
        read = self.hudi.read(self.path, options=BY_LISTING)
        whole = sorted(tuple(row.values()) for row in read.select(["id", "seq", "note", "dt"]).to_pylist())
        ours = self.session.sql(f"SELECT id, seq, note, dt FROM {self.name}").rows
        assert sorted(tuple(row) for row in ours) == whole
        assert len({(row[0], row[3]) for row in whole}) == len(whole)
        found = [
            sorted(
                (number, row[1])
                for number, (keys, partition) in enumerate(FILTERS)
                for row in whole
                if row[0] in keys and partition in (None, row[3])
            ),
            sorted(tuple(row) for row in self.session.sql(_of_filters(self.name)).rows),
        ]
        self.hudi.view("by_partition", self.path, options=BY_METADATA)
        theirs = self.hudi.sql(_of_filters("by_partition")).to_pylist()
        found.append(sorted(tuple(row.values()) for row in theirs))
        assert found == [found[0]] * 3

    def check_index(self) -> None:
        """The index has a place for each row alone."""
        assert_finds_all_rows_by_partition(open_kept(self.path))


def _made(
    oracle: HudiOracle,
    session: Any,
    directory: Path,
    table_type: str,
    version: int,
    groups: int,
    *,
    partition: str = "dt",
) -> PartitionedIndex:
    name = f"by_partition_{table_type[:5].lower()}_{version}_{groups}{partition}"
    options = _options(name, table_type, version, groups, partition)
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    made = PartitionedIndex(oracle, session, f"oracle.{name}", str(directory / "t"), options)
    oracle.upsert(_table_of(_rows(40, 1, "first")), made.path, options)
    session.sql(f"CREATE TABLE {made.name} USING hudi LOCATION '{made.path}'")
    made.check_index()
    return made


def _options(name: str, table_type: str, version: int, groups: int, partition: str) -> dict[str, str]:
    return {
        "hoodie.table.name": name,
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.write.table.version": str(version),
        "hoodie.write.auto.upgrade": "false",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "seq",
        "hoodie.datasource.write.partitionpath.field": partition,
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": "true",
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.metadata.record.level.index.enable": "true",
        "hoodie.metadata.record.level.index.min.filegroup.count": str(groups),
        "hoodie.index.type": "RECORD_LEVEL_INDEX",
    }


def _table_of(rows: Iterable[Row]) -> pa.Table:
    columns = [list(column) for column in zip(*rows, strict=True)]
    return pa.table(dict(zip(("id", "seq", "note", "dt"), columns, strict=True)))


def _of_filters(relation: str) -> str:
    """For each filter its number, with the `seq` of each of its rows."""
    wheres = [
        f"id IN ({', '.join(map(repr, keys))})" + (f" AND dt = '{partition}'" if partition else "")
        for keys, partition in FILTERS
    ]
    return " UNION ALL ".join(
        f"SELECT {number} AS filter, seq FROM {relation} WHERE {where}" for number, where in enumerate(wheres)
    )


def _rows(count: int, seq: int, note: str) -> Iterator[Row]:
    return ((f"k{number:02}", seq, note, f"p{number % 3}") for number in range(count))


@pytest.mark.parametrize(
    ("table_type", "version", "groups"),
    parameters(
        [("COPY_ON_WRITE", 9, 1), ("MERGE_ON_READ", 9, 3), ("MERGE_ON_READ", 8, 1)],
        in_ci=[("COPY_ON_WRITE", 9, 1)],
    ),
)
def test_both_keep_a_partitioned_record_index(
    session: Any,
    oracle_120: HudiOracle,
    table_type: str,
    version: int,
    groups: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 3)
    table = _made(oracle_120, session, tmp_path, table_type, version, groups)
    for statement in OURS:
        table.ours(statement)
    table.check()
    table.theirs(*_rows(12, 4, "theirs"), ("new", 4, "theirs", "p9"), ("new", 4, "theirs", "dt=1/2 %"))
    deletes = {"hoodie.datasource.write.operation": "delete"}
    table.theirs(("k31", 9, "", "p8"), ("k01", 9, "", "p1"), **deletes)
    services = (COMPACTION,) if table_type == "MERGE_ON_READ" else ()
    for statement in (*services, *OURS_OF_PARTITIONS):
        table.ours(statement)
    table.check()
    table.theirs(*_rows(30, 6, "theirs"), **{"hoodie.metadata.compact.max.delta.commits": "1"})
    for statement in OURS[:2]:
        table.ours(statement)
    table.check()
    assert list(Path(table.path, ".hoodie/metadata/record_index").glob("*.hfile"))


@pytest.mark.soak
def test_secondary_indexes_go_and_the_index_of_a_table_without_partitions_stays(
    session: Any, oracle_120: HudiOracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    table = _made(oracle_120, session, tmp_path, "MERGE_ON_READ", 9, 2, partition="")
    lock = "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
    settings = {**table.options, "hoodie.write.lock.provider": lock}
    with oracle_120.settings(settings):
        oracle_120.sql(f"CREATE INDEX notes ON {table.name} (note)")
    assert "secondary_index_notes" in open_at(table.path).properties.metadata_partitions
    monkeypatch.setattr(SilentConsole, "warning", lambda _, text: said.append(text))
    table.ours("UPDATE {t} SET note = 'ours' WHERE id IN ('k03', 'k14')")
    assert [text for text in said if "dropped secondary_index_notes of its metadata table" in text] == said
    table.ours("DELETE FROM {t} WHERE id = 'k20'")
    table.ours("INSERT INTO {t} VALUES ('k50', 2, 'ours', 'none')")
    table.theirs(*_rows(30, 6, "theirs"), ("k50", 3, "theirs", "none"))


@pytest.mark.soak
@pytest.mark.parametrize(
    ("origin", "table_type", "version"),
    [
        ("bootstrap", "COPY_ON_WRITE", 9),
        ("bootstrap", "MERGE_ON_READ", 9),
        ("hudi", "MERGE_ON_READ", 8),
        ("sql", "COPY_ON_WRITE", 9),
    ],
)
def test_hudi_goes_on_with_the_partitioned_record_index_that_hudisql_made(
    session: Any, oracle_120: HudiOracle, origin: str, table_type: str, version: int, tmp_path: Path
) -> None:
    name = f"made_by_partition_{origin}_{table_type[:5].lower()}"
    options = _options(name, table_type, version, 1, "dt")
    options["hoodie.metadata.compact.max.delta.commits"] = "4"
    table = PartitionedIndex(oracle_120, session, f"oracle.{name}", str(tmp_path / "t"), options)
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    _MAKERS[origin](table, tmp_path)
    table.check()
    table.theirs(*_rows(12, 4, "theirs"), ("new", 4, "theirs", "p9"), ("new", 4, "theirs", "dt=1/2 %"))
    for statement in OURS:
        table.ours(statement)
    table.check()
    for seq in range(5, 9):
        table.theirs(*_rows(10 * seq - 30, seq, "again"), ("k31", seq, "again", "p8"))
    assert len(_compacted(table)) > len(_compacted(table, "00000000000000"))
    for statement in (*OURS[:3], *OURS_OF_PARTITIONS):
        table.ours(statement)
    table.check()
    table.theirs(*_rows(30, 12, "theirs"))


def _compacted(table: PartitionedIndex, instants: str = "") -> list[Path]:
    """The base files of the index at instants that begin so."""
    return [*Path(table.path, ".hoodie/metadata/record_index").glob(f"*_{instants}*.hfile")]


def _bootstrap(table: PartitionedIndex, directory: Path) -> None:
    """By the option of 1.2 or by hudisql's parameter."""
    table_type = table.options["hoodie.datasource.write.table.type"]
    indexes = "indexes => 'record_level_index'"
    if table_type == "MERGE_ON_READ":
        indexes = "options => map('hoodie.metadata.record.level.index.enable', 'true')"
    # By its directories the table has encoded paths.
    rows = _table_of([*_rows(40, 1, "first"), ("k50", 1, "first", "p/5")])
    pq.write_to_dataset(rows, directory / "source", partition_cols=["dt"])
    table.session.sql(
        f"CALL bootstrap_table(table => '{table.name}', source => '{directory / 'source'}', "
        f"record_key => 'id', precombine => 'seq', target_path => '{table.path}', table_version => 9, "
        f"table_type => '{table_type}', {indexes})"
    )


def _index_a_table_of_hudi(table: PartitionedIndex, _directory: Path) -> None:
    without = {"hoodie.metadata.enable": "false", "hoodie.index.type": "SIMPLE"}
    for rows in (_rows(40, 1, "first"), _rows(5, 2, "second")):
        table.hudi.upsert(_table_of(rows), table.path, {**table.options, **without})
    table.session.sql(f"CREATE TABLE {table.name} USING hudi LOCATION '{table.path}'")
    _index(table)


def _index_an_empty_table(table: PartitionedIndex, _directory: Path) -> None:
    """The partitions come later."""
    table.session.sql(
        f"CREATE TABLE {table.name} (id STRING, seq BIGINT, note STRING, dt STRING) USING hudi "
        f"PARTITIONED BY (dt) LOCATION '{table.path}' TBLPROPERTIES (primaryKey = 'id', "
        "preCombineField = 'seq', 'hoodie.write.table.version' = '9', "
        "'hoodie.datasource.write.partitionpath.urlencode' = 'true')"
    )
    _index(table)
    listed = ", ".join(map(str, _rows(40, 1, "first")))
    table.session.sql(f"INSERT INTO {table.name} VALUES {listed}")


def _index(table: PartitionedIndex) -> None:
    table.session.sql(f"CALL create_metadata_table(table => '{table.name}', indexes => 'record_level_index')")


_MAKERS = {"bootstrap": _bootstrap, "hudi": _index_a_table_of_hudi, "sql": _index_an_empty_table}
