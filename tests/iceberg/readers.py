"""Reads a published table with DuckDB and PyIceberg, which share no code with hudisql."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyiceberg.table import StaticTable

from sql.demo_duckdb import connect_duckdb


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


def duckdb_rows(metadata_file: str, where: str = "true") -> list[str]:
    return sorted_rows(duckdb_dicts(metadata_file, f"* FROM {{t}} WHERE {where}"))


def duckdb_dicts(metadata_file: str, query: str) -> list[dict[str, Any]]:
    """The rows of `SELECT <query>`, in which `{t}` is the table."""
    with connect_duckdb() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        path = metadata_file.removeprefix("file:")
        found = connection.execute("SELECT " + query.format(t=f"iceberg_scan('{path}')"))
        names = [column[0] for column in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def pyiceberg_rows(metadata_file: str, where: str | None = None) -> list[str]:
    table = StaticTable.from_metadata(metadata_file)
    scan = table.scan(row_filter=where) if where else table.scan()
    return sorted_rows(scan.to_arrow().to_pylist())


def publish(session: Any, name: str, more: str = "") -> dict[str, Any]:
    """The row of CALL sync_iceberg, with more arguments."""
    return dict(session.sql(f"CALL sync_iceberg(table => '{name}'{more})").rows[0].asDict())


def check_readers(session: Any, name: str, filters: Sequence[str] = ()) -> dict[str, Any]:
    """Publish the table; both readers give the rows of hudisql, also with each filter, and their number."""
    published = publish(session, name)
    file, expected = published["metadata_file"], hudisql_rows(session, name)
    assert duckdb_rows(file) == expected
    assert pyiceberg_rows(file) == expected
    assert duckdb_dicts(file, "count(*) AS n FROM {t}") == [{"n": len(expected)}]
    assert published["rows"] == len(expected)
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
