"""Hudi 0.15's settings of its Hive sync, and hudisql's treatment of each.

The declaration of docs/settings.md. Keys are those of Hudi's `HiveSyncConfigHolder` and `HoodieSyncConfig`
(tests/oracle/test_sync_settings.py reads them out of its jar).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hudisql.errors import InvalidArgumentError

SYNC_PREFIX: Final = "hoodie.datasource.hive_sync."


class Treatment(StrEnum):
    """hudisql's treatment of a setting."""

    FOLLOWED = "followed"
    WITHOUT_EFFECT = "no effect"
    ONE_VALUE = "one value"


@dataclass(frozen=True, slots=True)
class SyncSetting:
    """A setting; of one with ONE_VALUE every value but `only` (lower case) is refused, for `reason`."""

    name: str
    treatment: Treatment
    reason: str
    only: tuple[str, ...] = ()


_FOLLOWED, _NO_EFFECT, _ONE = Treatment.FOLLOWED, Treatment.WITHOUT_EFFECT, Treatment.ONE_VALUE
_NO_JDBC: Final = "hudisql connects to the metastore itself"
_OWN_PROPERTIES: Final = "it is in the table's own properties"

SYNC_SETTINGS: Final[tuple[SyncSetting, ...]] = (
    SyncSetting("table.strategy", _FOLLOWED, "ALL, RO or RT: entries of a merge-on-read table"),
    SyncSetting("skip_ro_suffix", _FOLLOWED, "the plain name shows base files only"),
    SyncSetting(
        "support_timestamp", _FOLLOWED, "timestamps are declared as such, and Hive 2.3 fails on them"
    ),
    SyncSetting("sync_comment", _FOLLOWED, "comments of columns; default true"),
    SyncSetting("schema_string_length_thresh", _FOLLOWED, "characters of a part of Spark's schema"),
    SyncSetting("table_properties", _FOLLOWED, "`key=value`, one each line: properties of the entries"),
    SyncSetting("serde_properties", _FOLLOWED, "`key=value`, one each line: properties of their serde"),
    SyncSetting("auto_create_database", _FOLLOWED, "false: a missing database is an error"),
    SyncSetting("batch_num", _FOLLOWED, "partitions a call; default 500"),
    SyncSetting("ignore_exceptions", _FOLLOWED, "true: a sync that fails is a warning"),
    SyncSetting(
        "omit_metadata_fields",
        _FOLLOWED,
        "entries of copy-on-write tables, and `*`, lack Hudi's meta columns; kept as the entry's property",
    ),
    SyncSetting("enable", _NO_EFFECT, "a CALL says whether to sync"),
    SyncSetting("username", _NO_EFFECT, "the parameter username of hive_sync"),
    SyncSetting("password", _NO_EFFECT, "the metastore's protocol does not need it"),
    SyncSetting("jdbcurl", _NO_EFFECT, _NO_JDBC),
    SyncSetting("metastore.uris", _NO_EFFECT, "the parameter metastore_uri of hive_sync"),
    SyncSetting("database", _NO_EFFECT, "the parameter table names it"),
    SyncSetting("table", _NO_EFFECT, "the parameter table names it"),
    SyncSetting("partition_fields", _NO_EFFECT, _OWN_PROPERTIES),
    SyncSetting("partition_extractor_class", _NO_EFFECT, _OWN_PROPERTIES),
    SyncSetting("filter_pushdown_enabled", _NO_EFFECT, "incremental syncs ask for partitions by name"),
    SyncSetting("filter_pushdown_max_size", _NO_EFFECT, "incremental syncs ask for partitions by name"),
    SyncSetting("bucket_sync_spec", _NO_EFFECT, "see bucket_sync"),
    SyncSetting("mode", _ONE, _NO_JDBC, ("hms",)),
    SyncSetting("use_jdbc", _ONE, _NO_JDBC, ("false",)),
    SyncSetting("base_file_format", _ONE, "hudisql writes parquet alone", ("parquet",)),
    SyncSetting(
        "use_pre_apache_input_format", _ONE, "com.uber.hoodie has no format that reads this", ("false",)
    ),
    SyncSetting("assume_date_partitioning", _ONE, _OWN_PROPERTIES, ("false",)),
    SyncSetting("create_managed_table", _ONE, "DROP TABLE would delete the table's files", ("false",)),
    SyncSetting("bucket_sync", _ONE, "Hive's buckets are not Hudi's: joins by them lose rows", ("false",)),
    SyncSetting(
        "sync_as_datasource", _ONE, "Spark would read all file versions, replaced ones too", ("true",)
    ),
)
_BY_NAME: Final[Mapping[str, SyncSetting]] = {
    SYNC_PREFIX + sync_setting.name: sync_setting for sync_setting in SYNC_SETTINGS
}


def check_sync_settings(settings: Mapping[str, str]) -> None:
    """Raise InvalidArgumentError for a Hive sync setting that Hudi 0.15 lacks or hudisql does not follow."""
    for name, value in settings.items():
        if not name.startswith(SYNC_PREFIX):
            continue
        setting = _BY_NAME.get(name)
        if setting is None:
            raise InvalidArgumentError(
                f"Hudi's Hive sync has no setting {name}", hint="docs/settings.md lists those it has"
            )
        if setting.only and value.strip().lower() not in ("", *setting.only):
            raise InvalidArgumentError(
                f"{name} is '{value}', and hudisql takes {' or '.join(setting.only)} alone: {setting.reason}",
                hint="leave it out",
            )


def parse_properties(name: str, text: str) -> tuple[tuple[str, str], ...]:
    """Hudi's `key=value` lines as pairs. Raises InvalidArgumentError for a line without `=`."""
    pairs = []
    for line in text.splitlines():
        key, sign, value = line.partition("=")
        if line.strip() and not (sign and key.strip()):
            raise InvalidArgumentError(f"{name} has a line that is not key=value: '{line}'")
        if line.strip():
            pairs.append((key.strip(), value.strip()))
    return tuple(pairs)
