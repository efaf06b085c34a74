"""The settings of a write that its commit stores in its extra metadata, chosen by a prefix of their names.

Follows `HoodieSparkSqlWriter.commitAndPerformPostOperations` of Hudi. The case of the prefix matters.
"""

from __future__ import annotations

from typing import Final

from hudisql.config.config_key import HudiConfig
from hudisql.config.hudi_config import COMMIT_METADATA_PREFIX
from hudisql.errors import SettingsError
from hudisql.format.schema.internal_schema import LATEST_SCHEMA_KEY
from hudisql.format.timeline.commit_metadata import SCHEMA_KEY, SINK_CHECKPOINT_KEY
from hudisql.options.known_settings import is_stored_in_commits

_OWN_PREFIX: Final = "hudisql."
_RESERVED: Final = (SCHEMA_KEY, LATEST_SCHEMA_KEY, SINK_CHECKPOINT_KEY)


def extra_metadata(config: HudiConfig) -> dict[str, str]:
    """The extra metadata of a commit by the settings of its write.

    Raises SettingsError for an empty prefix, and for names that hudisql and Apache Hudi use themselves.
    """
    prefix = config.lookup(COMMIT_METADATA_PREFIX.name, COMMIT_METADATA_PREFIX.default)
    if not prefix:
        raise SettingsError(
            f"{COMMIT_METADATA_PREFIX} is empty, which would store all settings in the commit",
            hint=f"RESET {COMMIT_METADATA_PREFIX}, or give a prefix",
        )
    names = sorted(name for name in config.names() if is_stored_in_commits(name, prefix))
    for name in names:
        if name in _RESERVED or name.startswith(_OWN_PREFIX):
            raise SettingsError(
                f"{COMMIT_METADATA_PREFIX} = {prefix} asks to store '{name}' in the commit, and this name is "
                "that of metadata of the table",
                hint="choose another prefix",
            )
    return {name: config.lookup(name, "") for name in names}
