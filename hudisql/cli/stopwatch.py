"""The time of one statement, without the start of Spark and the metastore that it had to wait for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hudisql.session import Session


class Stopwatch:
    """Adds up `seconds` of the blocks in `running`; `start_seconds` are those of the start within them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.seconds = 0.0
        self.start_seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the time of the block."""
        began, waited = time.monotonic(), self._session.seconds_waited_for_start
        try:
            yield
        finally:
            started = self._session.seconds_waited_for_start - waited
            self.start_seconds += started
            self.seconds += time.monotonic() - began - started
