"""Java classes by their full name, for calls of Spark's inner API through py4j.

`spark._jvm.org.apache.spark…` asks the JVM about each part of the name, some eight round trips for one class;
a query makes dozens of such calls. Knows no class itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def java_class(spark: SparkSession, name: str) -> Any:
    """The class of the full `name` in Spark's JVM, for its constructors and static methods.

    Nothing is asked of the JVM: where there is no such class, its first use raises a Py4JError.
    """
    from py4j.java_gateway import JavaClass

    gateway: Any = spark.sparkContext._gateway
    return JavaClass(name, gateway._gateway_client)


def scala_object(spark: SparkSession, name: str) -> Any:
    """The Scala object of the full `name` (without its `$`), for methods that its class does not show."""
    return getattr(java_class(spark, f"{name}$"), "MODULE$")
