"""The index `bloom_filters` of a metadata table: hudisql keeps it, and Hudi upserts by it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from hudisql.format.metadata_table.metadata_records import BLOOM_FILTERS
from hudisql.format.schema.meta_columns import FOOTER_BLOOM_FILTER
from hudisql.write.metadata_table import metadata_compaction
from hudisql.write.metadata_table.bloom_filters import bloom_filter_key
from tests.opened import open_kept
from tests.oracle.client import BY_LISTING, HudiOracle
from tests.oracle.kept_table import OURS, OURS_OF_PARTITIONS, SERVICE_OF
from tests.oracle.shapes import SHAPES, noted_rows
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

BY_BLOOM = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.bloom.index.use.metadata": "true",
    "hoodie.index.type": "BLOOM",
    "hoodie.compact.inline": "false",
    "hoodie.clean.commits.retained": "2",
}
INSERT = (
    "INSERT INTO {t} SELECT concat('n', id), seq + 1000, total, fare, price, is_even, day, at, 'ours', "
    "place, labels, extra, dt FROM {t} WHERE seq < 6"
)
MERGE = (
    "MERGE INTO {t} t USING (SELECT id FROM {t} WHERE seq IN (30, 31)) s ON t.id = s.id "
    "WHEN MATCHED THEN DELETE"
)
CLEAN = "CALL run_clean(table => '{t}', retain_commits => 1)"


def _check_filters(path: str) -> None:
    """Each base file has a record with the filter of its footer, and no other has one."""
    metadata = open_kept(path)
    assert BLOOM_FILTERS in metadata.indexes
    records = metadata.read_records(BLOOM_FILTERS)
    stored = {
        key: value["bloomFilter"]
        for key, value in zip(records.keys.to_pylist(), records.values.to_pylist(), strict=True)
        if not value["isDeleted"]
    }
    files = {
        bloom_filter_key(file.parent.name, file.name): pq.read_metadata(file).metadata
        for file in Path(path).glob("dt=*/*.parquet")
    }
    filters = {key: footer[FOOTER_BLOOM_FILTER.encode()] for key, footer in files.items()}
    assert {key: stored.get(key) for key in filters} == filters


@pytest.mark.parametrize(
    ("writer", "version", "table_type"),
    parameters(
        [
            (*writer, table_type)
            for writer in (("0.15", 6), ("1.2", 6), ("1.2", 8), ("1.2", 9))
            for table_type in SERVICE_OF
        ],
        in_ci=[("1.2", 9, "COPY_ON_WRITE")],
    ),
)
def test_hudi_upserts_by_bloom_filters_that_hudisql_keeps(
    session: Any,
    oracle_on_class_path: HudiOracle,
    oracle_120: HudiOracle,
    writer: str,
    version: int,
    table_type: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 3)
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    hudi = oracle_on_class_path if writer == "0.15" else oracle_120
    name = f"bloom_{version}_{writer[0]}_{table_type[:4].lower()}"
    shape = next(replace(shape, table_type=table_type) for shape in SHAPES if shape.name == "partitioned")
    options = {**shape.write_options(), **BY_BLOOM, "hoodie.write.table.version": str(version)}
    options["hoodie.table.name"] = name
    path = str(tmp_path / "t")
    hudi.upsert(noted_rows(shape, 0, 120), path, options)
    session.sql(f"CALL hive_sync(table => 'oracle.{name}', path => '{path}')")

    def theirs(start: int, stop: int) -> None:
        hudi.upsert(noted_rows(shape, start, stop, "theirs"), path, options)
        whole = hudi.read(path, options=BY_LISTING)
        assert {*Counter(whole["_hoodie_record_key"].to_pylist()).values()} == {1}
        notes = dict(zip(whole["seq"].to_pylist(), whole["note"].to_pylist(), strict=True))
        assert {notes[number] for number in range(start, stop)} == {"theirs"}
        _check_filters(path)

    def ours(statement: str) -> None:
        session.sql(statement.replace("{t}", f"oracle.{name}"))
        _check_filters(path)

    for statement in (*OURS, INSERT, MERGE):
        ours(statement)
    theirs(25, 60)
    for statement in (SERVICE_OF[table_type], CLEAN, *OURS[:2], *OURS_OF_PARTITIONS):
        ours(statement)
    theirs(10, 130)
    for statement in (*OURS, SERVICE_OF[table_type], CLEAN):
        ours(statement)
    theirs(0, 140)
