"""The declaration of the events of a table: their source, their format, when they are committed.

`CALL ingest_table` stores it as one property of the table's metastore entry, where every worker finds it.
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
    - `topic`, `bootstrap_servers`: required for Kafka.
    - `format`: one of FORMATS; `schema_registry` is the address of Avro's schemas.
    - `start`: the first event to read of a partition of the topic from which the table has no events yet:
      `earliest`, `latest` or an ISO 8601 time.
    - `flush_bytes`, `flush_seconds`: events are committed at this size, or this long after the first one.
    - `on_bad_record`: `dead_letter` writes events that cannot become rows to the dead-letter table, `stop`
      stops; `refuse` (for pushes) refuses a push with such a row, and writes rows that turn out to be bad
      after the push to the dead-letter table.
    - `new_columns`: `add` adds columns of events that the table lacks, `ignore` leaves them out.
    - `fail_on_data_loss`: stop if the topic's retention has deleted events that were not read.
    - `index_days`, `index`: partitions that are older have no index. `rocksdb` keeps indexes for which memory
      does not suffice on the worker's disk; with `memory` their partitions have no index.
    - `split`: when a partition is split into hash buckets, see `parse_split_option`.
    - `services`: the worker runs clean and archiving when they are due after its commits.
    - `compaction`: with `worker` a process beside the worker compacts, with `services` another process does.
    - `paused`, `drained`: no worker reads events, after `pause_ingest` or `hudisql ingest drain`.
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
        """True if no worker reads events."""
        return self.paused or self.drained

    def check(self) -> None:
        """Raise InvalidArgumentError for invalid values."""
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
        """Refuse Kafka's parameters: rows from Kafka and from pushes would have no order between them."""
        others = IngestDeclaration()
        for name in _OF_TOPICS:
            if getattr(self, name) != getattr(others, name):
                raise InvalidArgumentError(
                    f"{name} is a parameter of Kafka topics, but source is '{PUSH}'",
                    hint=f"omit {name}: a table gets its rows either from a topic or from pushes",
                )
        self._check_on_bad_record(REFUSE, DEAD_LETTER)

    def _check_on_bad_record(self, *known: str) -> None:
        if self.on_bad_record not in known:
            raise InvalidArgumentError(
                f"on_bad_record is '{self.on_bad_record}'; it is '{known[0]}' or '{known[1]}'"
            )

    @property
    def source_name(self) -> str:
        """The source of its events: the brokers, or PUSH."""
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
        """The text of the property, without default values."""
        default = IngestDeclaration()
        values = {name: value for name, value in asdict(self).items() if value != getattr(default, name)}
        return json.dumps(values, sort_keys=True)


def declaration_of(parameters: Mapping[str, str]) -> IngestDeclaration | None:
    """The declaration in the properties of a metastore entry; None without one.

    Raises InvalidArgumentError if it cannot be read.
    """
    text = parameters.get(PROPERTY)
    if text is None:
        return None
    known = {field.name for field in fields(IngestDeclaration)}
    try:
        values: dict[str, Any] = json.loads(text)
        strangers = sorted(set(values) - known)
        if strangers:
            raise ValueError(f"unknown: {', '.join(strangers)}")
        declaration = IngestDeclaration(**values)
        declaration.check()
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidArgumentError(
            f"the property {PROPERTY} cannot be read by this release: {text} ({error})",
            hint="CALL drop_ingest removes it, CALL ingest_table stores a new one",
        ) from error
    return declaration
