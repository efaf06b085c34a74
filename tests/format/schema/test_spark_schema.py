from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from hudisql.errors import UnsupportedTableError
from hudisql.format.schema.avro_schema import arrow_from_avro, comment_of, commented_field
from hudisql.format.schema.spark_schema import arrow_from_spark_json, spark_json_from_arrow, spark_type_name
from hudisql.format.timeline.commit_metadata import parse_commit_metadata


def test_the_golden_schema_is_spelled_as_spark_spelled_it(golden) -> None:
    table = golden("cow_bootstrap_meta")
    commit = Path(table.table) / ".hoodie" / "00000000000001.commit"
    text = parse_commit_metadata(commit.read_bytes()).schema
    assert text is not None
    ours = json.loads(spark_json_from_arrow(arrow_from_avro(text)))
    assert ours == table.schema


def test_schemas_survive_sparks_json_with_comments() -> None:
    schema = pa.schema(
        [
            commented_field("a", pa.decimal128(12, 2), "price"),
            ("b", pa.list_(pa.field("element", pa.struct([("x", pa.timestamp("us"))])))),
            ("c", pa.map_(pa.string(), pa.binary())),
        ]
    )
    found = arrow_from_spark_json(spark_json_from_arrow(schema))
    assert found == schema
    assert comment_of(found.field("a")) == "price"


@pytest.mark.parametrize(
    ("arrow_type", "name"),
    [
        (pa.int32(), "int"),
        (pa.int64(), "bigint"),
        (pa.float32(), "float"),
        (pa.decimal128(12, 2), "decimal(12,2)"),
        (pa.timestamp("us", tz="UTC"), "timestamp"),
        (pa.timestamp("us"), "timestamp_ntz"),
        (
            pa.list_(pa.struct([("a", pa.int64()), ("b c", pa.map_(pa.string(), pa.date32()))])),
            "array<struct<a:bigint,`b c`:map<string,date>>>",
        ),
    ],
)
def test_types_are_named_as_in_spark_sql(arrow_type: pa.DataType, name: str) -> None:
    assert spark_type_name(arrow_type) == name


def test_spark_types_narrower_than_avros_are_widened() -> None:
    text = json.dumps(
        {
            "type": "struct",
            "fields": [
                {"name": "a", "type": "byte", "nullable": False, "metadata": {}},
                {"name": "b", "type": "varchar(10)", "nullable": True, "metadata": {}},
            ],
        }
    )
    assert arrow_from_spark_json(text) == pa.schema([("a", pa.int32()), ("b", pa.string())])


def test_spark_types_that_a_table_cannot_hold_are_refused_by_name() -> None:
    text = '{"type":"struct","fields":[{"name":"odd","type":"interval","nullable":true,"metadata":{}}]}'
    with pytest.raises(UnsupportedTableError, match="odd"):
        arrow_from_spark_json(text)
