"""Blocks of change logs are those that Apache Hudi writes."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from hudisql.format.log_file.change_log import change_log_block, change_log_rows, change_log_schema
from hudisql.format.log_file.change_log_mode import ChangeLogMode
from hudisql.format.log_file.log_block import BlockType
from hudisql.format.log_file.log_block_content import decode_data_block

SCHEMA = pa.schema(
    [
        ("id", pa.int32()),
        ("amt", pa.decimal128(10, 2)),
        ("st", pa.struct([("a", pa.list_(pa.field("element", pa.string())))])),
    ]
)
# The header of a block that Hudi 0.15 wrote.
OF_HUDI = (
    '{"type":"record","name":"CDC","namespace":"hoodie.cow_default","fields":[{"name":"op","type":["null",'
    '"string"],"doc":"","default":null},{"name":"ts_ms","type":["null","string"],"doc":"","default":null},'
    '{"name":"before","type":["null",{"type":"record","name":"cow_default_record","fields":[{"name":"id",'
    '"type":["null","int"],"default":null},{"name":"amt","type":["null",{"type":"fixed","name":"fixed",'
    '"namespace":"hoodie.cow_default.cow_default_record.amt","size":5,"logicalType":"decimal","precision":10'
    ',"scale":2}],"default":null}]}],"doc":"","default":null},{"name":"after","type":["null",'
    '"cow_default_record"],"doc":"","default":null}]}'
)


def test_the_schema_is_that_of_hudi() -> None:
    schema = change_log_schema(ChangeLogMode.DATA_BEFORE_AFTER, pa.schema(list(SCHEMA)[:2]), "cow_default")
    assert schema == OF_HUDI
    keys = json.loads(change_log_schema(ChangeLogMode.OP_KEY_ONLY, SCHEMA, "t"))
    assert [field["type"] for field in keys["fields"]] == [["string", "null"]] * 2


@pytest.mark.parametrize("mode", ChangeLogMode)
def test_a_block_holds_what_its_mode_says(mode: ChangeLogMode) -> None:
    image = pa.struct(list(SCHEMA))
    row = {"id": 1, "amt": None, "st": {"a": ["x", None]}}
    before, after = pa.array([row, None], image), pa.array([None, row], image)
    keys = pa.array(["k1", None])
    schema = change_log_schema(mode, SCHEMA, "t")
    block = change_log_block(change_log_rows(mode, "u", "20240101", keys, before, after), schema, "20240101")
    assert block.block_type is BlockType.CDC_DATA
    assert block.instant_time == "20240101"
    known = {
        "op": ["u", "u"],
        "ts_ms": ["20240101"] * 2,
        "record_key": ["k1", None],
        "before": [row, None],
        "after": [None, row],
    }
    names = {
        ChangeLogMode.DATA_BEFORE_AFTER: ["op", "ts_ms", "before", "after"],
        ChangeLogMode.DATA_BEFORE: ["op", "record_key", "before"],
        ChangeLogMode.OP_KEY_ONLY: ["op", "record_key"],
    }[mode]
    assert decode_data_block(block.content, schema).to_pydict() == {name: known[name] for name in names}
