"""Whether a parquet file uses the Julian-Gregorian hybrid calendar, by the keys that Spark writes to footers.

Follows Spark's `DataSourceUtils.getRebaseSpec`: files of Spark 2 and those of later ones in LEGACY mode are
rebased by Spark's reader, files of other writers by what the session's settings say. Values only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SPARK_VERSION_KEY: Final = b"org.apache.spark.version"
LEGACY_DATETIME_KEY: Final = b"org.apache.spark.legacyDateTime"
LEGACY_INT96_KEY: Final = b"org.apache.spark.legacyINT96"
# Without a version in the file, Spark 3 refuses dates before 1582 and timestamps before 1900. This version
# says that they are proleptic.
PROLEPTIC_SPARK_VERSION: Final = "4.0.0"
# From 3.0 on dates and timestamps are proleptic, from 3.1 on INT96 too.
_FIRST_PROLEPTIC: Final = (3, 1)


def uses_hybrid_calendar(key_values: Mapping[bytes, bytes] | None) -> bool:
    """True if the footer's key-values say that dates or timestamps may use the hybrid calendar."""
    found = key_values or {}
    version = found.get(SPARK_VERSION_KEY)
    if version is None:
        return False
    if LEGACY_DATETIME_KEY in found or LEGACY_INT96_KEY in found:
        return True
    return _numbers(version) < _FIRST_PROLEPTIC


def _numbers(version: bytes) -> tuple[int, int]:
    parts = version.decode(errors="replace").split(".")
    try:
        return int(parts[0]), int(parts[1])
    except (ValueError, IndexError):
        return (0, 0)
