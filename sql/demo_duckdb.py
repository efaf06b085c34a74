"""The demo's table, read by DuckDB as an Iceberg table over the same files.

    python -m sql.demo_duckdb demo-warehouse/warehouse/lake.db/lineitem

DuckDB and its extension come from PyPI; `INSTALL iceberg` fetches the extension elsewhere.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import duckdb

QUERY = """SELECT ship_year, count(*) AS line_items, CAST(sum(l_quantity) AS BIGINT) AS quantity
FROM iceberg_scan('{metadata}') GROUP BY ship_year ORDER BY ship_year LIMIT 3"""


def main(table: str) -> None:
    """Print a few rows of the newest published state of the Hudi table at this path."""
    versions = Path(table).resolve().glob(".hoodie/iceberg/metadata/v*.metadata.json")
    newest = max(versions, key=lambda path: int(path.name.split(".")[0][1:]))
    with connect_duckdb() as connection:
        print(f"DuckDB {duckdb.__version__} on {newest}")
        print(connection.sql(QUERY.format(metadata=newest)))


def connect_duckdb() -> duckdb.DuckDBPyConnection:
    """A connection that reads Iceberg tables."""
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("parquet", "avro", "iceberg"):
        connection.load_extension(str(_extension(name)))
    return connection


def _extension(name: str) -> Path:
    spec = find_spec(f"duckdb_extension_{name}")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"the package duckdb-extension-{name} is missing: pip install 'hudisql[test]'")
    return next(Path(spec.submodule_search_locations[0]).rglob("*.duckdb_extension"))


if __name__ == "__main__":
    main(*sys.argv[1:])
