"""Starting the SparkSession that hudisql owns: settings, a quiet JVM, the shared metastore.

All output of the JVM (log4j, the workers' standard error) goes to a separate log file, so that a command's
standard output has only results and its standard error only hudisql's messages. A session that the user
provides is never configured here.
"""

from __future__ import annotations

import atexit
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hudisql.config.settings import Settings
from hudisql.errors import HudisqlError, SettingsError
from hudisql.java_runtime import ensure_java_home
from hudisql.spark.class_archive import archive_path, shared_classes
from hudisql.spark.jvm import is_jvm_running, use_gateway
from hudisql.spark.versions import check_pyspark
from hudisql.storage import Storage
from hudisql.storage.hadoop_files import hadoop_settings

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

# By default Spark lists 32 paths or more by a job, which takes seconds; scans of chosen files name thousands.
_DISCOVERY_THRESHOLD: Final = ("spark.sql.sources.parallelPartitionDiscovery.threshold", "1000000")
# With the default of 100 a session with many tables compiles the same code repeatedly.
_COMPILED_CLASSES: Final = ("spark.sql.codegen.cache.maxEntries", "1000")
# PySpark 4 notes which line of Python makes a column, here hudisql's own: ten of `col`'s 13 round trips.
_CALL_SITES: Final = ("spark.python.sql.dataFrameDebugging.enabled", "false")
_LOG_TAIL_LINES: Final = 15
# The last line of spark-submit: `Exception in thread "main" org.apache.spark.SparkException: Master must …`.
_THROWN: Final = re.compile(r'^(?:Exception in thread "[^"]*" [\w.$]+|Error): (.+)$', re.MULTILINE)


@dataclass(frozen=True)
class OwnedSpark:
    """A SparkSession that hudisql started, and the file that its JVM logs to."""

    spark: SparkSession
    log_file: Path


def start_spark(
    settings: Settings, warehouse: str, metastore_uris: Sequence[str], *, records_classes: bool = False
) -> OwnedSpark:
    """Start Spark on the metastore at these URIs. Raises SettingsError if the JVM or Spark fail to start.

    The user's `conf` overrides hudisql's settings. With `records_classes` the JVM writes the archive of its
    classes if there is none yet.
    """
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    check_pyspark()
    _check_login(settings)
    ensure_java_home()
    _choose_worker_python(settings)
    _silence_query_loggers()
    configuration = SparkConf(loadDefaults=False)
    for key, value in spark_configuration(settings, warehouse, metastore_uris).items():
        configuration.set(key, value)
    log_file = _new_log_file()
    try:
        if not is_jvm_running():
            _launch_jvm(configuration, log_file, records_classes=records_classes)
        builder: Any = SparkSession.builder
        spark: SparkSession = builder.config(conf=configuration).getOrCreate()
    except HudisqlError:
        raise
    except Exception as error:
        raise SettingsError(
            f"Spark did not start on master {settings.master}: {_reason(error, log_file)}",
            hint="set --master and --conf: local[*], yarn, spark://host:port",
        ) from error
    return OwnedSpark(spark, log_file)


def spark_configuration(settings: Settings, warehouse: str, metastore_uris: Sequence[str]) -> dict[str, str]:
    """The Spark settings of an owned session; the user's `conf` and `hiveconf` come last."""
    configuration = {
        "spark.app.name": "hudisql",
        "spark.master": settings.master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": Storage().hadoop_uri(warehouse),
        "spark.hadoop.hive.metastore.uris": ",".join(metastore_uris),
        "spark.hadoop.hive.metastore.warehouse.dir": Storage().hadoop_uri(warehouse),
        _DISCOVERY_THRESHOLD[0]: _DISCOVERY_THRESHOLD[1],
        _COMPILED_CLASSES[0]: _COMPILED_CLASSES[1],
        _CALL_SITES[0]: _CALL_SITES[1],
    }
    if settings.master.startswith("local"):
        configuration |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if settings.metastore_sasl:
        configuration["spark.hadoop.hive.metastore.sasl.enabled"] = "true"
        if settings.metastore_principal:
            configuration["spark.hadoop.hive.metastore.kerberos.principal"] = settings.metastore_principal
    if settings.kerberos_keytab:
        configuration["spark.kerberos.keytab"] = settings.kerberos_keytab
        configuration["spark.kerberos.principal"] = settings.kerberos_principal
    configuration |= {f"spark.hadoop.{key}": value for key, value in settings.hiveconf.items()}
    return configuration | dict(settings.conf)


def _check_login(settings: Settings) -> None:
    """Raise SettingsError if Spark's client could not log in to a Kerberized metastore.

    Hadoop's UserGroupInformation decides how to log in before Spark reads its own settings.
    """
    if not settings.metastore_sasl or "spark.driver.extraClassPath" in settings.conf:
        return
    home = os.environ.get("SPARK_HOME")
    variables = {
        name: os.environ.get(name) for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR")
    }
    directories = [*variables.values(), f"{home}/conf" if home else None]
    for directory in filter(None, directories):
        key = "hadoop.security.authentication"
        if hadoop_settings({}, {}, {"HADOOP_CONF_DIR": directory}).get(key, "").lower() == "kerberos":
            return
    raise SettingsError(
        "the metastore asks for Kerberos, but Spark would not log in: no core-site.xml sets "
        "hadoop.security.authentication to kerberos",
        hint="set HADOOP_CONF_DIR to the cluster's configuration, or to a directory with a core-site.xml of "
        "this property; --conf spark.hadoop.… comes too late for it",
    )


def _launch_jvm(configuration: SparkConf, log_file: Path, *, records_classes: bool) -> None:
    import pyspark
    from pyspark.java_gateway import launch_gateway

    # As PySpark finds Spark.
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    archive = archive_path(os.environ["JAVA_HOME"], home / "jars", dict(configuration.getAll()), os.environ)
    # A file instead of a pipe: the JVM must never wait for a reader.
    with log_file.open("ab") as log, shared_classes(archive, records=records_classes) as inherited:
        launch: Any = launch_gateway
        gateway = launch(configuration, popen_kwargs={"stdout": log, "stderr": log, "pass_fds": inherited})
    use_gateway(gateway)


def _choose_worker_python(settings: Settings) -> None:
    # PySpark reads only this variable (the setting is for spark-submit), and without it uses the first
    # python3 on the PATH. That may be right on a cluster; locally only this process's Python has the
    # packages.
    chosen = settings.conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    if chosen or settings.master.startswith("local"):
        os.environ["PYSPARK_PYTHON"] = chosen or sys.executable


def _silence_query_loggers() -> None:
    # PySpark logs every failed query as JSON on standard error in addition to raising it.
    try:
        from pyspark.logger import PySparkLogger
    except ImportError:
        # PySpark 3.5 logs nothing.
        return
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def _new_log_file() -> Path:
    descriptor, name = tempfile.mkstemp(prefix=f"hudisql-{os.getpid()}-", suffix="-spark.log")
    os.close(descriptor)
    path = Path(name)
    atexit.register(path.unlink, missing_ok=True)
    return path


def _reason(error: Exception, log_file: Path) -> str:
    """Java's error message; if Java did not start, the end of its log."""
    cause: Any = getattr(error, "java_exception", None)
    if cause is not None:
        while cause.getCause() is not None:
            cause = cause.getCause()
        return str(cause.getMessage() or cause.toString())
    log = log_file.read_text(errors="replace")
    if thrown := _THROWN.search(log):
        return thrown[1]
    first = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return "\n".join([first, *(f"    {line}" for line in log.splitlines()[-_LOG_TAIL_LINES:])])
