"""Events and Apache Hudi 0.15 write to one table, and find keys by the record index that both keep."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from hudisql.format import table_properties as keys
from hudisql.format.metadata_table.metadata_records import RECORD_INDEX
from hudisql.write.metadata_table.new_metadata_table import create_metadata_table
from tests.ingest.test_table_feed import SCHEMA, Fed, event, events
from tests.opened import open_at, open_kept
from tests.oracle.client import BY_LISTING, BY_METADATA, HudiOracle

pytestmark = [pytest.mark.oracle]

OPTIONS = {
    **BY_METADATA,
    "hoodie.table.name": "t",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "dt",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
}


def _check(fed: Fed, hudi: HudiOracle, expected: dict[int, int]) -> None:
    for options in (BY_LISTING, BY_METADATA):
        rows = hudi.read(fed.path, options=options)
        assert {*Counter(rows["id"].to_pylist()).values()} == {1}
        assert dict(zip(rows["id"].to_pylist(), rows["ts"].to_pylist(), strict=True)) == expected
    assert sorted(fed.rows()) == sorted(expected.values())
    assert RECORD_INDEX in open_kept(fed.path).indexes


def test_hudi_goes_on_with_the_record_index_of_a_feed(
    oracle_on_class_path: HudiOracle, tmp_path: Path
) -> None:
    fed = Fed(tmp_path / "t", keys.MERGE_ON_READ)
    fed.flush(*events(range(60), 1))
    create_metadata_table(open_at(fed.path), with_record_index=True)
    fed.take_over()
    fed.flush(*events(range(40, 80), 2))
    deleted = [event(number, 3, _hoodie_is_deleted=True) for number in (3, 45)]
    fed.flush(*deleted, event(200, 3))
    fed.flush(event(3, 4))
    expected = dict.fromkeys(range(40), 1) | dict.fromkeys(range(40, 80), 2) | {200: 3, 3: 4}
    del expected[45]
    _check(fed, oracle_on_class_path, expected)

    changed = [1, 3, 45, 79, 200, 300]
    rows = pa.Table.from_pylist([event(number, 5) for number in changed], SCHEMA)
    oracle_on_class_path.upsert(rows, fed.path, OPTIONS)
    expected |= dict.fromkeys(changed, 5)
    _check(fed, oracle_on_class_path, expected)

    changed = [1, 45, 60, 300, 301]
    fed.flush(*events(changed, 6))
    expected |= dict.fromkeys(changed, 6)
    _check(fed, oracle_on_class_path, expected)
