"""Runs one due service of one table beside its writers, and reports the result.

Pending plans are run; otherwise a plan is written and run. Only the rollback service rolls back failed
writes: planning never touches a write that may be running. Knows neither SQL text nor the metastore.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hudisql.config.config_key import HudiConfig
from hudisql.services.archive.archive_action import archive_table
from hudisql.services.archive.archive_plan import archive_options
from hudisql.services.clean.clean_action import clean_table, run_pending_cleans
from hudisql.services.clean.clean_plan import clean_options
from hudisql.services.clustering.clustering_action import (
    clustering_options,
    run_clustering,
    schedule_clustering,
)
from hudisql.services.compaction.compaction_action import (
    compaction_options,
    run_compaction,
    schedule_compaction,
)
from hudisql.services.schedule.due_services import Service, runnable_plans, service_states
from hudisql.table.hudi_table import HudiTable
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.transaction.concurrency import Concurrency, FailedWrites
from hudisql.write.transaction.failed_writes import roll_back_failed_writes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class ServiceRun:
    """The inputs of a service: the opened table, its settings, and Spark, which may start only now.

    `options` returns the options of writes, `is_stopping` is true when nothing more should start.
    """

    table: HudiTable
    config: HudiConfig
    concurrency: Callable[[], Concurrency]
    options: Callable[[], WriteOptions]
    spark: Callable[[], SparkSession]
    is_stopping: Callable[[], bool]

    def run(self, service: Service) -> str | None:
        """What was done; None if there was nothing to do. A plan stays pending if the service fails."""
        return {
            Service.ROLLBACK: self._roll_back,
            Service.COMPACTION: self._compact,
            Service.CLEAN: self._clean,
            Service.ARCHIVE: self._archive,
            Service.CLUSTERING: self._cluster,
        }[service]()

    def _roll_back(self) -> str | None:
        concurrency = self.concurrency()
        with concurrency.hold():
            table = self.table.reopened()
            # Check again under the lock: a writer may have begun or finished meanwhile.
            states = service_states(table, self.config, self.concurrency)
            (state,) = [
                service_state for service_state in states if service_state.service is Service.ROLLBACK
            ]
            if not state.is_due or not roll_back_failed_writes(table, concurrency):
                return None
        return state.reason.replace("failed", "rolled back", 1)

    def _compact(self) -> str | None:
        times = runnable_plans(self.table, self.config, self.concurrency, Service.COMPACTION)
        if not times:
            options = compaction_options(self.config)
            scheduled = schedule_compaction(self.table, options, _beside_writers(self.concurrency()))
            times = () if scheduled is None else (scheduled.timestamp,)
        said = []
        for instant_time in times:
            if self.is_stopping():
                break
            done = run_compaction(self.spark(), self.table.reopened(), instant_time, self.options())
            said.append(
                f"{instant_time}, {done.operations:,} file slices merged, {done.bytes:,} bytes written"
            )
        return "; ".join(said) or None

    def _clean(self) -> str | None:
        concurrency = self.concurrency()
        metadata = run_pending_cleans(self.table, concurrency)
        if metadata is None:
            metadata = clean_table(self.table, clean_options(self.config), _beside_writers(concurrency))
        return (
            None if metadata is None else f"{metadata.start_time}, {metadata.files_deleted:,} files deleted"
        )

    def _archive(self) -> str | None:
        archived = archive_table(self.table, archive_options(self.config), self.concurrency())
        return f"{len(archived):,} instants archived" if archived else None

    def _cluster(self) -> str | None:
        options, write_options = clustering_options(self.config), self.options()
        times = runnable_plans(self.table, self.config, self.concurrency, Service.CLUSTERING)
        if not times:
            planning = replace(write_options, concurrency=_beside_writers(write_options.concurrency))
            scheduled = schedule_clustering(self.table, options, planning)
            times = () if scheduled is None else (scheduled.timestamp,)
        said = []
        for instant_time in times:
            if self.is_stopping():
                break
            done = run_clustering(
                self.spark(), self.table.reopened(), instant_time, write_options, options.target_file_bytes
            )
            said.append(f"{instant_time}, {done.replaced:,} file groups became {done.files:,}")
        return "; ".join(said) or None


def _beside_writers(concurrency: Concurrency) -> Concurrency:
    """The options for planning: a pending write without heartbeats may be running, and is not rolled back."""
    if concurrency.failed_writes is FailedWrites.LAZY:
        return concurrency
    return replace(concurrency, failed_writes=FailedWrites.NEVER)
