"""The demo's table, read by DuckDB as an Iceberg table over the same files.

    python -m sql.demo_duckdb demo-warehouse/warehouse/lake.db/lineitem

DuckDB and its extension come from PyPI; `INSTALL iceberg` fetches the extension elsewhere.
"""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb

from hudisql.iceberg.other_readers import connect_duckdb

QUERY = """SELECT ship_year, count(*) AS line_items, CAST(sum(l_quantity) AS BIGINT) AS quantity
FROM iceberg_scan('{metadata}') GROUP BY ship_year ORDER BY ship_year LIMIT 3"""


def main(table: str) -> None:
    """Print a few rows of the newest published state of the Hudi table at this path."""
    versions = Path(table).resolve().glob(".hoodie/iceberg/metadata/v*.metadata.json")
    newest = max(versions, key=lambda path: int(path.name.split(".")[0][1:]))
    with connect_duckdb() as connection:
        print(f"DuckDB {duckdb.__version__} on {newest}")
        print(connection.sql(QUERY.format(metadata=newest)))


if __name__ == "__main__":
    main(*sys.argv[1:])
