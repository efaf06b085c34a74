"""Merging changes into a file slice, against a plain model of what must come out."""

from __future__ import annotations

import tempfile
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudisql.errors import WriteConflictError, WriteRefusedError
from hudisql.format.log_file.change_log import change_log_schema
from hudisql.format.log_file.change_log_mode import ChangeLogMode
from hudisql.format.log_file.log_block import BlockType, LogBlock, parse_log_blocks
from hudisql.format.log_file.log_block_content import decode_data_block
from hudisql.format.schema.meta_columns import META_COLUMNS
from hudisql.storage import Storage
from hudisql.table.file_slice import BaseFile, FileSlice
from hudisql.write.changes import OPERATION, RECORD_KEY, SEQUENCE_NUMBER, RowOperation, change_schema
from hudisql.write.handle.base_file import BaseFileConfig, BaseFileWriter, FileNaming, base_file_avro_schema
from hudisql.write.handle.change_log_writer import ChangeLogConfig
from hudisql.write.handle.merge_handle import MergedSlice, MergeTask, merge_slice

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("seq", pa.int64()),
        pa.field("price", pa.decimal128(12, 2)),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("st", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.field("element", pa.string())))])),
        pa.field("tags", pa.map_(pa.string(), pa.float64())),
    ]
)
STORAGE = Storage()


def _row(key: str, seq: int | None) -> dict[str, Any]:
    number = seq or 0
    return {
        "id": key,
        "seq": seq,
        "price": Decimal(number * 7).scaleb(-2),
        "day": date.fromordinal(700_000 + number),
        "at": number * 1_000_003,
        "st": None if number % 4 == 0 else {"a": number, "b": [f"x{number}", None] if number % 3 else None},
        "tags": [(f"t{number}", number / 3)] if number % 5 else [],
    }


def _table(rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=schema)


def _place(directory: Path, instant_time: str) -> FileNaming:
    return FileNaming(str(directory), "dt=1", instant_time, "f", "0-0-0", 3)


def _stored(directory: Path, rows: list[dict[str, Any]], form: BaseFileConfig | None = None) -> FileSlice:
    writer = BaseFileWriter(
        STORAGE,
        _place(directory, "20240101000000000"),
        SCHEMA,
        base_file_avro_schema(SCHEMA, "t"),
        form or BaseFileConfig(),
        expected_rows=len(rows),
        bytes_per_row=10.0,
    )
    table = _table(rows)
    for batch in table.to_batches(max_chunksize=5):
        writer.write(batch.column("id"), batch)
    [file] = writer.finish()
    base = BaseFile(file.path, file.bytes, file.file_id, "0-0-0", "20240101000000000")
    return FileSlice("dt=1", file.file_id, "20240101000000000", base)


def _merge(
    directory: Path,
    rows: list[dict[str, Any]],
    changes: list[dict[str, Any]],
    *,
    form: BaseFileConfig | None = None,
    stored_form: BaseFileConfig | None = None,
    **task: Any,
) -> MergedSlice:
    given_changes = pa.Table.from_pylist(changes, schema=change_schema(SCHEMA))
    return merge_slice(
        STORAGE,
        MergeTask(
            file_slice=_stored(directory, rows, stored_form),
            partition_values={},
            file_naming=_place(directory, "20240202000000000"),
            schema=SCHEMA,
            avro_schema=base_file_avro_schema(SCHEMA, "t"),
            base_file_config=form or BaseFileConfig(),
            record_key_fields=("id",),
            complex_keys=False,
            **task,
        ),
        given_changes,
    )


def _change(operation: RowOperation, row: dict[str, Any]) -> dict[str, Any]:
    known = {} if operation.is_new_row else {RECORD_KEY: row["id"]}
    return {OPERATION: int(operation), **known, **row}


@given(
    stored=st.lists(st.integers(0, 40), unique=True, min_size=1, max_size=25),
    touched=st.dictionaries(st.integers(0, 40), st.sampled_from(["update", "delete", "upsert"]), max_size=20),
    added=st.lists(st.integers(50, 90), unique=True, max_size=10),
)
def test_a_merge_gives_what_a_plain_model_gives(
    stored: list[int], touched: dict[int, str], added: list[int]
) -> None:
    rows = [_row(f"k{number}", number) for number in stored]
    changes, expected = [], {row["id"]: row for row in rows}
    for number in stored:
        kind = touched.get(number)
        if kind is None:
            continue
        changed = _row(f"k{number}", number + 100)
        changes.append(_change(RowOperation[kind.upper()], changed))
        if kind == "delete":
            del expected[f"k{number}"]
        else:
            expected[f"k{number}"] = changed
    for number in added:
        new = _row(f"n{number}", number)
        changes.append(_change(RowOperation.INSERT, new))
        expected[new["id"]] = new
    with tempfile.TemporaryDirectory() as directory:
        merged = _merge(Path(directory), rows, changes)
        found = pq.read_table(merged.path)
    data = found.select(SCHEMA.names).cast(SCHEMA)
    assert data.to_pylist() == _table(list(expected.values())).to_pylist()
    assert found.column_names[:5] == list(META_COLUMNS)
    commits = dict(zip(found["id"].to_pylist(), found["_hoodie_commit_time"].to_pylist(), strict=True))
    fresh = {key for key, time in commits.items() if time == "20240202000000000"}
    assert fresh == {change["id"] for change in changes if change["id"] in expected}
    numbers = found["_hoodie_commit_seqno"].to_pylist()
    assert len(set(numbers)) == len(numbers)
    assert set(found["_hoodie_file_name"].to_pylist()) <= {Path(merged.path).name}
    assert (merged.inserted, merged.updated + merged.deleted) == (len(added), len(changes) - len(added))


ROWS = [_row(f"k{number}", number) for number in range(10)]


def test_an_upsert_that_is_older_than_the_stored_row_comes_late(tmp_path: Path) -> None:
    older, newer = _row("k5", 4), _row("k6", 60)
    changes = [_change(RowOperation.UPSERT, older), _change(RowOperation.UPSERT, newer)]
    merged = _merge(tmp_path, ROWS, changes, event_time_fields=("seq",))
    assert (merged.late_arriving, merged.updated) == (1, 1)
    assert pq.read_table(merged.path, columns=["seq"])["seq"].to_pylist()[5:7] == [5, 60]
    forced = _merge(tmp_path, ROWS, [_change(RowOperation.UPDATE, older)], event_time_fields=("seq",))
    assert (forced.late_arriving, forced.updated) == (0, 1)


def test_of_several_changes_of_one_row_the_newest_counts(tmp_path: Path) -> None:
    changes = [_change(RowOperation.UPDATE, _row("k5", seq)) for seq in (50, 70, 60)]
    merged = _merge(tmp_path, ROWS, changes, ordering_fields=("seq",))
    assert pq.read_table(merged.path, columns=["seq"])["seq"].to_pylist()[5] == 70
    for ordering_fields in ((), ("day",)):
        tied = [_change(RowOperation.UPDATE, {**_row("k5", 5), "price": Decimal(price)}) for price in (1, 2)]
        with pytest.raises(WriteRefusedError, match="'k5'"):
            _merge(tmp_path, ROWS, tied, ordering_fields=ordering_fields)
    assert _merge(tmp_path, ROWS, [_change(RowOperation.DELETE, ROWS[3])] * 2).deleted == 1


def test_several_ordering_fields_decide_one_after_the_other(tmp_path: Path) -> None:
    both = ("seq", "price")
    stored = ROWS[5]
    for price, late in ((stored["price"] - 1, 1), (stored["price"], 0), (stored["price"] + 1, 0)):
        change = _change(RowOperation.UPSERT, {**stored, "price": price})
        merged = _merge(tmp_path, ROWS, [change], event_time_fields=both)
        assert merged.late_arriving == late
    changes = [
        _change(RowOperation.UPDATE, {**_row("k5", 50), "price": Decimal(price)}) for price in (2, 3, 1)
    ]
    merged = _merge(tmp_path, ROWS, changes, ordering_fields=both)
    assert pq.read_table(merged.path, columns=["price"])["price"].to_pylist()[5] == 3
    with pytest.raises(WriteRefusedError, match=r"with the same seq, price .*'k5'"):
        _merge(tmp_path, ROWS, [*changes, changes[1]], ordering_fields=both)


def test_a_change_with_a_sequence_number_means_one_row_of_its_key(tmp_path: Path) -> None:
    stored = [_row("k1", 1), _row("k1", 2), _row("k1", 3), _row("k2", 4)]

    def of_row(number: int, operation: RowOperation, seq: int) -> dict[str, Any]:
        change = _change(operation, {**_row("k1", seq)})
        return {**change, SEQUENCE_NUMBER: f"20240101000000000_3_{number}"}

    changes = [of_row(1, RowOperation.UPDATE, 50), of_row(2, RowOperation.DELETE, 3)]
    merged = _merge(tmp_path, stored, changes)
    assert pq.read_table(merged.path, columns=["seq"])["seq"].to_pylist() == [1, 50, 4]
    assert (merged.updated, merged.deleted, merged.combined) == (1, 1, 0)
    twice = _merge(tmp_path, stored, [of_row(2, RowOperation.DELETE, 3)] * 2)
    assert (twice.rows, twice.deleted, twice.combined) == (3, 1, 1)
    with pytest.raises(WriteConflictError, match="'k1'"):
        _merge(tmp_path, stored, [of_row(3, RowOperation.UPDATE, 50)])
    by_key = _merge(tmp_path, stored, [_change(RowOperation.UPSERT, _row("k1", 60))])
    assert pq.read_table(by_key.path, columns=["seq"])["seq"].to_pylist() == [60, 60, 60, 4]


def test_a_merge_that_fails_leaves_no_file(tmp_path: Path) -> None:
    before = {path.name for path in tmp_path.iterdir()}
    with pytest.raises(WriteConflictError, match="'ghost'"):
        _merge(tmp_path, ROWS, [_change(RowOperation.UPDATE, _row("ghost", 1))])
    with pytest.raises(WriteRefusedError, match="no record key"):
        _merge(tmp_path, ROWS, [_change(RowOperation.INSERT, {**_row("x", 1), "id": None})])
    made = {path.name for path in tmp_path.iterdir()} - before
    assert [name for name in made if "20240202" in name] == []


def test_a_slice_may_lose_all_its_rows(tmp_path: Path) -> None:
    merged = _merge(tmp_path, ROWS, [_change(RowOperation.DELETE, row) for row in ROWS])
    assert (merged.rows, merged.deleted) == (0, 10)
    assert pq.read_metadata(merged.path).num_rows == 0


@pytest.mark.parametrize(
    ("stored", "form", "written"),
    [
        ("snappy", BaseFileConfig(keeps_snappy=True), "SNAPPY"),
        ("snappy", BaseFileConfig(), "GZIP"),
        ("gzip", BaseFileConfig(keeps_snappy=True), "GZIP"),
        ("zstd", BaseFileConfig(keeps_snappy=True), "GZIP"),
        ("none", BaseFileConfig(keeps_snappy=True), "GZIP"),
    ],
)
def test_only_snappy_is_kept_from_the_stored_file(
    tmp_path: Path, stored: str, form: BaseFileConfig, written: str
) -> None:
    changes = [_change(RowOperation.UPDATE, _row("k1", 5))]
    merged = _merge(tmp_path, [_row("k1", 1)], changes, form=form, stored_form=BaseFileConfig(codec=stored))
    group = pq.read_metadata(merged.path).row_group(0)
    assert {group.column(number).compression for number in range(group.num_columns)} == {written}


@pytest.mark.parametrize("max_block_bytes", [1, 1 << 20])
def test_changes_are_logged_with_the_rows_before_and_after(tmp_path: Path, max_block_bytes: int) -> None:
    mode = ChangeLogMode.DATA_BEFORE_AFTER
    config = ChangeLogConfig(mode, SCHEMA, change_log_schema(mode, SCHEMA, "t"), max_block_bytes)
    before = {f"k{number}": _row(f"k{number}", number) for number in range(12)}
    after = {f"k{number}": _row(f"k{number}", number + 50) for number in (*range(5), 20)}
    changes = [_change(RowOperation.UPDATE, after[f"k{number}"]) for number in range(4)]
    changes += [
        # Older than the stored row, which stays: nothing has changed.
        _change(RowOperation.UPSERT, _row("k11", 1)),
        _change(RowOperation.DELETE, _row("k5", 0)),
        _change(RowOperation.MOVE_OUT, _row("k6", 0)),
        _change(RowOperation.INSERT, after["k20"]),
    ]
    merged = _merge(tmp_path, list(before.values()), changes, change_log=config, event_time_fields=("seq",))
    [(path, size)] = merged.change_logs.items()
    content = Path(path).read_bytes()
    assert (len(content), path.endswith(".log.1_0-0-0.cdc")) == (size, True)
    blocks = [decode_data_block(block.content, config.avro_schema) for block in _blocks(content, path)]
    assert (len(blocks) == 1) == (max_block_bytes > 1)
    rows = {
        (row["op"], str(row["before"]), str(row["after"])) for block in blocks for row in block.to_pylist()
    }
    stored, changed = _table(list(before.values())).to_pylist(), _table(list(after.values())).to_pylist()
    assert rows == {
        *(("u", str(stored[number]), str(changed[number])) for number in range(4)),
        ("d", str(stored[5]), "None"),
        ("d", str(stored[6]), "None"),
        ("i", "None", str(changed[-1])),
    }


def test_a_merge_without_an_effect_writes_an_empty_change_log(tmp_path: Path) -> None:
    mode = ChangeLogMode.OP_KEY_ONLY
    config = ChangeLogConfig(mode, SCHEMA, change_log_schema(mode, SCHEMA, "t"), 1000)
    changes = [_change(RowOperation.UPSERT, _row("k1", 1))]
    merged = _merge(tmp_path, [_row("k1", 5)], changes, change_log=config, event_time_fields=("seq",))
    [path] = merged.change_logs
    [block] = _blocks(Path(path).read_bytes(), path)
    assert decode_data_block(block.content, config.avro_schema).num_rows == 0


def test_a_failed_merge_leaves_no_change_log(tmp_path: Path) -> None:
    mode = ChangeLogMode.DATA_BEFORE
    config = ChangeLogConfig(mode, SCHEMA, change_log_schema(mode, SCHEMA, "t"), 1)
    changes = [_change(RowOperation.UPDATE, _row(key, 1)) for key in ("k1", "missing")]
    with pytest.raises(WriteConflictError):
        _merge(tmp_path, [_row("k1", 5)], changes, change_log=config)
    assert [path.suffix for path in tmp_path.iterdir() if path.suffix != ".crc"] == [".parquet"]


def _blocks(content: bytes, path: str) -> list[LogBlock]:
    blocks = [block for block in parse_log_blocks(content, path) if isinstance(block, LogBlock)]
    assert {block.block_type for block in blocks} == {BlockType.CDC_DATA}
    return blocks
