"""Settings that hudisql does not support and refuses, because ignoring them would give other rows.

The names and defaults are those of `HoodieWriteConfig`, `HoodieTableConfig` and `DataSourceReadOptions` of
Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from hudisql.errors import InvalidArgumentError, SettingsError
from hudisql.hudi_config import HudiConfig

QUERY_TYPE: Final = "hoodie.datasource.query.type"
_SNAPSHOT: Final = "snapshot"
_INCREMENTAL: Final = (
    "hoodie.datasource.read.begin.instanttime",
    "hoodie.datasource.read.end.instanttime",
    "hoodie.datasource.query.incremental.format",
    "hoodie.datasource.read.incr.filters",
    "hoodie.datasource.read.incr.path.glob",
)
# With the values that change nothing, the default first.
_WRITES: Final[Mapping[str, tuple[str, ...]]] = {
    "hoodie.combine.before.upsert": ("true",),
    "hoodie.merge.allow.duplicate.on.inserts": ("true",),
    "hoodie.datasource.write.drop.partition.columns": ("false",),
    "hoodie.populate.meta.fields": ("true",),
    "hoodie.table.cdc.enabled": ("false",),
    "hoodie.write.table.version": ("6",),
}


def refuse_unserved_writes(config: HudiConfig) -> None:
    """Raise SettingsError for a setting that asks for another way to write rows than hudisql has."""
    for key, harmless in _WRITES.items():
        text = config.lookup(key, harmless[0]).lower()
        if text not in harmless:
            raise SettingsError(
                f"{key} = {text} is not supported: hudisql writes with {harmless[0]}",
                hint=f"RESET {key}, or leave the option out",
            )


def refuse_unserved_queries(setting: Callable[[str], str | None]) -> None:
    """Raise SettingsError if the session asks queries for anything but the latest snapshot.

    `setting` gives the session's value of a key, or None.
    """
    text = setting(QUERY_TYPE)
    if text is not None and text.strip().lower() != _SNAPSHOT:
        raise SettingsError(
            f"{QUERY_TYPE} = {text} is not served: hudisql's queries read the latest snapshot",
            hint=f"RESET {QUERY_TYPE}; <table>_ro is its base files alone, TIMESTAMP AS OF reads an "
            "earlier snapshot; incremental queries are Apache Hudi's own Spark readers'",
        )


def query_type_of_options(options: Mapping[str, str]) -> str:
    """`snapshot` or `read_optimized`, as a read's options say.

    Raises InvalidArgumentError for other types, and for options of incremental queries.
    """
    given = options.get(QUERY_TYPE, _SNAPSHOT).strip().lower()
    if given not in (_SNAPSHOT, "read_optimized"):
        raise InvalidArgumentError(
            f"{QUERY_TYPE} is '{given}'; the hudi data source reads 'snapshot' and 'read_optimized'",
            hint="incremental queries are Apache Hudi's own Spark readers'",
        )
    named = [key for key in _INCREMENTAL if options.get(key)]
    if named:
        raise InvalidArgumentError(
            f"{named[0]} is an option of incremental queries, which the hudi data source does not serve",
            hint="leave it out; as.of.instant reads the table as it was at an instant",
        )
    return given
