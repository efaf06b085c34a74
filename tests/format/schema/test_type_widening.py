"""Types that are the same, or a safe widening, for every reader."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hudisql.format.schema.avro_schema import TIMESTAMP
from hudisql.format.schema.type_widening import is_safe_widening, is_same_type


@pytest.mark.parametrize(
    ("stored", "declared", "same", "widens"),
    [
        (pa.int32(), pa.int32(), True, False),
        (pa.int32(), pa.int64(), False, True),
        (pa.int64(), pa.int32(), False, False),
        (pa.float32(), pa.float64(), False, True),
        (pa.int32(), pa.float64(), False, False),
        (pa.decimal128(10, 2), pa.decimal128(12, 2), False, True),
        (pa.decimal128(10, 2), pa.decimal128(12, 3), False, False),
        (pa.string(), pa.int32(), False, False),
        (pa.timestamp("us"), TIMESTAMP, True, False),
        (pa.list_(pa.field("element", pa.int32())), pa.list_(pa.int32()), True, False),
        (pa.list_(pa.int32()), pa.list_(pa.int64()), False, False),
        (pa.struct([("A", pa.int32())]), pa.struct([("a", pa.int32())]), True, False),
    ],
)
def test_a_declared_type_is_the_files_or_a_safe_widening_or_neither(stored, declared, same, widens):
    assert is_same_type(declared, stored) is same
    assert is_safe_widening(stored, declared) is widens
