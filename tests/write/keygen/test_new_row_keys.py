"""Record keys of new rows: generated ones count on within a task, and moved rows keep theirs."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hudisql.errors import WriteRefusedError
from hudisql.format.table_properties import RECORD_KEY_FIELDS, TableProperties
from hudisql.format.timeline.active_timeline import Timeline
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable
from hudisql.write.keygen.new_row_keys import NewRowKeys, effective_operation

ROWS = pa.record_batch({"id": ["a", None], "v": [1, 2]})


def test_generated_keys_count_on_within_a_task_and_are_its_own() -> None:
    keys = NewRowKeys((), complex_keys=False, instant_time="20240101000000000", task=3)
    assert keys.of(ROWS, "p=x").to_pylist() == ["20240101000000000_3_0", "20240101000000000_3_1"]
    assert keys.of(ROWS.slice(0, 0), "p=y").to_pylist() == []
    kept = pa.array([None, "20230101000000000_0_7"], pa.string())
    assert keys.of(ROWS, "p=y", kept).to_pylist() == ["20240101000000000_3_2", "20230101000000000_0_7"]
    assert keys.of(ROWS, "p=x").to_pylist() == ["20240101000000000_3_4", "20240101000000000_3_5"]


def test_key_columns_make_the_keys_and_must_have_values() -> None:
    keys = NewRowKeys(("v",), complex_keys=True, instant_time="20240101000000000", task=3)
    kept = pa.array(["other", None], pa.string())
    assert keys.of(ROWS, "p=x", kept).to_pylist() == ["v:1", "v:2"]
    with pytest.raises(WriteRefusedError, match=r"1 new row\(s\) of partition 'p=x' have no record key: id"):
        NewRowKeys(("id",), complex_keys=False, instant_time="20240101000000000", task=3).of(ROWS, "p=x")


def test_rows_without_a_record_key_are_inserted_and_never_deleted_by_key() -> None:
    keyed, keyless = (
        HudiTable("/t", TableProperties(values), Timeline(()), Storage())
        for values in ({RECORD_KEY_FIELDS: "id"}, {})
    )
    for operation in ("upsert", "insert", "bulk_insert", "delete"):
        assert effective_operation(keyed, operation) == operation
    assert [effective_operation(keyless, each) for each in ("upsert", "insert", "bulk_insert")] == [
        "insert",
        "insert",
        "bulk_insert",
    ]
    with pytest.raises(WriteRefusedError, match="record keys of /t are generated"):
        effective_operation(keyless, "delete")
