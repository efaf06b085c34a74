"""The tables of a group's workers and their states, read from Kafka's group coordinator.

A worker stores the states of its tables as the metadata of its group's offsets of the control topic, one text
for each slot. The coordinator accepts it from the slot's owner only, and keeps the last one.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeVar

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka import KafkaError as ClientError
from confluent_kafka.admin import AdminClient

from hudisql.errors import KafkaError
from hudisql.ingest.kafka.client_errors import Refusal, checked_settings, client_logger
from hudisql.retry import retry

SLOTS: Final = 256
PAUSED: Final = "paused"
FAILED: Final = "failed"
# Brokers refuse more than `offset.metadata.max.bytes`, 4096 by default.
_MOST_BYTES: Final = 4_000
_LONGEST_STATE: Final = 300
_TIMEOUT: Final = 10.0
_REMEMBERED_NAMES: Final = 10_000
_LOG: Final = client_logger("hudisql.ingest.group")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A worker that is alive, with the slots that the group has given it; `name` is as in commits."""

    name: str
    host: str
    slots: frozenset[int]


@dataclass(frozen=True, slots=True)
class GroupState:
    """The members of a group, and the states that the owner of each slot has reported.

    `state` is Kafka's word: Stable, Empty, Dead (it has never been), PreparingRebalance, …
    """

    state: str
    members: tuple[GroupMember, ...]
    tables: Mapping[str, str]

    @property
    def is_settled(self) -> bool:
        """True if every slot has the owner that it is to have."""
        return self.state.upper() in ("STABLE", "EMPTY", "DEAD")

    def owner_of(self, table: str) -> GroupMember | None:
        """The worker that owns a table, by its `database.name`."""
        slot = slot_of(table)
        return next((member for member in self.members if slot in member.slots), None)


def control_topic(group: str) -> str:
    """The topic, and the name of Kafka's group, of a group of workers."""
    return f"hudisql-ingest-{group}"


@lru_cache(_REMEMBERED_NAMES)
def slot_of(name: str) -> int:
    """The slot of a table, by its `database.name`."""
    return zlib.crc32(name.encode()) % SLOTS


def slot_text(owner: str, tables: Mapping[str, str]) -> str:
    """The report of a slot's owner on its tables there: a word, or `failed: ` and the reason.

    Reasons are cut, or left out, to keep within what brokers take.
    """
    for longest in (_LONGEST_STATE, len(FAILED)):
        short = {name: state[:longest] for name, state in tables.items()}
        text = json.dumps({"owner": owner, "tables": short})
        if len(text) <= _MOST_BYTES:
            return text
    return json.dumps({"owner": owner, "tables": {}})


def read_group(bootstrap_servers: str, group: str, config: Mapping[str, str] | None = None) -> GroupState:
    """Ask the coordinator. Raises KafkaError."""
    refusal = Refusal()
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap_servers,
        **(config or {}),
        "error_cb": refusal.heard,
    }
    with checked_settings(bootstrap_servers):
        admin = AdminClient(settings, logger=_LOG)
    name = control_topic(group)
    described = _answer(
        lambda: admin.describe_consumer_groups([name], request_timeout=_TIMEOUT), bootstrap_servers, refusal
    )
    members = tuple(
        GroupMember(
            member.client_id,
            member.host.lstrip("/"),
            frozenset(slot.partition for slot in member.assignment.topic_partitions),
        )
        for member in described.members
    )
    state = str(described.state.name)
    if not members:
        return GroupState(state, (), {})
    asked = [ConsumerGroupTopicPartitions(name)]
    listed = _answer(
        lambda: admin.list_consumer_group_offsets(asked, request_timeout=_TIMEOUT), bootstrap_servers, refusal
    )
    offsets = listed.topic_partitions
    texts = {offset.partition: offset.metadata for offset in offsets or () if offset.metadata}
    return GroupState(state, members, _tables_of(members, texts))


def _tables_of(members: tuple[GroupMember, ...], texts: Mapping[int, str]) -> dict[str, str]:
    """The states that the current owners have reported."""
    tables: dict[str, str] = {}
    for member in members:
        for slot in member.slots & set(texts):
            try:
                report: dict[str, Any] = json.loads(texts[slot])
            except ValueError:
                continue
            if report.get("owner") == member.name:
                tables |= report.get("tables", {})
    return tables


def _answer(ask: Callable[[], Mapping[str, Future[T]]], bootstrap_servers: str, refusal: Refusal) -> T:
    try:
        return retry(lambda: next(iter(ask().values())).result(), _is_moving, _pauses())
    except KafkaException as error:
        raise KafkaError(
            f"the group of workers at {bootstrap_servers} cannot be read: {error.args[0]}{refusal.text}",
            hint="check that the brokers run, and that --kafka-config has the settings that they require",
        ) from error


def _is_moving(error: BaseException) -> bool:
    """True while no coordinator knows the group yet, as right after a broker's start."""
    return isinstance(error, KafkaException) and error.args[0].code() in _MOVING


_MOVING: Final = (
    ClientError.NOT_COORDINATOR,
    ClientError.COORDINATOR_NOT_AVAILABLE,
    ClientError.COORDINATOR_LOAD_IN_PROGRESS,
)


def _pauses() -> Iterator[float]:
    ends = time.monotonic() + _TIMEOUT
    while time.monotonic() < ends:
        yield 0.3
