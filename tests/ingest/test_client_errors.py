"""Repeated lines of librdkafka are left out of the log."""

from __future__ import annotations

import logging
from collections.abc import Callable

from hudisql.ingest.kafka.client_errors import SILENCE_SECONDS, RepeatedMessages, client_logger


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def _logged(seen: list[str], clock: Callable[[], float]) -> logging.Logger:
    logger = logging.Logger("test")  # one of its own: no other test hears it
    logger.addFilter(RepeatedMessages(clock))
    handler = logging.Handler()
    handler.emit = lambda record: seen.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    return logger


def test_lines_that_differ_in_numbers_only_come_once_a_minute_with_their_number() -> None:
    seen: list[str] = []
    clock = _Clock()
    logger = _logged(seen, clock)
    for milliseconds in range(1_500):
        logger.warning("%s: refused (after %dms)", "127.0.0.1:9092", milliseconds)
    logger.warning("another one")
    assert seen == ["127.0.0.1:9092: refused (after 0ms)", "another one"]
    clock.now = SILENCE_SECONDS
    logger.warning("%s: refused (after %dms)", "127.0.0.1:9092", 7)
    logger.warning("%s: refused (after %dms)", "127.0.0.1:9092", 8)
    assert seen[2:] == ["127.0.0.1:9092: refused (after 7ms) (and 1,499 times since the last line)"]


def test_a_logger_gets_one_filter() -> None:
    assert client_logger("hudisql.test") is client_logger("hudisql.test")
    assert len(client_logger("hudisql.test").filters) == 1
