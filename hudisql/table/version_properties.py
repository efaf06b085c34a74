"""`hoodie.properties` in the versions of a table: what version 9 says otherwise than version 6.

Follows `HoodieTableMetaClient.TableBuilder`, `SevenToEightUpgradeHandler` and `EightToNineUpgradeHandler` of
Hudi 1.2, and their downgrades. Values become values; it reads and writes no files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hudisql.errors import UnsupportedTableError
from hudisql.format import table_properties as keys
from hudisql.format.timeline_layout import DEFAULT_HISTORY_DIRECTORY, DEFAULT_TIMELINE_DIRECTORY
from hudisql.table.hudi_table import LAYOUT_OF_VERSION

NEW_TABLE_VERSIONS: Final = (6, 9)
"""The versions in which hudisql makes tables."""
COMMIT_TIME: Final = "COMMIT_TIME_ORDERING"
EVENT_TIME: Final = "EVENT_TIME_ORDERING"
_GENERATOR_TYPES: Final = {
    "SimpleKeyGenerator": "SIMPLE",
    "ComplexKeyGenerator": "COMPLEX",
    "NonpartitionedKeyGenerator": "NON_PARTITION",
}
_BOOTSTRAP_INDEX: Final = "HFILE"
_NATIVE: Final = "native"


def properties_of_version_9(values: Mapping[str, str], payload_class: str | None) -> dict[str, str]:
    """The properties of a new table of version 9, given those that it would have in version 6.

    Rows are ordered by event time if there is an ordering column and no `payload_class` says otherwise.
    Raises UnsupportedTableError for key generators that make directory names of values.
    """
    changed = dict(values)
    for key in (keys.PAYLOAD_CLASS, keys.MERGER_STRATEGY):
        changed.pop(key, None)
    if payload_class is not None:
        changed[keys.LEGACY_PAYLOAD_CLASS] = payload_class
    ordering = changed.pop(keys.PRECOMBINE_FIELD, None)
    if ordering is not None:
        changed[keys.ORDERING_FIELDS] = ordering
    by_event_time = payload_class in (None, keys.EVENT_TIME_PAYLOAD) and ordering is not None
    generator = changed.pop(keys.KEY_GENERATOR_CLASS).rpartition(".")[2]
    if generator not in _GENERATOR_TYPES:
        raise UnsupportedTableError(
            f"hudisql makes no tables of version 9 with the key generator {generator}",
            hint="make the table in version 6, and upgrade it with Hudi 1.x",
        )
    if changed.pop(keys.BOOTSTRAP_INDEX_CLASS, None) is not None:
        changed[keys.BOOTSTRAP_INDEX_TYPE] = _BOOTSTRAP_INDEX
    return changed | {
        keys.KEY_GENERATOR_TYPE: _GENERATOR_TYPES[generator],
        keys.RECORD_MERGE_MODE: EVENT_TIME if by_event_time else COMMIT_TIME,
        keys.VERSION: "9",
        keys.INITIAL_VERSION: "9",
        keys.ARCHIVE_DIRECTORY: DEFAULT_HISTORY_DIRECTORY,
        **_layout_2(),
    }


def _layout_2() -> dict[str, str]:
    return {
        keys.TIMELINE_LAYOUT_VERSION: str(LAYOUT_OF_VERSION[9]),
        keys.TIMELINE_DIRECTORY: DEFAULT_TIMELINE_DIRECTORY,
        keys.HISTORY_DIRECTORY: DEFAULT_HISTORY_DIRECTORY,
        keys.TABLE_FORMAT: _NATIVE,
    }
