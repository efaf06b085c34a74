"""How signals end long-running commands."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from hudisql.config.settings import Settings
from hudisql.console import Console

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudisql.session import Session

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stoppable_session(settings: Settings, console: Console) -> Iterator[tuple[Session, threading.Event]]:
    """A session and the event of `stop_on_signals`, whose handlers stay in place after Spark has started."""
    from hudisql.session import connect

    with stop_on_signals() as stop, connect(settings=settings, console=console) as session:
        handler = signal.getsignal(signal.SIGINT)

        def keep(_spark: SparkSession) -> None:
            # Spark's context puts a handler of its own in place when it starts.
            signal.signal(signal.SIGINT, handler)

        session.on_spark_start(keep)
        yield session, stop


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """An event that the first SIGTERM or SIGINT sets; the second one has its default effect."""
    stop = threading.Event()

    def handle(number: int, _frame: FrameType | None) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        print(
            f"{signal.Signals(number).name}: stopping; send it again to end at once",
            file=sys.stderr,
            flush=True,
        )
        stop.set()

    before = {each: signal.signal(each, handle) for each in _SIGNALS}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
