"""Reads events of many topics from one Kafka cluster, from the offsets that tables have committed.

Partitions are assigned manually: Kafka does not decide which worker reads a topic, and from which offset, and
no offsets are committed to Kafka. The prefetch of librdkafka is bounded for all partitions together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import numpy as np
from confluent_kafka import (
    OFFSET_END,
    Consumer,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka import KafkaError as ClientError

from hudisql.errors import EventsLostError, KafkaError
from hudisql.ingest.declaration import EARLIEST, LATEST, IngestDeclaration
from hudisql.ingest.event_source import Polled, StartOffsets
from hudisql.ingest.kafka.client_errors import Refusal, checked_settings, client_logger
from hudisql.ingest.offsets import SourcePartition
from hudisql.ingest.table_buffer import EventBatch

BATCH_EVENTS: Final = 10_000
_TIMEOUT: Final = 10.0
_LOG: Final = client_logger("hudisql.ingest.kafka")
_CONFIG: Final[Mapping[str, str | int | bool]] = {
    # It is not joined: librdkafka asks for one.
    "group.id": "hudisql-ingest-data",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    # By default it waits a second once its queue was full.
    "fetch.queue.backoff.ms": 5,
    "queued.max.messages.kbytes": 32 << 10,
    "fetch.message.max.bytes": 4 << 20,
    # A request names all partitions, so a thousand idle ones cost by the request. Events do not wait for
    # it, but a partition that is assigned meanwhile does, and all else that is asked of the broker on the
    # same connection.
    "fetch.wait.max.ms": 1_000,
    "topic.metadata.refresh.interval.ms": 60_000,
}


class KafkaSource:
    """A consumer of one cluster. Not for several threads at once.

    A second client asks for topics and offsets, so that its answers do not wait for fetches. It reads no
    events: polling it only calls `error_cb`.
    """

    def __init__(self, bootstrap_servers: str, config: Mapping[str, str] | None = None) -> None:
        """`config` are further settings of librdkafka, such as those of TLS and SASL."""
        self.bootstrap_servers = bootstrap_servers
        self._refusal = Refusal()
        settings = {**_CONFIG, "bootstrap.servers": bootstrap_servers, **(config or {})}
        with checked_settings(bootstrap_servers):
            self._consumer = Consumer({**settings, "error_cb": self._refusal.heard}, logger=_LOG)
            self._metadata = Consumer({**settings, "error_cb": self._refusal.heard}, logger=_LOG)
        self._assigned: set[SourcePartition] = set()

    def close(self) -> None:
        """Close the connections."""
        try:
            self._metadata.close()
        finally:
            self._consumer.close()

    @property
    def name(self) -> str:
        """The brokers."""
        return self.bootstrap_servers

    @property
    def assigned(self) -> Collection[SourcePartition]:
        """The partitions that are read."""
        return self._assigned

    def partitions(self, topic: str) -> list[int]:
        """The numbers of the topic's partitions. Raises KafkaError, also if the topic does not exist."""
        with self._translated(f"list the partitions of {topic}"):
            described = self._metadata.list_topics(topic, timeout=_TIMEOUT).topics[topic]
        if described.error is not None:
            raise KafkaError(
                f"the topic {topic} at {self.bootstrap_servers} cannot be read: {described.error.str()}",
                hint="create the topic, or CALL ingest_table with the right one",
            )
        return sorted(described.partitions)

    def all_partitions(self) -> Mapping[str, Collection[int]]:
        """The numbers of the partitions of all topics that can be read. Raises KafkaError."""
        self._metadata.poll(0)
        with self._translated("list the topics"):
            topics = self._metadata.list_topics(timeout=_TIMEOUT).topics
        return {name: tuple(topic.partitions) for name, topic in topics.items() if topic.error is None}

    def start(
        self, table: str, declaration: IngestDeclaration, committed: Mapping[SourcePartition, int]
    ) -> StartOffsets:
        """The offsets to read from: committed ones, and the first ones of partitions without commits.

        Raises EventsLostError for committed offsets that the topic does not have, KafkaError.
        """
        assert declaration.topic is not None
        offsets: dict[SourcePartition, int] = {}
        warnings: list[str] = []
        is_known = any(topic == declaration.topic for topic, _ in committed)
        is_fresh = False
        for number in self.partitions(declaration.topic):
            partition = declaration.topic, number
            if partition in committed:
                wanted = committed[partition]
                offsets[partition] = self._available(table, declaration, partition, wanted, warnings)
                continue
            # Whatever a partition has that was added later came after the declared start.
            offsets[partition] = self.start_offset(partition, EARLIEST if is_known else declaration.start)
            is_fresh = True
        # `earliest` is the same at every start; other places are kept before the first event.
        commits = is_fresh and declaration.start != EARLIEST
        return StartOffsets(offsets, commits, tuple(warnings))

    def _available(
        self,
        table: str,
        declaration: IngestDeclaration,
        partition: SourcePartition,
        wanted: int,
        warnings: list[str],
    ) -> int:
        """The wanted offset, or the nearest one that the topic has."""
        first, end = self.retained(partition)
        if end < wanted:
            raise shortened_error(table, partition, wanted, end)
        if first <= wanted:
            return wanted
        error = lost_error(table, partition, wanted, first)
        if declaration.fail_on_data_loss:
            raise error
        warnings.append(f"{error.message}; going on at {first}")
        return first

    def start_offset(self, source: SourcePartition, start: str) -> int:
        """The first offset of a partition without commits; `start` is that of a declaration.

        Raises KafkaError.
        """
        topic, partition = source
        with self._translated(f"look for the first offset of {topic}, partition {partition}"):
            first, end = self._metadata.get_watermark_offsets(TopicPartition(topic, partition), _TIMEOUT)
            if start == EARLIEST:
                return int(first)
            if start == LATEST:
                return int(end)
            moment = IngestDeclaration(start=start).start_milliseconds()
            asked = TopicPartition(topic, partition, moment or 0)
            found = self._metadata.offsets_for_times([asked], timeout=_TIMEOUT)[0]
        return int(end) if found.offset in (OFFSET_END, -1) else int(found.offset)

    def retained(self, source: SourcePartition) -> tuple[int, int]:
        """The first offset that the topic still has of a partition, and its end. Raises KafkaError."""
        topic, partition = source
        with self._translated(f"look for the offsets of {topic}, partition {partition}"):
            first, end = self._metadata.get_watermark_offsets(TopicPartition(topic, partition), _TIMEOUT)
        return int(first), int(end)

    def events_left(self, source: SourcePartition, offset: int) -> int | None:
        """The number of events from the offset on, by the brokers' last answer; None before the first one."""
        found = self._consumer.get_watermark_offsets(TopicPartition(*source), cached=True)
        return max(int(found[1]) - offset, 0) if found is not None and found[1] >= 0 else None

    def assign(self, offsets: Mapping[SourcePartition, int]) -> None:
        """Also read these partitions, from these offsets on. Raises KafkaError."""
        self.unassign([offset for offset in offsets if offset in self._assigned])
        wanted = [TopicPartition(*partition, offset) for partition, offset in offsets.items()]
        if wanted:
            with self._translated("read partitions"):
                self._consumer.incremental_assign(wanted)
        self._assigned |= set(offsets)

    def unassign(self, sources: Collection[SourcePartition]) -> None:
        """Stop reading these partitions. Raises KafkaError."""
        dropped = [TopicPartition(*source) for source in sources if source in self._assigned]
        if dropped:
            with self._translated("leave partitions"):
                self._consumer.incremental_unassign(dropped)
        self._assigned -= set(sources)

    def poll(self, timeout: float) -> Polled:
        """The next events, up to BATCH_EVENTS; empty if none arrives within `timeout` seconds.

        Raises KafkaError for permanent errors; librdkafka itself restores lost connections.
        """
        with self._translated("read events"):
            messages = self._consumer.consume(BATCH_EVENTS, timeout)
        by_source: dict[SourcePartition, list[Message]] = defaultdict(list)
        ended: list[SourcePartition] = []
        lost: list[SourcePartition] = []
        for message in messages:
            error = message.error()
            source = str(message.topic()), int(message.partition() or 0)
            if error is None:
                by_source[source].append(message)
            elif error.code() == ClientError._PARTITION_EOF:
                ended.append(source)
            elif error.code() in (ClientError._AUTO_OFFSET_RESET, ClientError.OFFSET_OUT_OF_RANGE):
                lost.append(source)
            elif error.fatal() or not error.retriable():
                _LOG.warning("%s: %s", self.bootstrap_servers, error.str())
        # What was read before a partition was left may still come.
        batches = [_batch(source, found) for source, found in by_source.items() if source in self._assigned]
        return Polled(tuple(batches), tuple(ended), tuple(lost))

    def committed(self, offsets: Mapping[SourcePartition, int]) -> None:
        """Do nothing: offsets are kept in the tables' commits."""

    def last_events(self, table: str) -> Iterable[EventBatch]:  # noqa: ARG002
        """Empty: the next owner reads them from the topic."""
        return ()

    def stop(self) -> None:
        """Do nothing: no client sends to this process."""

    @contextmanager
    def _translated(self, operation: str) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            reason = error.args[0]
            text = reason.str() if isinstance(reason, ClientError) else str(reason)
            self._metadata.poll(0)
            if not self._assigned:
                # Nobody else takes what it heard of its connections; else it would take events.
                self._consumer.poll(0)
            raise KafkaError(
                f"Kafka at {self.bootstrap_servers} did not {operation}: {text}{self._refusal.text}",
                hint="check that the brokers run and can be reached, and the settings that they require",
            ) from error


def lost_error(table: str, source: SourcePartition, wanted: int, first: int) -> EventsLostError:
    """The error for events that retention has deleted before the table took them."""
    topic, partition = source
    return EventsLostError(
        f"{table}: the topic {topic} no longer has the offsets {wanted} to {first - 1} of partition "
        f"{partition}, which the table has not taken",
        hint="CALL ingest_table(…, fail_on_data_loss => false) goes on with what is there",
    )


def shortened_error(table: str, source: SourcePartition, wanted: int, end: int) -> EventsLostError:
    """The error for a partition that ends before what the table has taken of it."""
    topic, partition = source
    return EventsLostError(
        f"{table}: partition {partition} of the topic {topic} ends at the offset {end}, and the table has "
        f"taken the events before {wanted}: the topic was recreated, or the brokers have lost events",
        hint="create the topic under another name, and declare that: CALL ingest_table(…)",
    )


def _batch(source: SourcePartition, messages: list[Message]) -> EventBatch:
    offsets = np.fromiter((message.offset() for message in messages), np.int64, len(messages))
    return EventBatch(
        source,
        [message.value() for message in messages],
        [message.key() for message in messages],
        offsets,
        np.fromiter((message.timestamp()[1] for message in messages), np.int64, len(messages)),
        int(offsets[-1]) + 1,
    )
