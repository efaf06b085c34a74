"""Tests on older PySparks: what needs a newer one is skipped by name, and their own faults are no failures.

`docs/versions.md` says what the older ones lack.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import pytest

from hudisql.spark.versions import pyspark_version


def needs_spark(version: str, what: str) -> pytest.MarkDecorator:
    """The mark of a test (or of a parameter) of `what` PySpark `version` (`4.1`) and newer can do."""
    return pytest.mark.skipif(_is_older_than(version), reason=_reason(version, what))


def module_since(version: str, what: str, name: str) -> Any:
    """The module `name`, which imports on PySpark `version` and newer; the file is skipped on older ones."""
    if _is_older_than(version):
        pytest.skip(_reason(version, what), allow_module_level=True)
    return import_module(name)


def frame_of_arrow(spark: Any, rows: Any) -> Any:
    """`createDataFrame` of Arrow's rows, which PySpark 4.0 and newer takes."""
    if not _is_older_than("4.0"):
        return spark.createDataFrame(rows)
    from hudisql.read.scan.arrow_scan import spark_struct
    from hudisql.spark.few_rows import local_frame

    return local_frame(spark, rows, spark_struct(rows.schema))


def frame_of_path(session: Any, path: Any) -> Any:
    """The rows of the Hudi table at a path: by the data source, before PySpark 4.0 by a query."""
    if has_data_sources():
        return session.spark.read.format("hudi").load(str(path))
    return session.sql(f"SELECT * FROM hudi.`{path}`").df


def has_data_sources() -> bool:
    """True if PySpark has Python data sources."""
    return not _is_older_than("4.0")


def has_blocks() -> bool:
    """True if hudisql runs BEGIN … END on PySpark's version."""
    return not _is_older_than("4.1")


def warning_filters() -> Sequence[str]:
    """Filters, as pytest writes them, of what PySpark itself warns of in the version that is installed."""
    filters = []
    if _is_older_than("4.1"):
        # `collect` leaves its socket to the garbage collector.
        filters.append(r"ignore:unclosed <socket.*raddr=\('127\.0\.0\.1':ResourceWarning")
    if _is_older_than("4.0"):
        filters.append("ignore:distutils Version classes are deprecated:DeprecationWarning")
    return filters


def _is_older_than(version: str) -> bool:
    major, minor = version.split(".")
    return pyspark_version() < (int(major), int(minor))


def _reason(version: str, what: str) -> str:
    return f"needs PySpark {version}: {what}"
