"""A metadata table that Apache Hudi wrote is dropped, and the table is read as before."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import InvalidArgumentError, NoSuchTableError

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def test_a_metadata_table_is_dropped_by_name(session: Any, call: Any, golden: Any, tmp_path: Path) -> None:
    path = Path(shutil.copytree(golden("v9_cow_mdt_compacted").table, tmp_path / "table"))
    session.sql("CREATE DATABASE IF NOT EXISTS store")
    session.sql(f"CREATE TABLE store.with_metadata USING hudi LOCATION '{path}'")
    text = "SELECT * FROM store.with_metadata ORDER BY id"
    rows = session.sql(text).rows
    keys = session.sql(f"SELECT key FROM hudi_metadata('{path}') WHERE type = 5 ORDER BY key").rows
    assert [row[0] for row in keys] == [row["id"] for row in rows] != []
    (dropped,) = call("delete_metadata_table", table="store.with_metadata")
    assert dropped == {"result": f"Removed Metadata Table from file:{path}/.hoodie/metadata"}
    assert not (path / ".hoodie/metadata").exists()
    assert session.sql(text).rows == rows
    with pytest.raises(InvalidArgumentError, match="has no metadata table"):
        call("show_metadata_table_partitions", table="store.with_metadata")
    (again,) = call("delete_metadata_table", table="store.with_metadata")
    assert again["result"].startswith("There is no Metadata Table at")


def test_metadata_tables_of_several_tables_are_dropped_at_once(
    session: Any, call: Any, golden: Any, tmp_path: Path
) -> None:
    session.sql("CREATE DATABASE IF NOT EXISTS store")
    paths = []
    for name in ("first", "second"):
        paths.append(Path(shutil.copytree(golden("v9_cow_mdt_compacted").table, tmp_path / name)))
        session.sql(f"CREATE TABLE store.{name} USING hudi LOCATION '{paths[-1]}'")
    with pytest.raises(NoSuchTableError, match=r"no table store\.absent"):
        call("delete_metadata_table", table="store.first,store.absent")
    assert (paths[0] / ".hoodie/metadata").exists()
    rows = call("delete_metadata_table", table="store.first, `store`.`second`")
    assert [row["result"] for row in rows] == [
        f"Removed Metadata Table from file:{path}/.hoodie/metadata" for path in paths
    ]
    assert not any((path / ".hoodie/metadata").exists() for path in paths)
