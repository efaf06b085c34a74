import pyarrow as pa
import pytest

from hudisql.bootstrap.plan.table_schema import build_table_schema
from hudisql.bootstrap.source.footers import FileFooter, SourceColumn, SourceSchema
from hudisql.bootstrap.source.source_files import DeclaredColumn, PartitionColumn
from hudisql.format.schema.avro_schema import comment_of
from hudisql.spark import versions


def _footer(path: str, **columns: pa.DataType | None) -> FileFooter:
    schema = tuple(
        SourceColumn(name, data_type, "PHYSICAL", frozenset()) for name, data_type in columns.items()
    )
    return FileFooter(path, SourceSchema(schema, repr(columns)), rows=1, row_groups=1)


def _messages(table, blockers: bool):
    return [finding.message for finding in table.findings if finding.is_blocker is blockers]


def test_equal_files_give_their_columns_and_then_the_partition_columns():
    table = build_table_schema(
        [_footer("a", id=pa.int64(), v=pa.string()), _footer("b", v=pa.string(), id=pa.int64())],
        None,
        [PartitionColumn("dt", pa.date32())],
    )
    assert table.schema == pa.schema([("id", pa.int64()), ("v", pa.string()), ("dt", pa.date32())])
    assert table.findings == ()


def test_a_column_of_another_type_is_a_blocker_with_both_kinds_of_files():
    files = [_footer(f"f{number}", id=pa.int64()) for number in range(5)] + [_footer("odd", id=pa.int32())]
    (message,) = _messages(build_table_schema(files, None, ()), blockers=True)
    assert (
        message
        == "the files differ in column id: id int in 1 file: odd; id bigint in 5 files, such as f0, f1, f2"
    )


def test_a_missing_or_additional_column_is_a_blocker_that_names_the_fewer_files():
    files = [_footer("a", id=pa.int64(), v=pa.string()), _footer("b", id=pa.int64(), v=pa.string())]
    (message,) = _messages(build_table_schema([*files, _footer("c", id=pa.int64())], None, ()), blockers=True)
    assert message == "column v is missing in 1 file: c"
    files = [_footer("a", id=pa.int64()), _footer("b", id=pa.int64())]
    more = _footer("c", id=pa.int64(), w=pa.string())
    (message,) = _messages(build_table_schema([*files, more], None, ()), blockers=True)
    assert message == "column w is only in 1 file: c"


def test_the_same_column_in_two_cases_is_a_difference():
    (message,) = _messages(
        build_table_schema([_footer("a", Id=pa.int64()), _footer("b", id=pa.int64())], None, ()),
        blockers=True,
    )
    assert "Id bigint in 1 file: a" in message
    assert "id bigint in 1 file: b" in message


def test_the_metastore_gives_order_and_comments_and_the_files_give_names_and_case():
    table = build_table_schema(
        [_footer("a", OrderId=pa.int64(), Note=pa.string(), extra=pa.int32())],
        [DeclaredColumn("note", "varchar(10)", "a note"), DeclaredColumn("orderid", "bigint", None)],
        (),
    )
    assert table.schema.names == ["Note", "OrderId", "extra"]
    assert comment_of(table.schema.field("Note")) == "a note"
    assert _messages(table, blockers=True) == []
    (message,) = _messages(table, blockers=False)
    assert message.startswith("column extra is in the files but not in the metastore")


def test_a_metastore_column_in_no_file_becomes_a_nullable_column_with_a_note():
    table = build_table_schema(
        [_footer("a", id=pa.int64())],
        [DeclaredColumn("id", "bigint", None), DeclaredColumn("later", "decimal(10,2)", None)],
        (),
    )
    assert table.schema.field("later").type == pa.decimal128(10, 2)
    assert table.schema.field("later").nullable
    assert "later decimal(10,2) of the metastore is in no file" in _messages(table, blockers=False)[0]


@pytest.mark.parametrize(
    ("pyspark", "limit"), [((4, 0), ""), ((3, 5), "; Spark 3.5 cannot scan such files, Spark 4 can")]
)
def test_a_metastore_type_is_the_files_type_a_listed_widening_or_a_named_blocker(monkeypatch, pyspark, limit):
    monkeypatch.setattr(versions, "pyspark_version", lambda: pyspark)
    table = build_table_schema(
        [_footer("a", small=pa.int32(), wide=pa.int32(), bad=pa.string())],
        [
            DeclaredColumn("small", "smallint", None),
            DeclaredColumn("wide", "bigint", None),
            DeclaredColumn("bad", "int", None),
        ],
        (),
    )
    assert table.schema.field("small").type == pa.int32()
    assert table.schema.field("wide").type == pa.int64()
    assert _messages(table, blockers=False) == [
        f"column wide: int in the files, safely widened to the metastore's bigint{limit}"
    ]
    assert _messages(table, blockers=True) == ["column bad is string in the files but int in the metastore"]


def test_files_that_could_not_be_read_do_not_count_in_the_comparison():
    broken = FileFooter("broken", problem="is not a parquet file")
    table = build_table_schema([broken, _footer("a", id=pa.int64())], None, ())
    assert table.schema.names == ["id"]
    assert table.findings == ()
