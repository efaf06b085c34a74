"""How a table's log records merge with each other and with base rows, as plain values for tasks.

Follows `AbstractHoodieLogRecordReader` (choice of blocks) and the payload classes of Hudi 0.15, for table
versions 8 and 9 `RecordMergeMode` and `PartialUpdateMode` of Hudi 1.2. Unknown payload classes, merge
strategies and modes are refused, since they would give other rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from hudisql.errors import UnsupportedTableError
from hudisql.format.payload_classes import (
    COMMIT_TIME_ORDERING,
    EVENT_TIME_ORDERING,
    EVENT_TIME_PAYLOAD,
    PAYLOAD_RULES,
    payload_rule,
)
from hudisql.format.schema.meta_columns import IS_DELETED, OPERATION
from hudisql.format.table_properties import (
    DELETE_FIELD,
    DELETE_MARKER,
    FILL_UNAVAILABLE,
    IGNORE_DEFAULTS,
    MERGER_STRATEGY,
    TableProperties,
)
from hudisql.read.files.conform import find_field
from hudisql.table.file_slice import FileSlice
from hudisql.table.hudi_table import HudiTable
from hudisql.table.properties.virtual_keys import unmerged_keys

UNAVAILABLE_VALUE = "hoodie.write.partial.update.unavailable.value"

_STRATEGY_KEYS = (MERGER_STRATEGY, "hoodie.record.merge.strategy.id")
# Hudi's strategy ids for merging by the payload class: 0.15's default, which 1.x calls event time, and 1.x's
# own.
_PAYLOAD_STRATEGIES = ("eeb8d96f-b1e4-49fd-bbf8-28ac514178e5", "00000000-0000-0000-0000-000000000000")
_COMPACT_OR_READ_BASE_FILES = (
    "compact it with Hudi (run_compaction) and read it again, or read base files alone "
    "(the _ro table, or hoodie.datasource.query.type=read_optimized)"
)
_COMMIT_TIME_STRATEGY = "ce9acb64-bde0-424c-9b91-f6ebba25356d"


@dataclass(frozen=True, slots=True)
class InstantRange:
    """The instants whose log blocks are read (Hudi's `InstantRange`).

    A block is read if its instant is in `committed`, or older than `active_from` (archived), and not after
    `as_of`. With `only`, blocks of other instants and base rows of other commits are ignored.
    """

    committed: frozenset[str]
    active_from: str | None
    as_of: str | None = None
    only: frozenset[str] | None = None

    def includes(self, instant_time: str) -> bool:
        """True if blocks of the instant are read."""
        if self.as_of is not None and instant_time > self.as_of:
            return False
        if self.only is not None:
            return instant_time in self.only
        archived = self.active_from is not None and instant_time < self.active_from
        return archived or instant_time in self.committed


@dataclass(frozen=True, slots=True)
class RecordMergeMode:
    """The rule that decides which record of a key is kept.

    Between log records the higher value of `ordering_fields` wins, compared from the first field on; for
    equal values the later record wins. A log record wins against a base row, unless `keeps_newer_base_rows`
    and the base row's value is higher. With `keeps_equal_rows` the earlier of two equal rows wins.
    A delete block deletes every base row and earlier log row, unless `orders_deletes` (1.x's event time).
    Rows whose `delete_field` holds `delete_marker` (default: whose `_hoodie_is_deleted` is true) are deletes.
    With a `partial_update_mode` the winning record takes the columns that it lacks from the other one: those
    that are null, or have the text `unavailable_value`; unless `fills_log_records` from the base row alone.
    Of incoming rows of one key the newest takes values from the others with `fills_incoming`.
    With `has_partial_blocks` log records may have only some of the columns.
    """

    ordering_fields: tuple[pa.Field, ...] = ()
    keeps_newer_base_rows: bool = False
    keeps_equal_rows: bool = False
    orders_deletes: bool = False
    delete_field: str | None = None
    delete_marker: str | None = None
    partial_update_mode: str | None = None
    unavailable_value: str | None = None
    fills_log_records: bool = True
    fills_incoming: bool = True
    has_partial_blocks: bool = False


DEFAULT_MERGE_MODE = RecordMergeMode()
"""The mode that keeps the record written last."""


@dataclass(frozen=True, slots=True)
class LogMergeConfig:
    """The configuration for reading slices with log files: the blocks to read, and how records merge."""

    instant_range: InstantRange
    merge_mode: RecordMergeMode = field(default_factory=RecordMergeMode)


def log_merge_config_of(
    table: HudiTable, as_of: str | None = None, only: frozenset[str] | None = None
) -> LogMergeConfig:
    """The configuration of a table, for its state as of an instant time; `only` as in `InstantRange`.

    Raises UnsupportedTableError naming a payload class or merge strategy that hudisql does not know, and for
    tables whose rows carry no record key, if it cannot be computed.
    """
    properties = table.properties
    if not properties.populate_meta_fields and (reason := unmerged_keys(properties, table.schema)):
        raise UnsupportedTableError(
            f"the log files of the Hudi table at {table.base_path} cannot be merged: it keeps no meta "
            f"columns (hoodie.populate.meta.fields=false), and {reason}",
            hint="compact it with Hudi (run_compaction) and read it again",
        )
    instant_range = InstantRange(
        committed=frozenset(commit.timestamp for commit in table.timeline.commits),
        active_from=table.timeline.first_active_time,
        as_of=as_of,
        only=only,
    )
    return LogMergeConfig(instant_range, merge_mode_of(table))


def merge_mode_of(table: HudiTable) -> RecordMergeMode:
    """The rule by which the table's records merge, in log files and when rows are written.

    Raises UnsupportedTableError naming a payload class or merge strategy that hudisql does not know.
    """
    return _mode_of_version_6(table) if table.version <= 6 else _record_merge_mode(table)


def has_delete_marks(table: HudiTable) -> bool:
    """True if the table has a column by which rows stand for deletes. Raises UnsupportedTableError."""
    names = (IS_DELETED, OPERATION, merge_mode_of(table).delete_field)
    return any(find_field(table.schema, name) >= 0 for name in names if name is not None)


def log_merge_config_for(table: HudiTable, slices: Iterable[FileSlice]) -> LogMergeConfig | None:
    """`log_merge_config_of` the table, which readers of slices without log files do not need: None for these.

    Raises UnsupportedTableError.
    """
    return log_merge_config_of(table) if any(file_slice.has_log_files for file_slice in slices) else None


def _mode_of_version_6(table: HudiTable) -> RecordMergeMode:
    properties = table.properties
    rule = payload_rule(properties.payload_class)
    if rule is None:
        raise UnsupportedTableError(
            f"the Hudi table at {table.base_path} merges log records by the payload class "
            f"{properties.payload_class}, which hudisql does not know; it knows "
            f"{', '.join(name.rpartition('.')[2] for name in PAYLOAD_RULES)}",
            hint=_COMPACT_OR_READ_BASE_FILES,
        )
    # Only tables written by 1.x have a strategy under this key. It merges log records as it merges base rows.
    strategy = _text(properties, _STRATEGY_KEYS[1])
    merges_logs_as_rows = strategy == _PAYLOAD_STRATEGIES[1] and not rule.by_event_time
    in_commit_order = _merges_in_commit_order(table) or merges_logs_as_rows
    delete_field, delete_marker = rule.delete_mark or (None, None)
    if rule == PAYLOAD_RULES[EVENT_TIME_PAYLOAD]:
        delete_field, delete_marker = properties.get(DELETE_FIELD), properties.get(DELETE_MARKER)
    return RecordMergeMode(
        ordering_fields=() if in_commit_order else _ordering_fields(table),
        keeps_newer_base_rows=rule.by_event_time and not in_commit_order,
        keeps_equal_rows=rule.keeps_equal_rows,
        orders_deletes=rule.by_event_time and strategy == _PAYLOAD_STRATEGIES[0],
        delete_field=delete_field,
        delete_marker=delete_marker,
        partial_update_mode=IGNORE_DEFAULTS if rule.fills_nulls else None,
        fills_log_records=rule.fills_incoming or merges_logs_as_rows,
        fills_incoming=rule.fills_incoming,
        has_partial_blocks=rule.fills_nulls,
    )


def _record_merge_mode(table: HudiTable) -> RecordMergeMode:
    """The mode of a table of version 8 or 9."""
    properties = table.properties
    named = properties.record_merge_mode
    ordering_fields = _ordering_fields(table)
    if named is None:
        named = EVENT_TIME_ORDERING if ordering_fields else COMMIT_TIME_ORDERING
    if named not in (COMMIT_TIME_ORDERING, EVENT_TIME_ORDERING):
        rule = properties.payload_class or properties.get(_STRATEGY_KEYS[1]) or named
        raise UnsupportedTableError(
            f"the Hudi table at {table.base_path} merges log records by its own rule ({rule}), which "
            f"hudisql does not know; it knows {COMMIT_TIME_ORDERING} and {EVENT_TIME_ORDERING}",
            hint=_COMPACT_OR_READ_BASE_FILES,
        )
    partial = properties.partial_update_mode
    if partial not in (None, IGNORE_DEFAULTS, FILL_UNAVAILABLE):
        raise UnsupportedTableError(
            f"the Hudi table at {table.base_path} has the partial update mode {partial}, which hudisql does "
            f"not know; it knows {IGNORE_DEFAULTS} and {FILL_UNAVAILABLE}",
            hint=_COMPACT_OR_READ_BASE_FILES,
        )
    by_event_time = named == EVENT_TIME_ORDERING
    return RecordMergeMode(
        ordering_fields=ordering_fields if by_event_time else (),
        keeps_newer_base_rows=by_event_time,
        orders_deletes=by_event_time,
        delete_field=properties.merge_property(DELETE_FIELD),
        delete_marker=properties.merge_property(DELETE_MARKER),
        partial_update_mode=partial,
        unavailable_value=properties.merge_property(UNAVAILABLE_VALUE),
        has_partial_blocks=True,
    )


def _merges_in_commit_order(table: HudiTable) -> bool:
    strategies = [
        value for key in _STRATEGY_KEYS if (value := _text(table.properties, key)) not in _PAYLOAD_STRATEGIES
    ]
    unknown = [value for value in strategies if value not in ("", _COMMIT_TIME_STRATEGY)]
    if unknown:
        raise UnsupportedTableError(
            f"the Hudi table at {table.base_path} merges log records by its own strategy ({unknown[0]})",
            hint="compact it with Hudi (run_compaction) and read it again",
        )
    return _COMMIT_TIME_STRATEGY in strategies


def _text(properties: TableProperties, key: str) -> str:
    return (properties.get(key) or "").strip().lower()


def _ordering_fields(table: HudiTable) -> tuple[pa.Field, ...]:
    names = table.properties.ordering_fields
    if len(names) > 1 and table.properties.version <= 6:
        raise UnsupportedTableError(
            f"the Hudi table at {table.base_path} orders log records by several columns "
            f"({table.properties.precombine_field})"
        )
    # For Hudi a column that a record lacks (or a nested one) is equal in all records.
    places = [find_field(table.schema, name) for name in names]
    fields = [table.schema.field(place) for place in places if place >= 0]
    return tuple(each for each in fields if not pa.types.is_nested(each.type))
