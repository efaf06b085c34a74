"""The user that `current_user()`, `user()` and `session_user()` give, set as by Spark's Thrift server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hudisql.spark.jvm import scala_object

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def set_current_user(spark: SparkSession, user: str | None) -> None:
    """Set the user for what this thread plans from now on; None is the user of Spark's process.

    Each thread of Python has a thread of the JVM, where `CurrentUserContext` keeps it.
    """
    context = scala_object(spark, "org.apache.spark.sql.catalyst.CurrentUserContext")
    if user is None:
        context.CURRENT_USER().remove()
    else:
        context.CURRENT_USER().set(user)
