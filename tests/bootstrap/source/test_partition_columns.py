import pyarrow as pa
import pytest

from hudisql.bootstrap.source.partition_columns import (
    check_partition_values,
    filter_partitions,
    parse_partition_by,
    partition_fields,
)
from hudisql.bootstrap.source.source_files import PartitionColumn, SourcePartition
from hudisql.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("dt", [("dt", pa.string())]),
        ("dt date", [("dt", pa.date32())]),
        ("year int, Month BIGINT", [("year", pa.int32()), ("Month", pa.int64())]),
        ("p decimal(10, 2),`odd name` string", [("p", pa.decimal128(10, 2)), ("odd name", pa.string())]),
        ("c varchar(3)", [("c", pa.string())]),
        ("ts timestamp", [("ts", pa.timestamp("us", tz="UTC"))]),
    ],
)
def test_partition_by_is_a_list_of_names_with_optional_types(text, columns):
    assert [(column.name, column.type) for column in parse_partition_by(text)] == columns


@pytest.mark.parametrize("text", ["", "dt,", "dt array<int>", "dt dat", "dt, DT"])
def test_a_partition_by_that_names_no_type_or_column_is_refused(text):
    with pytest.raises(InvalidArgumentError, match="partition"):
        parse_partition_by(text)


def _partitions(*values):
    return [SourcePartition(str(value), str(value), "/", (value,), ()) for value in values]


def test_directory_texts_must_fit_the_declared_type():
    finding, _ = check_partition_values(
        [PartitionColumn("dt", pa.date32())], _partitions("2024-03-01", "soon")
    )
    assert finding.is_blocker
    assert "dt is declared date, which does not fit 1 value: soon" in finding.message


def test_texts_that_other_writers_render_otherwise_are_warned_of():
    finding, _ = check_partition_values([PartitionColumn("month", pa.int32())], _partitions("3", "03", "12"))
    assert not finding.is_blocker
    assert "1 value: 03" in finding.message
    assert not check_partition_values([PartitionColumn("month", pa.string())], _partitions("3", "03"))


@pytest.mark.spark
def test_spark_evaluates_the_filter_over_typed_values(spark):
    columns = [PartitionColumn("year", pa.int32()), PartitionColumn("dt", pa.date32())]
    values = [("2023", "2023-12-31"), ("2024", "2024-01-01"), ("2024", None)]
    assert filter_partitions(spark, "year = 2024", columns, values) == [False, True, True]
    assert filter_partitions(spark, "dt >= date'2023-06-01' AND month(dt) = 12", columns, values) == [
        True,
        False,
        False,
    ]
    assert filter_partitions(spark, "dt IS NULL", columns, values) == [False, False, True]


@pytest.mark.spark
@pytest.mark.parametrize("predicate", ["region = 'eu'", "year >", "year + 1"])
def test_a_filter_that_spark_cannot_evaluate_is_refused_with_the_columns(spark, predicate):
    with pytest.raises(InvalidArgumentError, match="year int"):
        filter_partitions(spark, predicate, [PartitionColumn("year", pa.int32())], [("2024",)])


@pytest.mark.spark
def test_a_filter_on_a_table_without_partitions_is_refused(spark):
    with pytest.raises(InvalidArgumentError, match="no partition columns"):
        filter_partitions(spark, "true", [], [()])


def test_an_empty_partition_value_is_a_blocker():
    partitions = [SourcePartition("dt=", "dt=", "/s/dt=", ("",), ())]
    (finding,) = check_partition_values([PartitionColumn("dt", pa.string())], partitions)
    assert finding.is_blocker
    assert "dt has an empty value in 1 directory: /s/dt=" in finding.message


def test_null_partitions_of_a_string_column_are_warned_of():
    (finding,) = check_partition_values([PartitionColumn("dt", pa.string())], _partitions(None, "x"))
    assert "NULLs of untouched rows into the text null" in finding.message


@pytest.mark.parametrize(
    ("column_type", "value", "words"),
    [
        (pa.date32(), "2024-03-01", "fail with a ClassCastException"),
        (pa.timestamp("us", tz="UTC"), "2024-03-01 10:00:00", "becomes string"),
    ],
)
def test_typed_partition_columns_say_which_hudi_breaks_on_them(column_type, value, words):
    (finding,) = check_partition_values([PartitionColumn("dt", column_type)], _partitions(value))
    assert not finding.is_blocker
    assert words in finding.message


def test_the_table_carries_declared_types_but_timestamps_as_strings():
    declared = [PartitionColumn("dt", pa.date32()), PartitionColumn("ts", pa.timestamp("us", tz="UTC"))]
    assert partition_fields(declared) == [pa.field("dt", pa.date32()), pa.field("ts", pa.string())]
