"""Partitions as many writers lay them out: each is read right by both scans, or refused by a clear error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc

from hudisql.bootstrap.plan.bootstrap_mode import PartitionMismatchPolicy
from hudisql.bootstrap.source.partition_columns import parse_partition_by
from hudisql.bootstrap.verify.verification import VerifyLevel, verify_bootstrap
from hudisql.context import Context
from tests.bootstrap.edge_case_sources import blockers_of, bootstrap, lenient_plan_of, read_both_ways
from tests.sources import write_parquet

pytestmark = pytest.mark.spark

VALUES = (
    "plain",
    "with space",
    "a=b",
    "a/b",
    "50%",
    "%41",
    'it\'s "quoted"',
    "ümläut 名 \U0001f600",
    "a:b*c?d<e>f|g",
    "back\\slash",
    "#fragment",
    "[x]{y}^z",
    "tab\tnewline\n",
    "..",
    "__HIVE_DEFAULT_PARTITION",
    "NULL",
    "2024-03-01 00:00:00",
    None,
)


def test_partition_values_of_all_kinds_are_those_that_spark_wrote(context: Context, tmp_path: Path) -> None:
    rows = [(f"k{number:02d}", value, number % 2) for number, value in enumerate(VALUES)]
    frame = context.spark.createDataFrame(rows, "id string, v string, n int")
    frame.coalesce(1).write.partitionBy("v", "n").parquet(str(tmp_path / "s"))
    table = bootstrap(context, tmp_path / "s", tmp_path / "t", partition_by=parse_partition_by("v, n int"))
    found = read_both_ways(context.spark, table)
    assert [(row["id"], row["v"], row["n"]) for row in found.to_pylist()] == rows
    where = "v = 'a/b' OR v = '%41' OR v LIKE 'tab%' OR v IS NULL OR (v = '..' AND n = 1)"
    assert read_both_ways(context.spark, table, where)["id"].to_pylist() == [
        "k03",
        "k05",
        "k12",
        "k13",
        "k17",
    ]


@pytest.mark.parametrize(
    ("directories", "partition_by", "columns"),
    [
        # By Hive and Spark, by Trino, by hand, in one level or three, and by whoever liked capitals.
        (("dt=2024-03-01", "dt=2024-03-02"), None, {"dt": ["2024-03-01", "2024-03-02"]}),
        (("DT=20240301", "DT=20240302"), None, {"DT": ["20240301", "20240302"]}),
        (("20240301", "20240302"), "day", {"day": ["20240301", "20240302"]}),
        (
            ("2024/03/01", "2024/03/02"),
            "y int, m int, d int",
            {"y": [2024, 2024], "m": [3, 3], "d": [1, 2]},
        ),
        (("Jahr=2024/dt=a b", "Jahr=2024/dt=50%"), None, {"Jahr": ["2024"] * 2, "dt": ["a b", "50%"]}),
    ],
)
def test_directories_of_every_style_give_their_values(
    context: Context,
    tmp_path: Path,
    directories: tuple[str, ...],
    partition_by: str | None,
    columns: dict[str, Any],
) -> None:
    for number, directory in enumerate(directories):
        write_parquet(tmp_path / "s" / directory / "a.parquet", pa.table({"id": [f"k{number}"]}))
    named = None if partition_by is None else parse_partition_by(partition_by)
    table = bootstrap(context, tmp_path / "s", tmp_path / "t", partition_by=named)
    assert read_both_ways(context.spark, table).to_pydict() == {"id": ["k0", "k1"], **columns}
    assert {path.parent.relative_to(tmp_path / "t") for path in (tmp_path / "t").rglob("*.parquet")} == {
        Path(directory) for directory in directories
    }


@pytest.mark.parametrize("has_statistics", [True, False])
@pytest.mark.parametrize(
    ("partition_by", "inside"),
    [
        ("dt", pa.array(["7", "7"])),
        ("dt", pa.array(["7", "7"]).dictionary_encode()),
        ("dt", pa.array([7, 7], pa.int32())),
        ("dt int", pa.array(["7", "7"])),
        ("dt float", pa.array([7.0, 7.0], pa.float64())),
    ],
    ids=str,
)
def test_a_partition_column_that_the_files_hold_too_is_the_directories_value(
    context: Context, tmp_path: Path, partition_by: str, inside: pa.Array, has_statistics: bool
) -> None:
    named = parse_partition_by(partition_by)
    rows = pa.table({"DT": inside, "id": ["a", "b"]})
    options = {"write_statistics": has_statistics, "row_group_size": 1}
    path = write_parquet(tmp_path / "s" / "dt=7" / "a.parquet", rows, **options)
    write_parquet(tmp_path / "s" / "dt=8" / "a.parquet", pa.table({"id": ["c"]}))
    plan = lenient_plan_of(context, tmp_path / "s", tmp_path / "t", partition_by=named)
    told = "\n".join(str(each) for each in plan.warnings)
    assert f"partition column DT is also a column inside 1 file: {path}, with the directory's value" in told
    table = bootstrap(context, tmp_path / "s", tmp_path / "t", partition_by=named)
    found = read_both_ways(context.spark, table)
    directories: dict[str, list[Any]] = {
        "dt": ["7", "7", "8"],
        "dt int": [7, 7, 8],
        "dt float": [7.0, 7.0, 8.0],
    }
    directory = directories[partition_by]
    pairs = zip(found["dt"].to_pylist(), found["id"].to_pylist(), strict=True)
    assert sorted(pairs) == [*zip(directory, ["a", "b", "c"], strict=True)]
    assert verify_bootstrap(context, table, VerifyLevel.FULL).discrepancies == ()


@pytest.mark.parametrize("has_statistics", [True, False])
def test_a_file_that_holds_another_value_than_its_directory_is_named(
    context: Context, tmp_path: Path, has_statistics: bool
) -> None:
    inside = {
        "a": pa.array(["7", "x"]),
        "b": pa.array(["7", None]),
        "c": pa.array([6, 6], pa.int32()),
        "d": pa.array(["7", "7"]),
    }
    for name, values in inside.items():
        rows = pa.table({"id": [f"{name}1", f"{name}2"], "dt": values.cast(pa.string())})
        write_parquet(tmp_path / "s" / "dt=7" / f"{name}.parquet", rows, write_statistics=has_statistics)
    told = blockers_of(context, tmp_path / "s", tmp_path / "t")
    directory = tmp_path / "s" / "dt=7"
    assert told.startswith("partition column dt is also a column inside the files, with another value")
    told = told.replace("NULL, 7", "7, NULL")
    assert f"in 3 files: {directory}/a.parquet (7, x), {directory}/b.parquet (7, NULL)" in told
    assert f"{directory}/c.parquet (6)" in told
    policy = PartitionMismatchPolicy.WARN
    table = bootstrap(context, tmp_path / "s", tmp_path / "t", on_partition_mismatch=policy)
    assert set(read_both_ways(context.spark, table)["dt"].to_pylist()) == {"7"}


def test_files_of_other_formats_are_refused_by_name(context: Context, tmp_path: Path) -> None:
    directory = tmp_path / "s" / "dt=1"
    write_parquet(directory / "a.parquet", pa.table({"id": ["a"]}))
    orc.write_table(pa.table({"id": ["b"]}), directory / "b.orc")
    with (directory / "c.avro").open("wb") as stream:
        schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "string"}]}
        fastavro.writer(stream, schema, [{"id": "c"}])
    (directory / "d.csv").write_text("id\nd\n")
    assert blockers_of(context, tmp_path / "s", tmp_path / "t").splitlines() == [
        f"{directory}/b.orc is an ORC file, not parquet",
        f"{directory}/c.avro is an Avro file, not parquet",
        f"{directory}/d.csv is not a parquet file",
    ]
