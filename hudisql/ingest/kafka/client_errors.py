"""What librdkafka says of its settings and of brokers that refuse it, in hudisql's terms."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import KafkaError as ClientError
from confluent_kafka import KafkaException

from hudisql.errors import SettingsError

_REFUSALS: Final = frozenset({ClientError._AUTHENTICATION, ClientError._SSL})


class Refusal:
    """Why brokers refuse a client: requests then only time out, and the reason comes apart."""

    def __init__(self) -> None:
        self._reason: str | None = None

    def heard(self, error: ClientError) -> None:
        """Called with each error of a client's connections."""
        if error.code() in _REFUSALS:
            self._reason = error.str()

    @property
    def text(self) -> str:
        """What an error's message says of it; nothing if none was heard."""
        return "" if self._reason is None else f" ({self._reason})"


@contextmanager
def checked_settings(bootstrap_servers: str) -> Iterator[None]:
    """Make a client within. Raises SettingsError if librdkafka does not take its settings."""
    try:
        yield
    except KafkaException as error:
        said = error.args[0]
        text = said.str() if isinstance(said, ClientError) else str(said)
        raise SettingsError(
            f"the client of Kafka at {bootstrap_servers} cannot be made: {text}",
            hint="mend the file of --kafka-config (HUDISQL_KAFKA_CONFIG): docs/ingest.md, Security",
        ) from error
