"""`hoodie.properties` by table version: the differences between versions 9 and 6.

Follows `HoodieTableMetaClient.TableBuilder`, `SevenToEightUpgradeHandler` and `EightToNineUpgradeHandler` of
Hudi 1.2, and their downgrades. Reads and writes no files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from hudisql.errors import UnsupportedTableError
from hudisql.format import table_properties as keys
from hudisql.format.payload_classes import (
    COMMIT_TIME_ORDERING,
    EVENT_TIME_ORDERING,
    EVENT_TIME_PAYLOAD,
    LATEST_PAYLOAD,
    PAYLOAD_RULES,
    payload_rule,
)
from hudisql.format.table_properties import TableProperties
from hudisql.format.timeline.timeline_layout import DEFAULT_HISTORY_DIRECTORY, DEFAULT_TIMELINE_DIRECTORY
from hudisql.table.hudi_table import LAYOUT_OF_VERSION, WRITTEN_VERSION, transforms_partition_values

NEW_TABLE_VERSIONS: Final = (6, 9)
"""The versions in which hudisql makes tables."""
KEY_GENERATORS: Final = "org.apache.hudi.keygen"
"""The package of Hudi's key generators."""
_GENERATOR_TYPES: Final = {
    "SimpleKeyGenerator": "SIMPLE",
    "ComplexKeyGenerator": "COMPLEX",
    "NonpartitionedKeyGenerator": "NON_PARTITION",
    "SimpleAvroKeyGenerator": "SIMPLE_AVRO",
    "ComplexAvroKeyGenerator": "COMPLEX_AVRO",
    "NonpartitionedAvroKeyGenerator": "NON_PARTITION_AVRO",
}
"""Hudi's short names of key generators, by their classes."""
GENERATOR_CLASSES: Final = {short: name for name, short in _GENERATOR_TYPES.items()}
"""The classes by these names."""
_BOOTSTRAP_INDEX: Final = "HFILE"
_LAYOUT_2: Final = {
    keys.TIMELINE_LAYOUT_VERSION: str(LAYOUT_OF_VERSION[9]),
    keys.TIMELINE_DIRECTORY: DEFAULT_TIMELINE_DIRECTORY,
}
_NATIVE: Final = "native"


def properties_of_version_9(values: Mapping[str, str], payload_class: str | None) -> dict[str, str]:
    """The properties of a new table of version 9, given those that it would have in version 6.

    Rows are ordered by event time if there is an ordering column, unless `payload_class` says otherwise.
    Raises UnsupportedTableError for key generators that compute directory names from values.
    """
    changed = dict(values)
    for key in (keys.PAYLOAD_CLASS, keys.MERGER_STRATEGY):
        changed.pop(key, None)
    if payload_class is not None:
        changed[keys.LEGACY_PAYLOAD_CLASS] = payload_class
    ordering = changed.pop(keys.PRECOMBINE_FIELD, None)
    if ordering is not None:
        changed[keys.ORDERING_FIELDS] = ordering
    if payload_class is None:
        by_event_time = ordering is not None
    else:
        by_event_time = _by_event_time(payload_class) and ordering is not None
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
        keys.RECORD_MERGE_MODE: EVENT_TIME_ORDERING if by_event_time else COMMIT_TIME_ORDERING,
        **_merge_properties(payload_class),
        keys.VERSION: "9",
        keys.INITIAL_VERSION: "9",
        keys.ARCHIVE_DIRECTORY: DEFAULT_HISTORY_DIRECTORY,
        keys.HISTORY_DIRECTORY: DEFAULT_HISTORY_DIRECTORY,
        keys.TABLE_FORMAT: _NATIVE,
        **_LAYOUT_2,
    }


def begins_with_key_pairs(version: int, key_generator: str, record_key: Sequence[str]) -> bool:
    """True if the record keys of a table that was made in this version are `column:value` pairs.

    Keys of several columns are. For one key column of the complex key generator Hudi 1.2 writes `id:k`, Hudi
    0.15 in version 6 `k`. With the wrong form an upsert would add rows instead of changing them.
    `key_generator` is a class or a type.
    """
    if len(record_key) != 1:
        return len(record_key) > 1
    generator = _GENERATOR_TYPES.get(key_generator.rpartition(".")[2], key_generator)
    return version == NEW_TABLE_VERSIONS[-1] and generator.startswith("COMPLEX")


def made_with_key_pairs(properties: TableProperties) -> bool:
    """`begins_with_key_pairs` of a table that may have been upgraded, which leaves its keys as they are."""
    version = int(properties.get(keys.INITIAL_VERSION) or WRITTEN_VERSION)
    generator = properties.key_generator_class or properties.key_generator_type or ""
    return begins_with_key_pairs(version, generator, properties.record_key_fields)


def changes_to_version_9(properties: TableProperties) -> dict[str, str | None]:
    """The properties that an upgrade from version 6 or 8 changes (None: removes), as Hudi 1.2 does it.

    In version 6 a copy-on-write table without a payload class, and a merge-on-read table with an ordering
    column, order rows by event time from then on. Raises UnsupportedTableError for tables that hudisql does
    not upgrade.
    """
    _check_upgradable(properties)
    payload = properties.payload_class
    if payload is None and properties.table_type == keys.COPY_ON_WRITE:
        payload = EVENT_TIME_PAYLOAD
    return {
        keys.VERSION: "9",
        keys.INITIAL_VERSION: properties.get(keys.INITIAL_VERSION) or str(properties.version),
        keys.RECORD_MERGE_MODE: properties.record_merge_mode
        or _merge_mode_after_upgrade(properties, payload),
        **_merge_properties(payload),
        keys.MERGE_STRATEGY_ID: None,
        keys.PAYLOAD_CLASS: None,
        keys.LEGACY_PAYLOAD_CLASS: payload,
        keys.PRECOMBINE_FIELD: None,
        keys.ORDERING_FIELDS: ",".join(properties.ordering_fields) or None,
        keys.KEY_GENERATOR_TYPE: properties.key_generator_type or _generator_type(properties),
        keys.BOOTSTRAP_INDEX_TYPE: _BOOTSTRAP_INDEX if properties.bootstrap_base_path else None,
        **(_LAYOUT_2 if properties.version == WRITTEN_VERSION else {}),
    }


def _merge_mode_after_upgrade(properties: TableProperties, payload: str | None) -> str:
    by_event_time = _by_event_time(payload)
    if payload in (None, LATEST_PAYLOAD) and properties.table_type == keys.MERGE_ON_READ:
        by_event_time = bool(properties.ordering_fields)
    return EVENT_TIME_ORDERING if by_event_time else COMMIT_TIME_ORDERING


def _by_event_time(payload_class: str | None) -> bool:
    rule = payload_rule(payload_class)
    return rule is not None and rule.by_event_time


def _merge_properties(payload_class: str | None) -> dict[str, str]:
    """The properties that stand for the rule of a payload class beside the merge mode.

    Raises UnsupportedTableError for a class that Hudi 1.2 does not have.
    """
    rule = payload_rule(payload_class)
    if rule is None or rule.keeps_equal_rows:
        raise UnsupportedTableError(
            f"version 9 has no merge mode for the payload class {payload_class}",
            hint="leave the table in version 6",
        )
    properties = {keys.PARTIAL_UPDATE_MODE: keys.IGNORE_DEFAULTS} if rule.fills_nulls else {}
    if rule.delete_mark is not None:
        for name, value in zip((keys.DELETE_FIELD, keys.DELETE_MARKER), rule.delete_mark, strict=True):
            properties[keys.MERGE_PROPERTY_PREFIX + name] = value
    return properties


def _generator_type(properties: TableProperties) -> str | None:
    return _GENERATOR_TYPES.get((properties.key_generator_class or "").rpartition(".")[2])


def _check_upgradable(properties: TableProperties) -> None:
    generator = (properties.key_generator_class or properties.key_generator_type or "").rpartition(".")[2]
    if transforms_partition_values(properties):
        raise UnsupportedTableError(
            f"hudisql upgrades no tables with the key generator {generator}", hint="upgrade it with Hudi 1.x"
        )
    if generator.upper().startswith("COMPLEX") and len(properties.record_key_fields) == 1:
        raise UnsupportedTableError(
            f"{generator} with one key column: writers of Hudi 0.14 and later have made its record keys in "
            "two forms, so Hudi 1.2 refuses the upgrade, too",
            hint="upgrade it with Hudi 1.2 and hoodie.write.complex.keygen.validation.enable=false",
        )


def key_pairs_error(name: str) -> UnsupportedTableError:
    """The error for the downgrade of a table whose keys of one column are pairs."""
    return UnsupportedTableError(
        f"the record keys of the table are '{name}:value'. Of one key column of the complex key "
        "generator Hudi 0.15 writes the plain value: it would add rows to those that it should change",
        hint="write its rows into a new table of version 6: CREATE TABLE … AS SELECT",
    )


def changes_to_version_6(properties: TableProperties) -> dict[str, str | None]:
    """The properties that a downgrade from version 8 or 9 changes (None: removes), as Hudi 1.2 does it.

    The same rows win: the payload class of version 6 replaces the merge mode. Raises UnsupportedTableError
    for features that version 6 does not have.
    """
    payload = _payload_of_version_6(properties)
    generator = properties.key_generator_class
    if generator is None and properties.key_generator_type in GENERATOR_CLASSES:
        generator = f"{KEY_GENERATORS}.{GENERATOR_CLASSES[properties.key_generator_type]}"
    if payload is None and properties.partial_update_mode == keys.FILL_UNAVAILABLE:
        raise UnsupportedTableError(
            f"hudisql writes no table of version 6 that fills values ({keys.PARTIAL_UPDATE_MODE}="
            f"{keys.FILL_UNAVAILABLE}), and a downgrade by Hudi 1.2 loses the values of its log files",
            hint="write its rows into a new table of version 6: CREATE TABLE … AS SELECT",
        )
    if generator is None or payload is None or len(properties.ordering_fields) > 1:
        raise UnsupportedTableError(
            "table version 6 has no such table: it merges rows by its own rule, orders them by several "
            "columns, or has a key generator that hudisql does not know",
            hint="downgrade it with Hudi 1.x",
        )
    if len(properties.record_key_fields) == 1 and made_with_key_pairs(properties):
        raise key_pairs_error(properties.record_key_fields[0])
    return {
        keys.VERSION: "6",
        keys.TIMELINE_LAYOUT_VERSION: str(LAYOUT_OF_VERSION[6]),
        keys.RECORD_MERGE_MODE: None,
        keys.PARTIAL_UPDATE_MODE: None,
        **{key: None for key in properties.values if key.startswith(keys.MERGE_PROPERTY_PREFIX)},
        keys.MERGE_STRATEGY_ID: None,
        keys.LEGACY_PAYLOAD_CLASS: None,
        keys.PAYLOAD_CLASS: payload,
        keys.ORDERING_FIELDS: None,
        keys.PRECOMBINE_FIELD: ",".join(properties.ordering_fields) or None,
        keys.KEY_GENERATOR_CLASS: generator,
        keys.BOOTSTRAP_INDEX_CLASS: keys.HFILE_BOOTSTRAP_INDEX if properties.bootstrap_base_path else None,
    }


def _payload_of_version_6(properties: TableProperties) -> str | None:
    """The payload class that keeps the rows which win in a table of version 8 or 9; None if there is none.

    That is the class from before an upgrade, unless the table merges rows by another rule since.
    """
    legacy = properties.get(keys.LEGACY_PAYLOAD_CLASS)
    mode = properties.record_merge_mode
    if mode not in (COMMIT_TIME_ORDERING, EVENT_TIME_ORDERING):
        return properties.payload_class or legacy
    plain = EVENT_TIME_PAYLOAD if mode == EVENT_TIME_ORDERING else LATEST_PAYLOAD
    candidates = [plain, *PAYLOAD_RULES] if legacy is None else [legacy, plain, *PAYLOAD_RULES]
    return next((name for name in candidates if _merges_alike(properties, name)), None)


def _merges_alike(properties: TableProperties, payload_class: str) -> bool:
    """True if version 9 would give a table with the payload class the merge rule of this one."""
    rule = payload_rule(payload_class)
    if rule is None or rule.keeps_equal_rows:
        return False
    mark = properties.merge_property(keys.DELETE_FIELD), properties.merge_property(keys.DELETE_MARKER)
    return (
        rule.by_event_time is (properties.record_merge_mode == EVENT_TIME_ORDERING)
        and properties.partial_update_mode == (keys.IGNORE_DEFAULTS if rule.fills_nulls else None)
        and mark == (rule.delete_mark or (None, None))
    )
