"""Errors of librdkafka about its settings and about brokers that refuse it, as hudisql's errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import KafkaError as ClientError
from confluent_kafka import KafkaException

from hudisql.errors import SettingsError

_REFUSALS: Final = frozenset({ClientError._AUTHENTICATION, ClientError._SSL})


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
