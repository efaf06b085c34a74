from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from hudisql.format.schema.meta_columns import META_SCHEMA, SKELETON_AVRO_SCHEMA, is_meta_column


def test_skeletons_of_apache_hudi_have_this_schema(golden) -> None:
    skeleton = next(Path(golden("cow_bootstrap_meta").table).glob("dt=*/*.parquet"))
    found = pq.ParquetFile(skeleton)
    assert found.schema_arrow.remove_metadata().equals(META_SCHEMA)
    assert found.metadata.metadata[b"parquet.avro.schema"].decode() == SKELETON_AVRO_SCHEMA


def test_meta_columns_are_known_in_any_case() -> None:
    assert is_meta_column("_HOODIE_record_key")
    assert is_meta_column("_hoodie_operation")
    assert not is_meta_column("_hoodie_is_deleted")
