"""The table services that are due after a commit: clean, archiving, compaction, clustering, in Hudi's order.

Follows `BaseHoodieWriteClient.mayBeCleanAndArchive` and `runTableServicesInline` of Hudi 0.15. The commit
stands in any case: a failed service is a warning. Only the timeline decides what is due; nothing is listed if
nothing is due. Knows neither SQL text nor the metastore.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.config.config_key import HudiConfig
from hudisql.config.table_service_keys import (
    ARCHIVE_AUTOMATIC,
    CLEAN_AUTOMATIC,
    CLUSTERING_INLINE,
    CLUSTERING_INLINE_COMMITS,
    CLUSTERING_SCHEDULE_COMMITS,
    CLUSTERING_SCHEDULE_INLINE,
    COMPACT_INLINE,
    COMPACT_SCHEDULE_INLINE,
    TABLE_SERVICES,
)
from hudisql.errors import HudisqlError
from hudisql.format.timeline.active_timeline import Timeline
from hudisql.format.timeline.instant import CLEAN, COMPACTION, InstantState
from hudisql.services.archive.archive_action import archive_table
from hudisql.services.archive.archive_plan import archive_options, may_archive
from hudisql.services.clean.clean_action import clean_table
from hudisql.services.clean.clean_plan import CleanPolicy, clean_options, earliest_commit_to_retain
from hudisql.services.clustering.clustering_action import (
    clustering_options,
    commits_since_clustering,
    pending_clusterings,
    run_clustering,
    schedule_clustering,
)
from hudisql.services.compaction.compaction_action import (
    compaction_options,
    is_compaction_due,
    run_compaction,
    schedule_compaction,
)
from hudisql.table.hudi_table import HudiTable
from hudisql.table.properties.timeline_clock import now_on_timeline
from hudisql.write.execution.writer_config import WriteOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class AutomaticServices:
    """The services of one table after one commit.

    `table` is the table after the commit, `options` returns the options of writes, `warn` receives failures
    with advice, `label` is the table's name in warnings.
    """

    table: HudiTable
    config: HudiConfig
    options: Callable[[], WriteOptions]
    warn: Callable[[str], None]
    label: str

    def run(self, spark: SparkSession) -> bool:
        """Run the services that are due; True if there was one. Does not raise errors of hudisql or Spark."""
        done = self.run_without_spark()
        done = self._attempt("compaction", "CALL run_compaction", lambda: self._compact(spark)) or done
        return self._attempt("clustering", "CALL run_clustering", lambda: self._cluster(spark)) or done

    def run_without_spark(self) -> bool:
        """Run the clean and the archiving if they are due; True if one was."""
        done = self._attempt("clean", "CALL run_clean", self._clean)
        return self._attempt("archiving", "CALL archive_commits", self._archive) or done

    def _attempt(self, name: str, call: str, run: Callable[[], bool]) -> bool:
        """True if the service did something, or failed; `call` is the statement that runs it again."""
        try:
            return self.config.get(TABLE_SERVICES) and run()
        except Exception as error:
            self._warn_of_failure(name, call, error)
            return True

    def _warn_of_failure(self, name: str, call: str, error: Exception) -> None:
        name_of_error = type(error).__name__
        text = error.message if isinstance(error, HudisqlError) else str(error)
        message = next(iter(text.splitlines()), name_of_error) or name_of_error
        hint = error.hint if isinstance(error, HudisqlError) and error.hint else f"{call} runs it again"
        self.warn(f"{self.label}: committed, but the automatic {name} failed: {message} ({hint})")

    def _clean(self) -> bool:
        if not self.config.get(CLEAN_AUTOMATIC):
            return False
        timeline, options = self.table.timeline, clean_options(self.config)
        is_pending = any(instant.action == CLEAN for instant in timeline.pending)
        earliest = earliest_commit_to_retain(timeline, options, now_on_timeline(self.table))
        if (
            earliest is None
            and not is_pending
            and options.policy is not CleanPolicy.KEEP_LATEST_FILE_VERSIONS
        ):
            return False
        return clean_table(self.table, options, self.options().concurrency) is not None

    def _archive(self) -> bool:
        if not self.config.get(ARCHIVE_AUTOMATIC):
            return False
        options = archive_options(self.config)
        if not may_archive(self.table.timeline, options):
            return False
        return bool(archive_table(self.table, options, self.options().concurrency))

    def _compact(self, spark: SparkSession) -> bool:
        if not self.table.is_merge_on_read:
            return False
        runs = self.config.get(COMPACT_INLINE)
        if not runs and not self.config.get(COMPACT_SCHEDULE_INLINE):
            return False
        table, due_by = self.table.reopened(), compaction_options(self.config)
        pending = _pending_compactions(table.timeline, self.options()) if runs else []
        if not pending and not is_compaction_due(table.timeline, due_by, now_on_timeline(table)):
            return False
        for instant_time in pending:
            run_compaction(spark, table, instant_time, self.options())
        scheduled = schedule_compaction(table.reopened(), due_by, self.options().concurrency)
        if scheduled is not None and runs:
            run_compaction(spark, table.reopened(), scheduled.timestamp, self.options())
        return bool(pending) or scheduled is not None

    def _cluster(self, spark: SparkSession) -> bool:
        runs = self.config.get(CLUSTERING_INLINE)
        if not runs and not self.config.get(CLUSTERING_SCHEDULE_INLINE):
            return False
        table, options = self.table.reopened(), clustering_options(self.config)
        pending = pending_clusterings(table) if runs and not self.options().concurrency.optimistic else []
        for instant_time in pending:
            run_clustering(spark, table, instant_time, self.options(), options.target_file_bytes)
        if pending:
            table = table.reopened()
        every = self.config.get(CLUSTERING_INLINE_COMMITS if runs else CLUSTERING_SCHEDULE_COMMITS)
        if commits_since_clustering(table) < every:
            return bool(pending)
        scheduled = schedule_clustering(table, options, self.options())
        if scheduled is not None and runs:
            instant_time = scheduled.timestamp
            run_clustering(spark, table.reopened(), instant_time, self.options(), options.target_file_bytes)
        return bool(pending) or scheduled is not None


def _pending_compactions(timeline: Timeline, options: WriteOptions) -> list[str]:
    """The pending compactions to run first, oldest first, as Hudi's inline compaction does.

    With several writers a compaction that has begun may be running elsewhere, and is not included.
    """
    return [
        instant.timestamp
        for instant in timeline.pending
        if instant.action == COMPACTION
        and (instant.state is InstantState.REQUESTED or not options.concurrency.optimistic)
    ]
