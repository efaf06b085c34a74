"""Differences between timestamps of the hybrid and the proleptic calendar, by time zone.

Java's older classes do not know local mean time, so moments before 1900 differ by some minutes in addition to
the calendars' days. Spark ships a table of the differences of every zone (`RebaseDateTime`); it is read from
Spark's own jar, so that both ways to read agree. Imports no Spark.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from hudisql.errors import UnsupportedTableError

_MICROS: Final = 1_000_000
# Midnight of the first day of year 1 of the Julian calendar, UTC.
_FIRST_JULIAN_SECOND: Final = -62_135_769_600
_TABLE: Final = "julian-gregorian-rebase-micros.json"
_OFFSET: Final = re.compile(r"(GMT|UTC|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?\d{2})?")


@dataclass(frozen=True, slots=True)
class LegacyZone:
    """A zone's rules for moments before 1900.

    Moments from `switches[i]` on (microseconds) are shifted by `shifts[i]`. Earlier moments, and all moments
    of a zone without switches, are `offset_micros` ahead of UTC; they are shifted by the calendars' days and
    by `extra_micros`.
    """

    offset_micros: int
    extra_micros: int
    switches: npt.NDArray[np.int64]
    shifts: npt.NDArray[np.int64]


@cache
def legacy_zone(name: str) -> LegacyZone:
    """The rules of a zone by its name in Java (`Europe/Berlin`, `UTC`, `GMT+02:00`).

    Raises UnsupportedTableError for a zone that Spark does not know, or if Spark is not installed.
    """
    fixed = _fixed_offset(name)
    if fixed is not None:
        nothing = np.zeros(0, dtype=np.int64)
        return LegacyZone(fixed * _MICROS, 0, nothing, nothing)
    record = _zone_records().get(name)
    if record is None:
        raise UnsupportedTableError(
            f"the files hold old timestamps of the time zone '{name}', whose history is not known",
            hint="rewrite them with spark.sql.parquet.datetimeRebaseModeInWrite=CORRECTED",
        )
    switches = np.array(record["switches"], dtype=np.int64)
    shifts = np.array(record["diffs"], dtype=np.int64)
    return LegacyZone(
        int(_FIRST_JULIAN_SECOND - switches[0]) * _MICROS,
        int(shifts[0] - 2 * 86_400) * _MICROS,
        switches * _MICROS,
        shifts * _MICROS,
    )


def _fixed_offset(name: str) -> int | None:
    """Seconds ahead of UTC of a zone that never changed, None for all others."""
    if name in ("UTC", "GMT", "UT", "Z", "Etc/UTC", "Etc/GMT"):
        return 0
    matched = _OFFSET.fullmatch(name)
    if matched is None:
        return None
    prefix, sign, hours, minutes = matched.groups()
    if prefix != "GMT":
        return 0  # Java's older classes, which Spark uses here, know offsets only as `GMT+01:00`
    ahead = int(hours) * 3600 + int(minutes or 0) * 60
    return -ahead if sign == "-" else ahead


@cache
def _zone_records() -> dict[str, Any]:
    for jar in _spark_jars():
        with zipfile.ZipFile(jar) as archive:
            if _TABLE in archive.namelist():
                return {record["tz"]: record for record in json.loads(archive.read(_TABLE))}
    raise UnsupportedTableError(
        "the files hold old timestamps in the calendar of Spark 2, and Spark's table of zones is missing",
        hint="set SPARK_HOME to the directory of Spark",
    )


def _spark_jars() -> Iterator[Path]:
    """The jars that may hold the table: Spark 4 has it in its API, Spark 3 in Catalyst."""
    homes = [Path(os.environ["SPARK_HOME"])] if os.environ.get("SPARK_HOME") else []
    found = importlib.util.find_spec("pyspark")
    if found is not None and found.origin is not None:
        # PySpark's wheel has the jars; in a distribution PySpark is in python/ or in python/lib/a.zip.
        homes += list(Path(found.origin).parents)[:5]
    for home in homes:
        for pattern in ("spark-sql-api_*.jar", "spark-catalyst_*.jar"):
            yield from sorted((home / "jars").glob(pattern))
