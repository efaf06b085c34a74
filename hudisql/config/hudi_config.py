"""The `hoodie.*` settings that hudisql follows: each with type, default, meaning, and where it may be set.

Follows `ConfigProperty` and `HoodieConfig` of Hudi. `docs/settings.md` lists `CONFIG_KEYS`; a `HudiConfig`
gives their values, typed. The look-up function knows the sources of texts (a session, TBLPROPERTIES, a data
source's options). Invalid values are errors that name the setting.
"""

from __future__ import annotations

from typing import Any, Final

from hudisql.config import table_service_keys
from hudisql.config.config_key import (
    READS,
    SESSION,
    WRITES,
    ConfigKey,
    choice_key,
    flag_key,
    names_key,
    number_key,
    one_of,
    parse_fraction,
    parse_number,
    ratio_key,
    text_key,
)

CODEC: Final = choice_key(
    "hoodie.parquet.compression.codec",
    "gzip",
    ("gzip", "snappy", "zstd", "uncompressed"),
    "codec of base files; unset, bootstrapped file groups whose source is in snappy stay in snappy (Hive 2.3 "
    "reads gzip and snappy)",
)
MAX_FILE_SIZE: Final = number_key(
    "hoodie.parquet.max.file.size", 120 << 20, "bytes of a base file, approximately"
)
SMALL_FILE_LIMIT: Final = number_key(
    "hoodie.parquet.small.file.limit", 100 << 20, "smaller base files are filled up with new rows"
)
BLOOM_ENTRIES: Final = number_key(
    "hoodie.index.bloom.num_entries", 0, "keys that a bloom filter is sized for; 0: the rows of the file"
)
BLOOM_FPP: Final[ConfigKey[float]] = ConfigKey(
    "hoodie.index.bloom.fpp", "fraction", "0.001", "false-positive rate of a bloom filter", parse_fraction
)
BLOCK_FORMAT: Final = choice_key(
    "hoodie.logfile.data.block.format",
    "avro",
    ("avro", "parquet"),
    "format of log blocks; Hive's `_rt` reads Avro only",
)
MAX_BLOCK_SIZE: Final = number_key(
    "hoodie.logfile.data.block.max.size", 256 << 20, "bytes of a data block at most, in memory"
)
MAX_LOG_SIZE: Final = number_key(
    "hoodie.logfile.max.size", 1 << 30, "bytes after which a log file is continued in its next version"
)
SORT_MODE: Final = choice_key(
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
SORT_COLUMNS: Final = names_key(
    "hoodie.bulkinsert.user.defined.partitioner.sort.columns", "columns that a bulk insert is sorted by"
)
COMBINE_BEFORE_INSERT: Final = flag_key(
    "hoodie.combine.before.insert",
    "",
    "an INSERT writes only the newest of several rows with one key; unset: true for SQL on tables with an "
    "ordering column, else false",
)
COMMIT_METADATA_PREFIX: Final = text_key(
    "hoodie.datasource.write.commitmeta.key.prefix",
    "settings, TBLPROPERTIES and write options whose names begin with this text are stored in the commit's "
    "extra metadata (`CALL show_commit_extra_metadata`)",
    "_",
)
WRITE_OPERATION: Final[ConfigKey[str]] = ConfigKey(
    "hoodie.datasource.write.operation",
    "upsert \\| insert \\| bulk_insert \\| insert_overwrite \\| insert_overwrite_table",
    "",
    "what SQL's INSERT does, before `hoodie.spark.sql.insert.into.operation`: `insert_overwrite` replaces "
    "the partitions that get rows, `insert_overwrite_table` all rows; the first three are refused for an "
    "INSERT OVERWRITE of partitions",
    one_of("upsert", "insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table"),
    SESSION,
)
INSERT_OPERATION: Final = choice_key(
    "hoodie.spark.sql.insert.into.operation",
    "",
    ("insert", "upsert", "bulk_insert"),
    "what INSERT INTO does; unset: upsert for tables with an ordering column and a record key, else insert",
)
INSERT_MODE: Final = choice_key(
    "hoodie.sql.insert.mode",
    "upsert",
    ("upsert", "strict", "non-strict"),
    "older than `hoodie.spark.sql.insert.into.operation`, which comes before it: with `non-strict` INSERT "
    "INTO adds rows to tables with an ordering column, too; `strict` makes an INSERT of a stored record key "
    "an error in copy-on-write tables with an ordering column",
)
SQL_BULK_INSERT: Final = flag_key(
    "hoodie.sql.bulk.insert.enable",
    "false",
    "INSERT INTO that would add rows is a bulk insert; also older",
)
INSERT_DROP_DUPLICATES: Final = flag_key(
    "hoodie.datasource.write.insert.drop.duplicates",
    "false",
    "the same as `hoodie.datasource.insert.dup.policy` = drop",
)
ALLOW_DUPLICATES: Final = flag_key(
    "hoodie.merge.allow.duplicate.on.inserts",
    "true",
    "false: new rows of the operation insert that go into a small file replace its rows of their keys, as an "
    "upsert does; rows in other files stay",
)
INSERT_DUP_POLICY: Final = choice_key(
    "hoodie.datasource.insert.dup.policy",
    "none",
    ("none", "drop", "fail"),
    "inserted rows whose record key is stored: handled by the operation, left out, or an error; for a bulk "
    "insert only `none`",
)
OVERWRITE_MODE: Final = choice_key(
    "hoodie.datasource.overwrite.mode",
    "",
    ("STATIC", "DYNAMIC"),
    "INSERT OVERWRITE replaces the table, or (DYNAMIC) the partitions that get rows; unset: as "
    "spark.sql.sources.partitionOverwriteMode",
)
RECONCILE_SCHEMA: Final = flag_key(
    "hoodie.datasource.write.reconcile.schema",
    "false",
    "INSERT … BY NAME and `*` in MERGE may add columns and widen types; columns that a DataFrame lacks stay",
)
NULL_FOR_MISSING: Final = flag_key(
    "hoodie.write.set.null.for.missing.columns",
    "true",
    "columns that a DataFrame lacks are null in its rows; false (Hudi's default): an error",
)
COLUMN_DROP: Final = flag_key(
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop",
    "false",
    "columns that a DataFrame lacks are dropped from the table",
)
SCHEMA_ON_READ: Final = flag_key(
    "hoodie.schema.on.read.enable",
    "false",
    "ALTER TABLE gives columns ids, by which it renames, drops and moves them and changes their types "
    "without a rewrite of files; tables whose columns have ids are read by them whatever it says",
)
INDEX_TYPE: Final = choice_key(
    "hoodie.index.type",
    "BLOOM",
    (
        *("BLOOM", "SIMPLE", "GLOBAL_BLOOM", "GLOBAL_SIMPLE", "BUCKET", "INMEMORY"),
        *("RECORD_INDEX", "GLOBAL_RECORD_LEVEL_INDEX", "RECORD_LEVEL_INDEX"),
    ),
    "how stored keys are found; INMEMORY is SIMPLE; RECORD_INDEX and GLOBAL_RECORD_LEVEL_INDEX are one: "
    "GLOBAL_SIMPLE for a table without a record index; RECORD_LEVEL_INDEX is SIMPLE without a partitioned "
    "one",
)
BLOOM_MOVES: Final = flag_key(
    "hoodie.bloom.index.update.partition.path",
    "true",
    "with GLOBAL_BLOOM a row moves to the partition that it names",
)
SIMPLE_MOVES: Final = flag_key(
    "hoodie.simple.index.update.partition.path",
    "true",
    "with GLOBAL_SIMPLE a row moves to the partition that it names",
)
RECORD_INDEX_MOVES: Final = flag_key(
    "hoodie.record.index.update.partition.path",
    "false",
    "with a record index a row moves to the partition that it names",
)
BUCKET_COUNT: Final = text_key("hoodie.bucket.index.num.buckets", "buckets of each partition", "256")
BUCKET_FIELDS: Final = names_key(
    "hoodie.bucket.index.hash.field", "key columns that are hashed; unset: the record key"
)
CONSISTENT_HASHING: Final = "CONSISTENT_HASHING"
BUCKET_ENGINE: Final = choice_key(
    "hoodie.index.bucket.engine",
    "SIMPLE",
    ("SIMPLE", CONSISTENT_HASHING),
    "SIMPLE is a fixed number of buckets; CONSISTENT_HASHING, for merge-on-read tables, lets clustering "
    "split and merge them",
)
MIN_BUCKETS: Final = number_key(
    "hoodie.bucket.index.min.num.buckets",
    0,
    "buckets of a partition that clustering leaves; 0: hoodie.bucket.index.num.buckets",
)
MAX_BUCKETS: Final = number_key(
    "hoodie.bucket.index.max.num.buckets",
    0,
    "most buckets that clustering makes of a partition; 0: hoodie.bucket.index.num.buckets",
)
SPLIT_THRESHOLD: Final = ratio_key(
    "hoodie.bucket.index.split.threshold",
    "2.0",
    "clustering splits buckets larger than so many times hoodie.parquet.max.file.size",
)
MERGE_THRESHOLD: Final = ratio_key(
    "hoodie.bucket.index.merge.threshold",
    "0.2",
    "clustering merges neighbouring buckets up to so many times hoodie.parquet.max.file.size",
)
BUCKET_EXPRESSIONS: Final = text_key(
    "hoodie.bucket.index.partition.expressions",
    "numbers of buckets by partition as pattern,number;pattern,number: of the patterns that are found in the "
    "partition's path the first counts; what the table stores goes before",
)
BUCKET_RULE: Final = choice_key(
    "hoodie.bucket.index.partition.rule.type",
    "regex",
    ("regex",),
    "what the patterns are: regular expressions",
)
CONCURRENCY_MODE: Final = text_key(
    "hoodie.write.concurrency.mode", "SINGLE_WRITER or OPTIMISTIC_CONCURRENCY_CONTROL", "SINGLE_WRITER"
)
FAILED_WRITES: Final = choice_key(
    "hoodie.cleaner.policy.failed.writes",
    "EAGER",
    ("EAGER", "LAZY", "NEVER"),
    "failed writes to roll back: all, those without a heartbeat (always with optimistic concurrency "
    "control), none",
)
LOCK_PROVIDER: Final = text_key(
    "hoodie.write.lock.provider",
    "class of the lock: `FileSystemBasedLockProvider` or `InProcessLockProvider` of "
    "`org.apache.hudi.client.transaction.lock`, or "
    "`org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider`",
)
WRITE_LOCK: Final = choice_key(
    "hudisql.write.lock",
    "file",
    ("file", "none"),
    "lock of tables without `hoodie.write.lock.provider`: `.hoodie/lock`, or none (one writer at a time)",
)
LOCK_PATH: Final = text_key(
    "hoodie.write.lock.filesystem.path", "directory of the lock file; unset: `.hoodie` of the table"
)
LOCK_EXPIRE: Final = number_key(
    "hoodie.write.lock.filesystem.expire", 0, "minutes after which a lock counts as stale; 0: never"
)
LOCK_DATABASE: Final = text_key(
    "hoodie.write.lock.hivemetastore.database", "database of the metastore's lock"
)
LOCK_TABLE: Final = text_key("hoodie.write.lock.hivemetastore.table", "table of the metastore's lock")
LOCK_URIS: Final = text_key(
    "hoodie.write.lock.hivemetastore.uris", "metastore of the lock; must be the session's"
)
LOCK_RETRIES: Final = number_key(
    "hoodie.write.lock.client.num_retries", 50, "number of further attempts to acquire a lock"
)
LOCK_RETRY_WAIT: Final = number_key(
    "hoodie.write.lock.client.wait_time_ms_between_retry", 5_000, "milliseconds between two attempts"
)
LOCK_WAIT: Final = number_key(
    "hoodie.write.lock.wait_time_ms", 60_000, "milliseconds that one attempt may take"
)
CONFLICT_STRATEGY: Final = text_key(
    "hoodie.write.lock.conflict.resolution.strategy",
    "only Hudi's default, `SimpleConcurrentFileWritesConflictResolutionStrategy`",
    "org.apache.hudi.client.transaction.SimpleConcurrentFileWritesConflictResolutionStrategy",
)
CONFLICT_RETRIES: Final = number_key(
    "hoodie.write.num.retries.on.conflict.failures",
    0,
    "number of times that a statement is run again after a conflict",
)
HEARTBEAT_INTERVAL: Final = number_key(
    "hoodie.client.heartbeat.interval_in_ms", 60_000, "milliseconds between two heartbeats"
)
HEARTBEAT_MISSES: Final = number_key(
    "hoodie.client.heartbeat.tolerable.misses", 2, "heartbeats that may fail before the writer counts as dead"
)
HOLLOW_COMMITS: Final[ConfigKey[str]] = ConfigKey(
    "hoodie.read.timeline.holes.resolution.policy",
    "FAIL \\| BLOCK \\| USE_TRANSITION_TIME",
    "FAIL",
    "how an incremental query handles pending commits before completed ones: it fails, "
    "reads the commits before them, or treats begin and end as completion times",
    one_of("FAIL", "BLOCK", "USE_TRANSITION_TIME"),
    READS,
)
SCHEMA_OF_END: Final = flag_key(
    "hoodie.datasource.read.schema.use.end.instanttime",
    "false",
    "an incremental query has the schema of the last commit that it reads, not the latest",
    READS,
)
SYNC: Final = flag_key("hudisql.sync", "true", "the metastore is synced after each commit", SESSION)
ICEBERG_SYNC: Final = flag_key(
    "hudisql.iceberg.sync",
    "false",
    "each commit is published as a snapshot of the table's Iceberg table (docs/iceberg.md)",
)
DRIVER_MAX_BYTES: Final = ConfigKey(
    "hudisql.driver.max.bytes",
    "number",
    str(8 << 20),
    "a statement that changes few rows reads and writes file slices of together so many bytes on the driver, "
    "without Spark tasks; 0: always by tasks",
    parse_number,
    SESSION,
)
REFRESH_DRIVER_MAX_BYTES: Final = ConfigKey(
    "hudisql.refresh.driver.max.bytes",
    "number",
    str(128 << 20),
    "a refresh of an incremental table that few changed rows affect reads and writes on the driver, without "
    "Spark tasks, if the file slices of each of its scans have together at most so many bytes (0 where "
    "`hudisql.driver.max.bytes` is 0); beyond that it is planned and written as a MERGE",
    parse_number,
    SESSION,
)
WRITER_TIMEOUT_HOURS: Final = number_key(
    "hudisql.services.writer.timeout.hours",
    24,
    "hours after which `hudisql services run` takes a write as failed that has no heartbeats and of which "
    "no file has changed; likewise for a service of Apache Hudi's that was killed",
)
FUNCTIONS: Final[ConfigKey[str]] = ConfigKey(
    "hudisql.sql.functions",
    "spark \\| hive",
    "spark",
    "whose answer functions give that Apache Spark and Apache Hive both have and answer differently",
    one_of("spark", "hive"),
    SESSION,
)
METADATA_ENABLE: Final = flag_key(
    "hoodie.metadata.enable",
    "false",
    "queries list the files of a table by its metadata table, if it has one. Writes keep or drop it",
    READS,
)
DATA_SKIPPING: Final = flag_key(
    "hoodie.enable.data.skipping",
    "true",
    "scans skip partitions and files by the statistics of a metadata table that hudisql keeps; not with an "
    "explicit `hoodie.metadata.enable=false`",
    READS,
)
SECONDARY_SKIPPING: Final = flag_key(
    "hoodie.metadata.index.secondary.enable",
    "false",
    "scans of copy-on-write tables find rows by secondary indexes (Hudi's default); only for tables whose "
    "writers give each record key one row: of several, only the newest is found",
    READS,
)
CHANGED_SOURCES: Final[ConfigKey[str]] = ConfigKey(
    "hudisql.read.changed.sources",
    "fail \\| warn",
    "fail",
    "what is done about source files of which only the modification time has changed",
    one_of("fail", "warn"),
    READS,
)
PROTECT_SOURCES: Final = flag_key(
    "hudisql.protect.sources",
    "true",
    "statements that would delete or move source files of bootstrapped tables are refused",
    SESSION,
    WRITES,
)

CONFIG_KEYS: Final[tuple[ConfigKey[Any], ...]] = tuple(
    value
    for declared in (globals(), vars(table_service_keys))
    for value in list(declared.values())
    if isinstance(value, ConfigKey)
)
"""All of them, in the order of their declaration, those of table services last."""
