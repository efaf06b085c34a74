"""hudisql: turn Hive and parquet tables into Apache Hudi tables in place, with SQL, on PySpark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hudisql.session import Session, connect, write_table

__version__ = "0.1.0"
__all__ = ["Session", "__version__", "connect", "write_table"]


def __getattr__(name: str) -> Any:
    # PySpark is slow to import: load the session only when it is asked for, so that the CLI answers at once.
    if name in ("connect", "Session", "write_table"):
        from hudisql import session

        return getattr(session, name)
    raise AttributeError(f"module 'hudisql' has no attribute {name!r}")
