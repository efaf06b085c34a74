"""Looks up the settings of a write: in the session, the table's TBLPROPERTIES, then `hoodie.properties`.

The other modules of `options` define the meaning of settings. `hudisql.sync` is read here because every
commit uses it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from hudisql.config.config_key import HudiConfig
from hudisql.config.hudi_config import SYNC
from hudisql.format.table_properties import KEY_GENERATOR_PREFIXES
from hudisql.options.unserved_settings import SAID_BY_THE_TABLE
from hudisql.spark.jvm import setting_names
from hudisql.table.hudi_table import HudiTable

if TYPE_CHECKING:
    from hudisql.context import Context


def settings_of(context: Context, table: HudiTable, parameters: Mapping[str, str]) -> HudiConfig:
    """The settings of writes to the table; `parameters` are its TBLPROPERTIES."""
    # ALTER TABLE may have changed these since the table was created: the table's own properties are current.
    said = {key: value for key, value in parameters.items() if key not in SAID_BY_THE_TABLE}
    own = {**table.properties.values, **said}
    of_generator = {name for name in map(_generator_setting, own) if name is not None}

    def lookup(key: str, default: str) -> str:
        of_table = own.get(key) or default
        # A table has one way to name directories, and the session's setting may be for another table.
        if _generator_setting(key) in of_generator:
            return of_table
        return context.setting(key, of_table)

    return HudiConfig(lookup, lambda: {*own, *_names_of_session(context)})


def _names_of_session(context: Context) -> Collection[str]:
    """The names of the settings that `context.setting` has values of."""
    spark = context.started_spark
    return context.settings.conf.keys() if spark is None else setting_names(spark)


def syncs_after_commit(config: HudiConfig) -> bool:
    """True if the metastore is synced after each commit. Raises SettingsError."""
    return config.get(SYNC)


def _generator_setting(key: str) -> str | None:
    """The name of a key generator's setting, with any of Hudi's prefixes."""
    prefix = next((prefix for prefix in KEY_GENERATOR_PREFIXES if key.startswith(prefix)), None)
    return None if prefix is None else key.removeprefix(prefix)
