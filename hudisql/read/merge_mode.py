"""How a table's log records merge with each other and with base rows, as plain values for tasks.

Follows `AbstractHoodieLogRecordReader` (which blocks count) and the payload classes of Hudi 0.15. Unknown
payload classes and merge strategies are refused, since they would give other rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from hudisql.errors import UnsupportedTableError
from hudisql.format.table_properties import MERGER_STRATEGY, TableProperties
from hudisql.read.conform import find_field
from hudisql.table.hudi_table import HudiTable

DELETE_FIELD = "hoodie.payload.delete.field"
DELETE_MARKER = "hoodie.payload.delete.marker"

_OVERWRITE_WITH_LATEST = "OverwriteWithLatestAvroPayload"
_EVENT_TIME = "DefaultHoodieRecordPayload"
_PAYLOAD_PACKAGES = ("org.apache.hudi.common.model.", "org.apache.hudi.", "")
_STRATEGY_KEYS = (MERGER_STRATEGY, "hoodie.record.merge.strategy.id")
# Hudi's ids for "as the payload class says": 0.15's default, which 1.x calls event time, and 1.x's own.
_PAYLOAD_STRATEGIES = ("eeb8d96f-b1e4-49fd-bbf8-28ac514178e5", "00000000-0000-0000-0000-000000000000")
_COMMIT_TIME_STRATEGY = "ce9acb64-bde0-424c-9b91-f6ebba25356d"


@dataclass(frozen=True, slots=True)
class InstantRange:
    """Which instants' log blocks are read (Hudi's `InstantRange`).

    A block counts if its instant is in `committed`, or older than `active_from` (archived), and not after
    `as_of`.
    """

    committed: frozenset[str]
    active_from: str | None
    as_of: str | None = None

    def includes(self, instant_time: str) -> bool:
        """True if blocks of the instant count."""
        if self.as_of is not None and instant_time > self.as_of:
            return False
        archived = self.active_from is not None and instant_time < self.active_from
        return archived or instant_time in self.committed


@dataclass(frozen=True, slots=True)
class RecordMergeMode:
    """Which of several records of one key is kept.

    Between log records the higher value of `ordering_field` wins, of equal ones the later. Over a base row
    the log record wins, unless `keeps_newer_base_rows` and the base row's value is higher. Delete blocks hold
    over every base row and until the next log row, unless `orders_deletes` (1.x's event time). Rows whose
    `delete_field` holds `delete_marker` (default: whose `_hoodie_is_deleted` is true) are deletes.
    """

    ordering_field: pa.Field | None = None
    keeps_newer_base_rows: bool = False
    orders_deletes: bool = False
    delete_field: str | None = None
    delete_marker: str | None = None


@dataclass(frozen=True, slots=True)
class LogMergeConfig:
    """What a task needs to read slices with log files: the blocks that count, and how records merge."""

    instant_range: InstantRange
    merge_mode: RecordMergeMode = field(default_factory=RecordMergeMode)


def log_merge_config_of(table: HudiTable, as_of: str | None = None) -> LogMergeConfig:
    """The configuration of a table, for its state as of an instant time.

    Raises UnsupportedTableError naming a payload class or merge strategy that hudisql does not know, and for
    tables whose rows carry no record key.
    """
    properties = table.properties
    if not properties.populate_meta_fields:
        raise UnsupportedTableError(
            f"the Hudi table at {table.base_path} keeps no meta columns (hoodie.populate.meta.fields=false): "
            "its log files cannot be merged",
            hint="compact it with Hudi (run_compaction) and read it again",
        )
    payload = _payload_of(table)
    in_commit_order = _merges_in_commit_order(table)
    instant_range = InstantRange(
        committed=frozenset(commit.timestamp for commit in table.timeline.commits),
        active_from=table.timeline.first_active_time,
        as_of=as_of,
    )
    merge_mode = RecordMergeMode(
        ordering_field=None if in_commit_order else _ordering_field(table),
        keeps_newer_base_rows=payload == _EVENT_TIME and not in_commit_order,
        # Only tables that 1.x writes and merges have a strategy under this key.
        orders_deletes=payload == _EVENT_TIME
        and _text(properties, _STRATEGY_KEYS[1]) == _PAYLOAD_STRATEGIES[0],
        delete_field=properties.get(DELETE_FIELD) if payload == _EVENT_TIME else None,
        delete_marker=properties.get(DELETE_MARKER) if payload == _EVENT_TIME else None,
    )
    return LogMergeConfig(instant_range, merge_mode)


def _payload_of(table: HudiTable) -> str:
    named = table.properties.payload_class or _OVERWRITE_WITH_LATEST
    package, _, short = named.rpartition(".")
    known = f"{package}." if package else ""
    if short not in (_OVERWRITE_WITH_LATEST, _EVENT_TIME) or known not in _PAYLOAD_PACKAGES:
        raise UnsupportedTableError(
            f"the Hudi table at {table.base_path} merges log records by the payload class {named}, which "
            f"hudisql does not know; it knows {_OVERWRITE_WITH_LATEST} and {_EVENT_TIME}",
            hint="compact it with Hudi (run_compaction) and read it again, or read base files alone "
            "(the _ro table, or hoodie.datasource.query.type=read_optimized)",
        )
    return short


def _merges_in_commit_order(table: HudiTable) -> bool:
    strategies = [
        value for key in _STRATEGY_KEYS if (value := _text(table.properties, key)) not in _PAYLOAD_STRATEGIES
    ]
    unknown = [value for value in strategies if value not in ("", _COMMIT_TIME_STRATEGY)]
    if unknown:
        raise UnsupportedTableError(
            f"the Hudi table at {table.base_path} merges log records by a strategy of its own ({unknown[0]})",
            hint="compact it with Hudi (run_compaction) and read it again",
        )
    return _COMMIT_TIME_STRATEGY in strategies


def _text(properties: TableProperties, key: str) -> str:
    return (properties.get(key) or "").strip().lower()


def _ordering_field(table: HudiTable) -> pa.Field | None:
    name = table.properties.precombine_field
    if name is None:
        return None
    if "," in name:
        raise UnsupportedTableError(
            f"the Hudi table at {table.base_path} orders log records by several columns ({name})"
        )
    # Hudi takes a column that a record lacks (or a nested one) for equal in all records.
    index = find_field(table.schema, name)
    if index < 0 or pa.types.is_nested(table.schema.field(index).type):
        return None
    return table.schema.field(index)
