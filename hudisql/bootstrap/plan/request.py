"""The request of a bootstrap: validated arguments, before the source is read.

`bootstrap_table` and Hudi's own `run_bootstrap` both create one. Knows the allowed values and how `hoodie.*`
options map to them; knows no storage, metastore or Spark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from hudisql.bootstrap.blockers import Finding, warning
from hudisql.bootstrap.files.skeleton import SkeletonEncoding
from hudisql.bootstrap.plan.bootstrap_mode import (
    MODE_OPTIONS,
    ModeChoice,
    PartitionMismatchPolicy,
    UnsafeTypePolicy,
    mode_choice_from_options,
)
from hudisql.bootstrap.plan.schema_drift import SchemaDrift
from hudisql.bootstrap.source.source_files import PartitionColumn
from hudisql.catalog.sync_settings import SYNC_PREFIX
from hudisql.config.config_key import parse_flag
from hudisql.config.hudi_config import BLOOM_ENTRIES, BLOOM_FPP, CODEC, MAX_FILE_SIZE, SORT_MODE
from hudisql.errors import InvalidArgumentError
from hudisql.format import table_properties as keys
from hudisql.format.metadata_table.metadata_records import RECORD_INDEX, RECORD_LEVEL_INDEX
from hudisql.table.hudi_table import WRITTEN_VERSION
from hudisql.table.metadata_table.kept_metadata_table import NEWEST_VERSION
from hudisql.table.properties.version_properties import NEW_TABLE_VERSIONS
from hudisql.write.handle.open_base_file import CODECS
from hudisql.write.metadata_table.new_metadata_table import parse_indexes

KEY_CHECKS: Final = ("unique", "unique_global", "nulls", "none")
SORT_MODES: Final = ("NONE", "GLOBAL_SORT", "PARTITION_SORT")
_TABLE_TYPES: Final = {
    "copy_on_write": keys.COPY_ON_WRITE,
    "cow": keys.COPY_ON_WRITE,
    "merge_on_read": keys.MERGE_ON_READ,
    "mor": keys.MERGE_ON_READ,
}
# Hudi's name for uncompressed files.
_CODEC_NAMES: Final[Mapping[str, str]] = {"uncompressed": "none"}
_PAYLOAD_OPTIONS: Final = (keys.PAYLOAD_CLASS, "hoodie.datasource.write.payload.class")
_TABLE_NAME: Final = re.compile(r"\w+", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class BootstrapRequest:
    """What a user requested. Exactly one of `source_path` and `source_table` (database, name) is set.

    Without `record_key` columns each row gets a generated key.
    `mode` says which partitions are rewritten; `bloom_entries` None sizes each file's filter to its rows;
    `parallelism` is the number of Spark tasks; `codec` is that of all parquet files written,
    `skeleton_encoding` is for skeletons, `max_file_bytes` and `sort_mode` are for full-record partitions.
    `indexes` are those of the metadata table, which version 9 always gets and version 6 if any are named.
    `ignore` are patterns of file names that are left out. `resume` continues a run that did not finish, and
    keeps finished files if this one fails. `key_generator_class` is checked against the one that the table
    needs.
    """

    database: str
    name: str
    record_key: tuple[str, ...]
    source_path: str | None = None
    source_table: tuple[str, str] | None = None
    target_path: str | None = None
    table_type: str = keys.COPY_ON_WRITE
    table_version: int = WRITTEN_VERSION
    indexes: frozenset[str] = frozenset()
    precombine: str | None = None
    partition_by: tuple[PartitionColumn, ...] | None = None
    partition_filter: str | None = None
    ignore: tuple[str, ...] = ()
    mode: ModeChoice = field(default_factory=ModeChoice)
    on_unsafe_type: UnsafeTypePolicy = UnsafeTypePolicy.FAIL
    on_partition_mismatch: PartitionMismatchPolicy = PartitionMismatchPolicy.FAIL
    key_check: str = "unique"
    on_schema_drift: str = SchemaDrift.FAIL
    protect_source: bool = False
    parallelism: int | None = None
    bloom_entries: int | None = None
    bloom_fpp: float = BLOOM_FPP.default_value
    skeleton_encoding: str = SkeletonEncoding.PLAIN
    max_file_bytes: int = MAX_FILE_SIZE.default_value
    sort_mode: str = "NONE"
    codec: str = CODEC.default_value
    sync: bool = True
    key_generator_class: str | None = None
    resume: bool = False
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_request(self)

    @property
    def full_name(self) -> str:
        """`database.name` of the new table."""
        return f"{self.database}.{self.name}"

    @property
    def is_merge_on_read(self) -> bool:
        """True if the table will have log files."""
        return self.table_type == keys.MERGE_ON_READ

    @property
    def has_metadata_table(self) -> bool:
        """True if the table gets a metadata table."""
        return self.table_version == NEWEST_VERSION or bool(self.indexes)

    @property
    def payload_class(self) -> str | None:
        """The record payload that the options name, if any."""
        return next((self.options[name] for name in _PAYLOAD_OPTIONS if name in self.options), None)

    @property
    def sync_options(self) -> dict[str, str]:
        """The options of the metastore sync."""
        return {name: value for name, value in self.options.items() if name.startswith(SYNC_PREFIX)}


def parse_table_type(text: str) -> str:
    """Hudi's name of a table type, from that name or the short form in any case."""
    found = _TABLE_TYPES.get(text.strip().lower())
    if found is None:
        raise InvalidArgumentError(
            f"table_type '{text}' is unknown", hint="it is COPY_ON_WRITE or MERGE_ON_READ"
        )
    return found


def _check_request(request: BootstrapRequest) -> None:
    if (request.source_path is None) == (request.source_table is None):
        raise InvalidArgumentError(
            "give either source (a path) or source_table (a table of the metastore)",
            hint="source => '/directory' or source_table => 'db.table'",
        )
    if request.table_version not in NEW_TABLE_VERSIONS:
        raise InvalidArgumentError(
            f"hudisql cannot create tables of version {request.table_version}",
            hint="table_version => 6 (Hudi 0.14 to 1.2, Hive 2.3) or 9 (Hudi 1.1 and later)",
        )
    if request.indexes and request.mode.register_only_where is not None:
        raise InvalidArgumentError(
            "indexes are for tables without register-only partitions",
            hint="leave indexes or register_only_where out",
        )
    if request.table_version == WRITTEN_VERSION and RECORD_LEVEL_INDEX in request.indexes:
        raise InvalidArgumentError(
            f"{RECORD_LEVEL_INDEX} is for tables of version 9, not {request.table_version}",
            hint=f"table_version => 9, or indexes => '{RECORD_INDEX}' for one of the whole table",
        )
    if request.table_version != WRITTEN_VERSION and request.mode.register_only_where is not None:
        raise InvalidArgumentError(
            f"register-only partitions are for tables of version {WRITTEN_VERSION}",
            hint="leave table_version or register_only_where out",
        )
    for name, path in (("source", request.source_path), ("target_path", request.target_path)):
        if path is not None and not path.strip():
            raise InvalidArgumentError(f"{name} is an empty path")
    if not _TABLE_NAME.fullmatch(request.name) or not _TABLE_NAME.fullmatch(request.database):
        raise InvalidArgumentError(
            f"'{request.full_name}' is not a name that the metastore takes",
            hint="letters, digits and _ only",
        )
    if not all(request.record_key):
        raise InvalidArgumentError("record_key names no column", hint="such as 'id' or 'customer,order_id'")
    _check_choice("key_check", request.key_check, KEY_CHECKS)
    _check_schema_drift(request.on_schema_drift)
    _check_choice("skeleton_encoding", request.skeleton_encoding, tuple(SkeletonEncoding))
    _check_choice(SORT_MODE.name, request.sort_mode, SORT_MODES)
    _check_choice(CODEC.name, request.codec, CODECS)
    if request.max_file_bytes < 1:
        raise InvalidArgumentError(f"{MAX_FILE_SIZE} must be 1 or more, not {request.max_file_bytes}")
    if request.parallelism is not None and request.parallelism < 1:
        raise InvalidArgumentError(f"parallelism must be 1 or more, not {request.parallelism}")
    if request.bloom_entries is not None and request.bloom_entries < 1:
        raise InvalidArgumentError(f"bloom_entries must be 1 or more, not {request.bloom_entries}")
    if not 0 < request.bloom_fpp < 1:
        raise InvalidArgumentError(f"bloom_fpp must lie between 0 and 1, not {request.bloom_fpp}")
    if request.source_table is not None and request.partition_by is not None:
        raise InvalidArgumentError(
            "partition_by is for path sources",
            hint="the metastore knows the partition columns of source_table",
        )
    if others := sorted(name for name in request.options if not name.startswith("hoodie.")):
        raise InvalidArgumentError(
            f"options takes hoodie.* settings only, not {', '.join(others)}",
        )


def _check_schema_drift(value: str) -> None:
    if value == "report":
        raise InvalidArgumentError(
            "on_schema_drift 'report' is not supported: it would write nothing",
            hint="dry_run => true names each file whose columns differ, and writes nothing",
        )
    _check_choice("on_schema_drift", value, tuple(SchemaDrift))


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        allowed = " or ".join(f"'{choice}'" for choice in choices)
        raise InvalidArgumentError(f"{name} '{value}' is unknown", hint=f"it is {allowed}")


def apply_options(
    request: BootstrapRequest, given: frozenset[str]
) -> tuple[BootstrapRequest, tuple[Finding, ...]]:
    """The request with its `hoodie.*` options applied; parameters in `given` take precedence.

    Options without effect on a bootstrap are warnings. Raises InvalidArgumentError for bad values.
    """
    changes: dict[str, Any] = {}
    findings: list[Finding] = []
    choice = mode_choice_from_options(request.options)
    if choice is not None and not given & {"mode", "full_record_where"}:
        changes["mode"] = replace(choice, register_only_where=request.mode.register_only_where)
    indexes = set(request.indexes)
    asks_for_one: bool | None = None
    for name, value in request.options.items():
        if name in MODE_OPTIONS:
            continue
        if name in _REQUEST_OPTIONS:
            parameter, convert = _REQUEST_OPTIONS[name]
            if parameter not in given:
                changes[parameter] = _converted(name, value, convert)
        elif name in _INDEX_OPTIONS:
            if parse_flag(name, value) and "indexes" not in given:
                indexes.add(_INDEX_OPTIONS[name])
        elif name == "hoodie.metadata.enable":
            asks_for_one = value.strip().lower() == "true"
        elif (
            name not in _PAYLOAD_OPTIONS and name not in _LAYOUT_OPTIONS and not name.startswith(SYNC_PREFIX)
        ):
            findings.append(warning(f"option {name} has no effect on a bootstrap"))
    if asks_for_one is False and indexes - request.indexes:
        findings.append(warning("hoodie.metadata.enable = false: the options of indexes have no effect"))
        indexes = set(request.indexes)
    changes["indexes"] = parse_indexes(",".join(indexes))
    request = replace(request, **changes)
    if asks_for_one and not request.indexes and request.table_version == WRITTEN_VERSION:
        findings.append(
            warning(
                "hoodie.metadata.enable has no effect on a bootstrap of version 6: "
                "indexes => 'column_stats' makes a metadata table"
            )
        )
    return request, tuple(findings)


_REQUEST_OPTIONS: Final[Mapping[str, tuple[str, Any]]] = {
    BLOOM_ENTRIES.name: ("bloom_entries", int),
    BLOOM_FPP.name: ("bloom_fpp", float),
    "hoodie.bootstrap.parallelism": ("parallelism", int),
    "hoodie.datasource.write.precombine.field": ("precombine", str),
    keys.PRECOMBINE_FIELD: ("precombine", str),
    "hoodie.datasource.write.table.type": ("table_type", parse_table_type),
    keys.WRITE_VERSION: ("table_version", int),
    MAX_FILE_SIZE.name: ("max_file_bytes", int),
    SORT_MODE.name: ("sort_mode", lambda text: text.strip().upper()),
    CODEC.name: ("codec", lambda text: _CODEC_NAMES.get(text.strip().lower(), text.strip().lower())),
}
_INDEX_OPTIONS: Final[Mapping[str, str]] = {
    "hoodie.metadata.record.index.enable": RECORD_INDEX,
    "hoodie.metadata.global.record.level.index.enable": RECORD_INDEX,
    "hoodie.metadata.record.level.index.enable": RECORD_LEVEL_INDEX,
}
_LAYOUT_OPTIONS: Final = (keys.HIVE_STYLE_PARTITIONING, keys.URL_ENCODE_PARTITIONING)


def _converted(name: str, value: str, convert: Any) -> Any:
    try:
        return convert(value)
    except ValueError as error:
        raise InvalidArgumentError(f"option {name} has the invalid value '{value}'") from error
