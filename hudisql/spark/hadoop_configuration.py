"""The file system settings of a SparkSession, so that a `Storage` accesses files as Spark does.

Spark resolves paths by its Hadoop configuration: core-site.xml, hdfs-site.xml, `spark.hadoop.*` and later
changes by SET. Only the keys that `Storage` reads are copied; they hold secrets and are never printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from hudisql.spark.jvm import session_state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIXES: Final = ("fs.s3a.", "dfs.nameservices", "dfs.ha.", "dfs.namenode.", "dfs.client.", "dfs.data.")
_KEYS: Final = ("fs.defaultFS", "hadoop.security.authentication", "hadoop.rpc.protection")


def hadoop_configuration(spark: SparkSession) -> dict[str, str]:
    """The `fs.*`, `dfs.*` and security settings of the session, as Hadoop would resolve them now."""
    java_configuration = session_state(spark).newHadoopConf()
    collected = {
        prefix + str(suffix): str(value)
        for prefix in _PREFIXES
        for suffix, value in java_configuration.getPropsWithPrefix(prefix).items()
    }
    for key in _KEYS:
        value = java_configuration.get(key)
        if value is not None:
            collected[key] = str(value)
    return collected


class LazyHadoopConfiguration(Mapping[str, str]):
    """`hadoop_configuration` of a Spark that starts with the first look: local files need none of it."""

    def __init__(self, spark: Callable[[], SparkSession]) -> None:
        self._spark = spark

    @cached_property
    def _values(self) -> dict[str, str]:
        return hadoop_configuration(self._spark())

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __reduce__(self) -> tuple[Any, ...]:
        # Tasks get the values.
        return dict, (self._values,)
