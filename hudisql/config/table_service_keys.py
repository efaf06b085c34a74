"""The `hoodie.*` settings of table services: compaction, clustering, cleaning, partition TTL, archiving.

Follows `HoodieCompactionConfig`, `HoodieClusteringConfig`, `HoodieCleanConfig`, `HoodieTTLConfig` and
`HoodieArchivalConfig` of Hudi.
"""

from __future__ import annotations

from typing import Final

from hudisql.config.config_key import (
    WRITES,
    choice_key,
    flag_key,
    names_key,
    number_key,
    text_key,
)

COMPACTION_TRIGGER: Final = choice_key(
    "hoodie.compact.inline.trigger.strategy",
    "NUM_COMMITS",
    ("NUM_COMMITS", "NUM_COMMITS_AFTER_LAST_REQUEST", "TIME_ELAPSED", "NUM_AND_TIME", "NUM_OR_TIME"),
    "when a compaction is due for `run_compaction`",
)
MAX_DELTA_COMMITS: Final = number_key(
    "hoodie.compact.inline.max.delta.commits", 5, "delta commits after which a compaction is due"
)
MAX_DELTA_SECONDS: Final = number_key(
    "hoodie.compact.inline.max.delta.seconds", 3600, "seconds after which a compaction is due"
)
COMPACTION_STRATEGY: Final = text_key(
    "hoodie.compaction.strategy",
    "slices that a compaction rewrites, and their order: `LogFileSizeBasedCompactionStrategy`, "
    "`LogFileNumBasedCompactionStrategy`, `BoundedIOCompactionStrategy`, `UnBoundedCompactionStrategy`, "
    "`DayBasedCompactionStrategy`, `BoundedPartitionAwareCompactionStrategy` or "
    "`UnBoundedPartitionAwareCompactionStrategy`",
    "LogFileSizeBasedCompactionStrategy",
)
COMPACTION_TARGET_PARTITIONS: Final = number_key(
    "hoodie.compaction.daybased.target.partitions",
    10,
    "latest partitions of `DayBasedCompactionStrategy`; days before today for the partition-aware ones",
)
COMPACTION_TARGET_IO: Final = number_key(
    "hoodie.compaction.target.io", 500 * 1024, "most MB that a compaction reads and writes"
)
COMPACTION_LOG_BYTES: Final = number_key(
    "hoodie.compaction.logfile.size.threshold",
    0,
    "bytes of log files below which `LogFileSizeBasedCompactionStrategy` skips a slice",
)
COMPACTION_LOG_FILES: Final = number_key(
    "hoodie.compaction.logfile.num.threshold",
    0,
    "log files below which `LogFileNumBasedCompactionStrategy` skips a slice",
)
CLUSTERING_INLINE: Final = flag_key(
    "hoodie.clustering.inline", "false", "a clustering that is due is scheduled and run after a commit"
)
CLUSTERING_INLINE_COMMITS: Final = number_key(
    "hoodie.clustering.inline.max.commits", 4, "commits since the last clustering before the next inline one"
)
CLUSTERING_SCHEDULE_INLINE: Final = flag_key(
    "hoodie.clustering.schedule.inline",
    "false",
    "a clustering that is due is scheduled after a commit, and not run",
)
CLUSTERING_SCHEDULE_COMMITS: Final = number_key(
    "hoodie.clustering.async.max.commits",
    4,
    "commits since the last clustering before the next one is scheduled after a commit",
)
CLUSTERING_PLAN_STRATEGY: Final = text_key(
    "hoodie.clustering.plan.strategy.class",
    "partitions that a clustering reads: `SparkSizeBasedClusteringPlanStrategy`, "
    "`SparkRecentDaysClusteringPlanStrategy` or `SparkSelectedPartitionsClusteringPlanStrategy`",
    "SparkSizeBasedClusteringPlanStrategy",
)
CLUSTERING_EXECUTION_STRATEGY: Final = text_key(
    "hoodie.clustering.execution.strategy.class",
    "how a clustering writes: only Hudi's default, `SparkSortAndSizeExecutionStrategy`",
    "SparkSortAndSizeExecutionStrategy",
)
CLUSTERING_UPDATES: Final = text_key(
    "hoodie.clustering.updates.strategy",
    "behaviour of updates of file groups with a planned clustering: only Hudi's default, "
    "`SparkRejectUpdateStrategy`",
    "SparkRejectUpdateStrategy",
)
CLUSTERING_SMALL_FILE_LIMIT: Final = number_key(
    "hoodie.clustering.plan.strategy.small.file.limit",
    300 << 20,
    "bytes below which a base file is clustered",
)
CLUSTERING_TARGET_FILE_BYTES: Final = number_key(
    "hoodie.clustering.plan.strategy.target.file.max.bytes", 1 << 30, "bytes of a base file of a clustering"
)
CLUSTERING_MAX_GROUP_BYTES: Final = number_key(
    "hoodie.clustering.plan.strategy.max.bytes.per.group", 2 << 30, "bytes of the files clustered together"
)
CLUSTERING_MAX_GROUPS: Final = number_key(
    "hoodie.clustering.plan.strategy.max.num.groups", 30, "groups of files in one clustering"
)
CLUSTERING_SINGLE_GROUP: Final = flag_key(
    "hoodie.clustering.plan.strategy.single.group.clustering.enabled",
    "true",
    "single files are clustered, too",
)
CLUSTERING_SORT_COLUMNS: Final = names_key(
    "hoodie.clustering.plan.strategy.sort.columns", "columns by which a clustering sorts"
)
LAYOUT_STRATEGY: Final = choice_key(
    "hoodie.layout.optimize.strategy",
    "linear",
    ("linear", "z-order", "hilbert"),
    "order of the rows of a clustering with several sort columns",
)
CLUSTERING_PARTITION_FILTER: Final = choice_key(
    "hoodie.clustering.plan.partition.filter.mode",
    "NONE",
    ("NONE", "RECENT_DAYS", "SELECTED_PARTITIONS", "DAY_ROLLING"),
    "partitions that a clustering reads",
)
CLUSTERING_PARTITIONS: Final = names_key(
    "hoodie.clustering.plan.strategy.partition.selected", "the only partition paths that are clustered"
)
CLUSTERING_PARTITION_PATTERN: Final = text_key(
    "hoodie.clustering.plan.strategy.partition.regex.pattern",
    "regular expression of the partition paths that are clustered",
)
CLUSTERING_FIRST_PARTITION: Final = text_key(
    "hoodie.clustering.plan.strategy.cluster.begin.partition", "first partition path of SELECTED_PARTITIONS"
)
CLUSTERING_LAST_PARTITION: Final = text_key(
    "hoodie.clustering.plan.strategy.cluster.end.partition", "last partition path of SELECTED_PARTITIONS"
)
CLUSTERING_LOOKBACK: Final = number_key(
    "hoodie.clustering.plan.strategy.daybased.lookback.partitions", 2, "latest partitions of RECENT_DAYS"
)
CLUSTERING_SKIP_LATEST: Final = number_key(
    "hoodie.clustering.plan.strategy.daybased.skipfromlatest.partitions",
    0,
    "latest partitions that RECENT_DAYS skips",
)
TABLE_SERVICES: Final = flag_key(
    "hoodie.table.services.enabled",
    "true",
    "false: no service runs after a commit, nor in `hudisql services run`",
)
CLUSTERING_ASYNC: Final = flag_key(
    "hoodie.clustering.async.enabled",
    "false",
    "`hudisql services run` schedules and runs clusterings of the table",
)
COMPACT_ASYNC: Final = flag_key(
    "hoodie.datasource.compaction.async.enable",
    "true",
    "`hudisql services run` schedules compactions of the table, not only runs pending ones",
)
COMPACT_INLINE: Final = flag_key(
    "hoodie.compact.inline",
    "false",
    "a compaction that is due is scheduled and run after a commit to a merge-on-read table",
)
COMPACT_SCHEDULE_INLINE: Final = flag_key(
    "hoodie.compact.schedule.inline",
    "false",
    "a compaction that is due is scheduled after a commit to a merge-on-read table, and not run",
)
CLEAN_AUTOMATIC: Final = flag_key(
    "hoodie.clean.automatic", "true", "a clean that is due runs after each commit"
)
CLEAN_POLICY: Final = choice_key(
    "hoodie.cleaner.policy",
    "KEEP_LATEST_COMMITS",
    ("KEEP_LATEST_COMMITS", "KEEP_LATEST_BY_HOURS", "KEEP_LATEST_FILE_VERSIONS"),
    "old file slices that a clean keeps",
    "hoodie.clean.policy",
)
CLEAN_COMMITS: Final = number_key(
    "hoodie.cleaner.commits.retained",
    10,
    "with KEEP_LATEST_COMMITS: commits whose state can still be read after a clean",
    "hoodie.clean.commits.retained",
)
CLEAN_HOURS: Final = number_key(
    "hoodie.cleaner.hours.retained",
    24,
    "with KEEP_LATEST_BY_HOURS: hours whose states can still be read after a clean",
    "hoodie.clean.hours.retained",
)
CLEAN_VERSIONS: Final = number_key(
    "hoodie.cleaner.fileversions.retained",
    3,
    "with KEEP_LATEST_FILE_VERSIONS: file slices that a clean keeps of each file group",
    "hoodie.clean.fileversions.retained",
)
CLEAN_TRIGGER: Final = choice_key(
    "hoodie.clean.trigger.strategy", "NUM_COMMITS", ("NUM_COMMITS",), "when a clean is due"
)
CLEAN_TRIGGER_COMMITS: Final = number_key(
    "hoodie.clean.max.commits",
    1,
    "commits after the last clean before the next one is planned",
    "hoodie.clean.trigger.max.commits",
)
CLEAN_INCREMENTAL: Final = flag_key(
    "hoodie.cleaner.incremental.mode",
    "true",
    "a clean lists only the partitions that were written since the last clean",
    WRITES,
    "hoodie.clean.incremental.enabled",
)
CLEAN_SOURCES: Final = flag_key(
    "hoodie.cleaner.delete.bootstrap.base.file",
    "false",
    "deletes source files with their skeletons: only by `CALL run_clean(…, confirm_source_deletion => true)`",
    WRITES,
    "hoodie.clean.delete.bootstrap.base.file",
)
TTL_STRATEGY: Final = choice_key(
    "hoodie.partition.ttl.management.strategy.type",
    "KEEP_BY_TIME",
    ("KEEP_BY_TIME", "KEEP_BY_CREATION_TIME"),
    "`run_ttl` counts a partition's age from its last write, or from its first",
)
TTL_DAYS: Final = number_key(
    "hoodie.partition.ttl.strategy.days.retain", 0, "days after which `run_ttl` drops a partition; 0: unset"
)
TTL_MAX_PARTITIONS: Final = number_key(
    "hoodie.partition.ttl.strategy.max.delete.partitions", 1000, "most partitions that one `run_ttl` drops"
)
TTL_SELECTED: Final = names_key(
    "hoodie.partition.ttl.strategy.partition.selected",
    "paths of the partitions that `run_ttl` checks; unset: all",
)
ARCHIVE_AUTOMATIC: Final = flag_key(
    "hoodie.archive.automatic", "true", "instants are archived after a commit when there are enough"
)
KEEP_MAX_COMMITS: Final = number_key(
    "hoodie.keep.max.commits", 30, "commits of the active timeline above which the oldest are archived"
)
KEEP_MIN_COMMITS: Final = number_key(
    "hoodie.keep.min.commits",
    20,
    "commits that stay in the active timeline; more if a clean still needs them",
)
