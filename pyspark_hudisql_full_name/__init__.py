"""The data source under the full name of Apache Hudi's: `format("org.apache.hudi")`.

Spark takes one `DefaultSource` of each module named `pyspark_*`.
"""

from __future__ import annotations

from pyspark_hudisql import DefaultSource as HudiSource


class DefaultSource(HudiSource):
    """The source `hudi` by another name."""

    @classmethod
    def name(cls) -> str:
        """The name in `format("org.apache.hudi")`."""
        return "org.apache.hudi"
