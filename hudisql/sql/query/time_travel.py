"""The table state that a reference reads: TIMESTAMP AS OF, VERSION AS OF, or a window of its changes.

Expressions are evaluated in the session to which their text belongs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hudisql.config.config_key import config_of_session
from hudisql.config.hudi_config import HOLLOW_COMMITS, SCHEMA_OF_END
from hudisql.errors import NoSuchInstantError, UnsupportedStatementError
from hudisql.read.scan.table_state import TableState, changes_of_window, state_as_of
from hudisql.spark.jvm import spark_sql
from hudisql.sql.query.references import TimeTravel
from hudisql.sql.text.spark_errors import translated_spark_errors
from hudisql.sql_literals import quote_string
from hudisql.table.history.timeline_window import TimelineWindow, timeline_window
from hudisql.table.hudi_table import HudiTable
from hudisql.table.timeline.completion_times import instant_time_of_millis

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INSTANT_LITERAL = re.compile(r"\s*(['\"]?)(\d{14}|\d{17})\1\s*")
_HINT = "write TIMESTAMP AS OF '2024-03-01 12:00:00' or TIMESTAMP AS OF '<instant time>'"
_SHOWN = 3
# The years 1970 to 9998 in microseconds since 1970; long numbers that are no instant times lie outside.
_FIRST_MICROS, _LAST_MICROS = 0, 253_370_764_800_000_000


def past_state(session: SparkSession, table: HudiTable, travel: TimeTravel) -> TableState:
    """The state for a time travel clause.

    Raises NoSuchStateError if the timeline does not go back that far, NoSuchInstantError for a version that
    is not a completed commit, UnsupportedStatementError for an expression that is not a time, QueryError.
    """
    if travel.timestamp is not None:
        as_of = _instant_time(session, table, travel.timestamp)
    else:
        as_of = _version(table, str(travel.version).strip())
    return state_as_of(table, as_of)


def changes_state(session: SparkSession, table: HudiTable, begin: str, end: str | None) -> TableState:
    """The rows that commits after `begin` up to and with `end` wrote."""
    window = changes_window(session, table, begin, end)
    return changes_of_window(table, window, schema_of_end=config_of_session(session).get(SCHEMA_OF_END))


def changes_window(session: SparkSession, table: HudiTable, begin: str, end: str | None) -> TimelineWindow:
    """The window of `hudi_table_changes`; instant times, or times in the session's zone.

    Raises InvalidArgumentError, HollowCommitError.
    """
    policy = config_of_session(session).get(HOLLOW_COMMITS)
    last = None if end is None else _time_text(session, table, end)
    return timeline_window(table, _time_text(session, table, begin), last, policy)


def _instant_time(session: SparkSession, table: HudiTable, expression: str) -> str:
    """The instant time of an expression, in the timeline's time zone."""
    literal = _INSTANT_LITERAL.fullmatch(expression)
    if literal:
        return literal[2]
    with translated_spark_errors():
        row = spark_sql(session, f"SELECT unix_micros(CAST({expression} AS TIMESTAMP_LTZ))").head()
    if row is None or row[0] is None or not _FIRST_MICROS <= int(row[0]) <= _LAST_MICROS:
        raise UnsupportedStatementError(f"TIMESTAMP AS OF {expression} is not a point in time", hint=_HINT)
    return instant_time_of_millis(table, int(row[0]) // 1000)


def _version(table: HudiTable, text: str) -> str:
    times = [commit.timestamp for commit in table.timeline.commits]
    if text not in times:
        latest = ", ".join(times[-_SHOWN:]) or "none"
        raise NoSuchInstantError(
            f"VERSION AS OF {text}: the timeline of the Hudi table at {table.base_path} has no completed "
            f"commit of that instant time; its latest: {latest}",
            hint="hudi_query_timeline('<table>') lists them; TIMESTAMP AS OF takes any time",
        )
    return text


def _time_text(session: SparkSession, table: HudiTable, text: str) -> str:
    """A date or time of the session's zone as an instant time; other texts unchanged."""
    if "-" not in text:
        return text
    from pyspark.errors import PySparkException

    try:
        row = spark_sql(session, f"SELECT unix_micros(CAST({quote_string(text)} AS TIMESTAMP_LTZ))").head()
    except PySparkException:
        return text
    found = None if row is None else row[0]
    return text if found is None else instant_time_of_millis(table, int(found) // 1000)
