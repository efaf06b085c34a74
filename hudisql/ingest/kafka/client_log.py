"""The log of librdkafka's clients: an unreachable broker causes hundreds of equal lines a minute."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from typing import Final

SILENCE_SECONDS: Final = 60.0
_NUMBERS: Final = re.compile(r"\d+")


class RepeatedMessages(logging.Filter):
    """Lets a message through once in SILENCE_SECONDS, with the number of suppressed repetitions.

    Messages are the same if they differ in numbers only, such as times and ports.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._seen: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """True for a message that is to be logged."""
        text = record.getMessage()
        key, now = _NUMBERS.sub("0", text), self._clock()
        since, left_out = self._seen.get(key, (float("-inf"), 0))
        if now - since < SILENCE_SECONDS:
            self._seen[key] = since, left_out + 1
            return False
        self._seen[key] = now, 0
        if left_out:
            record.msg, record.args = f"{text} (and {left_out:,} times since the last line)", ()
        return True


def client_logger(name: str) -> logging.Logger:
    """The logger of this name, without repeated messages."""
    logger = logging.getLogger(name)
    if not any(isinstance(each, RepeatedMessages) for each in logger.filters):
        logger.addFilter(RepeatedMessages())
    return logger
