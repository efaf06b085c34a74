"""Tables with rewritten partitions: Apache Hudi reads and writes them, and hudisql reads that."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.oracle.client import HudiOracle
from tests.oracle.comparison import META_COLUMNS, UNIQUE_COLUMN, assert_same_rows
from tests.oracle.shapes import SHAPES, BootstrappedTable, Shape, bootstrap_shape
from tests.oracle.sources import sample_rows
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark]

METADATA, FULL = "00000000000001", "00000000000002"
# Which partitions of a shape are rewritten; a shape without partitions can only be rewritten whole.
MIXED = {
    "partitioned": "dt >= '2024-03-02'",
    "two_columns": "region = 'us'",
    "composite": "dt = '2024-03-01'",
    "merge_on_read": "dt = '2024-03-03'",
}


def _shape(name: str) -> Shape:
    return next(shape for shape in SHAPES if shape.name == name)


def _is_full(name: str, shape: Shape, number: int) -> bool:
    values = {column: value_of(number) for column, value_of in shape.partition_columns.items()}
    return {
        "partitioned": lambda: values["dt"] >= "2024-03-02",
        "two_columns": lambda: values["region"] == "us",
        "composite": lambda: values["dt"] == "2024-03-01",
        "merge_on_read": lambda: values["dt"] == "2024-03-03",
    }[name]()


@pytest.fixture
def oracle(request: pytest.FixtureRequest) -> HudiOracle:
    chosen: HudiOracle = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture(scope="module")
def rewritten(session: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., BootstrappedTable]:
    """Tables by name and arguments of their bootstrap, each made once for both versions of Apache Hudi."""

    @cache
    def make(table: str, name: str, **arguments: str) -> BootstrappedTable:
        directory = tmp_path_factory.mktemp("rewritten")
        return bootstrap_shape(session, _shape(name), directory, table=table, **arguments)

    return make


def _assert_read_right(
    oracle: HudiOracle, session: Any, path: str, shape: Shape, table: str, commit_times: dict[int, str]
) -> None:
    theirs = oracle.read(path)
    expected = shape.expected_rows()
    assert_same_rows(theirs.select(expected.column_names), expected, sort_by=["seq"])
    rows = theirs.select([*META_COLUMNS, "seq"]).to_pylist()
    assert {row["seq"]: row["_hoodie_commit_time"] for row in rows} == commit_times
    assert {row["seq"]: row["_hoodie_record_key"] for row in rows} == {
        number: shape.record_key_of(number) for number in range(shape.rows)
    }
    assert {row["seq"]: row["_hoodie_partition_path"] for row in rows} == {
        number: shape.partition_path(number) for number in range(shape.rows)
    }
    assert len({row[UNIQUE_COLUMN] for row in rows}) == shape.rows
    ours = session.sql(f"SELECT * FROM {table}").arrow()
    assert_same_rows(ours, theirs, sort_by=[UNIQUE_COLUMN])


@pytest.mark.parametrize(
    ("oracle", "name"),
    parameters(
        product(("oracle_015", "oracle_120"), (shape.name for shape in SHAPES)),
        in_ci=[
            ("oracle_015", "merge_on_read"),
            ("oracle_120", "two_columns"),
        ],
    ),
    indirect=["oracle"],
)
def test_apache_hudi_reads_tables_that_are_rewritten_whole(
    oracle: HudiOracle, session: Any, rewritten: Callable[..., BootstrappedTable], name: str
) -> None:
    shape, table = _shape(name), f"oracle.full_{name}"
    path = rewritten(table, name, mode="full_record").path
    _assert_read_right(oracle, session, path, shape, table, dict.fromkeys(range(shape.rows), FULL))


@pytest.mark.parametrize(
    ("oracle", "name"),
    parameters(
        product(("oracle_015", "oracle_120"), MIXED),
        in_ci=[
            ("oracle_015", "partitioned"),
            ("oracle_120", "merge_on_read"),
        ],
    ),
    indirect=["oracle"],
)
def test_apache_hudi_reads_rewritten_partitions_beside_skeletons(
    oracle: HudiOracle, session: Any, rewritten: Callable[..., BootstrappedTable], name: str
) -> None:
    shape, table = _shape(name), f"oracle.mixed_{name}"
    path = rewritten(table, name, full_record_where=MIXED[name].replace("'", "\\'")).path
    times = {n: FULL if _is_full(name, shape, n) else METADATA for n in range(shape.rows)}
    assert set(times.values()) == {METADATA, FULL}
    _assert_read_right(oracle, session, path, shape, table, times)


@pytest.mark.parametrize(
    ("name", "version"),
    parameters(
        product(["partitioned", "two_columns", "composite"], ["015", "120"]),
        in_ci=[("partitioned", "015")],
    ),
)
def test_apache_hudi_upserts_into_both_kinds_of_partitions(
    request: pytest.FixtureRequest, session: Any, tmp_path: Path, name: str, version: str
) -> None:
    if version == "120" and name == "two_columns":
        # One key and two partition columns: 1.2 writes such keys otherwise (docs/facts.md).
        options_of_keys = {
            "hoodie.write.complex.keygen.validation.enable": "false",
            "hoodie.write.complex.keygen.new.encoding": "true",
        }
    else:
        options_of_keys = {}
    oracle: HudiOracle = request.getfixturevalue(f"oracle_{version}")
    shape = _shape(name)
    table = f"oracle.mixed_upsert_{name}_{version}"
    where = MIXED[name].replace("'", "\\'")
    path = bootstrap_shape(session, shape, tmp_path, table=table, full_record_where=where).path
    changes = shape.with_partition_columns(sample_rows(100, 130, "second"))
    options = {**shape.write_options(), **options_of_keys, "hoodie.table.name": table.split(".")[1]}
    oracle.upsert(changes, path, options)

    theirs = oracle.read(path)
    expected = shape.with_partition_columns(
        pa.concat_tables([sample_rows(0, 100), sample_rows(100, 130, "second")])
    )
    assert_same_rows(theirs.select(expected.column_names), expected, sort_by=["seq"])
    assert_same_rows(session.sql(f"SELECT * FROM {table}").arrow(), theirs, sort_by=["seq"])


@pytest.mark.parametrize("name", ["not_partitioned"])
def test_hudi_015_upserts_into_a_table_that_was_rewritten_whole(
    oracle_015: HudiOracle, session: Any, tmp_path: Path, name: str
) -> None:
    shape = _shape(name)
    path = bootstrap_shape(session, shape, tmp_path, table="oracle.full_upsert", mode="full_record").path
    changes = shape.with_partition_columns(sample_rows(100, 130, "second"))
    oracle_015.upsert(changes, path, {**shape.write_options(), "hoodie.table.name": "full_upsert"})
    theirs = oracle_015.read(path)
    expected = pa.concat_tables([sample_rows(0, 100), sample_rows(100, 130, "second")])
    assert_same_rows(theirs.select(expected.column_names), expected, sort_by=["seq"])
    assert_same_rows(session.sql("SELECT * FROM oracle.full_upsert").arrow(), theirs, sort_by=["seq"])
