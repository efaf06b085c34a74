"""What a SparkSession that serves the names of Hudi tables knows: its hudisql session and its own class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, ref

from hudisql.context import Context
from hudisql.session import Session
from hudisql.spark.jvm import java_context

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hudisql.config.settings import Settings

Arguments = tuple[str | None, str | None, "Settings | None"]
"""`metastore`, `warehouse` and `settings` of an `install` or `connect`."""


def _nothing() -> None:
    return None


@dataclass(eq=False)
class Serving:
    """`plain` is the class that the SparkSession had; `sessions` are all of one `install` or `connect`.

    These are the session that was given to it, and those that `newSession` made of it. `before` gives what
    served the SparkSession's names until then, unless it is gone: of `connect` the user holds the session.
    """

    session: Session
    plain: Any
    arguments: Arguments
    is_installed: bool = False
    before: Callable[[], Serving | None] = _nothing
    sessions: WeakSet[SparkSession] = field(default_factory=WeakSet)


def older(serving: Serving | None) -> Callable[[], Serving | None]:
    """What `before` is for a session after this one, which is passed over once it is closed."""
    while serving is not None and serving.session.is_closed:
        serving = serving.before()
    if serving is None:
        return _nothing
    return (lambda: serving) if serving.is_installed else ref(serving)


def serving_of(spark: SparkSession) -> Serving | None:
    """What the SparkSession serves by; None for a plain one, and once it or Spark has ended."""
    serving: Serving | None = vars(spark).get("_hudisql_serving")
    if serving is None or serving.session.is_closed or java_context(spark.sparkContext) is None:
        return None
    return serving


def context_of(frame: DataFrame) -> Context | None:
    """The context of the frame's session; None if that serves no names."""
    serving = serving_of(frame.sparkSession)
    return None if serving is None else serving.session.context


def note_options(noted: dict[str, str], options: Mapping[str, Any]) -> None:
    """Add options as text, as PySpark gives them to Spark: flags in lower case, None not at all."""
    for name, value in options.items():
        if value is not None:
            noted[name] = str(value).lower() if isinstance(value, bool) else str(value)
