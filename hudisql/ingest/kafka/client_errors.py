"""What librdkafka reports: wrong settings and refusing brokers as hudisql's errors, the rest in its log.

An unreachable broker causes hundreds of equal lines of the log a minute.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import KafkaError as ClientError
from confluent_kafka import KafkaException

from hudisql.errors import SettingsError

_REFUSALS: Final = frozenset({ClientError._AUTHENTICATION, ClientError._SSL})

SILENCE_SECONDS: Final = 60.0
_NUMBERS: Final = re.compile(r"\d+")


class Refusal:
    """The reason why brokers refuse a client: requests only time out, and the reason arrives separately."""

    def __init__(self) -> None:
        self._reason: str | None = None

    def heard(self, error: ClientError) -> None:
        """Called with each error of a client's connections."""
        if error.code() in _REFUSALS:
            self._reason = error.str()

    @property
    def text(self) -> str:
        """The part of an error message that gives the reason; empty without one."""
        return "" if self._reason is None else f" ({self._reason})"


@contextmanager
def checked_settings(bootstrap_servers: str) -> Iterator[None]:
    """Create a client in this context. Raises SettingsError if librdkafka refuses its settings."""
    try:
        yield
    except KafkaException as error:
        reason = error.args[0]
        text = reason.str() if isinstance(reason, ClientError) else str(reason)
        raise SettingsError(
            f"cannot create a client of Kafka at {bootstrap_servers}: {text}",
            hint="correct the file of --kafka-config (HUDISQL_KAFKA_CONFIG): docs/ingest.md, Security",
        ) from error


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
    if not any(isinstance(log_filter, RepeatedMessages) for log_filter in logger.filters):
        logger.addFilter(RepeatedMessages())
    return logger
