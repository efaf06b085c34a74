"""Apache Hudi 0.15 and 1.2 read what hudisql bootstrapped: all rows, all meta columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from tests.oracle.client import HudiOracle
from tests.oracle.comparison import META_COLUMNS, UNIQUE_COLUMN, assert_same_rows
from tests.oracle.shapes import MANY_FILES, SHAPES, BootstrappedTable, Shape, bootstrap_shape
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark]

Bootstrapped = Callable[[str], BootstrappedTable]
NAMES = [*(shape.name for shape in SHAPES), MANY_FILES.name]
VERSIONS = ("oracle_015", "oracle_120")


def _by_version(names: Iterable[str], *, of_120_in_ci: Collection[str]) -> pytest.MarkDecorator:
    """Every name with Hudi 0.15, and with 1.2 these in CI; a hundred files take a minute."""
    cases = list(product(VERSIONS, names))
    in_ci = [
        (version, name)
        for version, name in cases
        if name in of_120_in_ci or (version == VERSIONS[0] and name != MANY_FILES.name)
    ]
    return pytest.mark.parametrize(("oracle", "name"), parameters(cases, in_ci=in_ci), indirect=["oracle"])


@pytest.fixture
def oracle(request: pytest.FixtureRequest) -> HudiOracle:
    chosen: HudiOracle = request.getfixturevalue(request.param)
    return chosen


def _assert_meta_columns(table: pa.Table, shape: Shape) -> None:
    rows = table.select([*META_COLUMNS, "seq"]).to_pylist()
    assert {row["_hoodie_commit_time"] for row in rows} == {"00000000000001"}
    assert {row["seq"]: row["_hoodie_record_key"] for row in rows} == {
        number: shape.record_key_of(number) for number in range(shape.rows)
    }
    assert {row["seq"]: row["_hoodie_partition_path"] for row in rows} == {
        number: shape.partition_path(number) for number in range(shape.rows)
    }
    assert len({row[UNIQUE_COLUMN] for row in rows}) == shape.rows


@_by_version(NAMES, of_120_in_ci=["two_columns", "composite", "merge_on_read"])
def test_apache_hudi_reads_every_row_and_meta_column(
    oracle: HudiOracle, bootstrapped: Bootstrapped, session: Any, name: str
) -> None:
    table = bootstrapped(name)
    theirs = oracle.read(table.path)
    _assert_meta_columns(theirs, table.shape)
    data_columns = table.shape.expected_rows().column_names
    assert_same_rows(theirs.select(data_columns), table.shape.expected_rows(), sort_by=["seq"])
    ours = session.sql(f"SELECT * FROM oracle.{name}").arrow()
    assert_same_rows(ours, theirs, sort_by=[UNIQUE_COLUMN])


@_by_version([shape.name for shape in SHAPES], of_120_in_ci=["partitioned"])
def test_apache_hudi_reads_data_columns_alone(
    oracle: HudiOracle, bootstrapped: Bootstrapped, name: str
) -> None:
    table = bootstrapped(name)
    columns = ["seq", "price", "at"]
    theirs = oracle.read(table.path, columns=columns, where="seq % 10 = 3")
    expected = table.shape.expected_rows()
    wanted = expected.filter(pa.array([number % 10 == 3 for number in expected["seq"].to_pylist()]))
    assert_same_rows(theirs, wanted.select(columns), sort_by=["seq"])


@_by_version(["partitioned", "two_columns"], of_120_in_ci=["two_columns"])
def test_apache_hudi_prunes_partitions_to_the_right_rows(
    oracle: HudiOracle, bootstrapped: Bootstrapped, name: str
) -> None:
    table = bootstrapped(name)
    theirs = oracle.read(table.path, where="dt = '2024-03-02'")
    assert sorted(theirs["seq"].to_pylist()) == [n for n in range(table.shape.rows) if n % 3 == 1]


@pytest.mark.parametrize("oracle", VERSIONS, indirect=True)
def test_skeletons_in_delta_encoding_are_read_too(
    oracle: HudiOracle, session: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shape = Shape("delta", partition_columns={"dt": lambda n: f"2024-03-0{n % 3 + 1}"})
    directory = tmp_path_factory.mktemp("delta")
    codec = {"hoodie.parquet.compression.codec": "zstd"}
    table = bootstrap_shape(session, shape, directory, skeleton_encoding="delta", options=codec)
    theirs = oracle.read(table.path)
    _assert_meta_columns(theirs, shape)
    assert_same_rows(
        theirs.select(shape.expected_rows().column_names), shape.expected_rows(), sort_by=["seq"]
    )
