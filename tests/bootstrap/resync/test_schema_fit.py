"""New source files against the columns of a table that is there: what is widened, NULL, or a blocker."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hudisql.bootstrap.plan.schema_drift import SchemaDrift
from hudisql.bootstrap.resync.schema_fit import check_columns_fit
from hudisql.bootstrap.source.footers import SourceColumn, SourceSchema

NARROW = pa.struct([("a", pa.int64())])
WIDE = pa.struct([("a", pa.int64()), ("b", pa.string())])


def found(stored: dict[str, pa.DataType], wanted: dict[str, pa.DataType], drift: str) -> list[str]:
    columns = tuple(SourceColumn(name, type_, "", frozenset()) for name, type_ in stored.items())
    fields = [pa.field(name, type_) for name, type_ in wanted.items()]
    findings = check_columns_fit({SourceSchema(columns, "f"): ["/s/f"]}, fields, SchemaDrift(drift), "lake.t")
    return [("blocker: " if each.is_blocker else "warning: ") + each.message for each in findings]


@pytest.mark.parametrize(
    ("stored", "wanted", "expected"),
    [
        (pa.int64(), pa.int64(), []),
        (pa.timestamp("ns"), pa.timestamp("us", "UTC"), []),
        (pa.int32(), pa.int64(), ["warning"]),
        (pa.decimal128(5, 2), pa.decimal128(9, 2), ["warning"]),
        (NARROW, WIDE, ["warning"]),
        (WIDE, NARROW, ["blocker"]),
        (pa.int64(), pa.int32(), ["blocker"]),
        (pa.decimal128(9, 3), pa.decimal128(9, 2), ["blocker"]),
        (pa.string(), pa.int64(), ["blocker"]),
    ],
)
def test_a_type_is_the_tables_or_narrower(
    stored: pa.DataType, wanted: pa.DataType, expected: list[str]
) -> None:
    told = found({"C": stored}, {"c": wanted}, "fail")
    assert [each.split(":")[0] for each in told] == expected


def test_missing_columns_are_null_only_if_that_was_asked_for_and_none_is_lost() -> None:
    stored, wanted = {"id": pa.string(), "more": pa.int32()}, {"id": pa.string(), "fare": pa.float64()}
    lost = "blocker: column more int of 1 file: /s/f is not in the table"
    missing = "column fare of the table is missing in 1 file: /s/f"
    assert found(stored, wanted, "fail") == [f"blocker: {missing}", lost]
    assert found(stored, wanted, "widen") == [f"warning: {missing}: it is NULL there", lost]
