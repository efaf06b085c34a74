"""Functions, settings and table properties that reach nothing but the tables that a statement names.

Those that are not listed are for admins: they may read files, run code, or change where and how others write.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

from hudisql.sql.ddl.table_options import ORDERING, PARTITIONS, PRIMARY_KEY, TYPE
from hudisql.sql.query.hive_functions import LACKING

_READS_OR_RUNS: Final = frozenset({"in_file", "reflect2"})
"""Of Hive's functions in LACKING."""
_SETTINGS: Final = frozenset(
    {
        *("spark.sql.shuffle.partitions", "spark.sql.ansi.enabled", "spark.sql.session.timezone"),
        *(
            "spark.sql.autobroadcastjointhreshold",
            "spark.sql.broadcasttimeout",
            "spark.sql.crossjoin.enabled",
        ),
        *("spark.sql.adaptive.enabled", "spark.sql.adaptive.coalescepartitions.enabled"),
        *("spark.sql.adaptive.skewjoin.enabled", "spark.sql.adaptive.advisorypartitionsizeinbytes"),
        *("spark.sql.adaptive.autobroadcastjointhreshold", "spark.sql.files.maxpartitionbytes"),
        *("spark.sql.storeassignmentpolicy", "spark.sql.timestamptype", "spark.sql.mapkeydeduppolicy"),
        *("spark.sql.groupbyordinal", "spark.sql.orderbyordinal", "spark.sql.groupbyaliases"),
        *("spark.sql.legacy.timeparserpolicy", "spark.sql.sources.partitionoverwritemode"),
        *("hoodie.datasource.write.operation", "hoodie.datasource.overwrite.mode", "hoodie.sql.insert.mode"),
        *("hoodie.sql.bulk.insert.enable", "hoodie.spark.sql.insert.into.operation"),
        *("hoodie.datasource.insert.dup.policy", "hoodie.merge.allow.duplicate.on.inserts"),
        *("hoodie.enable.data.skipping", "hoodie.metadata.enable"),
        *("hive.exec.dynamic.partition", "hive.exec.dynamic.partition.mode"),
        *("hive.server2.thrift.resultset.default.fetch.size", "hudisql.serve.hive.show.tables"),
    }
)
_PROPERTIES: Final = frozenset({"comment", *PRIMARY_KEY, *TYPE, *ORDERING, *PARTITIONS})
_RESERVED_PROPERTIES: Final = frozenset(
    {
        *(
            "path",
            "location",
            "external",
            "provider",
            "owner",
            "is_managed_location",
            "transient_lastddltime",
        ),
        *("external.table.purge", "auto.purge"),
        # Classes that readers load, and a file that they read in place of the table's.
        *("recordmergerimpls", "recordmergestrategyid"),
        *("storage_handler", "table_type", "metadata_location", "previous_metadata_location"),
    }
)
_OPTIONS: Final = frozenset(
    {
        *("header", "delimiter", "sep", "quote", "escape", "multiline", "nullvalue", "encoding", "charset"),
        *("dateformat", "timestampformat", "linesep", "compression"),
    }
)
PROVIDERS: Final = frozenset({"", "hudi", "org.apache.hudi", "parquet", "orc", "csv", "json", "avro", "text"})
"""The formats of tables that a writer may create: files below the warehouse."""


@cache
def harmless_functions() -> frozenset[str]:
    """The names of functions that anybody may call, in lower case."""
    names = (files(__package__) / "harmless_functions.txt").read_text(encoding="utf-8").split()
    return frozenset(names) | (LACKING.keys() - _READS_OR_RUNS)


def is_harmless_setting(name: str) -> bool:
    """True for a setting that anybody may read and change: one that is listed, or a variable without dots."""
    plain = name.strip().removeprefix("hivevar:")
    return plain.lower() in _SETTINGS or plain.replace("_", "").isalnum()


def is_harmless_property(name: str) -> bool:
    """True for a property that a writer may give a table: key, ordering, type, names without dots."""
    lower = name.strip().lower()
    return lower in _PROPERTIES or (lower not in _RESERVED_PROPERTIES and lower.replace("_", "").isalnum())


def is_harmless_option(name: str) -> bool:
    """True for an option that a writer may give a table: its key, ordering, type, and the form of texts."""
    return name.strip().lower() in (_OPTIONS | _PROPERTIES)
