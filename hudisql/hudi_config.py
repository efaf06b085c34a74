"""The `hoodie.*` settings that hudisql follows: each with type, default, meaning, and where it may be set.

Follows `ConfigProperty` and `HoodieConfig` of Hudi. `docs/settings.md` lists `CONFIG_KEYS`; a `HudiConfig`
gives their values, typed. Where the texts come from (a session, TBLPROPERTIES, a data source's options) is
known to the look-up. Values that are not understood are errors that name the setting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from hudisql.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
Lookup = Callable[[str, str], str]
"""The text of a setting, or the default."""

_WRITES: Final = "SET, TBLPROPERTIES, write options"
_SESSION: Final = "SET"
_READS: Final = "SET, options of a read"


@dataclass(frozen=True, slots=True)
class ConfigKey(Generic[T]):
    """One setting; `default` is a text, empty where another setting or the table decides."""

    name: str
    type: str
    default: str
    meaning: str
    parse: Callable[[str, str], T]
    set_by: str = _WRITES

    def __str__(self) -> str:
        return self.name

    @property
    def default_value(self) -> T:
        """`default` as a value. Raises SettingsError for a key whose default is decided elsewhere."""
        return self.parse(self.name, self.default)


@dataclass(frozen=True, slots=True)
class HudiConfig:
    """The settings of one statement or write; `lookup` gives the text of one, or the given default."""

    lookup: Lookup

    def get(self, key: ConfigKey[T], default: str | None = None) -> T:
        """The value of a setting; `default` stands in for the key's own. Raises SettingsError."""
        return key.parse(key.name, self.lookup(key.name, key.default if default is None else default))

    def is_set(self, key: ConfigKey[Any]) -> bool:
        """True if the setting has a text that is not empty."""
        return bool(self.lookup(key.name, ""))

    def under(self, values: Mapping[str, str]) -> HudiConfig:
        """The same settings; those that `values` gives hold before all others."""
        return HudiConfig(lambda name, default: values.get(name) or self.lookup(name, default))

    def over(self, values: Callable[[str], str | None]) -> HudiConfig:
        """The same settings; `values` gives what holds where a setting is not set."""
        return HudiConfig(lambda name, default: self.lookup(name, values(name) or default))


def config_of_session(spark: SparkSession) -> HudiConfig:
    """The settings that `SET` gave the session."""
    return HudiConfig(lambda name, default: str(spark.conf.get(name, default)).strip())


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise SettingsError(f"{name} must be true or false, not '{text.lower()}'")
    return text.lower() == "true"


def _number(name: str, text: str) -> int:
    if not text.isdigit():
        raise SettingsError(f"{name} must be a whole number, not '{text}'")
    return int(text)


def _fraction(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise SettingsError(f"{name} must be a number between 0 and 1, not '{text}'")
    return value


def _text(_: str, text: str) -> str:
    return text


def _names(_: str, text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _one_of(*choices: str) -> Callable[[str, str], str]:
    """Parses one of the choices, in any case."""

    def parse(name: str, text: str) -> str:
        found = next((each for each in choices if each.lower() == text.lower()), None)
        if found is None:
            shown = text.upper() if choices[0].isupper() else text.lower()
            raise SettingsError(f"{name} must be one of {', '.join(choices)}, not '{shown}'")
        return found

    return parse


def _flag_key(name: str, default: str, meaning: str, set_by: str = _WRITES) -> ConfigKey[bool]:
    return ConfigKey(name, "boolean", default, meaning, _flag, set_by)


def _number_key(name: str, default: int, meaning: str) -> ConfigKey[int]:
    return ConfigKey(name, "number", str(default), meaning, _number)


def _choice_key(name: str, default: str, choices: tuple[str, ...], meaning: str) -> ConfigKey[str]:
    return ConfigKey(name, " \\| ".join(choices), default, meaning, _one_of(*choices))


def _text_key(name: str, meaning: str, default: str = "") -> ConfigKey[str]:
    return ConfigKey(name, "string", default, meaning, _text)


def _names_key(name: str, meaning: str) -> ConfigKey[tuple[str, ...]]:
    return ConfigKey(name, "columns", "", meaning, _names)


CODEC: Final = _choice_key(
    "hoodie.parquet.compression.codec",
    "gzip",
    ("gzip", "snappy", "zstd", "uncompressed"),
    "codec of base files; unset, bootstrapped file groups whose source is in snappy stay in snappy (Hive 2.3 "
    "reads gzip and snappy)",
)
MAX_FILE_SIZE: Final = _number_key(
    "hoodie.parquet.max.file.size", 120 << 20, "bytes of a base file, approximately"
)
SMALL_FILE_LIMIT: Final = _number_key(
    "hoodie.parquet.small.file.limit", 100 << 20, "base files below it are filled up with new rows"
)
BLOOM_ENTRIES: Final = _number_key(
    "hoodie.index.bloom.num_entries", 0, "keys that a bloom filter is sized for; 0: the rows of the file"
)
BLOOM_FPP: Final[ConfigKey[float]] = ConfigKey(
    "hoodie.index.bloom.fpp", "fraction", "0.001", "false positives of a bloom filter", _fraction
)
BLOCK_FORMAT: Final = _choice_key(
    "hoodie.logfile.data.block.format",
    "avro",
    ("avro", "parquet"),
    "format of log blocks; Hive's `_rt` reads Avro only",
)
MAX_BLOCK_SIZE: Final = _number_key(
    "hoodie.logfile.data.block.max.size", 256 << 20, "bytes of a data block at most, in memory"
)
MAX_LOG_SIZE: Final = _number_key(
    "hoodie.logfile.max.size", 1 << 30, "bytes after which a log file is continued in its next version"
)
SORT_MODE: Final = _choice_key(
    "hoodie.bulkinsert.sort.mode",
    "PARTITION_PATH_REPARTITION",
    (
        "NONE",
        "PARTITION_SORT",
        "GLOBAL_SORT",
        "PARTITION_PATH_REPARTITION",
        "PARTITION_PATH_REPARTITION_AND_SORT",
    ),
    "how the rows of a bulk insert are sorted",
)
SORT_COLUMNS: Final = _names_key(
    "hoodie.bulkinsert.user.defined.partitioner.sort.columns", "columns that a bulk insert is sorted by"
)
COMBINE_BEFORE_INSERT: Final = _flag_key(
    "hoodie.combine.before.insert",
    "",
    "of an INSERT's rows with one key only the newest is written; unset: true for SQL on tables with an "
    "ordering column, else false",
)
INSERT_OPERATION: Final = _choice_key(
    "hoodie.spark.sql.insert.into.operation",
    "",
    ("insert", "upsert", "bulk_insert"),
    "what INSERT INTO does; unset: upsert for tables with an ordering column and a record key, else insert",
)
OVERWRITE_MODE: Final = _choice_key(
    "hoodie.datasource.overwrite.mode",
    "",
    ("STATIC", "DYNAMIC"),
    "INSERT OVERWRITE replaces the table, or (DYNAMIC) the partitions that get rows; unset: as "
    "spark.sql.sources.partitionOverwriteMode",
)
RECONCILE_SCHEMA: Final = _flag_key(
    "hoodie.datasource.write.reconcile.schema",
    "false",
    "INSERT … BY NAME and `*` in MERGE may add columns and widen types; columns that a DataFrame lacks stay",
)
NULL_FOR_MISSING: Final = _flag_key(
    "hoodie.write.set.null.for.missing.columns",
    "true",
    "columns that a DataFrame lacks are null in its rows; false (Hudi's default): an error",
)
COLUMN_DROP: Final = _flag_key(
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop",
    "false",
    "columns that a DataFrame lacks are dropped from the table",
)
INDEX_TYPE: Final = _choice_key(
    "hoodie.index.type",
    "BLOOM",
    ("BLOOM", "SIMPLE", "GLOBAL_BLOOM", "GLOBAL_SIMPLE", "BUCKET", "RECORD_INDEX"),
    "how stored keys are found; RECORD_INDEX means GLOBAL_SIMPLE",
)
BLOOM_MOVES: Final = _flag_key(
    "hoodie.bloom.index.update.partition.path",
    "true",
    "with GLOBAL_BLOOM a row moves to the partition that it names",
)
SIMPLE_MOVES: Final = _flag_key(
    "hoodie.simple.index.update.partition.path",
    "true",
    "with GLOBAL_SIMPLE a row moves to the partition that it names",
)
BUCKET_COUNT: Final = _text_key("hoodie.bucket.index.num.buckets", "buckets of each partition", "256")
BUCKET_FIELDS: Final = _names_key(
    "hoodie.bucket.index.hash.field", "key columns that are hashed; unset: the record key"
)
BUCKET_ENGINE: Final = _text_key(
    "hoodie.index.bucket.engine", "only SIMPLE, a fixed number of buckets", "SIMPLE"
)
CONCURRENCY_MODE: Final = _text_key(
    "hoodie.write.concurrency.mode", "SINGLE_WRITER or OPTIMISTIC_CONCURRENCY_CONTROL", "SINGLE_WRITER"
)
FAILED_WRITES: Final = _choice_key(
    "hoodie.cleaner.policy.failed.writes",
    "EAGER",
    ("EAGER", "LAZY", "NEVER"),
    "whose failed writes are rolled back: all, those without a heartbeat (always with optimistic concurrency "
    "control), none",
)
LOCK_PROVIDER: Final = _text_key(
    "hoodie.write.lock.provider",
    "class of the lock: `FileSystemBasedLockProvider` or `InProcessLockProvider` of "
    "`org.apache.hudi.client.transaction.lock`, or "
    "`org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider`",
)
LOCK_PATH: Final = _text_key(
    "hoodie.write.lock.filesystem.path", "directory of the lock file; unset: `.hoodie` of the table"
)
LOCK_EXPIRE: Final = _number_key(
    "hoodie.write.lock.filesystem.expire", 0, "minutes after which a lock counts as stale; 0: never"
)
LOCK_DATABASE: Final = _text_key(
    "hoodie.write.lock.hivemetastore.database", "database of the metastore's lock"
)
LOCK_TABLE: Final = _text_key("hoodie.write.lock.hivemetastore.table", "table of the metastore's lock")
LOCK_URIS: Final = _text_key(
    "hoodie.write.lock.hivemetastore.uris", "metastore of the lock; must be the session's"
)
LOCK_RETRIES: Final = _number_key(
    "hoodie.write.lock.client.num_retries", 50, "how often a lock is asked for again"
)
LOCK_RETRY_WAIT: Final = _number_key(
    "hoodie.write.lock.client.wait_time_ms_between_retry", 5_000, "milliseconds between two attempts"
)
LOCK_WAIT: Final = _number_key("hoodie.write.lock.wait_time_ms", 60_000, "milliseconds of one attempt")
CONFLICT_STRATEGY: Final = _text_key(
    "hoodie.write.lock.conflict.resolution.strategy",
    "only Hudi's default, `SimpleConcurrentFileWritesConflictResolutionStrategy`",
    "org.apache.hudi.client.transaction.SimpleConcurrentFileWritesConflictResolutionStrategy",
)
CONFLICT_RETRIES: Final = _number_key(
    "hoodie.write.num.retries.on.conflict.failures", 0, "how often a statement is run again after a conflict"
)
HEARTBEAT_INTERVAL: Final = _number_key(
    "hoodie.client.heartbeat.interval_in_ms", 60_000, "milliseconds between two heartbeats"
)
HEARTBEAT_MISSES: Final = _number_key(
    "hoodie.client.heartbeat.tolerable.misses", 2, "heartbeats that may fail before the writer counts as gone"
)
COMPACTION_TRIGGER: Final = _choice_key(
    "hoodie.compact.inline.trigger.strategy",
    "NUM_COMMITS",
    ("NUM_COMMITS", "NUM_COMMITS_AFTER_LAST_REQUEST", "TIME_ELAPSED", "NUM_AND_TIME", "NUM_OR_TIME"),
    "when `run_compaction` finds a compaction due",
)
MAX_DELTA_COMMITS: Final = _number_key(
    "hoodie.compact.inline.max.delta.commits", 5, "delta commits after which a compaction is due"
)
MAX_DELTA_SECONDS: Final = _number_key(
    "hoodie.compact.inline.max.delta.seconds", 3600, "seconds after which a compaction is due"
)
COMPACTION_STRATEGY: Final = _text_key(
    "hoodie.compaction.strategy",
    "which slices a compaction takes first: `LogFileSizeBasedCompactionStrategy`, "
    "`LogFileNumBasedCompactionStrategy`, `BoundedIOCompactionStrategy` or `UnBoundedCompactionStrategy`",
    "LogFileSizeBasedCompactionStrategy",
)
COMPACTION_TARGET_IO: Final = _number_key(
    "hoodie.compaction.target.io", 500 * 1024, "MB that a compaction reads and writes at most"
)
HOLLOW_COMMITS: Final[ConfigKey[str]] = ConfigKey(
    "hoodie.read.timeline.holes.resolution.policy",
    "FAIL \\| BLOCK \\| USE_TRANSITION_TIME",
    "FAIL",
    "what an incremental query does about commits that are pending while later ones are completed: it fails, "
    "reads what lies before them, or takes begin and end for times of completion",
    _one_of("FAIL", "BLOCK", "USE_TRANSITION_TIME"),
    _READS,
)
SCHEMA_OF_END: Final = _flag_key(
    "hoodie.datasource.read.schema.use.end.instanttime",
    "false",
    "an incremental query has the schema of the last commit that it reads, not the latest",
    _READS,
)
SYNC: Final = _flag_key("hudisql.sync", "true", "the metastore is synced after each commit", _SESSION)
CHANGED_SOURCES: Final[ConfigKey[str]] = ConfigKey(
    "hudisql.read.changed.sources",
    "fail \\| warn",
    "fail",
    "what is done about source files of which only the modification time has changed",
    _one_of("fail", "warn"),
    _READS,
)
PROTECT_SOURCES: Final = _flag_key(
    "hudisql.protect.sources",
    "true",
    "statements that would delete or move source files of bootstrapped tables are refused",
    _SESSION,
)

CONFIG_KEYS: Final[tuple[ConfigKey[Any], ...]] = tuple(
    value for value in list(globals().values()) if isinstance(value, ConfigKey)
)
"""All of them, in the order of their declaration."""
