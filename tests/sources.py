"""Small parquet sources, and the proof that nobody changed them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def write_parquet(path: Path, table: pa.Table, **options: Any) -> Path:
    """Write one file by pyarrow, without pyarrow's own schema in the footer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, store_schema=False, **options)
    return path


def orders(first: int = 0, rows: int = 20, **columns: pa.Array) -> pa.Table:
    """Rows with the key `id` (k00000 and so on), `seq` and `amount`."""
    numbers = range(first, first + rows)
    return pa.table(
        {
            "id": [f"k{number:05d}" for number in numbers],
            "seq": pa.array(numbers, pa.int64()),
            "amount": pa.array([number / 4 for number in numbers], pa.float64()),
            **columns,
        }
    )


def fingerprint(directory: Path) -> dict[str, tuple[str, int]]:
    """Every file below the directory with its content's hash and modification time.

    The time of a directory tells of files that came and went; in `.hoodie` locks do.
    """
    return {
        str(path.relative_to(directory)): (
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
            0 if path.name == ".hoodie" else path.stat().st_mtime_ns,
        )
        for path in sorted(directory.rglob("*"))
    }
