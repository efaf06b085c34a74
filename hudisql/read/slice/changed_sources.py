"""The setting for source files that were modified after their bootstrap: refuse them, or read with a warning.

The rows of such files may not match the keys in the skeletons. Files of another length are always refused.
Reads no files.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from hudisql.config.config_key import HudiConfig
from hudisql.config.hudi_config import CHANGED_SOURCES


def accepts_changed_sources(config: HudiConfig) -> bool:
    """True if the setting says `warn`, False for `fail`. Raises SettingsError."""
    return config.get(CHANGED_SOURCES) == "warn"


def warn_of_changed_sources(paths: Sequence[str]) -> None:
    """Warn of source files that are read although they were modified."""
    if paths:
        warnings.warn(
            f"{len(paths):,} source files were modified after they were bootstrapped, such as {paths[0]}: "
            f"they are read nevertheless, as {CHANGED_SOURCES} says",
            RuntimeWarning,
            stacklevel=3,
        )
