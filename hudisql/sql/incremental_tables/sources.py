"""The Hudi tables that an incremental table's query reads, each as of one instant for the whole refresh."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hudisql.config.config_key import config_of_session
from hudisql.errors import InvalidArgumentError, UnsupportedStatementError
from hudisql.format.schema.spark_schema import quote_name
from hudisql.options.unserved_settings import policy_of_places
from hudisql.spark.jvm import spark_sql
from hudisql.spark.versions import check_statement_since
from hudisql.sql.query.bound_text import BoundText, HudiRelation
from hudisql.sql.query.references import replace_spans
from hudisql.sql.query.relations import TableBinder
from hudisql.sql.text.statements import Statement
from hudisql.sql_literals import quote_string
from hudisql.table.history.timeline_window import BEFORE_ALL, instant_time_of_bound, newest_commit_time
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.registered_partitions import registered_partitions
from hudisql.table.timeline.completion_times import completion_times, instant_time_of_millis

if TYPE_CHECKING:
    from hudisql.context import Context

_FIXED_TIME: Final = re.compile(r"\s*(?:(?:TIMESTAMP|DATE)\s*)?(?:'[^']*'|\"[^\"]*\")\s*", re.IGNORECASE)
_WORDS: Final = re.compile(r"['\"]\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)


@dataclass(frozen=True)
class QuerySources:
    """The query bound to its sources: tables by base path, and the instant up to which each is read.

    `policy` is Hudi's for pending commits. `is_past` says that the text itself names these instants.
    """

    binder: TableBinder
    bound: BoundText
    tables: Mapping[str, HudiTable]
    names: Mapping[str, str]
    ends: Mapping[str, str]
    policy: str
    is_past: bool = False

    @property
    def text(self) -> str:
        """The query's text as of the instants."""
        return self.bound.original

    @property
    def references(self) -> tuple[HudiRelation, ...]:
        """The references whose changes count."""
        return tuple(relation for relation in self.bound.hudi_relations if self._is_followed(relation))

    @property
    def constant(self) -> frozenset[str]:
        """The names of the references to past states."""
        others = (relation for relation in self.bound.hudi_relations if not self._is_followed(relation))
        return frozenset(other.view_name for other in others)

    @property
    def views(self) -> dict[str, str]:
        """A hash of the definition of each view over Hudi tables, by its name."""
        return {
            view_relation.definition.name: view_relation.definition.fingerprint
            for view_relation in self.bound.view_relations
        }

    @property
    def moving(self) -> str:
        """The first time travel clause whose state may change later, as written; empty if there is none."""
        for hudi_relation in self.bound.hudi_relations:
            travel = hudi_relation.time_travel
            if self._is_followed(hudi_relation) or travel is None or travel.timestamp is None:
                continue
            as_of = self.binder.state_of(hudi_relation).as_of
            now = instant_time_of_millis(self.binder.open(hudi_relation.entry), time.time_ns() // 1_000_000)
            if not is_fixed_time(travel.timestamp) or (as_of is not None and as_of >= now):
                return f"TIMESTAMP AS OF {travel.timestamp.strip()}"
        return ""

    def check_permanent(self, name: Sequence[str]) -> None:
        """Refuse names of temporary views of this session; `name` has the parts of the table's.

        Raises UnsupportedStatementError.
        """
        self.binder.check_permanent_view(name, self.bound, "incremental table")

    def _is_followed(self, relation: HudiRelation) -> bool:
        return relation.time_travel is None or (self.is_past and relation.entry.path in self.ends)


def _refuse_register_only(table: HudiTable, name: str) -> None:
    """Raise UnsupportedStatementError for rows without a commit: a lift would report them as new."""
    if registered_partitions(table).by_path:
        raise UnsupportedStatementError(
            f"{name} has register-only partitions, whose rows are in no commit: an incremental table cannot "
            "follow them",
            hint=f"CALL resync_bootstrap(table => '{name}', lift => 'true')",
        )


def read_sources(context: Context, text: str, until: str | None = None) -> QuerySources:
    """Bind the query and list its sources; with `until` they are read as of this instant.

    Raises InvalidArgumentError, UnsupportedStatementError, HollowCommitError, NoSuchTableError.
    """
    binder = TableBinder(context)
    bound = binder.bind(Statement(text))
    followed = [hudi_relation for hudi_relation in bound.hudi_relations if hudi_relation.time_travel is None]
    for relation in followed:
        _check(relation)
    policy = policy_of_places(config_of_session(context.spark).get, "refreshes keep")
    tables = {relation.entry.path: binder.open(relation.entry) for relation in followed}
    names = {relation.entry.path: f"{relation.entry.database}.{relation.entry.name}" for relation in followed}
    for path, table in tables.items():
        _refuse_register_only(table, names[path])
    if until is None:
        ends = {path: newest_commit_time(table, policy) or BEFORE_ALL for path, table in tables.items()}
    else:
        bound, ends = _as_of(binder, bound, tables, until)
    return QuerySources(binder, bound, tables, names, ends, policy, is_past=until is not None)


def check_ordering(column: str | None) -> None:
    """Raise UnsupportedStatementError for an ordering column before PySpark 4, without `SELECT * EXCEPT`."""
    if column is not None:
        hint = "write a query that gives each key once, for example by GROUP BY"
        check_statement_since((4, 0), "ORDERING of an incremental table", hint)


def is_fixed_time(text: str) -> bool:
    """True if TIMESTAMP AS OF `text` is a literal that always means the same time."""
    return bool(_FIXED_TIME.fullmatch(text)) and not _WORDS.search(text)


def _check(relation: HudiRelation) -> None:
    if relation.call is not None:
        raise UnsupportedStatementError(
            f"an incremental table cannot read the table function {relation.call.name}",
            hint="name the table itself: a refresh reads what has changed",
        )
    if relation.entry.read_optimized:
        raise UnsupportedStatementError(
            f"an incremental table cannot read {relation.written}, which shows base files only",
            hint=f"name the table itself: {relation.written.removesuffix('_ro')}",
        )


def _as_of(
    binder: TableBinder, bound: BoundText, tables: Mapping[str, HudiTable], until: str
) -> tuple[BoundText, dict[str, str]]:
    last = instant_time_of_bound(until, "UP TO")
    ends: dict[str, str] = {}
    instants: dict[str, str] = {}
    for path, table in tables.items():
        instants[path], ends[path] = _state_up_to(table, last, until)
    if bound.view_relations or any(
        hudi_relation.time_travel is not None for hudi_relation in bound.hudi_relations
    ):
        raise UnsupportedStatementError(
            "UP TO is not supported for a query over views or past states",
            hint="REFRESH INCREMENTAL TABLE without UP TO goes to the newest commits",
        )
    at = {hudi_relation.at: hudi_relation for hudi_relation in bound.hudi_relations}
    clauses = []
    for (start, stop), _ in bound.replacements:
        if start in at:
            instant = quote_string(instants[at[start].entry.path])
            clauses.append(((start, stop), f"{bound.original[start:stop]} TIMESTAMP AS OF {instant}"))
    if len(clauses) != len(at):
        raise UnsupportedStatementError("UP TO is not supported for this form of the query's table names")
    return binder.bind(Statement(replace_spans(bound.original, clauses))), ends


def _state_up_to(table: HudiTable, last: str, until: str) -> tuple[str, str]:
    """The newest instant of the table up to `last`, and the matching end of a window of changes.

    With timeline layout 2 windows are bounded by completion times.
    """
    commits = table.timeline.commits
    taken = [commit for commit in commits if commit.timestamp <= last]
    if not taken:
        raise InvalidArgumentError(
            f"UP TO {until} is before the oldest commit of the timeline of the source at {table.base_path}",
            hint="name a later instant",
        )
    if not table.timeline.layout.has_completion_times:
        return taken[-1].timestamp, taken[-1].timestamp
    times = completion_times(table, commits)
    end = max(times[instant] for instant in taken)
    if any(times[commit] <= end for commit in commits if commit.timestamp > last):
        raise InvalidArgumentError(
            f"commits that began after {until} were completed before earlier ones in the source at "
            f"{table.base_path}: no window of its changes ends there",
            hint="name a later instant",
        )
    return taken[-1].timestamp, end


@contextmanager
def in_database(context: Context, database: str) -> Iterator[None]:
    """The session's database is `database` while the context is open."""
    before = context.current_database
    if before == database:
        yield
        return
    spark_sql(context.spark, f"USE {quote_name(database)}")
    try:
        yield
    finally:
        spark_sql(context.spark, f"USE {quote_name(before)}")
