"""Distributes tables over workers by a Kafka consumer group on a control topic.

Each partition of the control topic is a slot, each table belongs to the slot that its name hashes to, and a
worker owns the tables of the slots that the group has assigned to it. So a table has one owner, the group
notices a dead worker after its session, and the others go on while slots move. The topic holds no events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka import KafkaError as ClientError
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from hudisql.errors import KafkaError
from hudisql.ingest.kafka.client_errors import Refusal, checked_settings, client_logger
from hudisql.ingest.kafka.group_state import SLOTS, control_topic, slot_of, slot_text
from hudisql.ingest.ownership import DeclaredName, HandOver

SESSION_MILLISECONDS: Final = 6_000
_TIMEOUT: Final = 10.0
_LOG: Final = client_logger("hudisql.ingest.group")
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

    def __init__(
        self, bootstrap_servers: str, group: str, owner: str = "", config: Mapping[str, str] | None = None
    ) -> None:
        """Join the group as `owner`; the control topic is created if it is missing. Raises KafkaError.

        `config` are further settings of librdkafka, such as those of TLS and SASL.
        """
        self._servers = bootstrap_servers
        self._topic = topic = control_topic(group)
        self._owner = owner
        self._reported: dict[int, str] = {}
        settings = {"bootstrap.servers": bootstrap_servers, **(config or {})}
        _make_topic(settings, topic)
        self._slots: set[int] = set()
        self._tables: Mapping[str, DeclaredName] = {}
        # Those of `_tables`: asked for ten times a second. None if the slots have changed since.
        self._owned: set[str] | None = None
        self.is_settled = False
        """True once the group has given this worker its first slots, perhaps none."""
        self.hand_over: HandOver = lambda _is_left, _commits: None
        more = {"group.id": topic, "client.id": owner, "on_commit": self._was_reported}
        with checked_settings(bootstrap_servers):
            self._consumer = Consumer({**_CONFIG, **settings, **more}, logger=_LOG)
        self._consumer.subscribe([topic], self._assigned, self._revoked, self._lost)

    def owned(self, tables: Mapping[str, DeclaredName]) -> set[str]:
        """Those of the tables that this worker owns now; tables that it has lost are handed over within.

        Raises KafkaError for an error that does not pass.
        """
        message = self._consumer.poll(0)
        error = None if message is None else message.error()
        if error is not None and error.fatal():
            raise KafkaError(f"cannot join the group of workers at {self._servers}: {error.str()}")
        if self._owned is None or tables is not self._tables:
            self._tables = tables
            self._owned = {name for name in tables if slot_of(name) in self._slots}
        return self._owned

    def report(self, states: Mapping[str, str]) -> None:
        """Store changed states of tables in the group, in the background."""
        by_slot: dict[int, dict[str, str]] = {}
        for name, state in states.items():
            if (slot := slot_of(name)) in self._slots:
                by_slot.setdefault(slot, {})[name] = state
        texts = {slot: slot_text(self._owner, by_slot.get(slot, {})) for slot in {*by_slot, *self._reported}}
        changed = {slot: text for slot, text in texts.items() if self._reported.get(slot) != text}
        if changed:
            self._reported |= changed
            offsets = [TopicPartition(self._topic, slot, 0, metadata=text) for slot, text in changed.items()]
            try:
                self._consumer.commit(offsets=offsets, asynchronous=True)
            except KafkaException as error:
                self._was_reported(error.args[0], offsets)

    def _was_reported(self, error: ClientError | None, offsets: list[TopicPartition]) -> None:
        for offset in offsets:
            if error is not None or offset.error is not None:
                self._reported.pop(offset.partition, None)

    def close(self) -> None:
        """Leave the group: other workers take the tables at once."""
        self._consumer.close()

    def _assigned(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._slots |= {partition.partition for partition in partitions}
        self._owned = None
        self.is_settled = True

    def _revoked(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """The next owner waits until this returns: what is in memory is committed."""
        self._leave({partition.partition for partition in partitions}, commits=True)

    def _lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Others own the slots already: what is in memory is dropped."""
        self._leave({partition.partition for partition in partitions}, commits=False)

    def _leave(self, slots: set[int], *, commits: bool) -> None:
        self.hand_over(lambda name: slot_of(name) in slots, commits)
        self._slots -= slots
        self._owned = None
        for slot in slots:
            self._reported.pop(slot, None)


def _make_topic(settings: Mapping[str, str], topic: str) -> None:
    # The client must outlive what it was asked for.
    refusal = Refusal()
    with checked_settings(settings["bootstrap.servers"]):
        config: dict[str, Any] = {**settings, "error_cb": refusal.heard}
        admin = AdminClient(config, logger=_LOG)
    new = NewTopic(topic, num_partitions=SLOTS, replication_factor=-1)
    try:
        for future in admin.create_topics([new], request_timeout=_TIMEOUT).values():
            future.result()
    except KafkaException as error:
        reason = error.args[0]
        if not isinstance(reason, ClientError) or reason.code() != ClientError.TOPIC_ALREADY_EXISTS:
            raise KafkaError(
                f"cannot create the control topic {topic} at {settings['bootstrap.servers']}: {reason}"
                f"{refusal.text}",
                hint=f"create it with {SLOTS} partitions, or let the workers create topics",
            ) from error
