"""Of the metastore entries of one table only one is looked after."""

from __future__ import annotations

from pathlib import Path

from hudisql.catalog.metastore_table import HUDI_INPUT_FORMAT, MetastoreTable, main_entries
from hudisql.storage import Storage


def _entry(name: str, location: str) -> MetastoreTable:
    return MetastoreTable(
        database="d",
        name=name,
        table_type="EXTERNAL_TABLE",
        location=location,
        columns=(),
        input_format=HUDI_INPUT_FORMAT,
    )


def test_locations_are_compared_as_directories(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "t")
    spellings = (f"{tmp_path}/t", f"file:{tmp_path}/t/", f"file://{tmp_path}/t", f"{tmp_path}/link")
    entries = [_entry(f"t{number}", location) for number, location in enumerate(spellings)]
    buckets = [
        _entry("s", "s3://bucket/t"),
        _entry("s_rt", "s3a://bucket/t/"),
        _entry("other", "gs://bucket/t"),
    ]
    found = [each.name for each in main_entries([*entries, *buckets], Storage())]
    assert found == ["other", "s", "t0"]
