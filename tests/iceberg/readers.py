"""Reads a published table with DuckDB and PyIceberg, which share no code with hudisql."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyiceberg.table import StaticTable

from hudisql.iceberg.iceberg_verification import IcebergLevel, IcebergVerification, verify_iceberg_table
from hudisql.iceberg.manifest_files import DELETED, read_records
from hudisql.iceberg.other_readers import IcebergReader, connect_duckdb
from hudisql.iceberg.row_comparison import compare_slices
from tests.opened import open_at

_DATA_ENDS = (".puffin", "parquet")


def plain(value: Any) -> Any:
    """The value with maps and structs as dicts, and moments in UTC."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return {key: plain(each) for key, each in value}
    return [plain(each) for each in value] if isinstance(value, list) else value


def sorted_rows(rows: list[dict[str, Any]]) -> list[str]:
    """The rows as texts in one order, for comparisons."""
    return sorted(repr([(name, plain(value)) for name, value in row.items()]) for row in rows)


def hudisql_rows(session: Any, name: str, where: str = "true") -> list[str]:
    rows = session.sql(f"SELECT * FROM {name} WHERE {where}").rows
    dicts = [row.asDict(recursive=True) for row in rows]
    return sorted_rows(
        [{key: value for key, value in row.items() if not key.startswith("_hoodie")} for row in dicts]
    )


def duckdb_rows(metadata_file: str, where: str = "true", snapshot: int | None = None) -> list[str]:
    return sorted_rows(duckdb_dicts(metadata_file, f"* FROM {{t}} WHERE {where}", snapshot))


def duckdb_dicts(metadata_file: str, query: str, snapshot: int | None = None) -> list[dict[str, Any]]:
    """The rows of `SELECT <query>`, in which `{t}` is the table, or a snapshot of it."""
    with connect_duckdb() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        path = metadata_file.removeprefix("file:")
        chosen = "" if snapshot is None else f", snapshot_from_id => {snapshot}"
        found = connection.execute("SELECT " + query.format(t=f"iceberg_scan('{path}'{chosen})"))
        names = [column[0] for column in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def pyiceberg_rows(metadata_file: str, where: str | None = None, snapshot: int | None = None) -> list[str]:
    table = StaticTable.from_metadata(metadata_file)
    scan = table.scan(row_filter=where, snapshot_id=snapshot) if where else table.scan(snapshot_id=snapshot)
    return sorted_rows(scan.to_arrow().to_pylist())


def publish(session: Any, name: str, more: str = "") -> dict[str, Any]:
    """The row of CALL sync_iceberg, with more arguments."""
    return dict(session.sql(f"CALL sync_iceberg(table => '{name}'{more})").rows[0].asDict())


def verification_of(path: Path | str, level: str = "full", reader: str = "hudisql") -> IcebergVerification:
    """The verification of the table at this path, in this process."""
    return verify_iceberg_table(
        open_at(path),
        IcebergLevel(level),
        IcebergReader(reader),
        lambda task, slices: list(compare_slices(task, slices)),
    )


def check_readers(session: Any, name: str, filters: Sequence[str] = (), more: str = "") -> dict[str, Any]:
    """Publish the table; both readers give the rows of hudisql, also with each filter, and their number.

    The verification finds nothing. `more` are arguments of the call.
    """
    published = publish(session, name, more)
    file, expected = published["metadata_file"], hudisql_rows(session, name)
    assert duckdb_rows(file) == expected
    assert pyiceberg_rows(file) == expected
    assert duckdb_dicts(file, "count(*) AS n FROM {t}") == [{"n": len(expected)}]
    assert published["rows"] == len(expected)
    verified = verification_of(Path(file.removeprefix("file:")).parents[3])
    assert (verified.problems, verified.compared_rows) == ((), len(expected))
    for where in filters:
        chosen = hudisql_rows(session, name, where)
        assert duckdb_rows(file, where) == chosen, where
        assert pyiceberg_rows(file, where) == chosen, where
    return published


def shown_file(table_path: str) -> str:
    """The metadata file that the hint names."""
    directory = Path(table_path, ".hoodie/iceberg/metadata")
    return f"file:{directory}/v{(directory / 'version-hint.text').read_text()}.metadata.json"


def check_shown(session: Any, name: str, table_path: str) -> None:
    """Both readers give the rows of hudisql from what is published already."""
    file, expected = shown_file(table_path), hudisql_rows(session, name)
    assert duckdb_rows(file) == expected
    assert pyiceberg_rows(file) == expected
    assert publish(session, name)["result"] == "already published"


def metadata_of(table_path: str) -> dict[str, Any]:
    """The content of the metadata file that the hint names."""
    return dict(json.loads(Path(shown_file(table_path).removeprefix("file:")).read_text()))


def check_history(table_path: str, rows: Mapping[int, list[str]]) -> list[int]:
    """Both readers give the rows of each snapshot by its id, and no file is left over; the kept ids."""
    metadata, file = metadata_of(table_path), shown_file(table_path)
    kept = [snapshot["snapshot-id"] for snapshot in metadata["snapshots"]]
    assert [entry["snapshot-id"] for entry in metadata["snapshot-log"]] == kept
    for snapshot in kept:
        assert duckdb_rows(file, snapshot=snapshot) == rows[snapshot]
        assert pyiceberg_rows(file, snapshot=snapshot) == rows[snapshot]
    location = f"file:{Path(table_path, '.hoodie/iceberg')}/"
    avro, data = set[str](), set[str]()
    for snapshot in metadata["snapshots"]:
        avro.add(snapshot["manifest-list"])
        for manifest in _records(snapshot["manifest-list"]):
            avro.add(manifest["manifest_path"])
            entries = _records(manifest["manifest_path"])
            data |= {entry["data_file"]["file_path"] for entry in entries if entry["status"] != DELETED}
    found = {f"file:{path}" for path in Path(table_path, ".hoodie/iceberg").rglob("*.*")}
    assert {path for path in found if path.endswith(".avro")} == avro
    of_slices = {path for path in found if path.startswith(f"{location}data/") and path[-7:] in _DATA_ENDS}
    assert of_slices == {path for path in data if path.startswith(location)}
    return kept


def _records(uri: str) -> list[dict[str, Any]]:
    return read_records(Path(uri.removeprefix("file:")).read_bytes())
