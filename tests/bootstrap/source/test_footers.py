import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.bootstrap.source.footers import files_by_schema, read_footers
from hudisql.console import SilentConsole
from hudisql.format.paths.external_file import ExternalFile
from hudisql.storage import Storage

pytestmark = pytest.mark.spark


def _read(spark, directory, record_key=("id",)):
    files = [
        ExternalFile(str(path), path.stat().st_size, 0)
        for path in sorted(directory.iterdir())
        if path.is_file()
    ]
    footers = read_footers(spark, Storage(), files, record_key, SilentConsole())
    return {footer.path.rsplit("/", 1)[-1]: footer for footer in footers}


def test_a_footer_gives_rows_row_groups_key_bytes_nulls_and_codecs(spark, tmp_path):
    table = pa.table({"ID": ["a", None, "c"], "v": [1, 2, 3]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2, compression="zstd")
    pq.write_table(table, tmp_path / "b.parquet", write_statistics=False)
    footers = _read(spark, tmp_path)
    first = footers["a.parquet"]
    assert (first.rows, first.row_groups, first.key_nulls, first.codecs) == (3, 2, 1, {"ZSTD"})
    assert first.key_bytes > 0
    assert first.problem is None
    assert footers["b.parquet"].key_nulls is None
    assert [column.name for column in first.schema.columns] == ["ID", "v"]
    assert len(files_by_schema(footers.values())) == 1


def test_delta_pages_of_writers_without_a_build_are_marked(spark, tmp_path):
    pq.write_table(
        pa.table({"id": ["a", "b"]}),
        tmp_path / "a.parquet",
        use_dictionary=False,
        column_encoding={"id": "DELTA_BYTE_ARRAY"},
    )
    assert _read(spark, tmp_path)["a.parquet"].has_unreadable_delta_pages


def test_what_is_not_parquet_says_what_it_is(spark, tmp_path):
    pq.write_table(pa.table({"id": ["a"]}), tmp_path / "good")
    whole = (tmp_path / "good").read_bytes()
    (tmp_path / "cut").write_bytes(whole[:-10])
    (tmp_path / "tail").write_bytes(whole[:-8] + b"\xff\xff\xff\x7fPAR1")
    (tmp_path / "orc").write_bytes(b"ORC" + b"\0" * 50)
    (tmp_path / "avro").write_bytes(b"Obj\x01" + b"\0" * 50)
    (tmp_path / "text").write_bytes(b"hello")
    (tmp_path / "encrypted").write_bytes(b"PARE" + b"\0" * 50 + b"PARE")
    problems = {name: footer.problem for name, footer in _read(spark, tmp_path).items()}
    assert problems.pop("good") is None
    assert problems.pop("cut").startswith("is a corrupt or cut-off parquet file")
    assert problems.pop("tail").startswith("is a corrupt or cut-off parquet file")
    assert problems == {
        "orc": "is an ORC file, not parquet",
        "avro": "is an Avro file, not parquet",
        "text": "is not a parquet file",
        "encrypted": "is encrypted parquet, which hudisql cannot read",
    }


def test_files_with_other_schemas_keep_their_own(spark, tmp_path):
    pq.write_table(pa.table({"id": ["a"]}), tmp_path / "a")
    pq.write_table(pa.table({"id": [1]}), tmp_path / "b")
    pq.write_table(pa.table({"id": ["c"]}), tmp_path / "c")
    grouped = files_by_schema(_read(spark, tmp_path).values())
    assert sorted(sorted(path.rsplit("/", 1)[-1] for path in paths) for paths in grouped.values()) == [
        ["a", "c"],
        ["b"],
    ]
