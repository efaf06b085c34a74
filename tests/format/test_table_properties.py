from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudisql.errors import CorruptTableError, NoSuchTableError
from hudisql.format.table_properties import (
    TableProperties,
    parse_properties,
    read_table_properties,
    render_properties,
    render_table_properties,
    table_checksum,
)
from hudisql.storage import Storage

NOW = datetime(2026, 11, 20, 21, 43, 29, 162450, tzinfo=UTC)


def test_properties_of_apache_hudi_are_written_again_byte_for_byte(golden) -> None:
    content = (Path(golden("cow_savepoint_clean").table) / ".hoodie" / "hoodie.properties").read_bytes()
    comment, date, *_ = content.decode().splitlines()
    values = parse_properties(content)
    moment = datetime.strptime(date, "#%a %b %d %H:%M:%S UTC %Y").replace(tzinfo=UTC)
    assert render_properties(values, comment[1:], moment) == content


def test_written_properties_carry_hudis_comments_and_a_checksum() -> None:
    text = render_table_properties(
        {"hoodie.table.name": "c1", "hoodie.database.name": "default"}, NOW
    ).decode()
    lines = text.splitlines()
    assert lines[0] == "#Properties saved on 2026-11-20T21:43:29.162450Z"
    assert lines[1] == "#Fri Nov 20 21:43:29 UTC 2026"
    assert f"hoodie.table.checksum={table_checksum('default', 'c1')}" in lines


@pytest.mark.parametrize("name", ["cow_bootstrap_meta", "cow_savepoint_clean", "mor_bootstrap_meta"])
def test_the_checksum_is_the_one_of_apache_hudi(golden, storage: Storage, name: str) -> None:
    properties = read_table_properties(storage, golden(name).table)
    expected = int(properties.values["hoodie.table.checksum"])
    assert table_checksum(properties.database_name, properties.name) == expected


def test_typed_views_of_a_bootstrapped_table(golden, storage: Storage) -> None:
    table = golden("cow_bootstrap_2part")
    properties = read_table_properties(storage, table.table)
    assert properties.version == 6
    assert properties.table_type == "COPY_ON_WRITE"
    assert properties.record_key_fields == ("id",)
    assert properties.partition_fields == ("region", "dt")
    assert properties.precombine_field == "seq"
    assert properties.bootstrap_base_path == table.source
    assert properties.hive_style_partitioning
    assert not properties.url_encode_partitioning
    assert properties.timeline_timezone == "LOCAL"
    assert properties.create_schema is None


def test_views_have_defaults_where_old_tables_say_nothing() -> None:
    properties = TableProperties({"hoodie.table.name": "t"})
    assert properties.version == 0
    assert properties.populate_meta_fields
    assert properties.partition_fields == ()
    assert properties.metadata_partitions == ()
    assert properties.bootstrap_base_path is None


def test_ordering_fields_of_newer_writers_are_the_precombine_field() -> None:
    assert TableProperties({"hoodie.table.ordering.fields": "seq"}).precombine_field == "seq"


def test_the_backup_answers_when_the_properties_are_missing_or_cut_short(
    storage: Storage, tmp_path: Path
) -> None:
    whole = render_table_properties({"hoodie.table.name": "t", "hoodie.table.version": "6"}, NOW)
    (tmp_path / ".hoodie").mkdir()
    (tmp_path / ".hoodie" / "hoodie.properties.backup").write_bytes(whole)
    assert read_table_properties(storage, str(tmp_path)).name == "t"
    (tmp_path / ".hoodie" / "hoodie.properties").write_bytes(b"")
    assert read_table_properties(storage, str(tmp_path)).version == 6


def test_properties_that_fail_their_checksum_are_refused(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / ".hoodie").mkdir()
    (tmp_path / ".hoodie" / "hoodie.properties").write_text("hoodie.table.name=t\nhoodie.table.checksum=1\n")
    with pytest.raises(CorruptTableError, match="checksum"):
        read_table_properties(storage, str(tmp_path))


def test_no_properties_mean_no_table(storage: Storage, tmp_path: Path) -> None:
    with pytest.raises(NoSuchTableError, match="no Hudi table"):
        read_table_properties(storage, str(tmp_path))


def test_the_java_text_form_is_read_as_java_does() -> None:
    text = (
        "# comment\n! other comment\n  a = 1 \nb:2\nc 3\nd\n"
        "path=file\\:/a\\=b\nlong=one,\\\n    two\nunicode=\\u00e4\\u20AC\nslash=a\\\\b\ntab=\\tx\nk\\ ey=v\n"
    )
    assert parse_properties(text.encode("latin-1")) == {
        "a": "1 ",
        "b": "2",
        "c": "3",
        "d": "",
        "path": "file:/a=b",
        "long": "one,two",
        "unicode": "ä€",
        "slash": "a\\b",
        "tab": "\tx",
        "k ey": "v",
    }


@given(
    st.dictionaries(st.text(st.characters(codec="utf-8"), min_size=1), st.text(st.characters(codec="utf-8")))
)
def test_any_text_survives_writing_and_reading(values: dict[str, str]) -> None:
    assert parse_properties(render_properties(values, "any", NOW)) == values
