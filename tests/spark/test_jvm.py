"""Java classes by name, against a real JVM."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from hudisql.spark.jvm import clone_session, java_class, new_session

pytestmark = pytest.mark.spark


def test_a_class_found_by_its_name_has_constructors_and_static_methods(spark: SparkSession) -> None:
    texts = java_class(spark, "java.util.ArrayList")()
    texts.add("a")
    assert texts.size() == 1
    assert java_class(spark, "java.lang.String").valueOf(7) == "7"


def test_the_first_use_of_a_class_that_is_not_there_raises_an_error(spark: SparkSession) -> None:
    absent = java_class(spark, "org.apache.spark.NoSuchClass")
    with pytest.raises(Py4JError, match="NoSuchClass"):
        absent()


def test_frames_of_rdds_stay_in_the_session_that_they_had(spark: SparkSession) -> None:
    before = spark.sparkContext.parallelize([(1,)]).toDF(["id"]).sparkSession
    for made in (clone_session(spark), new_session(spark)):
        assert made is not before
        assert spark.sparkContext.parallelize([(1,)]).toDF(["id"]).sparkSession is before
