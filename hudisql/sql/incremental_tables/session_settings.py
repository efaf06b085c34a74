"""The session settings that affect the result of an incremental table's query.

As Spark's views (`ViewHelper.sqlConfigsToProps`), a definition stores all settings of Spark SQL that a
session has set, except those that only control how Spark runs. A refresh uses the stored ones, and defaults
for all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from hudisql.config.config_key import config_of_session
from hudisql.config.hudi_config import FUNCTIONS
from hudisql.spark.jvm import session_state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudisql.context import Context

_TIMESTAMP_TYPE: Final = "spark.sql.timestampType"
_ALWAYS_KEPT: Final = (
    "spark.sql.session.timeZone",
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
    "spark.sql.legacy.timeParserPolicy",
    "spark.sql.mapKeyDedupPolicy",
    "spark.sql.decimalOperations.allowPrecisionLoss",
    _TIMESTAMP_TYPE,
)
"""Settings whose defaults differ, or may differ, between machines or versions of Spark."""
_OF_RUNNING: Final = tuple(
    f"spark.sql.{prefix}"
    for prefix in (
        *("adaptive.", "addPartitionInBatch.", "artifact.", "autoBroadcastJoinThreshold", "broadcast"),
        *("bucketing.", "cache", "cartesianProductExec.", "catalog", "cbo.", "classic.", "cli.", "codegen."),
        *("columnVector.", "connect.", "dataframeCache.", "debug.", "defaultCacheStorageLevel"),
        *("defaultSizeInBytes", "error.", "exchange.", "execution.", "extension", "files.max", "files.min"),
        *("files.openCost", "globalTempDatabase", "hive.", "inMemory", "join.", "leafNode", "limit."),
        *("max", "maven.", "metadataCache", "objectHashAggregate.", "optimizer.", "parser.manage"),
        *("parser.parserDfa", "pipelines.", "plan", "pyspark.", "python", "queryExecution", "redaction."),
        *("repl.", "scripting.", "session.localRelation", "sessionWindow.", "shuffle", "sort"),
        *("sources.bucketing.", "sources.commitProtocol", "sources.ignoreDataLocality"),
        *("sources.outputCommitter", "sources.parallelPartitionDiscovery.", "sources.partitionOverwriteMode"),
        *("sources.v2.bucketing.", "stackTraces", "statistics.", "storeAssignmentPolicy", "streaming."),
        *("subexpressionElimination.", "thrift", "ui.", "view.maxNestedViewDepth", "warehouse.", "window"),
    )
)
"""Prefixes of settings that affect neither a query's rows nor what a refresh stores."""
_LEGACY: Final = "legacy"


def settings_of_session(context: Context) -> dict[str, str]:
    """The session's values of the stored settings: Spark's, and the choice of functions."""
    conf = context.spark.conf
    found = {name: str(conf.get(name)) for name in (*_ALWAYS_KEPT, *_set_in_session(context.spark))}
    return found | {FUNCTIONS.name: config_of_session(context.spark).get(FUNCTIONS)}


@contextmanager
def with_settings(context: Context, settings: Mapping[str, str]) -> Iterator[None]:
    """Set these values in the session while the context is open, and defaults for other such settings.

    Definitions from versions that stored only some settings leave the others unchanged.
    """
    wanted: dict[str, str | None] = dict(settings)
    if _TIMESTAMP_TYPE in settings:
        wanted = dict.fromkeys(_set_in_session(context.spark)) | wanted
    with context.with_session_settings(wanted):
        yield


def gives_meaning(name: str) -> bool:
    """True for the settings of Spark SQL that may affect a query's rows."""
    is_of_running = name.startswith(_OF_RUNNING) and _LEGACY not in name.lower()
    return name.startswith("spark.sql.") and not is_of_running


def _set_in_session(spark: SparkSession) -> list[str]:
    """The names of settings that the session, or its configuration, has set and that affect rows."""
    # All names by one call: for a map, Py4J asks the JVM for each entry.
    names = str(session_state(spark).conf().settings().keySet().toString())
    set_here = sorted(name for name in names.strip("[]").split(", ") if gives_meaning(name))
    return [name for name in set_here if spark.conf.isModifiable(name)]
