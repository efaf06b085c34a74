"""Access to Spark's JVM: the objects behind PySpark's, classes by their full name, Scala's collections.

The only module that uses PySpark's private attributes. `spark._jvm.org.apache.spark…` asks the JVM about each
part of the name, some eight round trips for one class; `java_class` asks nothing. Knows no particular class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_T = TypeVar("_T")


def remembered(java_object: Any, name: str, ask: Callable[[Any], _T]) -> _T:
    """What `ask` tells of an object that never changes, asked once for each proxy of the object."""
    known = java_object.__dict__.setdefault("_hudisql_known", {})
    if name not in known:
        known[name] = ask(java_object)
    value: _T = known[name]
    return value


def java_class(spark: SparkSession, name: str) -> Any:
    """The class of the full `name` in Spark's JVM, for its constructors and static methods.

    Nothing is asked of the JVM: where there is no such class, its first use raises a Py4JError.
    """
    from py4j.java_gateway import JavaClass

    return JavaClass(name, _gateway(spark)._gateway_client)


def scala_object(spark: SparkSession, name: str) -> Any:
    """The Scala object of the full `name` (without its `$`), for methods that its class does not show."""
    return getattr(java_class(spark, f"{name}$"), "MODULE$")


def is_instance(spark: SparkSession, value: Any, name: str) -> bool:
    """True if a value of the JVM is an instance of the class or interface of the full `name`."""
    from py4j.java_gateway import is_instance_of

    return bool(is_instance_of(_gateway(spark), value, name))


def object_array(spark: SparkSession, items: Sequence[Any]) -> Any:
    """A Java array of objects."""
    array = _gateway(spark).new_array(java_class(spark, "java.lang.Object"), len(items))
    for position, item in enumerate(items):
        array[position] = item
    return array


def _gateway(spark: SparkSession) -> Any:
    return spark.sparkContext._gateway


def is_jvm_running() -> bool:
    """True if PySpark has started its JVM in this process, or has connected to one."""
    from pyspark import SparkContext

    return SparkContext._gateway is not None


def use_gateway(gateway: Any) -> None:
    """Let PySpark use the JVM behind a Py4J gateway."""
    from pyspark import SparkContext

    SparkContext._ensure_initialized(gateway=gateway)


def java_context(context: SparkContext) -> Any:
    """The JVM's `JavaSparkContext`; None if Spark was stopped."""
    return context._jsc


def java_session(spark: SparkSession) -> Any:
    """The JVM's `SparkSession`."""
    session: Any = spark
    return session._jsparkSession


def session_state(spark: SparkSession) -> Any:
    """The JVM's `SessionState` of the session: its catalog, parser, settings and functions."""
    return java_session(spark).sessionState()


def setting_names(spark: SparkSession) -> list[str]:
    """The names of all settings that the session has values of, asked for at once."""
    names = java_session(spark).conf().getAll().keys().mkString("\n")
    return str(names).splitlines()


def metastore_uris(spark: SparkSession) -> str:
    """The addresses of the metastore service that is Spark's catalog, "" if it has another catalog."""
    if spark.conf.get("spark.sql.catalogImplementation", "in-memory") != "hive":
        return ""
    return str(session_state(spark).newHadoopConf().get("hive.metastore.uris") or "")


def spark_sql(spark: SparkSession, text: str) -> DataFrame:
    """The rows of a statement by Spark's own `sql`, which `hudisql.install` replaces in a session."""
    from pyspark.sql import SparkSession

    return SparkSession.sql(spark, text)


def new_session(spark: SparkSession) -> SparkSession:
    """A session of the same Spark application with its own settings, views and functions."""
    return _session_of(spark, java_session(spark).newSession())


def clone_session(spark: SparkSession) -> SparkSession:
    """A session that begins with the settings, temporary views and functions of this one."""
    return _session_of(spark, java_session(spark).cloneSession())


def _session_of(spark: SparkSession, own: Any) -> SparkSession:
    """The Python side of a session of the JVM. `rdd.toDF()` of the user's stays with the session it had."""
    from pyspark import RDD
    from pyspark.sql import SparkSession

    to_df: Any = vars(RDD).get("toDF")
    session = SparkSession(spark.sparkContext, own)
    if to_df is not None:
        setattr(RDD, "toDF", to_df)  # noqa: B010
    return session


def instantiated_session() -> SparkSession | None:
    """The session that was last made in this process, whatever the thread's active one is."""
    from pyspark.sql import SparkSession

    session: SparkSession | None = getattr(SparkSession, "_instantiatedSession", None)
    return session


def set_active_session_of_pyspark(spark: SparkSession) -> None:
    """Make the session the one that `SparkSession.getActiveSession` finds first."""
    from pyspark.sql import SparkSession

    SparkSession._activeSession = spark


def java_dataset(frame: DataFrame) -> Any:
    """The JVM's `Dataset` of a DataFrame."""
    return frame._jdf


def query_execution(frame: DataFrame) -> Any:
    """The JVM's `QueryExecution` of a DataFrame."""
    return java_dataset(frame).queryExecution()


def analyzed_plan(frame: DataFrame) -> Any:
    """The analyzed logical plan of a DataFrame."""
    return query_execution(frame).analyzed()


def optimized_plan(frame: DataFrame) -> Any:
    """The optimized logical plan of a DataFrame."""
    return query_execution(frame).optimizedPlan()


def executed_plan(frame: DataFrame) -> Any:
    """The physical plan of a DataFrame."""
    return query_execution(frame).executedPlan()


def column_text(column: Column) -> str:
    """What a Column shows: the name of a plain column, or an expression."""
    return str(java_column(column).toString())


def java_column(column: Column) -> Any:
    """The JVM's `Column`."""
    given: Any = column
    return given._jc


def set_schema(frame: DataFrame, schema: StructType) -> None:
    """Tell a DataFrame its schema, for which it would ask the JVM."""
    made: Any = frame
    made._schema = schema


def collected_batches(frame: DataFrame) -> list[pa.RecordBatch]:
    """The rows of a DataFrame, on the driver. Raises Spark's own exceptions."""
    collected: Any = frame
    batches: list[pa.RecordBatch] = collected._collect_as_arrow()
    return batches


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
