"""The file system settings of a SparkSession, so that a `Storage` accesses files as Spark does.

Spark resolves paths by its Hadoop configuration: core-site.xml, hdfs-site.xml, `spark.hadoop.*` and later
changes by SET. Only the keys that `Storage` reads are copied; they hold secrets and are never printed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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
