"""The start of Spark behind the prompt."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from hudisql.errors import HudisqlError

if TYPE_CHECKING:
    from hudisql.session import Session

_SECONDS_BETWEEN: Final = 0.5


class BackgroundStart:
    """The start of a session's Spark in a thread of its own."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._began = time.monotonic()
        self._failure: str | None = None
        self._is_running = False

    def begin(self, changed: Callable[[], None]) -> None:
        """Start, unless Spark is running; `changed` is called in other threads when `status` changes."""
        if self._session.context.started_spark is None:
            self._is_running = True
            threading.Thread(target=self._run, daemon=True).start()
            threading.Thread(target=self._tell, args=(changed,), daemon=True).start()

    @property
    def status(self) -> str | None:
        """The status for the user; None once Spark runs."""
        if self._is_running:
            return f"Spark is starting ({time.monotonic() - self._began:.0f} s); statements wait for it"
        if self._failure is not None and self._session.context.started_spark is None:
            return f"Spark did not start: {self._failure}; the next statement tries again"
        return None

    def _tell(self, changed: Callable[[], None]) -> None:
        while self._is_running:
            time.sleep(_SECONDS_BETWEEN)
            changed()

    def _run(self) -> None:
        try:
            _ = self._session.spark
        except HudisqlError as error:
            self._failure = error.message
        except Exception as error:
            self._failure = f"{type(error).__name__}: {error}"
        finally:
            self._is_running = False
