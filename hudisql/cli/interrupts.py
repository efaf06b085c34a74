"""Handles Control-C while Spark works: cancels its jobs and raises one exception without a stack trace.

PySpark's own handler asks the JVM to cancel jobs while another call to it is open, which fails, and py4j logs
both. Here another thread, with its own connection to the JVM, asks.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING, Final, NoReturn

from hudisql.errors import error_chain

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from hudisql.session import Session

_CANCELLATIONS: Final = 15
_SECONDS_BETWEEN: Final = 0.2
_statement_tag: ContextVar[str | None] = ContextVar("statement_tag", default=None)
_LOGGED_BY_PY4J = "KeyboardInterrupt while sending command."


@contextmanager
def clean_interrupts(session: Session) -> Iterator[None]:
    """Handle Control-C in the block, also for Spark's jobs; does nothing outside of the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
        # Some calls of PySpark wait for the end of their job before they pass the exception on.
        tag = _statement_tag.get()
        spark = session.context.started_spark
        if tag is not None and spark is not None:
            _cancel_tagged_jobs(spark.sparkContext, tag)
        raise KeyboardInterrupt

    def handle(_spark: SparkSession) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, interrupt)

    before = signal.signal(signal.SIGINT, interrupt)
    # A SparkContext that starts puts a handler of its own in place.
    forget = session.on_spark_start(handle)
    root = logging.getLogger()
    root.addFilter(_is_no_interrupt)
    try:
        yield
    finally:
        root.removeFilter(_is_no_interrupt)
        forget()
        signal.signal(signal.SIGINT, before)


@contextmanager
def ending_at_once() -> Iterator[Callable[[], None]]:
    """Yields a function; after its call Control-C ends the process at once, until the end of the block.

    Call it when all statements have run: only closing is left, which a KeyboardInterrupt would interrupt with
    tracebacks.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    before = signal.getsignal(signal.SIGINT)

    def end_at_once() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    try:
        yield end_at_once
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def statement_jobs(session: Session) -> Iterator[None]:
    """Tag the Spark jobs of one statement, so that Control-C cancels only those."""
    tag = f"hudisql-statement-{uuid.uuid4().hex}"
    forget = session.on_spark_start(lambda spark: spark.sparkContext.addJobTag(tag))
    before = _statement_tag.set(tag)
    try:
        yield
    except BaseException as error:
        spark = session.context.started_spark
        if is_interrupt(error) and spark is not None:
            # Jobs of other threads, too.
            with suppress(Exception):
                spark.sparkContext.cancelAllJobs()
        raise
    finally:
        forget()
        _statement_tag.reset(before)
        spark = session.context.started_spark
        # An error of Spark may have stopped it.
        with suppress(Exception):
            if spark is not None:
                spark.sparkContext.removeJobTag(tag)


def _cancel_tagged_jobs(context: SparkContext, tag: str) -> None:
    """Cancel the jobs with this tag, in a thread that repeats it for seconds.

    A call that Control-C interrupted goes on in the JVM, which may start its job only then.
    """

    def cancel() -> None:
        for _ in range(_CANCELLATIONS):
            with suppress(Exception):
                context.cancelJobsWithTag(tag)
            time.sleep(_SECONDS_BETWEEN)

    threading.Thread(target=cancel, daemon=True).start()


def is_interrupt(error: BaseException) -> bool:
    """True if the error was raised while Control-C was handled, as that of a cancelled job."""
    return any(isinstance(cause, KeyboardInterrupt) for cause in error_chain(error))


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    return record.msg != _LOGGED_BY_PY4J
