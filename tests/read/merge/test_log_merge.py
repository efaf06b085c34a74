from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hudisql.errors import CorruptTableError, UnsupportedTableError
from hudisql.format.avro.avro_container import load_codec
from hudisql.format.log_file.log_block import (
    BlockType,
    HeaderKey,
    LogBlock,
    encode_log_block,
    rollback_block,
)
from hudisql.format.log_file.log_block_content import encode_data_block, encode_delete_records
from hudisql.format.schema.avro_schema import avro_from_arrow
from hudisql.format.schema.meta_columns import META_SCHEMA
from hudisql.read.files.predicates import Comparison
from hudisql.read.merge.merge_mode import InstantRange, LogMergeConfig, RecordMergeMode, log_merge_config_of
from hudisql.read.slice.replaced_rows import match_log_records, read_log_rows, separate_rows
from hudisql.read.slice.slice_reader import SliceRead, read_file_slice
from hudisql.storage import Storage
from hudisql.table.file_slice import BaseFile, FileSlice, LogFile
from hudisql.table.hudi_table import HudiTable
from hudisql.table.slicing import committed_blocks
from tests.opened import open_at

BASE = "20260101000000000"
DATA = pa.schema([pa.field("seq", pa.int64()), pa.field("v", pa.string())])
FULL = pa.schema([*META_SCHEMA, *DATA])
INSTANTS = InstantRange(
    committed=frozenset(f"2026020{day}000000000" for day in range(1, 8)), active_from="20260115000000000"
)
MODE = RecordMergeMode(ordering_fields=(DATA.field("seq"),))
CONFIG = LogMergeConfig(INSTANTS, MODE)
Row = tuple[str, Any, Any]


def _instant(day: int) -> str:
    return f"2026020{day}000000000"


def _rows(
    rows: Sequence[Row], instant_time: str, extra: dict[str, list[Any]] | None = None
) -> pa.RecordBatch:
    count = len(rows)
    columns = {
        "_hoodie_commit_time": [instant_time] * count,
        "_hoodie_commit_seqno": [f"{instant_time}_0_{number}" for number in range(count)],
        "_hoodie_record_key": [key for key, _, _ in rows],
        "_hoodie_partition_path": [""] * count,
        "_hoodie_file_name": ["f-0"] * count,
        "seq": [seq for _, seq, _ in rows],
        "v": [value for _, _, value in rows],
    }
    batch = pa.RecordBatch.from_pydict(columns, schema=FULL)
    for name, values in (extra or {}).items():
        batch = batch.append_column(name, pa.array(values))
    return batch


def _data_block(batch: pa.RecordBatch, instant_time: str, *, parquet: bool = False) -> LogBlock:
    schema = avro_from_arrow(batch.schema, "t")
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: instant_time, HeaderKey.SCHEMA: schema}
    if parquet:
        stream = io.BytesIO()
        pq.write_table(pa.Table.from_batches([batch]), stream, store_schema=False)
        return LogBlock(BlockType.PARQUET_DATA, header, stream.getvalue())
    return LogBlock(BlockType.AVRO_DATA, header, encode_data_block(batch, schema))


def _delete_block(keys: Sequence[str], instant_time: str) -> LogBlock:
    content = encode_delete_records(pa.array(keys, pa.string()), "")
    return LogBlock(BlockType.DELETE, {HeaderKey.INSTANT_TIME: instant_time}, content)


def _ordered_delete_block(deletes: Sequence[tuple[str, int]], instant_time: str) -> LogBlock:
    """Deletes with ordering values, as Hudi writes those of rows that are marked as deleted."""
    wrapper = "org.apache.hudi.avro.model.LongWrapper"
    records = [
        {"recordKey": key, "partitionPath": "", "orderingVal": (wrapper, {"value": value})}
        for key, value in deletes
    ]
    stream = io.BytesIO()
    schema = fastavro.parse_schema(json.loads(load_codec("HoodieDeleteRecordList").schema_text))
    fastavro.schemaless_writer(stream, schema, {"deleteRecordList": records})
    content = struct.pack(">ii", 3, len(stream.getvalue())) + stream.getvalue()
    return LogBlock(BlockType.DELETE, {HeaderKey.INSTANT_TIME: instant_time}, content)


def _slice(
    directory: Path, base: Sequence[Row] | None, logs: Sequence[Sequence[LogBlock | bytes]]
) -> FileSlice:
    directory.mkdir(parents=True, exist_ok=True)
    base_file = None
    if base is not None:
        path = directory / f"f-0_0-0-0_{BASE}.parquet"
        table = pa.Table.from_batches([_rows(base, BASE)])
        pq.write_table(table, path, row_group_size=2, store_schema=False)
        base_file = BaseFile(str(path), path.stat().st_size, "f-0", "0-0-0", BASE)
    log_files = []
    for version, blocks in enumerate(logs, 1):
        path = directory / f".f-0_{BASE}.log.{version}_0-0-0"
        path.write_bytes(
            b"".join(each if isinstance(each, bytes) else encode_log_block(each) for each in blocks)
        )
        log_files.append(LogFile(str(path), path.stat().st_size, "f-0", BASE, version, "0-0-0"))
    return FileSlice("", "f-0", BASE, base_file, tuple(log_files))


def _read(
    file_slice: FileSlice, config: LogMergeConfig = CONFIG, schema: pa.Schema = FULL, **kwargs: Any
) -> pa.Table:
    read = SliceRead(file_slice, schema, log_merge_config=config, **kwargs)
    return pa.Table.from_batches(list(read_file_slice(Storage(), read)), schema)


def _in_two_parts(file_slice: FileSlice, base: Sequence[Row], config: LogMergeConfig) -> list[Row]:
    """The base rows that stay and the separated rows, in the order of their keys."""
    parts = separate_rows(Storage(), SliceRead(file_slice, FULL, log_merge_config=config))
    stays = np.ones(len(base), np.bool_)
    stays[parts.replaced] = False
    kept = [row for row, is_kept in zip(base, stays, strict=True) if is_kept]
    return sorted([*kept, *_as_rows(pa.Table.from_batches(parts.rows, FULL))])


def _as_rows(table: pa.Table) -> list[Row]:
    return [(row["_hoodie_record_key"], row["seq"], row["v"]) for row in table.to_pylist()]


# --- against a plain model ----------------------------------------------------------------------------------

KEYS = st.sampled_from("abcdef")
SEQUENCES = st.integers(-2, 3)


@st.composite
def log_blocks(draw: st.DrawFn) -> tuple[str, int, list[tuple[str, int]]]:
    """A block: its kind, the day of its instant (8 and 9 are not committed), and what it says."""
    kind = draw(st.sampled_from(["avro", "avro", "parquet", "delete", "ordered delete", "rollback"]))
    records = draw(st.lists(st.tuples(KEYS, SEQUENCES), max_size=4))
    return kind, draw(st.integers(1, 9)), records


def _model(
    base: Sequence[Row],
    blocks: Sequence[tuple[str, int, list[tuple[str, int]]]],
    event_time: bool,
    orders_deletes: bool,
) -> list[Row]:
    counted: list[tuple[str, int, list[Row]]] = []
    for number, (kind, day, records) in enumerate(blocks):
        if kind == "rollback":
            counted = [each for each in counted if each[1] != day]
        elif day < 8:
            counted.append((kind, day, [(key, seq, f"{number}") for key, seq in records]))
    # Of each key its row, or a delete: with no ordering value, or with one.
    state: dict[str, tuple[str, int | None, str]] = {}
    for kind, _, rows in counted:
        for key, seq, value in rows:
            before = state.get(key)
            compares = before is not None and before[1] is not None
            if before is not None and before[2] == "deleted":
                compares = compares and orders_deletes
            if kind == "delete":
                state[key] = (key, None, "deleted")
            elif not (compares and before is not None and before[1] is not None and before[1] > seq):
                state[key] = (key, seq, "deleted" if kind == "ordered delete" else value)
    merged: dict[str, Row] = {row[0]: row for row in base}
    for key, ordering, value in state.values():
        is_newer = key in merged and ordering is not None and merged[key][1] > ordering
        if value == "deleted":
            if not (event_time and orders_deletes and is_newer):
                merged.pop(key, None)
        elif not (event_time and is_newer):
            merged[key] = (key, ordering, value)
    return sorted(merged.values())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    base=st.none() | st.dictionaries(KEYS, SEQUENCES),
    blocks=st.lists(log_blocks(), min_size=1, max_size=7),
    files=st.integers(1, 3),
    event_time=st.booleans(),
    orders_deletes=st.booleans(),
    wanted=st.none() | SEQUENCES,
)
def test_merged_rows_are_those_of_a_plain_model(
    tmp_path: Path,
    base: dict[str, int] | None,
    blocks: list[tuple[str, int, list[tuple[str, int]]]],
    files: int,
    event_time: bool,
    orders_deletes: bool,
    wanted: int | None,
) -> None:
    written: list[LogBlock] = []
    for number, (kind, day, records) in enumerate(blocks):
        rows = [(key, seq, f"{number}") for key, seq in records]
        if kind == "rollback":
            written.append(rollback_block("20260209000000009", _instant(day)))
        elif kind == "delete":
            written.append(_delete_block([key for key, _ in records], _instant(day)))
        elif kind == "ordered delete":
            written.append(_ordered_delete_block(records, _instant(day)))
        else:
            batch = _rows(rows, _instant(day))
            written.append(_data_block(batch, _instant(day), parquet=kind == "parquet"))
    each = -(-len(written) // files)
    logs = [written[start : start + each] for start in range(0, len(written), each)]
    base_rows = None if base is None else [(key, seq, "base") for key, seq in sorted(base.items())]
    file_slice = _slice(tmp_path, base_rows, logs)
    config = LogMergeConfig(
        INSTANTS, replace(MODE, keeps_newer_base_rows=event_time, orders_deletes=orders_deletes)
    )
    modelled = _model(base_rows or [], blocks, event_time, orders_deletes)
    predicate = None if wanted is None else Comparison(("seq",), "=", wanted)
    expected = [row for row in modelled if wanted is None or row[1] == wanted]
    assert sorted(_as_rows(_read(file_slice, config, predicate=predicate))) == expected
    few = pa.schema([DATA.field("v")])
    values = _read(file_slice, config, few).column(0).to_pylist()
    assert sorted(values) == sorted(row[2] for row in modelled)
    count = sum(
        batch.num_rows
        for batch in read_file_slice(Storage(), SliceRead(file_slice, pa.schema([]), log_merge_config=config))
    )
    assert count == len(values)
    read = SliceRead(file_slice, FULL, predicate=predicate, log_merge_config=config)
    match = match_log_records(Storage(), read)
    replaced = set(match.replaced.tolist())
    assert match.base_rows == len(base_rows or [])
    kept = [row for position, row in enumerate(base_rows or []) if position not in replaced]
    beside = pa.Table.from_batches(list(read_log_rows(Storage(), read, match.shown)), FULL)
    assert beside.equals(pa.Table.from_batches(list(read_log_rows(Storage(), read)), FULL))
    in_two_parts = [*(row for row in kept if wanted is None or row[1] == wanted), *_as_rows(beside)]
    assert sorted(in_two_parts) == expected
    separated = separate_rows(Storage(), read)
    assert separated.replaced.tolist() == match.replaced.tolist()
    assert pa.Table.from_batches(separated.rows, FULL).equals(beside)


# --- one rule at a time -------------------------------------------------------------------------------------


def test_log_rows_stand_where_their_base_rows_stood_and_new_keys_come_last(tmp_path: Path) -> None:
    base = [(key, 1, "base") for key in "abcde"]
    block = _data_block(_rows([("z", 1, "new"), ("d", 1, "log"), ("b", 0, "log")], _instant(1)), _instant(1))
    found = _read(_slice(tmp_path, base, [[block, _delete_block(["a"], _instant(2))]]))
    assert _as_rows(found) == [
        ("b", 0, "log"), ("c", 1, "base"), ("d", 1, "log"), ("e", 1, "base"), ("z", 1, "new"),
    ]  # fmt: skip
    assert found["_hoodie_commit_time"].to_pylist() == [_instant(1), BASE, _instant(1), BASE, _instant(1)]


def test_of_large_log_files_one_block_at_a_time_is_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def block(day: int, first: int, *, parquet: bool = False) -> LogBlock:
        rows = [(f"k{number}", number, "x" * 500) for number in range(first, first + 2_000)]
        return _data_block(_rows(rows, _instant(day)), _instant(day), parquet=parquet)

    logs: list[list[LogBlock | bytes]] = [
        [block(1, 0), block(2, 5_000)],
        [block(3, 1_000, parquet=True), b"torn", block(4, 9_000)],
        [rollback_block(_instant(5), _instant(4)), block(6, 0), _delete_block(["k7"], _instant(6))],
    ]
    file_slice = _slice(tmp_path, [("k1", 0, "base"), ("other", 0, "base")], logs)
    whole = _as_rows(_read(file_slice))
    sizes = [log_file.length for log_file in file_slice.log_files]
    assert min(sizes) > 1_000_000
    reads: list[int] = []
    open_input = Storage.open_input

    class Counted:
        def __init__(self, source: Any) -> None:
            self.source = source

        def __enter__(self) -> Counted:
            return self

        def __exit__(self, *_: object) -> None:
            self.source.close()

        def size(self) -> int:
            return int(self.source.size())

        def read_at(self, nbytes: int, offset: int) -> bytes:
            reads.append(nbytes)
            return bytes(self.source.read_at(nbytes, offset))

    def counted(self: Storage, path: str) -> Any:
        return Counted(open_input(self, path)) if ".log." in path else open_input(self, path)

    monkeypatch.setattr(Storage, "open_input", counted)
    monkeypatch.setattr(Storage, "read", lambda _, path: pytest.fail(f"{path} is read whole"))
    monkeypatch.setattr(committed_blocks, "KEPT_BYTES", min(sizes) - 1)
    assert _as_rows(_read(file_slice)) == whole
    assert max(reads) < max(sizes) * 0.6


def test_damaged_blocks_are_left_out(tmp_path: Path) -> None:
    blocks = [_data_block(_rows([(key, 1, key)], _instant(1)), _instant(1)) for key in "abc"]
    torn = encode_log_block(blocks[1])[:-20]
    file_slice = _slice(tmp_path, [], [[blocks[0], torn, blocks[2]], [torn]])
    assert _as_rows(_read(file_slice)) == [("a", 1, "a"), ("c", 1, "c")]


def test_blocks_of_archived_instants_count_and_those_after_the_asked_state_do_not(tmp_path: Path) -> None:
    days = ["20260110000000000", "20260120000000000", _instant(1), _instant(3)]
    blocks = [_data_block(_rows([(day, 1, day)], day), day) for day in days]
    file_slice = _slice(tmp_path, None, [blocks])
    assert [row[2] for row in _as_rows(_read(file_slice))] == [days[0], days[2], days[3]]
    assert [
        row[2]
        for row in _as_rows(_read(file_slice, LogMergeConfig(replace(INSTANTS, as_of=_instant(2)), MODE)))
    ] == [
        days[0],
        days[2],
    ]


def test_rows_marked_as_deleted_are_deletes_with_an_ordering_value(tmp_path: Path) -> None:
    first = _rows([("a", 5, "x"), ("b", 5, "x"), ("c", 5, "x")], _instant(1))
    marks = {"_hoodie_is_deleted": [True, True, None, True]}
    second = _rows([("a", 4, "y"), ("b", 5, "y"), ("c", 6, "y"), ("d", 0, "y")], _instant(2), marks)
    base = [(key, 1, "base") for key in "abcd"]
    logs = [[_data_block(first, _instant(1))], [_data_block(second, _instant(2))]]
    file_slice = _slice(tmp_path, base, logs)
    assert _as_rows(_read(file_slice)) == [("a", 5, "x"), ("c", 6, "y")]
    # By event time a base row that is newer than the delete stays.
    config = LogMergeConfig(INSTANTS, replace(MODE, keeps_newer_base_rows=True))
    assert _as_rows(_read(file_slice, config)) == [("a", 5, "x"), ("c", 6, "y"), ("d", 1, "base")]


def test_a_delete_field_and_marker_of_the_tables_own(tmp_path: Path) -> None:
    batch = _rows([("a", 5, "x"), ("b", 5, "x")], _instant(1), {"op": ["D", "U"]})
    file_slice = _slice(tmp_path, [("a", 1, "base")], [[_data_block(batch, _instant(1))]])
    config = LogMergeConfig(
        INSTANTS, replace(MODE, keeps_newer_base_rows=True, delete_field="op", delete_marker="D")
    )
    assert _as_rows(_read(file_slice, config)) == [("b", 5, "x")]


def test_without_an_ordering_column_the_later_record_wins(tmp_path: Path) -> None:
    blocks = [_data_block(_rows([("a", 5 - day, f"{day}")], _instant(day)), _instant(day)) for day in (1, 2)]
    config = LogMergeConfig(INSTANTS, replace(MODE, ordering_fields=()))
    assert _as_rows(_read(_slice(tmp_path, None, [blocks]), config)) == [("a", 3, "2")]


def test_blocks_of_older_schemas_have_nulls_and_wider_values(tmp_path: Path) -> None:
    old = pa.schema([*META_SCHEMA, pa.field("SEQ", pa.int32())])
    batch = _rows([("a", 7, "x")], _instant(1))
    narrow = pa.RecordBatch.from_arrays([*batch.columns[:5], pa.array([7], pa.int32())], schema=old)
    found = _read(_slice(tmp_path, None, [[_data_block(narrow, _instant(1))]]))
    assert _as_rows(found) == [("a", 7, None)]


@pytest.mark.parametrize("parquet", [False, True])
def test_partition_columns_come_from_the_directory_and_predicates_from_the_merged_row(
    tmp_path: Path, parquet: bool
) -> None:
    base = [(f"k{number}", number, "base") for number in range(8)]
    block = _data_block(
        _rows([("k1", 100, "log"), ("k6", 0, "log")], _instant(1)), _instant(1), parquet=parquet
    )
    schema = pa.schema([DATA.field("seq"), pa.field("dt", pa.string())])
    found = _read(
        _slice(tmp_path, base, [[block]]),
        schema=schema,
        partition_values={"dt": "x"},
        predicate=Comparison(("seq",), ">", 5),
    )
    assert found.to_pylist() == [{"seq": seq, "dt": "x"} for seq in (7, 100)] or found.to_pylist() == [
        {"seq": seq, "dt": "x"} for seq in (100, 7)
    ]


def test_what_cannot_be_read_names_its_file(tmp_path: Path) -> None:
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: _instant(1), HeaderKey.SCHEMA: "{}"}
    for kind, error, said in (
        (BlockType.HFILE_DATA, UnsupportedTableError, "HFILE_DATA"),
        (BlockType.AVRO_DATA, CorruptTableError, "not an Avro record"),
        (BlockType.PARQUET_DATA, CorruptTableError, "Parquet"),
    ):
        file_slice = _slice(tmp_path, None, [[LogBlock(kind, header, b"\x00\x00\x00\x03\x00\x00\x00\x00")]])
        with pytest.raises(error, match=rf"\.f-0_{BASE}\.log\.1_0-0-0.*{said}"):
            _read(file_slice)


# --- the rule that a table has ------------------------------------------------------------------------------


def _with_properties(table: HudiTable, **values: str) -> HudiTable:
    known = {key.replace("_", "."): value for key, value in values.items()}
    return replace(table, properties=replace(table.properties, values={**table.properties.values, **known}))


@pytest.fixture
def trips(third_party: Callable[[str], str]) -> HudiTable:
    return open_at(third_party("v6_trips_8i1u"))


def test_the_default_payload_orders_log_records_alone(trips: HudiTable) -> None:
    config = log_merge_config_of(trips)
    assert config.merge_mode.ordering_fields == (pa.field("ts", pa.int64()),)
    assert not config.merge_mode.keeps_newer_base_rows
    assert config.instant_range.includes("20250331030645735")
    assert not config.instant_range.includes("20260101000000000")
    assert config.instant_range.includes("20240101000000000")


def test_the_event_time_payload_keeps_newer_base_rows(trips: HudiTable) -> None:
    payload = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
    table = _with_properties(trips, hoodie_compaction_payload_class=payload, hoodie_payload_delete_field="op")
    config = log_merge_config_of(table)
    assert config.merge_mode.keeps_newer_base_rows
    assert config.merge_mode.delete_field == "op"
    assert not config.merge_mode.orders_deletes
    strategy = {"hoodie.record.merge.strategy.id": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"}
    by_1x = replace(table.properties, values={**table.properties.values, **strategy})
    assert log_merge_config_of(replace(table, properties=by_1x)).merge_mode.orders_deletes


def test_payloads_that_fill_nulls_follow_the_version_of_hudi(trips: HudiTable) -> None:
    payload = "org.apache.hudi.common.model.OverwriteNonDefaultsWithLatestAvroPayload"
    table = _with_properties(trips, hoodie_compaction_payload_class=payload)
    mode = log_merge_config_of(table).merge_mode
    assert (mode.partial_update_mode, mode.fills_log_records) == ("IGNORE_DEFAULTS", False)
    assert mode.ordering_fields
    strategy = {"hoodie.record.merge.strategy.id": "00000000-0000-0000-0000-000000000000"}
    by_1x = replace(table.properties, values={**table.properties.values, **strategy})
    mode = log_merge_config_of(replace(table, properties=by_1x)).merge_mode
    assert (mode.ordering_fields, mode.fills_log_records, mode.fills_incoming) == ((), True, False)


def test_other_rules_are_refused_by_name(trips: HudiTable) -> None:
    payload = "org.example.OwnPayload"
    with pytest.raises(UnsupportedTableError, match=payload):
        log_merge_config_of(_with_properties(trips, hoodie_compaction_payload_class=payload))
    with pytest.raises(UnsupportedTableError, match="0c1d2e3f"):
        log_merge_config_of(_with_properties(trips, hoodie_compaction_record_merger_strategy="0c1d2e3f"))
    unkeyed = {"hoodie_populate_meta_fields": "false", "hoodie_table_keygenerator_class": "a.OwnKeyGenerator"}
    with pytest.raises(
        UnsupportedTableError, match=r"no meta columns .* its key generator is OwnKeyGenerator"
    ):
        log_merge_config_of(_with_properties(trips, **unkeyed))


def test_commit_time_ordering_takes_no_ordering_column(trips: HudiTable) -> None:
    strategy = "ce9acb64-bde0-424c-9b91-f6ebba25356d"
    assert (
        log_merge_config_of(
            _with_properties(trips, hoodie_compaction_record_merger_strategy=strategy)
        ).merge_mode.ordering_fields
        == ()
    )


# --- table versions 8 and 9 ---------------------------------------------------------------------------------

EVENT_TIME = RecordMergeMode(
    ordering_fields=(DATA.field("seq"),),
    keeps_newer_base_rows=True,
    orders_deletes=True,
    has_partial_blocks=True,
)


def _partial(block: LogBlock) -> LogBlock:
    return replace(block, header={**block.header, HeaderKey.IS_PARTIAL: "true"})


@pytest.mark.parametrize("parquet", [False, True], ids=["avro", "parquet"])
def test_a_partial_block_keeps_the_columns_that_it_lacks(tmp_path: Path, parquet: bool) -> None:
    def rows(*some: Row, only: str = "") -> LogBlock:
        batch = _rows(some, _instant(1))
        kept = batch if not only else batch.select([*META_SCHEMA.names, *only.split()])
        block = _data_block(kept, _instant(1), parquet=parquet)
        return _partial(block) if only else block

    base = [("a", 5, "base"), ("b", 5, "base"), ("c", 5, "base"), ("d", 5, "base")]
    logs = [
        [rows(("a", 7, ""), ("b", 3, ""), ("c", 9, ""), only="seq")],
        [rows(("c", 8, "late"), ("d", 1, "late"), ("e", 1, "new"))],
        [_delete_block(["d"], _instant(1)), rows(("d", 6, ""), only="seq")],
    ]
    config = LogMergeConfig(INSTANTS, EVENT_TIME)
    file_slice = _slice(tmp_path, base, logs)
    assert _as_rows(_read(file_slice, config)) == [
        ("a", 7, "base"),
        ("b", 5, "base"),
        # The late row lends the earlier one the column that it lacks, before the base does.
        ("c", 9, "late"),
        ("d", 6, "base"),
        ("e", 1, "new"),
    ]
    assert _in_two_parts(file_slice, base, config) == _as_rows(_read(file_slice, config))
    found = _read(file_slice, config, pa.schema([DATA.field("v")]), predicate=Comparison(("v",), "=", "late"))
    assert found.column("v").to_pylist() == ["late"]


@pytest.mark.parametrize("by_event_time", [False, True])
def test_defaults_are_filled_from_the_row_that_is_beaten(tmp_path: Path, by_event_time: bool) -> None:
    mode = replace(EVENT_TIME, partial_update_mode="IGNORE_DEFAULTS")
    if not by_event_time:
        mode = RecordMergeMode(partial_update_mode="IGNORE_DEFAULTS")
    base = [("a", 5, "base"), ("b", 5, None), ("c", 5, "base")]
    blocks = [
        _data_block(_rows([("a", 7, None), ("b", 3, "late"), ("c", 6, "x")], _instant(1)), _instant(1)),
        _data_block(_rows([("c", 7, None)], _instant(2)), _instant(2)),
    ]
    file_slice, config = _slice(tmp_path, base, [blocks]), LogMergeConfig(INSTANTS, mode)
    found = _as_rows(_read(file_slice, config))
    assert _in_two_parts(file_slice, base, config) == found
    # By event time the base row of b is the newer one, and takes what it lacks from the late row.
    assert found == [("a", 7, "base"), ("b", 5 if by_event_time else 3, "late"), ("c", 7, "x")]


def test_defaults_are_filled_from_the_base_row_alone(tmp_path: Path) -> None:
    mode = replace(EVENT_TIME, keeps_newer_base_rows=False, orders_deletes=False)
    mode = replace(mode, partial_update_mode="IGNORE_DEFAULTS", fills_log_records=False)
    base = [("a", 5, "base"), ("b", 9, "base"), ("c", 5, "base")]
    blocks = [
        _data_block(_rows([("a", 7, "log"), ("b", 3, None), ("c", 8, "log")], _instant(1)), _instant(1)),
        _data_block(_rows([("a", 8, None), ("c", 7, None)], _instant(2)), _instant(2)),
    ]
    file_slice, config = _slice(tmp_path, base, [blocks]), LogMergeConfig(INSTANTS, mode)
    found = _as_rows(_read(file_slice, config))
    assert _in_two_parts(file_slice, base, config) == found
    assert found == [("a", 8, "base"), ("b", 3, "base"), ("c", 8, "log")]


def test_the_earlier_of_equal_rows_wins(tmp_path: Path) -> None:
    mode = replace(EVENT_TIME, keeps_equal_rows=True, orders_deletes=False)
    base = [("a", 5, "base"), ("b", 5, "base"), ("c", 5, "base")]
    blocks = [
        _data_block(_rows([("a", 5, "x"), ("b", 6, "x"), ("d", 1, "x")], _instant(1)), _instant(1)),
        _data_block(_rows([("b", 6, "y"), ("c", 4, "y"), ("d", 2, "y")], _instant(2)), _instant(2)),
    ]
    file_slice, config = _slice(tmp_path, base, [blocks]), LogMergeConfig(INSTANTS, mode)
    found = _as_rows(_read(file_slice, config))
    assert _in_two_parts(file_slice, base, config) == found
    assert found == [("a", 5, "base"), ("b", 6, "x"), ("c", 5, "base"), ("d", 2, "y")]


def test_unavailable_values_are_filled_from_the_row_that_is_beaten(tmp_path: Path) -> None:
    mode = replace(EVENT_TIME, partial_update_mode="FILL_UNAVAILABLE", unavailable_value="?")
    block = _data_block(_rows([("a", 7, "?"), ("b", 7, None)], _instant(1)), _instant(1))
    file_slice = _slice(tmp_path, [("a", 5, "base"), ("b", 5, "base")], [[block]])
    assert _as_rows(_read(file_slice, LogMergeConfig(INSTANTS, mode))) == [("a", 7, "base"), ("b", 7, None)]


def _listed_delete_block(deletes: Sequence[tuple[str, int, str]], instant_time: str) -> LogBlock:
    """Deletes with values of two ordering fields, a long and a string."""
    package = "org.apache.hudi.avro.model."
    records = [
        {
            "recordKey": key,
            "partitionPath": "",
            "orderingVal": (
                f"{package}ArrayWrapper",
                {
                    "wrappedValues": [
                        (f"{package}LongWrapper", {"value": first}),
                        (f"{package}StringWrapper", {"value": second}),
                    ]
                },
            ),
        }
        for key, first, second in deletes
    ]
    stream = io.BytesIO()
    schema = fastavro.parse_schema(json.loads(load_codec("HoodieDeleteRecordListWithArrays").schema_text))
    fastavro.schemaless_writer(stream, schema, {"deleteRecordList": records})
    content = struct.pack(">ii", 3, len(stream.getvalue())) + stream.getvalue()
    return LogBlock(BlockType.DELETE, {HeaderKey.INSTANT_TIME: instant_time}, content)


def test_several_ordering_fields_decide_one_after_the_other(tmp_path: Path) -> None:
    mode = replace(EVENT_TIME, ordering_fields=(DATA.field("seq"), DATA.field("v")))
    base = [("a", 5, "m"), ("b", 5, "m"), ("c", 5, "m"), ("d", 5, "m"), ("e", 5, "m")]
    rows = [("a", 5, "n"), ("b", 5, "l"), ("c", 6, "a"), ("c", 6, "b"), ("c", 5, "z")]
    blocks = [
        _data_block(_rows(rows, _instant(1)), _instant(1)),
        _listed_delete_block([("d", 5, "n"), ("e", 5, "l")], _instant(2)),
        _delete_block(["a"], _instant(3)),
    ]
    found = _as_rows(_read(_slice(tmp_path, base, [blocks]), LogMergeConfig(INSTANTS, mode)))
    assert found == [("b", 5, "m"), ("c", 6, "b"), ("e", 5, "m")]


@pytest.mark.parametrize(
    "fields", [(), (DATA.field("seq"),)], ids=["commit time", "one of the fields is no column"]
)
def test_deletes_with_values_of_several_fields_are_read_where_fewer_decide(
    tmp_path: Path, fields: tuple[pa.Field, ...]
) -> None:
    mode = RecordMergeMode(fields, bool(fields), bool(fields), has_partial_blocks=True)
    blocks = [_listed_delete_block([("a", 9, "n")], _instant(1))]
    file_slice = _slice(tmp_path, [("a", 5, "base"), ("b", 5, "base")], [blocks])
    assert _as_rows(_read(file_slice, LogMergeConfig(INSTANTS, mode))) == [("b", 5, "base")]


def test_only_the_rows_of_chosen_commits_are_merged(tmp_path: Path) -> None:
    only = replace(INSTANTS, only=frozenset({_instant(1)}))
    blocks = [
        _data_block(_rows([("a", 3, "late")], _instant(1)), _instant(1)),
        _data_block(_rows([("a", 9, "other")], _instant(2)), _instant(2)),
    ]
    file_slice = _slice(tmp_path, [("a", 5, "base"), ("b", 5, "base")], [blocks])
    assert _as_rows(_read(file_slice, LogMergeConfig(only, EVENT_TIME))) == [("a", 3, "late")]
