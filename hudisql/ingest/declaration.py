"""What a table says of the events that are written to it: the topic, their format, when they are committed.

`CALL ingest_table` keeps it as one property of the table's metastore entry, so that every worker finds it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import Any, Final

from hudisql.catalog.guarded_alter import GUARDED_PROPERTY
from hudisql.errors import InvalidArgumentError
from hudisql.ingest.split.split_option import SplitKind, parse_split_option

PROPERTY: Final = GUARDED_PROPERTY
"""The property of the metastore entry. Filters of the metastore take no dots."""
FORMATS: Final = ("json", "avro", "debezium")
KAFKA: Final = "kafka"
PUSH: Final = "push"
EARLIEST: Final = "earliest"
LATEST: Final = "latest"
IGNORE: Final = "ignore"
ADD: Final = "add"
SERVICES: Final = "services"
WORKER: Final = "worker"
MEMORY: Final = "memory"
ROCKSDB: Final = "rocksdb"
DEAD_LETTER: Final = "dead_letter"
STOP: Final = "stop"
REFUSE: Final = "refuse"
_OF_TOPICS: Final = (
    "topic",
    "bootstrap_servers",
    "format",
    "schema_registry",
    "start",
    "new_columns",
    "fail_on_data_loss",
)
_LEAST_FLUSH_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestDeclaration:
    """How events become rows of one table.

    - `source`: `kafka`, or `push` for rows that clients push to the workers.
    - `topic`, `bootstrap_servers`: Kafka's; they must be given for that source.
    - `format`: one of FORMATS; `schema_registry` is the address of Avro's schemas.
    - `start`: where a partition of the topic begins that the table has taken nothing of: `earliest`, `latest`
      or an ISO 8601 time.
    - `flush_bytes`, `flush_seconds`: a commit follows so many bytes of events, or so long after the first.
    - `on_bad_record`: `dead_letter` writes events that are no rows to the dead-letter table, `stop` stops;
      `refuse` (of pushes) takes no row of a push that has one, and writes what was no row only later as by
      `dead_letter`.
    - `new_columns`: what follows if events have columns that the table lacks; `add` gives them to the table.
    - `fail_on_data_loss`: stop if the topic's retention has deleted events that were not taken.
    - `index_days`, `index`: partitions that are older have no index; `rocksdb` keeps indexes beyond the
      memory on the worker's disk, with `memory` their partitions have none.
    - `split`: when a partition is split into hash buckets, see `parse_split_option`.
    - `services`: the worker runs the clean and the archiving that are due after its commits.
    - `compaction`: `worker`, a process beside the worker compacts, or `services`, others do.
    - `paused`, `drained`: no worker takes events, by `pause_ingest` or by `hudisql ingest drain`.
    """

    source: str = KAFKA
    topic: str | None = None
    bootstrap_servers: str | None = None
    format: str = "json"
    schema_registry: str | None = None
    start: str = EARLIEST
    flush_bytes: int = 64 << 20
    flush_seconds: float = 60.0
    index_days: int = 30
    index: str = MEMORY
    on_bad_record: str = DEAD_LETTER
    new_columns: str = IGNORE
    fail_on_data_loss: bool = True
    split: str = str(SplitKind.NEVER)
    services: bool = True
    compaction: str = SERVICES
    paused: bool = False
    drained: bool = False

    @property
    def is_paused(self) -> bool:
        """True if no worker takes events."""
        return self.paused or self.drained

    def check(self) -> None:
        """Raise InvalidArgumentError for values that cannot be."""
        if self.source not in (KAFKA, PUSH):
            raise InvalidArgumentError(f"source is '{self.source}'; it is '{KAFKA}' or '{PUSH}'")
        if self.source == PUSH:
            self._check_push()
        else:
            self._check_kafka()
        if self.compaction not in (SERVICES, WORKER):
            raise InvalidArgumentError(f"compaction is '{self.compaction}'; it is '{SERVICES}' or '{WORKER}'")
        if self.flush_bytes < _LEAST_FLUSH_BYTES or self.flush_seconds <= 0:
            raise InvalidArgumentError(
                f"flush_bytes must be at least {_LEAST_FLUSH_BYTES:,}, and flush_seconds above 0"
            )
        if self.index not in (MEMORY, ROCKSDB):
            raise InvalidArgumentError(f"index is '{self.index}'; it is '{MEMORY}' or '{ROCKSDB}'")
        if self.index_days < 0:
            raise InvalidArgumentError("index_days must be 0 or more")
        parse_split_option(self.split)
        self.start_milliseconds()

    def _check_kafka(self) -> None:
        if not self.topic or not self.bootstrap_servers:
            raise InvalidArgumentError(
                "topic and bootstrap_servers must be given",
                hint="bootstrap_servers => 'host:9092', or source => 'push' for rows that clients push",
            )
        if self.format not in FORMATS:
            raise InvalidArgumentError(f"format is '{self.format}'; it is one of {', '.join(FORMATS)}")
        if self.format == "avro" and self.schema_registry is None:
            raise InvalidArgumentError("format 'avro' needs schema_registry, the address of its schemas")
        self._check_on_bad_record(DEAD_LETTER, STOP)
        if self.new_columns not in (IGNORE, ADD):
            raise InvalidArgumentError(f"new_columns is '{self.new_columns}'; it is '{IGNORE}' or '{ADD}'")

    def _check_push(self) -> None:
        """A table gets its rows from Kafka or from pushes: with both, no order between them would be kept."""
        others = IngestDeclaration()
        for name in _OF_TOPICS:
            if getattr(self, name) != getattr(others, name):
                raise InvalidArgumentError(
                    f"{name} is a parameter of Kafka's topics, and source is '{PUSH}'",
                    hint=f"leave {name} away: a table gets its rows from a topic or from pushes, not both",
                )
        self._check_on_bad_record(REFUSE, DEAD_LETTER)

    def _check_on_bad_record(self, *known: str) -> None:
        if self.on_bad_record not in known:
            raise InvalidArgumentError(
                f"on_bad_record is '{self.on_bad_record}'; it is '{known[0]}' or '{known[1]}'"
            )

    @property
    def source_name(self) -> str:
        """What its events come from: the brokers, or PUSH."""
        return PUSH if self.source == PUSH else str(self.bootstrap_servers)

    def start_milliseconds(self) -> int | None:
        """The time of `start` in milliseconds since 1970, None for `earliest` and `latest`.

        Raises InvalidArgumentError.
        """
        if self.start in (EARLIEST, LATEST):
            return None
        try:
            moment = datetime.fromisoformat(self.start)
        except ValueError as error:
            raise InvalidArgumentError(
                f"start is '{self.start}'; it is '{EARLIEST}', '{LATEST}' or a time such as "
                "'2024-03-01T00:00:00Z'"
            ) from error
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return int(moment.timestamp() * 1000)

    def to_property(self) -> str:
        """The text of the property; values that are as by default are left out."""
        default = IngestDeclaration()
        values = {name: value for name, value in asdict(self).items() if value != getattr(default, name)}
        return json.dumps(values, sort_keys=True)


def declaration_of(parameters: Mapping[str, str]) -> IngestDeclaration | None:
    """The declaration among the properties of a metastore entry, None if there is none.

    Raises InvalidArgumentError for one that cannot be read.
    """
    text = parameters.get(PROPERTY)
    if text is None:
        return None
    known = {each.name for each in fields(IngestDeclaration)}
    try:
        values: dict[str, Any] = json.loads(text)
        strangers = sorted(set(values) - known)
        if strangers:
            raise ValueError(f"unknown: {', '.join(strangers)}")
        declaration = IngestDeclaration(**values)
        declaration.check()
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidArgumentError(
            f"the property {PROPERTY} is no declaration of this release: {text} ({error})",
            hint="CALL drop_ingest removes it, CALL ingest_table makes a new one",
        ) from error
    return declaration
