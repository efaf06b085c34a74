"""Reads a published table with DuckDB and PyIceberg, which share no code with hudisql."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
from pyiceberg.table import StaticTable


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
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        for name in ("parquet", "avro", "iceberg"):
            spec = find_spec(f"duckdb_extension_{name}")
            assert spec is not None
            assert spec.submodule_search_locations is not None
            directory = Path(next(iter(spec.submodule_search_locations)))
            file = next(directory.rglob("*.duckdb_extension"))
            connection.execute(f"LOAD '{file}'")
        connection.execute("SET TimeZone = 'UTC'")
        path = metadata_file.removeprefix("file:")
        found = connection.execute(f"SELECT * FROM iceberg_scan('{path}') WHERE {where}")
        names = [column[0] for column in found.description or ()]
        return sorted_rows([dict(zip(names, row, strict=True)) for row in found.fetchall()])


def pyiceberg_rows(metadata_file: str, where: str | None = None) -> list[str]:
    table = StaticTable.from_metadata(metadata_file)
    scan = table.scan(row_filter=where) if where else table.scan()
    return sorted_rows(scan.to_arrow().to_pylist())
