"""The record index: hudisql keeps that of Apache Hudi 1.2, which finds all keys by it, and goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.format.metadata_table.metadata_records import RECORD_INDEX
from hudisql.read.merge.merge_mode import log_merge_config_for
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.metadata_table.record_lookup import find_records
from hudisql.write.index.slice_key_lookup import SliceLookup, read_keys
from hudisql.write.metadata_table import metadata_compaction
from tests.opened import open_kept
from tests.oracle.client import BY_LISTING, BY_METADATA, HudiOracle
from tests.oracle.indexed_table import COMPACTION, SETTINGS, IndexedTable
from tests.oracle.shapes import SHAPES, Shape, bootstrap_shape, noted_rows
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

SHAPE = next(shape for shape in SHAPES if shape.name == "partitioned")
WITH_INDEX = {
    **BY_METADATA,
    "hoodie.write.table.version": "9",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.datasource.write.hive_style_partitioning": "true",
}
OURS = (
    "UPDATE {t} SET note = 'ours' WHERE seq IN (3, 14, 77)",
    "DELETE FROM {t} WHERE seq IN (20, 21)",
    "INSERT INTO {t} SELECT concat('n', id), seq + 1000, total, fare, price, is_even, day, at, 'new', place, "
    "labels, extra, dt FROM {t} WHERE seq < 6",
    "UPDATE {t} SET dt = '2024-03-02' WHERE seq IN (6, 9, 1001)",
    "MERGE INTO {t} t USING (SELECT id FROM {t} WHERE seq IN (30, 31)) s ON t.id = s.id "
    "WHEN MATCHED THEN DELETE",
)
OURS_AFTERWARDS = (
    "INSERT OVERWRITE {t} PARTITION (dt = '2024-03-02') SELECT id, seq, total, fare, price, is_even, day, "
    "at, 'ours', place, labels, extra FROM {t} WHERE dt = '2024-03-02' AND seq < 60",
    "CALL run_clustering(table => '{t}')",
    "ALTER TABLE {t} DROP PARTITION (dt = '2024-03-03')",
    "CALL run_clean(table => '{t}', retain_commits => 1)",
)


@dataclass
class TableWithRecordIndex(IndexedTable):
    """A table of 1.2, which upserts of the shape's rows with the options change."""

    shape: Shape
    options: Mapping[str, str]

    def check_index(self) -> None:
        """All keys are in the index where they are, and no other ones."""
        metadata = open_kept(self.path)
        assert RECORD_INDEX in metadata.indexes
        table = metadata.table
        slices = load_file_slices(table)
        config = log_merge_config_for(table, slices)
        stored = {
            key: (each.partition_path, each.file_id)
            for each in slices
            for batch in read_keys(table.storage, SliceLookup(each, log_merge_config=config))
            for key in batch.column(0).to_pylist()
        }
        keys = sorted(stored)
        found = find_records(metadata, pa.array(keys))
        assert [found.groups[number] if number >= 0 else None for number in found.numbers] == [
            stored[key] for key in keys
        ]
        assert metadata.read_records(RECORD_INDEX).keys.to_pylist() == keys

    def theirs(self, start: int, stop: int, **options: str) -> None:
        """1.2 upserts by the index: no key has two rows then, and the new rows are there."""
        rows = noted_rows(self.shape, start, stop, "theirs")
        self.hudi.upsert(rows, self.path, {**self.options, **options})
        self.check_reads()
        self.check_index()
        found = self.session.sql(f"SELECT count(*) FROM {self.name} WHERE note = 'theirs'").rows
        assert found[0][0] >= stop - start

    def check_reads(self) -> None:
        """1.2 finds by equality of keys the rows that it finds without the metadata table."""
        whole = self.hudi.read(self.path, options=BY_LISTING)
        counts = Counter(whole["_hoodie_record_key"].to_pylist())
        assert set(counts.values()) == {1}
        keys = [f"k{number:06}" for number in (0, 3, 6, 9, 14, 20, 30, 33, 77, 100)] + ["nk000001"]
        listed = ", ".join(f"'{key}'" for key in keys)
        for column in ("id", "_hoodie_record_key"):
            found = self.hudi.read(self.path, where=f"{column} IN ({listed})", options=BY_METADATA)
            assert sorted(found["id"].to_pylist()) == [key for key in keys if key in counts]
            one = self.hudi.read(self.path, where=f"{column} = 'k000006'", options=BY_METADATA)
            assert one["id"].to_pylist() == ["k000006"] * counts["k000006"]


@pytest.mark.soak
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize(
    "option",
    ["hoodie.metadata.record.index.enable", "hoodie.metadata.global.record.level.index.enable"],
)
def test_hudi_finds_all_keys_by_the_index_that_both_keep(
    session: Any,
    oracle_120: HudiOracle,
    table_type: str,
    option: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 3)
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    is_newer = "global" in option
    shape = replace(SHAPE, table_type=table_type, name=f"indexed_{table_type[:5].lower()}_{int(is_newer)}")
    options = {
        **shape.write_options(),
        **WITH_INDEX,
        option: "true",
        "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX" if is_newer else "RECORD_INDEX",
    }
    table = TableWithRecordIndex(
        oracle_120, session, f"oracle.{shape.name}", str(tmp_path / "t"), shape, options
    )
    oracle_120.upsert(noted_rows(shape, 0, 120), table.path, options)
    session.sql(f"CALL hive_sync(table => '{table.name}', path => '{table.path}')")
    table.check_index()
    for statement in OURS:
        table.ours(statement)
    table.check_reads()
    table.theirs(10, 40)
    services = (COMPACTION,) if table_type == "MERGE_ON_READ" else ()
    for statement in (*services, *OURS_AFTERWARDS):
        table.ours(statement)
        table.check_reads()
    table.theirs(0, 140, **{"hoodie.metadata.compact.max.delta.commits": "1"})
    table.ours(OURS[0])
    table.ours(OURS[1])
    assert list(Path(table.path, ".hoodie/metadata/record_index").glob("*.hfile"))


@pytest.mark.parametrize(
    "table_type", parameters(["COPY_ON_WRITE", "MERGE_ON_READ"], in_ci=["COPY_ON_WRITE"])
)
def test_hudi_goes_on_with_the_index_that_hudisql_made_of_a_bootstrapped_table(
    session: Any, oracle_120: HudiOracle, table_type: str, tmp_path: Path
) -> None:
    """It cannot make one itself."""
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    shape = replace(SHAPE, table_type=table_type, name=f"made_{table_type[:5].lower()}")
    options = {
        **shape.write_options(),
        **WITH_INDEX,
        "hoodie.metadata.record.index.enable": "true",
        "hoodie.index.type": "RECORD_INDEX",
        "hoodie.table.name": shape.name,
    }
    with_index = {"indexes": "record_index"} if table_type == "COPY_ON_WRITE" else {}
    made = bootstrap_shape(session, shape, tmp_path, table_version="9", **with_index)
    table = TableWithRecordIndex(oracle_120, session, f"oracle.{shape.name}", made.path, shape, options)
    table.ours("CREATE INDEX IF NOT EXISTS record_index ON {t} (id)")
    table.check_reads()
    table.theirs(10, 40)
    for statement in OURS:
        table.ours(statement)
    table.check_reads()
    table.theirs(0, 130)
    table.ours(OURS[0])


@pytest.mark.soak
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_hudisql_goes_on_without_the_index_that_hudis_writer_drops(
    session: Any, oracle_120: HudiOracle, table_type: str, tmp_path: Path
) -> None:
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    shape = replace(SHAPE, table_type=table_type, name=f"dropped_{table_type[:5].lower()}")
    given = {**shape.write_options(), **WITH_INDEX, "hoodie.table.name": shape.name}
    by_index = {"hoodie.metadata.record.index.enable": "true", "hoodie.index.type": "RECORD_INDEX"}
    made = bootstrap_shape(session, shape, tmp_path, table_version="9", indexes="record_index")
    name = f"oracle.{shape.name}"
    table = TableWithRecordIndex(oracle_120, session, name, made.path, shape, {**given, **by_index})
    table.theirs(10, 40)
    without = {**given, "hoodie.metadata.record.index.enable": "false", "hoodie.index.type": "BLOOM"}
    oracle_120.upsert(noted_rows(shape, 30, 50, "theirs"), table.path, without)
    assert RECORD_INDEX not in open_kept(table.path).indexes
    for statement in OURS:
        session.sql(statement.replace("{t}", name))
        assert RECORD_INDEX not in open_kept(table.path).indexes
        table.check_reads()
    # An index of each partition does not find the rows that were moved.
    oracle_120.upsert(noted_rows(shape, 34, 60, "theirs"), table.path, without)
    table.check_reads()
    table.ours("CREATE INDEX record_index ON {t} (id)")
    table.theirs(0, 130)
    table.ours(OURS[0])


@pytest.mark.soak
def test_indexes_are_created_and_dropped_by_both(
    session: Any, oracle_120: HudiOracle, tmp_path: Path
) -> None:
    name, path = "oracle.indexed_by_both", str(tmp_path / "t")
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    session.sql(
        f"CREATE TABLE {name} (id INT, label STRING, n INT, dt STRING) USING hudi PARTITIONED BY (dt) "
        f"LOCATION '{path}' TBLPROPERTIES (primaryKey = 'id', preCombineField = 'n', "
        "'hoodie.write.table.version' = '9')"
    )
    with oracle_120.settings({**SETTINGS, "hoodie.metadata.record.index.enable": "true"}):
        session.sql(f"INSERT INTO {name} VALUES (1, 'a', 1, 'x'), (2, 'b', 1, 'y')")
        _both(session, oracle_120, name, "CREATE INDEX record_index ON {t} (id)", by_hudi=False)
        oracle_120.sql(f"INSERT INTO {name} VALUES (3, 'c', 1, 'x')")
        _both(session, oracle_120, name, "CREATE INDEX labels ON {t} (label)", by_hudi=True)
        _both(session, oracle_120, name, "DROP INDEX labels ON {t}", by_hudi=False)
        _both(session, oracle_120, name, "DROP INDEX record_index ON {t}", by_hudi=True)
        session.sql(f"UPDATE {name} SET label = 'd' WHERE id = 2")
        create = "CREATE INDEX record_index ON {t} USING record_index(id)"
        _both(session, oracle_120, name, create, by_hudi=True)
        session.sql(f"INSERT INTO {name} VALUES (4, 'e', 1, 'y')")
        open_kept(path)
        _both(session, oracle_120, name, "DROP INDEX record_index ON {t}", by_hudi=False)
        _both(session, oracle_120, name, "DROP INDEX column_stats ON {t}", by_hudi=False)
        oracle_120.sql(f"UPDATE {name} SET label = 'f' WHERE id = 1")
        _both(session, oracle_120, name, "REFRESH INDEX files ON {t}", by_hudi=True)


def _both(session: Any, oracle: HudiOracle, name: str, statement: str, *, by_hudi: bool) -> None:
    """Run the statement in one engine; both show the same indexes and rows afterwards."""
    (oracle if by_hudi else session).sql(statement.replace("{t}", name))
    oracle.sql(f"REFRESH TABLE {name}")
    ours = sorted(tuple(row) for row in session.sql(f"SHOW INDEXES FROM {name}").rows)
    theirs = oracle.sql(f"SHOW INDEXES FROM {name}").to_pylist()
    assert ours == sorted(tuple(row.values()) for row in theirs)
    query = f"SELECT id, label, n, dt FROM {name} WHERE id > 0"
    rows = sorted(tuple(row.values()) for row in oracle.sql(query).to_pylist())
    assert sorted(tuple(row) for row in session.sql(query).rows) == rows != []
