"""Directories ruled out by their names: never one that leads to a partition with matching rows."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudisql.format.schema.avro_schema import avro_from_arrow
from hudisql.format.schema.meta_columns import PARTITION_PATH
from hudisql.read.files.predicates import (
    And,
    Comparison,
    In,
    InSet,
    IsNotNull,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
)
from hudisql.read.scan.partition_pruning import DirectoryPruning, prune_by_path, prune_partitions
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import list_partitions
from tests.opened import open_at
from tests.requests.counted_requests import counted_requests
from tests.table.conftest import TableDirectory

DEFAULT = "__HIVE_DEFAULT_PARTITION__"
TEXTS = ["2024", "2024-03-01", "2024/03/01", "2024/03/02", "a", "a-b/c", "a-b/d", "b", "b!", DEFAULT]


def _table(
    directory: Path, columns: dict[str, pa.DataType], paths: Sequence[str], **properties: str
) -> HudiTable:
    schema = pa.schema([("id", pa.string()), *columns.items()])
    named = {key.replace("__", "."): value for key, value in properties.items()}
    made = TableDirectory(directory, {"hoodie.table.partition.fields": ",".join(columns), **named})
    made.commit("20260101000000000", schema=avro_from_arrow(schema, "t"))
    for path in paths:
        # No partition lies in the directory of another.
        if not any(other != path and other.startswith(f"{path}/") for other in paths):
            made.partition(path)
    return open_at(directory)


def _leaves(column: str, values: Sequence[Any], texts: bool) -> st.SearchStrategy[Predicate]:
    value = st.sampled_from(values)
    kinds: list[st.SearchStrategy[Predicate]] = [
        st.builds(
            Comparison, st.just((column,)), st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "<=>"]), value
        ),
        st.builds(In, st.just((column,)), st.lists(value, min_size=1, max_size=3).map(tuple)),
        st.just(IsNull((column,))),
        st.just(IsNotNull((column,))),
    ]
    if texts:
        kinds.append(
            st.builds(StartsWith, st.just((column,)), st.sampled_from(["2", "2024/", "a-", "b", "2024-03"]))
        )
        some = st.sets(value, min_size=1).map(lambda each: pa.array(sorted(each), pa.string()))
        kinds.append(st.builds(InSet, st.just((column,)), some))
    return st.one_of(kinds)


def _trees(leaves: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
    return st.recursive(
        leaves,
        lambda below: st.one_of(
            st.builds(Not, below),
            st.builds(And, st.tuples(below, below)),
            st.builds(Or, st.tuples(below, below)),
        ),
        max_leaves=4,
    )


def _check_pruning(table: HudiTable, predicate: Predicate) -> None:
    wanted = prune_partitions(list_partitions(table), table.partition_columns, predicate)
    found = list_partitions(table, DirectoryPruning(table, predicate))
    assert prune_partitions(found, table.partition_columns, predicate) == wanted


LITERALS = ["2024", "2024-03-01", "2024/03/01", "2024/03", "a", "a-b", "a-b/c", "b", "c"]


@given(
    st.sets(st.sampled_from(TEXTS), min_size=1),
    _trees(_leaves("dt", LITERALS, texts=True)),
    st.booleans(),
)
def test_texts_that_take_several_directories(
    paths: set[str], predicate: Predicate, is_hive_style: bool
) -> None:
    named = sorted(f"dt={path}" if is_hive_style else path for path in paths)
    with tempfile.TemporaryDirectory() as directory:
        style = str(is_hive_style).lower()
        table = _table(
            Path(directory),
            {"dt": pa.string()},
            named,
            hoodie__datasource__write__hive_style_partitioning=style,
        )
        _check_pruning(table, predicate)


@given(st.sets(st.sampled_from(TEXTS), min_size=1), _trees(_leaves(PARTITION_PATH, LITERALS, texts=True)))
def test_paths_that_a_key_generator_makes(paths: set[str], predicate: Predicate) -> None:
    with tempfile.TemporaryDirectory() as directory:
        table = _table(
            Path(directory),
            {"at": pa.int64()},
            sorted(paths),
            hoodie__table__keygenerator__class="org.apache.hudi.keygen.TimestampBasedKeyGenerator",
        )
        wanted = prune_by_path(list_partitions(table), [predicate])
        found = list_partitions(table, DirectoryPruning(table, None, predicate))
        assert prune_by_path(found, [predicate]) == wanted


DAYS = [date(2024, 3, 1), date(2024, 3, 2), date(1975, 7, 18)]


@given(
    st.sets(
        st.sampled_from(["2024-03-01", "2024/03/02", "2024/04/01", "1970-01-05", "19800", DEFAULT]),
        min_size=1,
    ),
    _trees(_leaves("d", DAYS, texts=False)),
)
def test_dates_in_every_spelling(paths: set[str], predicate: Predicate) -> None:
    with tempfile.TemporaryDirectory() as directory:
        table = _table(
            Path(directory),
            {"d": pa.date32()},
            sorted(paths),
            hoodie__datasource__write__hive_style_partitioning="false",
        )
        _check_pruning(table, predicate)


def test_levels_are_pruned_before_they_are_listed(tmp_path: Path) -> None:
    paths = [
        f"y={year}/m={month:02}/d={day:02}" for year in (2023, 2024) for month in (1, 2, 3) for day in (1, 2)
    ]
    columns = {"y": pa.int32(), "m": pa.int32(), "d": pa.int32()}
    (tmp_path / "_temporary" / "x").mkdir(parents=True)
    table = _table(tmp_path, columns, paths).listed_once()
    predicate = And((Comparison(("y",), "=", 2024), Comparison(("m",), ">", 2)))
    with counted_requests(tmp_path) as requests:
        found = list_partitions(table, DirectoryPruning(table, predicate))
    assert [each.path for each in found] == ["y=2024/m=03/d=01", "y=2024/m=03/d=02"]
    listed = sorted(
        path.removeprefix(f"{tmp_path}") for _, path in requests.below(str(tmp_path), "list_directory")
    )
    assert listed == [
        "",
        "/_temporary",
        "/_temporary/x",
        "/y=2024",
        "/y=2024/m=03",
        "/y=2024/m=03/d=01",
        "/y=2024/m=03/d=02",
    ]


@pytest.mark.parametrize(("below", "found"), [("a", ["a/x", "a/y"]), ("a/x", ["a/x"]), ("ab", ["ab/x"])])
def test_a_path_bounds_the_scan(tmp_path: Path, below: str, found: list[str]) -> None:
    table = _table(tmp_path, {"dt": pa.string()}, ["a/x", "a/y", "ab/x"])
    pruned = list_partitions(table, DirectoryPruning(table, None, None, below))
    assert [each.path for each in pruned] == found
