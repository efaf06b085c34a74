from dataclasses import replace

import pyarrow as pa
import pytest

from hudisql.bootstrap.plan import plan_checks as checks
from hudisql.bootstrap.source.footers import FileFooter, SourceColumn, SourceSchema
from hudisql.bootstrap.source.source_files import BootstrapSource, PartitionColumn, SourcePartition
from hudisql.storage import Storage

_DT = [PartitionColumn("dt", pa.string())]


def _footer(path: str, *columns: str, incompatibilities=(), **options) -> FileFooter:
    schema = tuple(SourceColumn(name, pa.int64(), "INT64", frozenset(incompatibilities)) for name in columns)
    return FileFooter(
        path, SourceSchema(schema, repr((columns, incompatibilities))), rows=1, row_groups=1, **options
    )


def _schema(*columns: str) -> pa.Schema:
    return pa.schema([(name, pa.int64()) for name in columns])


def _messages(findings) -> list[str]:
    return [finding.message for finding in findings]


def test_unreadable_files_are_named_with_their_problem():
    footers = [
        FileFooter("/a", problem="is not a parquet file"),
        FileFooter("/b", problem="is an ORC file, not parquet"),
        FileFooter("/c", problem="is not a parquet file"),
        _footer("/d", "id"),
    ]
    assert _messages(checks.check_footers(footers)) == [
        "each is not a parquet file: 2 files: /a, /c",
        "/b is an ORC file, not parquet",
    ]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (("id", "_hoodie_record_key"), "Hudi reserves: 1 column: _hoodie_record_key"),
        (("id", "_HOODIE_mine"), "Hudi reserves: 1 column: _HOODIE_mine"),
        (("id", "a-b", "1st"), "does not allow: 2 columns: 1st, a-b"),
        (("id", "ID"), "differ only in case: 2 columns: ID, id"),
    ],
)
def test_column_names_that_no_table_can_have_are_blockers(columns, words):
    (finding,) = checks.check_column_names([_footer("/f", *columns)], _schema(*columns))
    assert finding.is_blocker
    assert words in finding.message


def test_names_inside_structs_are_checked_too():
    schema = pa.schema([("s", pa.list_(pa.struct([("ok", pa.struct([("not ok", pa.int64())]))])))])
    (finding,) = checks.check_column_names([_footer("/f", "s")], schema)
    assert "s.ok.not ok" in finding.message


def test_struct_fields_that_differ_only_in_case_are_a_blocker():
    inner = pa.struct([("b", pa.int64()), ("B", pa.int64())])
    columns = (SourceColumn("s", pa.struct([("a", pa.list_(inner))]), "group", frozenset()),)
    footer = FileFooter("/f", SourceSchema(columns, "1"))
    (finding,) = checks.check_column_names([footer], pa.schema([("s", columns[0].type)]))
    assert finding.is_blocker
    assert "differ only in case: 2 columns: s.a.B, s.a.b" in finding.message


def test_a_partition_tells_in_short_how_many_files_cannot_be_read():
    footers = [_footer("/a", "t"), FileFooter("/c", problem="is not a parquet file")]
    assert checks.describe_unreadable(footers) == ("1 file cannot be read as parquet",)
    assert checks.describe_unreadable(footers[:1]) == ()


def test_codecs_and_pages_that_hive_cannot_read_are_warnings():
    footers = [
        _footer("/a", "id", codecs=frozenset({"ZSTD", "SNAPPY"})),
        _footer("/b", "id", codecs=frozenset({"ZSTD"}), has_unreadable_delta_pages=True),
    ]
    messages = _messages(checks.check_encodings(footers))
    assert (
        messages[0] == "zstd compression in 2 files: Hive 2.3 has no zstd codec and cannot read these files"
    )
    assert "1 file: Hive 2.3 fails on them (PARQUET-246)" in messages[1]


def test_an_unknown_key_column_is_a_blocker_with_near_names():
    schema = pa.schema([("order_id", pa.int64()), ("st", pa.struct([("key", pa.int64())]))])
    (finding,) = checks.check_key_columns(["orderid"], None, schema, ())
    assert str(finding) == "there is no record key column orderid (did you mean order_id?)"
    (finding,) = checks.check_key_columns(["st.kye"], None, schema, ())
    assert "st.key" in finding.hint
    assert not list(checks.check_key_columns(["ORDER_ID", "st.key"], "order_id", schema, ()))


@pytest.mark.parametrize(
    ("record_key", "precombine", "words"),
    [
        (["st"], None, "must be a plain value"),
        (["dt"], None, "names partition columns alone"),
        (["id", "ID"], None, "names ID, id twice"),
        (["id"], "nope", "no precombine column nope"),
        (["id"], "st", "cannot be ordered"),
    ],
)
def test_columns_that_cannot_serve_as_key_or_ordering_are_blockers(record_key, precombine, words):
    schema = pa.schema([("id", pa.int64()), ("st", pa.struct([("a", pa.int64())])), ("dt", pa.string())])
    (finding,) = checks.check_key_columns(record_key, precombine, schema, _DT)
    assert finding.is_blocker
    assert words in finding.message


def test_keys_that_no_file_holds_or_that_would_change_their_text_are_blockers():
    columns = (
        SourceColumn("id", pa.int32(), "INT32", frozenset()),
        SourceColumn("f", pa.float32(), "FLOAT", frozenset()),
    )
    footers = [FileFooter("/f", SourceSchema(columns, "1"), rows=1)]
    schema = pa.schema([("id", pa.int64()), ("f", pa.float64()), ("late", pa.string())])
    missing, changed = checks.check_keys_in_files(["ID", "late", "f", "nope"], footers, schema)
    assert missing.is_blocker
    assert "late is in no file" in missing.message
    assert changed.is_blocker
    assert "f is float in the files and double in the table" in changed.message


def test_nulls_that_statistics_show_are_found_without_reading_rows():
    footers = [
        _footer("/a", "id", key_nulls=2),
        _footer("/b", "id", key_nulls=0),
        _footer("/c", "id", key_nulls=None),
    ]
    (finding,) = checks.check_key_statistics(["id"], footers)
    assert finding.message == "record key column id is null in 2 rows of 1 file: /a"


def _source(base: str, *locations: str) -> BootstrapSource:
    partitions = tuple(SourcePartition(place, place, place, (), ()) for place in locations)
    return BootstrapSource(base, (), partitions, False, False)


def test_a_target_may_not_overlap_the_source_by_any_way(tmp_path):
    storage = Storage()
    source = tmp_path / "source"
    (source / "dt=1").mkdir(parents=True)
    (tmp_path / "link").symlink_to(source)
    for target in (source, source / "t", tmp_path, tmp_path / "link" / "t"):
        (finding,) = checks.check_target(storage, str(target), _source(str(source)))
        assert finding.is_blocker
        assert "lies inside" in finding.message, target
    (tmp_path / "elsewhere").mkdir()
    outside = _source(str(source), str(tmp_path / "elsewhere"))
    assert checks.check_target(storage, str(tmp_path / "elsewhere" / "t"), outside).__next__().is_blocker
    assert not list(checks.check_target(storage, str(tmp_path / "source2"), _source(str(source))))
    not_taken = replace(_source(str(source)), other_locations=(str(tmp_path / "elsewhere"),))
    (finding,) = checks.check_target(storage, str(tmp_path / "elsewhere"), not_taken)
    assert f"lies inside the source {tmp_path}/elsewhere" in finding.message


def test_a_taken_target_says_by_what(tmp_path):
    storage = Storage()
    source = _source(str(tmp_path / "source"))
    target = tmp_path / "target"
    target.mkdir()
    assert not list(checks.check_target(storage, str(target), source))
    (target / "file").write_bytes(b"x")
    (finding,) = checks.check_target(storage, str(target), source)
    assert "not empty: 1 entry: file" in finding.message
    (finding,) = checks.check_target(storage, str(target / "file"), source)
    assert "is a file" in finding.message
    (target / ".hoodie").mkdir()
    (finding,) = checks.check_target(storage, str(target), source)
    assert "did not finish" in finding.message
    (target / ".hoodie" / "hoodie.properties").write_bytes(b"x")
    (finding,) = checks.check_target(storage, str(target), source)
    assert "a Hudi table already" in finding.message


def test_directories_that_are_escaped_only_in_part_are_a_blocker():
    columns = (PartitionColumn("dt", pa.string()),)
    partitions = tuple(
        SourcePartition(path, path, path, (value,), ())
        for path, value in (("dt=a%3Ab", "a:b"), ("dt=c:d", "c:d"))
    )
    note, finding = checks.check_url_encoding(BootstrapSource("/s", columns, partitions, True, True))
    assert "Hudi 0.15 shows their escaped text" in note.message
    assert finding.is_blocker
    assert "1 directory: dt=c:d" in finding.message


def test_a_target_that_cannot_be_made_is_a_blocker(tmp_path, monkeypatch):
    storage, source = Storage(), _source("/source")
    (tmp_path / "file").touch()
    (finding,) = checks.check_target(storage, str(tmp_path / "file" / "below" / "t"), source)
    assert finding.is_blocker
    assert f"cannot be made: {tmp_path}/file is a file" in finding.message
    assert not list(checks.check_target(storage, str(tmp_path / "new" / "t"), source))
    # Permission bits do not stop root, whom tests may run as; a read-only mount would.
    monkeypatch.setattr("os.access", lambda path, _: path != str(tmp_path))
    (finding,) = checks.check_target(storage, str(tmp_path / "new" / "t"), source)
    assert f"cannot be made: {tmp_path} cannot be written" in finding.message
    assert storage.creation_problem("s3a://bucket/new/t") is None
