"""Files and directories as they are found in old tables: each is read right by both scans, or named."""

from __future__ import annotations

import base64
import math
import re
import shutil
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

from hudisql.bootstrap.plan.bootstrap_mode import BootstrapMode, ModeChoice
from hudisql.context import Context
from hudisql.errors import SourceError, StorageError
from tests.bootstrap.edge_case_sources import blockers_of, bootstrap, lenient_plan_of, read_both_ways
from tests.sources import write_parquet
from tests.spark_versions import frame_of_arrow

pytestmark = pytest.mark.spark


def _rows(first: int, count: int = 3, **columns: pa.Array) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table({"id": [f"k{n:06d}" for n in numbers], "n": pa.array(numbers, pa.int64()), **columns})


NAMES = (
    "with space.parquet",
    "a=b.parquet",
    "100%.parquet",
    "%41%2F.parquet",
    "hash#1?.parquet",
    "quote'\".parquet",
    "ümläut 名 \U0001f600.parquet",
    "comma,semi;colon.parquet",
    "[brackets]{braces}.parquet",
    "back\\slash.parquet",
    "star*.parquet",
    "plus+&.parquet",
    "000000_0",
    "part-00000.snappy.parquet",
    "UPPER.PARQUET",
    "two.dots..parquet",
    "colon:in:name.parquet",
)


def test_file_names_of_all_kinds_are_read(context: Context, tmp_path: Path) -> None:
    for number, name in enumerate(NAMES):
        write_parquet(tmp_path / "s" / name, _rows(number * 10))
    found = read_both_ways(context.spark, bootstrap(context, tmp_path / "s", tmp_path / "t"))
    assert found["n"].to_pylist() == [number * 10 + each for number in range(len(NAMES)) for each in range(3)]


@pytest.mark.parametrize("name", NAMES)
def test_each_odd_name_is_read_alone_too(context: Context, tmp_path: Path, name: str) -> None:
    # Side by side, one name that Spark's scan cannot take would send all to the slice reader.
    write_parquet(tmp_path / "s" / name, _rows(0))
    found = read_both_ways(context.spark, bootstrap(context, tmp_path / "s", tmp_path / "t"))
    assert found["n"].to_pylist() == [0, 1, 2]


def test_what_is_not_data_is_left_alone(context: Context, tmp_path: Path) -> None:
    directory = tmp_path / "s"
    # Spark leaves checksums and _SUCCESS beside its files.
    frame_of_arrow(context.spark, _rows(0)).coalesce(1).write.parquet(str(directory))
    (data_file,) = directory.glob("*.parquet")
    assert {path.name for path in directory.iterdir()} == {
        data_file.name,
        f".{data_file.name}.crc",
        "_SUCCESS",
        "._SUCCESS.crc",
    }
    for name in ("_x.parquet", ".x.parquet", "_temporary/0/b.parquet", ".staging/c.parquet"):
        write_parquet(directory / name, _rows(100))
    collected = [pq.read_metadata(data_file)]
    collected[0].set_file_path(data_file.name)
    schema = collected[0].schema.to_arrow_schema()
    pq.write_metadata(schema, directory / "_metadata", metadata_collector=collected)
    pq.write_metadata(schema, directory / "_common_metadata")
    for name in ("_committed_1", "_started_1", "b.parquet._COPYING_"):
        (directory / name).write_bytes(b"")
    (directory / "empty.parquet").write_bytes(b"")
    (directory / "empty_directory").mkdir()
    plan = lenient_plan_of(context, directory, tmp_path / "t")
    assert [finding.message for finding in plan.findings] == [
        "zero bytes long, left out: 1 file: empty.parquet"
    ]
    found = read_both_ways(context.spark, bootstrap(context, directory, tmp_path / "t"))
    assert found["n"].to_pylist() == [0, 1, 2]


def test_links_to_files_and_directories_are_followed(context: Context, tmp_path: Path) -> None:
    write_parquet(tmp_path / "elsewhere" / "far.parquet", _rows(10))
    write_parquet(tmp_path / "elsewhere" / "p" / "x.parquet", _rows(20))
    source = tmp_path / "s"
    write_parquet(source / "dt=1" / "near.parquet", _rows(0))
    (source / "dt=1" / "linked.parquet").symlink_to(tmp_path / "elsewhere" / "far.parquet")
    (source / "dt=2").symlink_to(tmp_path / "elsewhere" / "p")
    found = read_both_ways(context.spark, bootstrap(context, source, tmp_path / "t"))
    assert found.select(["n", "dt"]).to_pylist() == [
        {"n": number, "dt": day}
        for number, day in zip([0, 1, 2, 10, 11, 12, 20, 21, 22], "111111222", strict=True)
    ]
    by_link = tmp_path / "link"
    by_link.symlink_to(source)
    found = read_both_ways(context.spark, bootstrap(context, by_link, tmp_path / "t2"))
    assert found.num_rows == 9


def test_broken_and_circular_links_are_named(context: Context, tmp_path: Path) -> None:
    write_parquet(tmp_path / "broken" / "a.parquet", _rows(0))
    (tmp_path / "broken" / "b.parquet").symlink_to(tmp_path / "nowhere.parquet")
    with pytest.raises(StorageError, match=r"broken: b.parquet is a symbolic link to nothing"):
        lenient_plan_of(context, tmp_path / "broken", tmp_path / "t")
    write_parquet(tmp_path / "circle" / "dt=1" / "a.parquet", _rows(0))
    for name in ("dt=2", "dt=3"):  # two of them double the directories with every level
        (tmp_path / "circle" / "dt=1" / name).symlink_to(tmp_path / "circle")
    with pytest.raises(SourceError, match=r"never end: .*/circle/.* links to a directory above it"):
        lenient_plan_of(context, tmp_path / "circle", tmp_path / "t")


def test_files_without_rows_and_with_empty_row_groups_are_read(context: Context, tmp_path: Path) -> None:
    write_parquet(tmp_path / "s" / "none.parquet", _rows(0).slice(0, 0))
    with pq.ParquetWriter(tmp_path / "s" / "holes.parquet", _rows(0).schema, store_schema=False) as writer:
        for piece in (_rows(0).slice(0, 0), _rows(0), _rows(0).slice(0, 0), _rows(3), _rows(0).slice(0, 0)):
            writer.write_table(piece)
    assert pq.read_metadata(tmp_path / "s" / "holes.parquet").num_row_groups == 5
    table = bootstrap(context, tmp_path / "s", tmp_path / "t")
    assert read_both_ways(context.spark, table)["n"].to_pylist() == [0, 1, 2, 3, 4, 5]
    assert read_both_ways(context.spark, table, "n >= 4")["n"].to_pylist() == [4, 5]


def test_a_table_of_files_without_rows_is_an_empty_table(context: Context, tmp_path: Path) -> None:
    write_parquet(tmp_path / "s" / "a.parquet", _rows(0).slice(0, 0))
    found = read_both_ways(context.spark, bootstrap(context, tmp_path / "s", tmp_path / "t"))
    assert found.num_rows == 0
    assert found.column_names == ["id", "n"]


@pytest.mark.parametrize("names", [(), ("a.parquet",), ("_SUCCESS", ".hidden")])
def test_a_source_without_data_files_is_refused(
    context: Context, tmp_path: Path, names: tuple[str, ...]
) -> None:
    (tmp_path / "s").mkdir()
    for name in names:
        (tmp_path / "s" / name).write_bytes(b"")
    assert "there are no data files in" in blockers_of(context, tmp_path / "s", tmp_path / "t")


@pytest.mark.parametrize(("rows", "group_rows"), [(2_000, 1), (400_000, 400_000)])
def test_two_thousand_row_groups_and_one_huge_one_are_read(
    context: Context, tmp_path: Path, rows: int, group_rows: int
) -> None:
    write_parquet(tmp_path / "s" / "a.parquet", _rows(0, rows), row_group_size=group_rows)
    table = bootstrap(context, tmp_path / "s", tmp_path / "t")
    (skeleton,) = (tmp_path / "t").glob("*.parquet")
    assert pq.read_metadata(skeleton).num_row_groups == rows // group_rows
    found = read_both_ways(context.spark, table, f"n % 199 = 0 OR n > {rows - 3}")
    assert found["n"].to_pylist() == [n for n in range(rows) if n % 199 == 0 or n > rows - 3]


def test_files_of_other_writers_are_read_in_one_table(context: Context, tmp_path: Path) -> None:
    # Made by fastparquet 2026.9.0, DuckDB 2.0.0 and Polars 2.1.0; fastparquet writes no lists and structs.
    for path in (Path(__file__).parent / "writers").glob("*.parquet"):
        directory = tmp_path / "s" / f"writer={path.stem}"
        directory.mkdir(parents=True)
        shutil.copy(path, directory)
    table = bootstrap(context, tmp_path / "s", tmp_path / "t", on_schema_drift="widen")
    found = read_both_ways(context.spark, table).to_pylist()
    assert len(found) == 9
    plain: dict[str, list[Any]] = {
        "n": [1, None, -(2**63)],
        "x": [1.5, None, math.inf],
        "s": ["ü名", None, ""],
        "b": [True, None, False],
    }
    others: dict[str, list[Any]] = {
        "d": [date(2024, 2, 29), None, date(1900, 1, 1)],
        "t": [datetime(2024, 2, 29, 1, 2, 3, 456789, UTC), None, datetime(1900, 1, 1, tzinfo=UTC)],
        "l": [[1, 2], None, []],
        "st": [{"u": 1, "v": "w"}, None, {"u": None, "v": None}],
    }
    for number, writer in enumerate(("duckdb", "fastparquet", "polars")):
        rows = found[number * 3 : number * 3 + 3]
        assert [(row["id"], row["writer"]) for row in rows] == [
            (f"{writer}-{each}", writer) for each in "abc"
        ]
        for name, values in plain.items():
            assert [row[name] for row in rows] == values, (writer, name)
        for name, values in others.items():
            given = [None] * 3 if writer == "fastparquet" else values
            assert [row[name] for row in rows] == given, (writer, name)


class _Kms(pe.KmsClient):
    """Keys that wrap others by writing them down: the files are really encrypted, the keys are not secret."""

    def __init__(self, _settings: Any) -> None:
        super().__init__()

    def wrap_key(self, key_bytes: bytes, _master_key: str) -> bytes:
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key: bytes, _master_key: str) -> bytes:
        return base64.b64decode(wrapped_key)


@pytest.mark.parametrize("plaintext_footer", [True, False])
@pytest.mark.parametrize("column", ["id", "n"])
def test_encrypted_files_are_refused_whatever_is_encrypted(
    context: Context, tmp_path: Path, plaintext_footer: bool, column: str
) -> None:
    settings = pe.EncryptionConfiguration(
        footer_key="footer", column_keys={"column": [column]}, plaintext_footer=plaintext_footer
    )
    properties = pe.CryptoFactory(_Kms).file_encryption_properties(pe.KmsConnectionConfig(), settings)
    write_parquet(tmp_path / "s" / "a.parquet", _rows(0), encryption_properties=properties)
    write_parquet(tmp_path / "s" / "b.parquet", _rows(5))
    told = blockers_of(context, tmp_path / "s", tmp_path / "t")
    words = "has encrypted columns" if plaintext_footer else "is encrypted parquet"
    assert told == f"{tmp_path}/s/a.parquet {words}, which hudisql cannot read"


def _with_codec(path: Path, number: int) -> None:
    """Say in the footer that the file's one column is compressed by the codec of this number."""
    content = path.read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - length : -8]
    # Compact Thrift: the path in the schema (a list of one string), then the codec's enumeration, zigzag.
    matched = list(re.finditer(rb"\x19\x18\x02id\x15(.)", footer, re.DOTALL))
    assert len(matched) == 1
    place = len(content) - 8 - length + matched[0].start(1)
    path.write_bytes(content[:place] + bytes([number * 2]) + content[place + 1 :])


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (3, "is compressed by LZO, which hudisql and Spark cannot read"),
        (40, "is compressed by a codec that parquet does not know (number 40)"),
    ],
    ids=["LZO", "unknown"],
)
def test_codecs_that_nobody_reads_are_refused_by_name(
    context: Context, tmp_path: Path, number: int, words: str
) -> None:
    path = write_parquet(tmp_path / "s" / "a.parquet", pa.table({"id": ["a"]}), compression="snappy")
    _with_codec(path, number)
    assert blockers_of(context, tmp_path / "s", tmp_path / "t") == f"{path} {words}"


def test_a_codec_that_spark_lacks_stops_until_the_files_are_rewritten(
    context: Context, tmp_path: Path
) -> None:
    write_parquet(tmp_path / "s" / "a.parquet", _rows(0), compression="brotli")
    told = blockers_of(context, tmp_path / "s", tmp_path / "t")
    assert told.endswith("a.parquet: Hive 2.3 and Spark have no such codec")
    rewritten = ModeChoice(BootstrapMode.FULL_RECORD)
    table = bootstrap(context, tmp_path / "s", tmp_path / "t", mode=rewritten)
    assert read_both_ways(context.spark, table)["n"].to_pylist() == [0, 1, 2]


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4"])
def test_codecs_that_spark_has_are_read(context: Context, tmp_path: Path, codec: str) -> None:
    write_parquet(tmp_path / "s" / "a.parquet", _rows(0, 100), compression=codec)
    found = read_both_ways(context.spark, bootstrap(context, tmp_path / "s", tmp_path / "t"))
    assert found["n"].to_pylist() == list(range(100))


@pytest.mark.parametrize("count", [300, pytest.param(2_000, marks=pytest.mark.soak)])
def test_hundreds_of_columns_are_read(context: Context, tmp_path: Path, count: int) -> None:
    columns = {f"c{number}": pa.array([number, None, -number], pa.int32()) for number in range(count)}
    write_parquet(tmp_path / "s" / "a.parquet", _rows(0, **columns))
    table = bootstrap(context, tmp_path / "s", tmp_path / "t")
    found = read_both_ways(context.spark, table)
    assert found.num_columns == count + 2
    assert found[f"c{count - 1}"].to_pylist() == [count - 1, None, 1 - count]


RESERVED = (
    "select",
    "table",
    "from",
    "order",
    "date",
    "timestamp",
    "null",
    "CamelCase",
    "lower_UPPER",
    "_x",
    "é",
)


def test_reserved_words_and_mixed_case_are_names_like_any_other(context: Context, tmp_path: Path) -> None:
    names = [name for name in RESERVED if name != "é"]
    columns = {name: pa.array([name, None, "x"]) for name in names}
    nested = pa.StructArray.from_arrays([columns["select"], columns["CamelCase"]], names=["from", "Mixed"])
    write_parquet(tmp_path / "s" / "a.parquet", _rows(0, **columns, order_by=nested))
    table = bootstrap(context, tmp_path / "s", tmp_path / "t")
    found = read_both_ways(context.spark, table)
    assert found.column_names == ["id", "n", *names, "order_by"]
    assert found["CamelCase"].to_pylist() == ["CamelCase", None, "x"]
    where = "`select` = 'select' AND camelcase = 'CamelCase' AND order_by.`from` = 'select'"
    assert read_both_ways(context.spark, table, where)["n"].to_pylist() == [0]


@pytest.mark.parametrize("name", ["with space", "a.b", "a-b", "1st", "é", "a`b", "(x)", "a,b", "", " id"])
def test_names_that_hudis_schema_cannot_carry_are_named(context: Context, tmp_path: Path, name: str) -> None:
    write_parquet(tmp_path / "s" / "a.parquet", _rows(0, **{name: pa.array([1, 2, 3])}))
    told = blockers_of(context, tmp_path / "s", tmp_path / "t")
    assert "names that Avro, and so Hudi's schema, does not allow: 1 column" in told
    assert name in told


def test_files_cut_off_anywhere_are_named(context: Context, tmp_path: Path) -> None:
    whole = write_parquet(tmp_path / "whole", _rows(0, 1_000)).read_bytes()
    (tmp_path / "s").mkdir()
    for number, length in enumerate((1, 4, 12, len(whole) // 2, len(whole) - 9, len(whole) - 1)):
        (tmp_path / "s" / f"{number}.parquet").write_bytes(whole[:length])
    plan = lenient_plan_of(context, tmp_path / "s", tmp_path / "t")
    assert [partition.blockers for partition in plan.partitions] == [("6 files cannot be read as parquet",)]
    one, several = sorted(finding.message for finding in plan.findings if finding.is_blocker)
    assert one == f"{tmp_path}/s/0.parquet is not a parquet file"
    assert several.startswith("each is a corrupt or cut-off parquet file (no footer at its end): 5 files,")
