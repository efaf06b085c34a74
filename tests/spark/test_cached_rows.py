"""Rows that are computed once, on a real Spark session that clears its cache."""

from __future__ import annotations

from typing import Any

import pytest

from hudisql.errors import QueryError
from hudisql.spark.cached_rows import cache_rows
from hudisql.spark.versions import pyspark_version
from hudisql.sql.text.spark_errors import translated_spark_errors

pytestmark = pytest.mark.spark


def _values(frame: Any) -> list[float]:
    return sorted(row[0] for row in frame.collect())


def test_cached_rows_stay_the_same_when_the_session_clears_its_cache(spark: Any) -> None:
    before = spark.sparkContext._jsc.getPersistentRDDs().size()
    random = spark.sql("SELECT rand() AS r, array(id) AS a FROM range(20)")
    cached = cache_rows(random)
    first = _values(cached.frame)
    shared = random.persist()
    shared.unpersist()
    spark.catalog.clearCache()
    assert _values(cached.frame) == first
    assert _values(cached.frame.alias("a").join(cached.frame.alias("b"), "r")) == first
    cached.release()
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == before


def test_cached_rows_that_are_lost_are_not_computed_again(spark: Any) -> None:
    cached = cache_rows(spark.sql("SELECT rand() AS r, array(id) AS a FROM range(20)"))
    assert cached.frame.count() == 20
    for rdd in spark.sparkContext._jsc.getPersistentRDDs().values():
        rdd.unpersist(True)
    said = "lost" if pyspark_version() >= (4, 0) else "not found"
    with pytest.raises(QueryError, match=said), translated_spark_errors():
        cached.frame.collect()
    cached.release()
