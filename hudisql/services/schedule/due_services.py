"""Which services are due on a table, and why: what `hudisql services run` runs and `show_services` shows.

The triggers are those of the services that run after a commit (`automatic`). Services that run beside writers
are more careful: they leave a write or a service alone that may still be running, and on a table without
optimistic concurrency control nothing is planned while a write is pending (`ScheduleCompactionActionExecutor`
of Hudi 0.15). Reads the timeline, plans and heartbeats; knows neither SQL text nor the metastore.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Final

from hudisql.config.config_key import HudiConfig
from hudisql.config.hudi_config import ICEBERG_SYNC, WRITER_TIMEOUT_HOURS
from hudisql.config.table_service_keys import (
    ARCHIVE_AUTOMATIC,
    CLEAN_AUTOMATIC,
    CLUSTERING_ASYNC,
    CLUSTERING_INLINE,
    CLUSTERING_INLINE_COMMITS,
    CLUSTERING_SCHEDULE_COMMITS,
    CLUSTERING_SCHEDULE_INLINE,
    COMPACT_ASYNC,
    TABLE_SERVICES,
)
from hudisql.errors import CorruptTableError, HudisqlError, UnsupportedTableError
from hudisql.format.timeline.instant import CLEAN, COMMIT_ACTIONS, COMPACTION, ROLLBACK, Instant
from hudisql.services.archive.archive_plan import archive_options, may_archive, plan_archive
from hudisql.services.clean.clean_plan import (
    CleanPolicy,
    clean_options,
    commits_since_clean,
    earliest_commit_to_retain,
)
from hudisql.services.clustering.clustering_action import commits_since_clustering, pending_clusterings
from hudisql.services.compaction.compaction_action import (
    CompactionTrigger,
    compaction_options,
    delta_commits_since_compaction,
    is_compaction_due,
)
from hudisql.table.hudi_table import HudiTable
from hudisql.table.properties.timeline_clock import now_on_timeline
from hudisql.table.timeline.requested_plans import is_clustering
from hudisql.write.metadata_table.unkept_metadata_table import has_unkept
from hudisql.write.transaction.concurrency import Concurrency, FailedWrites
from hudisql.write.transaction.dead_writers import has_expired, is_silent
from hudisql.write.transaction.pending_rollbacks import check_not_restored, rollbacks_of_failed_writes
from hudisql.write.transaction.writable_tables import check_writable

_MS_PER_HOUR: Final = 3_600_000


class Service(StrEnum):
    """The table services, the most urgent first."""

    ROLLBACK = "rollback"
    COMPACTION = "compaction"
    CLEAN = "clean"
    ARCHIVE = "archive"
    CLUSTERING = "clustering"
    PUBLICATION = "publication"
    """Of the Iceberg table, where each commit is published: of commits of other writers."""

    @property
    def priority(self) -> int:
        """0 is the most urgent."""
        return list(Service).index(self)


@dataclass(frozen=True, slots=True)
class ServiceState:
    """Whether a service is due on a table, with the reason either way.

    `pending` are the instant times of its plans, or of the failed writes. `basis` is further state on which a
    run without effect depended. A state with `changes_with_time` may change although nothing is written.
    `error` is why the state is unknown.
    """

    service: Service
    is_due: bool
    reason: str
    pending: tuple[str, ...] = ()
    basis: str = ""
    changes_with_time: bool = False
    error: HudisqlError | None = None


def service_states(
    table: HudiTable, config: HudiConfig, concurrency: Callable[[], Concurrency]
) -> tuple[ServiceState, ...]:
    """The state of each service, the most urgent first; its errors become part of the state.

    The publication is there only for a table whose commits are published.
    """
    seen = ObservedTable(table, config, concurrency, now_on_timeline(table), time.time() * 1000)
    states = []
    for service, find in _FINDERS.items():
        try:
            if service is Service.PUBLICATION:
                states += [find(seen)] if config.get(ICEBERG_SYNC) else []
                continue
            reason = seen.reason_to_leave
            states.append(ServiceState(service, False, reason) if reason else find(seen))
        except HudisqlError as error:
            states.append(ServiceState(service, False, f"unknown: {error.message}", error=error))
    return tuple(states)


def runnable_plans(
    table: HudiTable, config: HudiConfig, concurrency: Callable[[], Concurrency], service: Service
) -> tuple[str, ...]:
    """The pending plans of compactions or clusterings that no other process may be running, oldest first."""
    seen = ObservedTable(table, config, concurrency, now_on_timeline(table), time.time() * 1000)
    return tuple(plan.timestamp for plan in seen.plans_of(service) if not seen.is_running(plan))


@dataclass(frozen=True)
class ObservedTable:
    """A table at one moment: `now` on the timeline's clock, `now_ms` since the epoch."""

    table: HudiTable
    config: HudiConfig
    make_concurrency: Callable[[], Concurrency]
    now: datetime
    now_ms: float

    @cached_property
    def concurrency(self) -> Concurrency:
        """The concurrency mode of the table. Raises SettingsError, UnsupportedTableError."""
        return self.make_concurrency()

    @cached_property
    def timeout_ms(self) -> float:
        """How long a writer without heartbeats may be silent."""
        return self.config.get(WRITER_TIMEOUT_HOURS) * _MS_PER_HOUR

    @cached_property
    def reason_to_leave(self) -> str | None:
        """Why hudisql runs no services on the table; empty if it does."""
        if not self.config.get(TABLE_SERVICES):
            return f"{TABLE_SERVICES} is false"
        if has_unkept(self.table):
            return "the table has a metadata table that hudisql does not keep: left to Apache Hudi"
        try:
            check_writable(self.table, ROLLBACK)
            check_not_restored(self.table, self.table.timeline)
        except UnsupportedTableError as error:
            return error.message
        except CorruptTableError:
            if self.table.timeline.commits:
                raise
            return "the table has no commits and no schema"
        return None

    @cached_property
    def pending_writes(self) -> tuple[Instant, ...]:
        """Commits that are not complete, oldest first."""
        return tuple(
            instant
            for instant in self.table.timeline.pending
            if instant.action in COMMIT_ACTIONS and not is_clustering(self.table, instant)
        )

    @cached_property
    def running_write(self) -> Instant | None:
        """The first pending write during which nothing may be planned."""
        if self.concurrency.optimistic or not self.pending_writes:
            return None
        return self.pending_writes[0]

    def plans_of(self, service: Service) -> list[Instant]:
        """The pending compactions or clusterings."""
        if service is Service.COMPACTION:
            return [instant for instant in self.table.timeline.pending if instant.action == COMPACTION]
        clusterings = set(pending_clusterings(self.table))
        return [instant for instant in self.table.timeline.pending if instant.timestamp in clusterings]

    def is_running(self, instant: Instant) -> bool:
        """True if another process may be running the planned service."""
        return instant.state.name != "REQUESTED" and not self.is_failed(instant)

    def is_failed(self, instant: Instant) -> bool:
        """True if the heartbeat has expired; without one, if nothing has changed for the timeout."""
        expired = has_expired(self.table, instant, self.now_ms - self.concurrency.heartbeat_tolerance_ms)
        if expired is not None:
            return expired
        is_write = instant.action in COMMIT_ACTIONS and not is_clustering(self.table, instant)
        if is_write and self.concurrency.failed_writes is FailedWrites.LAZY:
            return True
        return is_silent(self.table, instant, self.now_ms - self.timeout_ms)


def _rollback(seen: ObservedTable) -> ServiceState:
    none = ServiceState(Service.ROLLBACK, False, "no failed writes")
    policy = seen.concurrency.failed_writes
    if policy is FailedWrites.NEVER:
        return replace(none, reason="hoodie.cleaner.policy.failed.writes is NEVER")
    patience = seen.concurrency.known_by_heartbeats_ms
    running, interrupted = rollbacks_of_failed_writes(
        seen.table, round(seen.timeout_ms) if patience is None else patience
    )
    failed = [pending_write for pending_write in seen.pending_writes if seen.is_failed(pending_write)]
    alive = [
        pending_write
        for pending_write in seen.pending_writes
        if pending_write not in failed and pending_write not in running
    ]
    times = sorted({instant.timestamp for instant in (*failed, *interrupted)})
    waits_for = [*running, *alive]
    if not times and not waits_for:
        return none
    # An eager rollback includes all pending writes.
    is_due = bool(times) and (policy is FailedWrites.LAZY or not waits_for)
    reason = (
        f"{_count(len(times), 'failed write')}: {', '.join(times)}"
        if is_due
        else f"{waits_for[0].timestamp} may be running"
    )
    return ServiceState(Service.ROLLBACK, is_due, reason, tuple(times), changes_with_time=True)


def _compaction(seen: ObservedTable) -> ServiceState:
    if not seen.table.is_merge_on_read:
        return ServiceState(Service.COMPACTION, False, "the table is copy-on-write")
    if (pending := _of_plans(seen, Service.COMPACTION)) is not None:
        return pending
    options = compaction_options(seen.config)
    count = len(delta_commits_since_compaction(seen.table.timeline, options.trigger))
    by_count = f"{count} of {options.max_delta_commits} delta commits"
    by_time = f"{options.max_delta_seconds} s"
    reason = {
        CompactionTrigger.NUM_COMMITS: f"{by_count} since the last compaction",
        CompactionTrigger.NUM_COMMITS_AFTER_LAST_REQUEST: f"{by_count} since the last plan",
        CompactionTrigger.TIME_ELAPSED: f"{by_time} since the last compaction, and delta commits",
        CompactionTrigger.NUM_AND_TIME: f"{by_count} and {by_time} since the last compaction",
        CompactionTrigger.NUM_OR_TIME: f"{by_count} or {by_time} since the last compaction",
    }[options.trigger]
    is_due = is_compaction_due(seen.table.timeline, options, seen.now)
    by_clock = bool(count) and "TIME" in options.trigger
    if is_due and not seen.config.get(COMPACT_ASYNC):
        return ServiceState(Service.COMPACTION, False, f"{COMPACT_ASYNC} is false")
    return _planned(seen, ServiceState(Service.COMPACTION, is_due, reason, changes_with_time=by_clock))


def _clean(seen: ObservedTable) -> ServiceState:
    timeline = seen.table.timeline
    pending = tuple(instant.timestamp for instant in timeline.pending if instant.action == CLEAN)
    if pending:
        return ServiceState(Service.CLEAN, True, _count(len(pending), "pending plan"), pending)
    if not seen.config.get(CLEAN_AUTOMATIC):
        return ServiceState(Service.CLEAN, False, f"{CLEAN_AUTOMATIC} is false")
    options = clean_options(seen.config)
    by_hours = options.policy is CleanPolicy.KEEP_LATEST_BY_HOURS
    earliest = earliest_commit_to_retain(timeline, options, seen.now)
    if earliest is None and options.policy is not CleanPolicy.KEEP_LATEST_FILE_VERSIONS:
        kept = f"the last {options.hours_retained} hours" if by_hours else f"{options.commits_retained}"
        reason = f"{_count(len(timeline.commits), 'commit')}, {kept} of them to be retained"
        return ServiceState(Service.CLEAN, False, reason, changes_with_time=by_hours)
    commits = commits_since_clean(seen.table)
    return ServiceState(
        Service.CLEAN,
        commits >= options.trigger_commits,
        f"{_count(commits, 'commit')} since the last clean, due at {options.trigger_commits}",
        basis="" if earliest is None else earliest.timestamp,
        changes_with_time=by_hours and commits > 0,
    )


def _archive(seen: ObservedTable) -> ServiceState:
    if not seen.config.get(ARCHIVE_AUTOMATIC):
        return ServiceState(Service.ARCHIVE, False, f"{ARCHIVE_AUTOMATIC} is false")
    options = archive_options(seen.config)
    count = _count(len(seen.table.timeline.commits), "commit")
    if not may_archive(seen.table.timeline, options):
        return ServiceState(Service.ARCHIVE, False, f"{count}, up to {options.max_commits} stay")
    chosen = plan_archive(seen.table, options)
    if not chosen:
        reason = f"{count}, and cleans, savepoints or pending instants need the oldest of them"
        return ServiceState(Service.ARCHIVE, False, reason)
    reason = f"{_count(len(chosen), 'instant')} to archive of {count} and other instants"
    return ServiceState(Service.ARCHIVE, True, reason)


def _clustering(seen: ObservedTable) -> ServiceState:
    if (pending := _of_plans(seen, Service.CLUSTERING)) is not None:
        return pending
    inline = seen.config.get(CLUSTERING_INLINE)
    if (
        not inline
        and not seen.config.get(CLUSTERING_ASYNC)
        and not seen.config.get(CLUSTERING_SCHEDULE_INLINE)
    ):
        reason = f"{CLUSTERING_INLINE} and {CLUSTERING_ASYNC} are false"
        return ServiceState(Service.CLUSTERING, False, reason)
    every = seen.config.get(CLUSTERING_INLINE_COMMITS if inline else CLUSTERING_SCHEDULE_COMMITS)
    commits = commits_since_clustering(seen.table)
    reason = f"{commits} of {_count(every, 'commit')} since the last clustering"
    return _planned(seen, ServiceState(Service.CLUSTERING, commits >= every, reason))


def _publication(seen: ObservedTable) -> ServiceState:
    from hudisql.iceberg.metadata_files import latest_metadata

    published = latest_metadata(seen.table).state
    known = frozenset[str]() if published is None else frozenset(published.completed)
    new = [commit.timestamp for commit in seen.table.timeline.commits if commit.timestamp not in known]
    reason = f"{_count(len(new), 'commit')} since the last publication"
    return ServiceState(Service.PUBLICATION, bool(new) or published is None, reason)


def _of_plans(seen: ObservedTable, service: Service) -> ServiceState | None:
    """The state of a service with pending plans, None without. New plans wait for these."""
    plans = seen.plans_of(service)
    if not plans:
        return None
    times = tuple(plan.timestamp for plan in plans)
    free = [plan.timestamp for plan in plans if not seen.is_running(plan)]
    if free:
        return ServiceState(
            service,
            True,
            f"{_count(len(free), 'pending plan')}",
            times,
            changes_with_time=len(free) < len(plans),
        )
    return ServiceState(service, False, f"{times[0]} may be running", times, changes_with_time=True)


def _planned(seen: ObservedTable, state: ServiceState) -> ServiceState:
    """The state of a service that writes a plan, which waits for writers that do not know of it."""
    write = seen.running_write if state.is_due else None
    if write is None:
        return state
    reason = f"{state.reason}; waits for the write {write.timestamp}, which may be running"
    return replace(state, is_due=False, reason=reason)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


_FINDERS: Final[dict[Service, Callable[[ObservedTable], ServiceState]]] = {
    Service.ROLLBACK: _rollback,
    Service.COMPACTION: _compaction,
    Service.CLEAN: _clean,
    Service.ARCHIVE: _archive,
    Service.CLUSTERING: _clustering,
    Service.PUBLICATION: _publication,
}
