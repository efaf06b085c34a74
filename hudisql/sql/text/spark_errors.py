"""Translates Spark's exceptions to hudisql's: messages without Java's stack, positions in the script.

An error that hudisql itself raised inside a Spark task is restored as its own class. Knows Spark's message
layouts (error class, `line 1 pos 7`, `== SQL ==` blocks), not the statements.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from hudisql import errors
from hudisql.errors import HudisqlError, QueryError, SqlSyntaxError
from hudisql.format.paths.file_names import is_data_file
from hudisql.spark.cached_rows import LOST_ROWS
from hudisql.spark.task_errors import REMOVED_HINT, translate_task_error, without_internal_names
from hudisql.spark.versions import details_of_captured, message_of_captured
from hudisql.sql.text.metastore_failure import failed_metastore_client
from hudisql.sql.text.script import marked_line, position_at

_TASK_ERROR: Final = re.compile(
    r"hudisql\.errors\.(?P<kind>\w+): (?P<message>.*?)(?=\n\s*\n|\n\tat |\Z)", re.DOTALL
)
_STACK: Final = re.compile(r"\n+(JVM stacktrace:|Driver stacktrace:|\s+at [\w.$]+[\w$.<>/]*\(|Caused by: )")
_SQL_BLOCK: Final = re.compile(r"\n*== (SQL|DataFrame)[^\n]*==\n.*", re.DOTALL)
_PLAN_DUMP: Final = re.compile(r";\s*\n\s*['!+\w].*", re.DOTALL)
# The second text is that of Spark 4.0 and 3.5.
_CHANGES_ROWS: Final = re.compile(
    r"does not support (?:UPDATE TABLE|DELETE|MERGE INTO TABLE)\b"
    r"|(?:UPDATE|MERGE INTO) TABLE is not supported temporarily"
)
CHANGES_ROWS_HINT: Final = (
    "Hudi tables take it: CALL migrate_table(…) makes one of a parquet table and keeps the name, "
    "CREATE TABLE … USING hudi an empty one"
)
"""The hint where a table that is none of Hudi's does not take an UPDATE, DELETE or MERGE."""
# What a server of Hive 4 answers to Spark's client of Hive 2.3.
_DROPPED_CALL: Final = re.compile(r"Invalid method name: '(?:get_table|get_table_objects_by_name)'")
CLIENT_VERSION_HINT: Final = (
    "the metastore is of Hive 4, where Spark's own client of Hive 2.3 finds only Hudi tables. Give Spark the "
    "server's: --conf spark.sql.hive.metastore.version=4.0.1 --conf spark.sql.hive.metastore.jars=path "
    "--conf spark.sql.hive.metastore.jars.path=file:///DIRECTORY/*.jar (docs/cluster.md says which jars)"
)
"""The hint where the metastore no longer has a call of Spark's client."""
# Spark begins each of its messages with the name of the condition.
_CONDITION: Final = re.compile(r"\[(?P<name>[A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
_POSITION: Final = re.compile(r"[;(,\s]*\(?line (?P<line>\d+),? pos (?P<position>\d+)\)?;?")
_CONTEXT: Final = re.compile(
    r"== SQL[^\n]*\(line (?P<line>\d+), position (?P<position>\d+)\) ==\n(?P<shown>[^\n]*)"
)
_GONE: Final = (
    re.compile(r"\[FAILED_READ_FILE\.FILE_NOT_EXIST\][^\n]* file (?P<path>\S+)\. File does not exist"),
    # The causes from Hadoop's file systems: local and HDFS, S3.
    re.compile(r"\AFile (?:does not exist: )?(?P<path>\S+)"),
    re.compile(r"\ANo such file or directory: (?P<path>\S+)"),
)
# From Hadoop's file systems with `.<name>.crc` beside each file: Spark's message, or a cause of it.
_CHECKSUM: Final = re.compile(r"Checksum error: (?:file:/*(?=/))?(?P<path>\S+) at \d+")
_STATE: Final = re.compile(r"\s*SQLSTATE: \w{5}")
_ABORTED: Final = re.compile(
    r"^Job aborted due to stage failure: .*?(?:[\w.$]+(?:Exception|Error)): ", re.DOTALL
)


@dataclass(frozen=True)
class SourceText:
    """A statement as the user wrote it, and where it starts in the script.

    `original_offset` maps an offset of Spark's text back to the user's text.
    """

    text: str
    line: int = 1
    column: int = 1
    spark_text: str | None = None
    original_offset: Callable[[int], int] | None = None

    def rewritten(self, before: str, text: str, offset_before: Callable[[int], int]) -> SourceText:
        """The same statement after `before`, Spark's text, has become `text`."""
        if self.spark_text != before or self.original_offset is None:
            return SourceText(before, self.line, self.column, text, offset_before)
        earlier = self.original_offset
        return SourceText(
            self.text, self.line, self.column, text, lambda offset: earlier(offset_before(offset))
        )

    def spark_line(self, number: int) -> str | None:
        """A line of Spark's text (1-based)."""
        lines = (self.spark_text if self.spark_text is not None else self.text).splitlines()
        return lines[number - 1] if 1 <= number <= len(lines) else None

    def mark(self, spark_line: int, spark_position: int) -> str | None:
        """`line …, column …` and the marked text for a position of Spark's (1-based line, 0-based column)."""
        given = self.spark_text if self.spark_text is not None else self.text
        lines = given.splitlines(keepends=True)
        if not 1 <= spark_line <= len(lines):
            return None
        offset = sum(len(line) for line in lines[: spark_line - 1]) + spark_position
        if self.original_offset is not None:
            offset = self.original_offset(offset)
        if offset > len(self.text):
            return None
        line, column = position_at(self.text, offset, self.line, self.column)
        word = re.compile(r"\w+|.?").match(self.text, offset)
        length = len(word.group()) if word else 1
        return f"line {line}, column {column}:\n{marked_line(self.text, offset, length)}"


@contextmanager
def translated_spark_errors(source: SourceText | None = None) -> Iterator[None]:
    """Translate Spark's exceptions to QueryError, SqlSyntaxError or the HudisqlError of a task."""
    try:
        yield
    except Exception as error:
        if not _is_of_spark(error):
            raise
        raise translate_spark_error(error, source) from error


def _is_of_spark(error: Exception) -> bool:
    # If PySpark is not imported, none of its exceptions was raised.
    if "pyspark" not in sys.modules:
        return False
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return isinstance(error, PySparkException | Py4JError)


def translate_spark_error(error: BaseException, source: SourceText | None = None) -> HudisqlError:
    """The hudisql error for an exception of Spark's."""
    from pyspark.errors import ParseException

    message = _message_of(error)
    own = translate_task_error(error) or _own_error(message)
    if own is not None:
        return own
    gone = _removed_data_file(message)
    if gone is not None:
        return QueryError(f"no such path: {gone}", hint=REMOVED_HINT)
    details = details_of_captured(error)
    unconnected = failed_metastore_client(message, details)
    if unconnected is not None:
        return unconnected
    checksum = _CHECKSUM.search(f"{message}\n{details}")
    if checksum is not None:
        return _checksum_error(checksum["path"])
    if LOST_ROWS in message:
        return QueryError(
            "rows that the statement had computed were lost with an executor's memory or disk: nothing was "
            "written",
            hint="run the statement again",
        )
    place = _place_in(message, source)
    text = _plain_message(message)
    if place:
        text = f"{text}\n{place}"
    named = _CONDITION.match(message.lstrip())
    condition = None if named is None else named["name"]
    hint = _hint_of(text)
    made = SqlSyntaxError(text) if isinstance(error, ParseException) else QueryError(text, hint=hint)
    made.condition = condition
    return made


def _hint_of(text: str) -> str | None:
    if _DROPPED_CALL.search(text):
        return CLIENT_VERSION_HINT
    return CHANGES_ROWS_HINT if _CHANGES_ROWS.search(text) else None


def _message_of(error: BaseException) -> str:
    described = message_of_captured(error)
    if described is not None:
        return described
    java = getattr(error, "java_exception", None)
    if java is not None:
        cause = java
        while cause.getCause() is not None:
            cause = cause.getCause()
        return str(cause.getMessage() or cause.toString())
    return str(error)


def _own_error(message: str) -> HudisqlError | None:
    found = _TASK_ERROR.search(message)
    if found is None:
        return None
    kind = getattr(errors, found["kind"], None)
    if not (isinstance(kind, type) and issubclass(kind, HudisqlError)):
        return None
    text, _, hint = found["message"].partition("\n  -> ")
    return kind(text.strip(), hint=hint.strip() or None)


def _removed_data_file(message: str) -> str | None:
    """The data file of a Hudi table that Spark did not find.

    Spark's own advice, REFRESH TABLE, is for its cached file lists of plain tables.
    """
    matches = (pattern.search(message) for pattern in _GONE)
    return next(
        (match["path"] for match in matches if match is not None and is_data_file(match["path"])), None
    )


def _checksum_error(path: str) -> QueryError:
    directory, _, name = path.rpartition("/")
    return QueryError(
        f"the checksum in {directory}/.{name}.crc is not that of {path}, which Spark therefore does not read",
        hint="if the file is right (a tool that keeps no checksums has replaced it), delete the .crc file; "
        "else put the original file back",
    )


def _place_in(message: str, source: SourceText | None) -> str | None:
    if source is None:
        return None
    context = _CONTEXT.search(message)
    if context:
        # The text may be that of a view or of a part that ran before; Spark truncates long ones.
        line = source.spark_line(int(context["line"]))
        if line is None or context["shown"].strip(" .") not in line:
            return None
        return source.mark(int(context["line"]), int(context["position"]) - 1)
    position = _POSITION.search(message)
    return source.mark(int(position["line"]), int(position["position"])) if position else None


def _plain_message(message: str) -> str:
    text = message.strip()
    stack = _STACK.search(text)
    if stack:
        text = text[: stack.start()]
    text = _SQL_BLOCK.sub("", text)
    text = _ABORTED.sub("", text)
    text = _PLAN_DUMP.sub("", text)
    text = _POSITION.sub("", text, count=1)
    return without_internal_names(_STATE.sub("", text).strip().rstrip(";").strip())
