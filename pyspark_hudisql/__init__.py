"""The `hudi` data source for plain PySpark: `spark.read.format("hudi").load(path)`.

Spark 4 imports every module named `pyspark_*` and registers its `DefaultSource`, so installing hudisql is
enough. Rows and columns are those of Apache Hudi: five meta columns, data columns, partition columns.
"""

from __future__ import annotations

from pyspark_hudisql.source import DefaultSource

__all__ = ["DefaultSource"]
