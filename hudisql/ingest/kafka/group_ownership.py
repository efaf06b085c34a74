"""Spreads tables over workers by a Kafka consumer group on a control topic.

Each partition of the control topic is a slot, each table belongs to the slot that its name hashes to, and a
worker owns the tables of the slots that the group has assigned to it. So a table has one owner, a worker that
dies is noticed after its session, and slots move without a stop of the others. The topic holds no events.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Collection, Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka import KafkaError as ClientError
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from hudisql.errors import KafkaError
from hudisql.ingest.ownership import HandOver

SLOTS: Final = 256
SESSION_MILLISECONDS: Final = 6_000
_TIMEOUT: Final = 10.0
_LOG: Final = logging.getLogger("hudisql.ingest.group")
_CONFIG: Final[Mapping[str, str | int | bool]] = {
    "partition.assignment.strategy": "cooperative-sticky",
    "session.timeout.ms": SESSION_MILLISECONDS,
    "heartbeat.interval.ms": 1_500,
    # A commit may take long; heartbeats go on meanwhile.
    "max.poll.interval.ms": 900_000,
    "enable.auto.commit": False,
    "auto.offset.reset": "latest",
}


class GroupOwnership:
    """The ownership of one worker of the group. Not for several threads at once."""

    def __init__(self, bootstrap_servers: str, group: str, config: Mapping[str, str] | None = None) -> None:
        """Join the group; the control topic is made if it is not there. Raises KafkaError."""
        self._servers = bootstrap_servers
        topic = f"hudisql-ingest-{group}"
        settings = {"bootstrap.servers": bootstrap_servers, **(config or {})}
        _make_topic(settings, topic)
        self._slots: set[int] = set()
        self.is_settled = False
        """True once the group has given this worker its first slots, perhaps none."""
        self.hand_over: HandOver = lambda _is_left, _commits: None
        self._consumer = Consumer({**_CONFIG, **settings, "group.id": topic}, logger=_LOG)
        self._consumer.subscribe([topic], self._assigned, self._revoked, self._lost)

    def owned(self, names: Collection[str]) -> set[str]:
        """Those of the tables that this worker owns now; tables that it has lost are handed over within.

        Raises KafkaError for an error that does not pass.
        """
        message = self._consumer.poll(0)
        error = None if message is None else message.error()
        if error is not None and error.fatal():
            raise KafkaError(f"the group of workers at {self._servers} cannot be joined: {error.str()}")
        return {name for name in names if slot_of(name) in self._slots}

    def close(self) -> None:
        """Leave the group: other workers take the tables at once."""
        self._consumer.close()

    def _assigned(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._slots |= {each.partition for each in partitions}
        self.is_settled = True

    def _revoked(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """The next owner waits until this returns: what is in memory is committed."""
        self._leave({each.partition for each in partitions}, commits=True)

    def _lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Others own the slots already: what is in memory is dropped."""
        self._leave({each.partition for each in partitions}, commits=False)

    def _leave(self, slots: set[int], *, commits: bool) -> None:
        self.hand_over(lambda name: slot_of(name) in slots, commits)
        self._slots -= slots


def slot_of(name: str) -> int:
    """The slot of a table, by its `database.name`."""
    return zlib.crc32(name.encode()) % SLOTS


def _make_topic(settings: Mapping[str, str], topic: str) -> None:
    # The client must outlive what it was asked for.
    admin = AdminClient(dict(settings), logger=_LOG)
    new = NewTopic(topic, num_partitions=SLOTS, replication_factor=-1)
    try:
        for future in admin.create_topics([new], request_timeout=_TIMEOUT).values():
            future.result()
    except KafkaException as error:
        said = error.args[0]
        if not isinstance(said, ClientError) or said.code() != ClientError.TOPIC_ALREADY_EXISTS:
            raise KafkaError(
                f"the control topic {topic} cannot be made at {settings['bootstrap.servers']}: {said}",
                hint=f"create it with {SLOTS} partitions, or let the workers create topics",
            ) from error
