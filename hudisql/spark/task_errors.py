"""Carry hudisql's errors out of Spark tasks to the driver as one clear error.

Spark turns whatever a Python task raises into a JVM exception whose message holds the traceback's text. The
error is encoded in that text as one marked line of JSON and is rebuilt on the driver. Does not import Spark
in tasks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from hudisql import errors
from hudisql.format.paths.file_names import is_data_file
from hudisql.sql_literals import quote_string

REMOVED_HINT: Final = (
    "a cleaner removed it while the statement ran: run the statement again;"
    " more hoodie.cleaner.commits.retained keep files longer"
)
_OPEN, _CLOSE = "<<hudisql-error ", " hudisql-error>>"
_SUGGESTION: Final = re.compile(
    r"(?P<words> ?Did you mean one of the following\? )\[(?P<names>[^\]\n]*`__hudisql[_:][^\]\n]*)\]\.?"
)
_INTERNAL: Final = re.compile("`__hudisql[_:]")
_T = TypeVar("_T")


class TaskError(RuntimeError):
    """Raised by a task in place of a HudisqlError; its text carries the error to the driver."""


def carry_errors(rows: Iterable[_T]) -> Iterator[_T]:
    """Pass on the items; a HudisqlError becomes a TaskError that the driver can read."""
    try:
        yield from rows
    except errors.HudisqlError as error:
        raise encode_error(error) from None


def encode_error(error: errors.HudisqlError) -> TaskError:
    """The error as a TaskError."""
    content = json.dumps({"class": type(error).__name__, "message": error.message, "hint": error.hint})
    return TaskError(f"{error}\n{_OPEN}{content}{_CLOSE}")


def raising_expression(kind: type[errors.HudisqlError], message: str, hint: str) -> str:
    """A SQL expression that fails with this error; `message` is an expression, too."""
    content = f"'class', '{kind.__name__}', 'message', {message}, 'hint', {quote_string(hint)}"
    return f"raise_error(concat('{_OPEN}', to_json(named_struct({content})), '{_CLOSE}'))"


def translate_task_error(exception: BaseException) -> errors.HudisqlError | None:
    """The HudisqlError that a task raised, found in a Spark exception's text; None if there is none."""
    for seen in errors.error_chain(exception):
        if isinstance(seen, errors.HudisqlError):
            return _explained(seen)
        hudisql_error = _decode(str(seen))
        if hudisql_error is not None:
            return _explained(hudisql_error)
    return None


def _explained(error: errors.HudisqlError) -> errors.HudisqlError:
    if isinstance(error, errors.NoSuchPathError) and error.hint is None and is_data_file(error.message):
        return errors.NoSuchPathError(error.message, hint=REMOVED_HINT)
    return error


@contextmanager
def spark_job(failure: str, hint: str | None = None) -> Iterator[None]:
    """Turn Spark's exceptions inside into the error that a task raised, else into a QueryError.

    `failure` names the failed action; the QueryError adds Spark's first and last cause.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        own = translate_task_error(error)
        raise own or errors.QueryError(f"{failure}: {_causes(error)}", hint=hint) from error


def without_internal_names(message: str) -> str:
    """Spark's message without hudisql's internal columns in its suggestions."""

    def shorten(found: re.Match[str]) -> str:
        names = [name for name in found["names"].split(", ") if not _INTERNAL.search(name)]
        return f"{found['words']}[{', '.join(names)}]." if names else ""

    return _SUGGESTION.sub(shorten, message)


def _causes(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line.partition(": ")[2] for line in lines if line.startswith((": ", "Caused by: "))] or lines
    if not causes:
        return type(error).__name__
    return causes[0] if causes[0] == causes[-1] else f"{causes[0]}: {causes[-1]}"


def _decode(text: str) -> errors.HudisqlError | None:
    start = text.find(_OPEN)
    if start < 0:
        return None
    try:
        content, _ = json.JSONDecoder().raw_decode(text, start + len(_OPEN))
        kind = getattr(errors, content["class"], errors.HudisqlError)
        return kind(content["message"], hint=content["hint"])
    except (ValueError, KeyError, TypeError):
        return None
