"""Java and Scala objects behind py4j: classes by their full name, sequences, maps, class names.

`spark._jvm.org.apache.spark…` asks the JVM about each part of the name, about eight round trips for one
class, and a query uses dozens of classes. Knows no particular class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_T = TypeVar("_T")


def remembered(java_object: Any, name: str, ask: Callable[[Any], _T]) -> _T:
    """The result of `ask` for an immutable object, cached for each proxy of the object."""
    known = java_object.__dict__.setdefault("_hudisql_known", {})
    if name not in known:
        known[name] = ask(java_object)
    told: _T = known[name]
    return told


def java_class(spark: SparkSession, name: str) -> Any:
    """The class of the full `name` in Spark's JVM, for its constructors and static methods.

    Makes no JVM call: if the class does not exist, its first use raises a Py4JError.
    """
    from py4j.java_gateway import JavaClass

    gateway: Any = spark.sparkContext._gateway
    return JavaClass(name, gateway._gateway_client)


def scala_object(spark: SparkSession, name: str) -> Any:
    """The Scala object of the full `name` (without its `$`), for methods that its class does not show."""
    return getattr(java_class(spark, f"{name}$"), "MODULE$")


def items_of(scala_sequence: Any) -> Iterator[Any]:
    """The items of a Scala `Seq`, in order."""
    for position in range(scala_sequence.size()):
        yield scala_sequence.apply(position)


def pairs_of(scala_map: Any) -> Iterator[tuple[Any, Any]]:
    """Keys and values of a Scala `Map`."""
    iterator = scala_map.iterator()
    while iterator.hasNext():
        pair = iterator.next()
        yield pair.productElement(0), pair.productElement(1)


def class_name(value: Any) -> str:
    """The simple name of a value's Java class."""
    return str(value.getClass().getSimpleName())
