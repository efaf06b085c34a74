"""Scans skip partitions and files by statistics, and lose no row."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hudisql.format.hfile.hfile import HFileReader
from hudisql.format.hfile.hfile_cells import cells_of
from hudisql.format.metadata_table.column_bounds import ColumnBounds, bounds_by_key, merged_bounds
from hudisql.format.metadata_table.merged_ranges import mergeable_range, merged_ranges
from hudisql.format.metadata_table.metadata_records import COLUMN_STATS, read_metadata_records
from hudisql.format.metadata_table.metadata_writing import encode_metadata_file, encode_range, first_form
from hudisql.read.files.predicates import (
    And,
    ColumnStatistics,
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Not,
    Or,
    Predicate,
    bind_predicate,
    matching_rows,
    may_match,
)
from hudisql.storage import Storage
from hudisql.table.file_slice import BaseFile, FileSlice
from hudisql.table.metadata_table.kept_metadata_table import find_kept
from hudisql.write.metadata_table.column_ranges import (
    MeasuredFile,
    measure_file,
)
from tests.opened import open_at
from tests.requests.counted_requests import counted_requests
from tests.soak import parameters

FLOATS = st.sampled_from([0.0, -0.0, 1.5, 0.1, -1e30, math.inf, -math.inf, math.nan])
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int32(): st.integers(-3, 3) | st.sampled_from([2**31 - 1, -(2**31)]),
    pa.int64(): st.integers(-3, 3) | st.sampled_from([2**63 - 1, -(2**63)]),
    pa.float32(): FLOATS,
    pa.float64(): FLOATS,
    pa.string(): st.text("aé\ue000\uffff\U00010000\U0010ffff", max_size=3),
    pa.binary(): st.binary(max_size=2),
    pa.decimal128(20, 2): st.integers(-300, 300).map(lambda each: Decimal(each) / 100),
    pa.date32(): st.dates(date(1, 1, 1), date(9999, 12, 31)) | st.dates(date(2020, 1, 1), date(2020, 1, 9)),
    pa.timestamp("us", "UTC"): st.datetimes(
        datetime(1850, 1, 1), datetime(2250, 1, 1), timezones=st.just(UTC)
    ),
    pa.timestamp("us"): st.datetimes(datetime(2020, 1, 1), datetime(2020, 1, 9)),
}


@st.composite
def _files(draw: st.DrawFn) -> tuple[pa.Schema, list[pa.Table], Predicate]:
    kinds = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=2))
    schema = pa.schema([(f"c{number}", kind) for number, kind in enumerate(kinds)])
    rows = st.tuples(*(st.none() | VALUES[kind] for kind in kinds))
    files = draw(st.lists(st.lists(rows, min_size=1, max_size=4), min_size=1, max_size=3))
    tables = [
        pa.Table.from_arrays(
            [pa.array([row[at] for row in file], kind) for at, kind in enumerate(kinds)], schema=schema
        )
        for file in files
    ]

    def leaf(at: int) -> st.SearchStrategy[Predicate]:
        name, value = (f"c{at}",), VALUES[kinds[at]]
        seen = [row[at] for file in files for row in file if row[at] is not None]
        value = st.sampled_from(seen) | value if seen else value
        operators = st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "<=>"])
        return st.one_of(
            st.builds(Comparison, st.just(name), operators, value),
            st.builds(In, st.just(name), st.lists(st.none() | value, min_size=1, max_size=3).map(tuple)),
            st.sampled_from([IsNull(name), IsNotNull(name)]),
        )

    leaves = st.integers(0, len(kinds) - 1).flatmap(leaf)
    parts = st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(Not, inner),
            st.builds(And, st.tuples(inner, inner)),
            st.builds(Or, st.tuples(inner, inner)),
        ),
        max_leaves=3,
    )
    return schema, tables, draw(parts)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=_files(), in_first_form=st.booleans())
def test_bounds_of_files_and_partitions_exclude_no_matching_row(
    case: tuple[pa.Schema, list[pa.Table], Predicate], in_first_form: bool, tmp_path: Path
) -> None:
    schema, tables, unbound = case
    predicate = bind_predicate(unbound, schema)
    if predicate is None:
        return
    path = str(tmp_path / "file.parquet")
    ranges, matches = [], []
    for table in tables:
        pq.write_table(table, path)
        base = BaseFile(path, Path(path).stat().st_size, "f", "0-0-0", "20240101000000000")
        file = MeasuredFile("file", FileSlice("", "f", "20240101000000000", base), tuple(schema))
        ranges.append(measure_file(Storage(), file))
        matches.append(any(matching_rows(predicate, table.combine_chunks().to_batches()[0]).to_pylist()))
    of_files = [
        {name: _read_back(schema.field(name), [found], in_first_form) for name, found in _named(schema, file)}
        for file in ranges
    ]
    for bounds, is_match in zip(of_files, matches, strict=True):
        assert _may_match(predicate, bounds) or not is_match
    of_all = [dict(_named(schema, file)) for file in ranges]
    merged = {
        field.name: _read_back(
            field, [mergeable_range(merged_ranges([found[field.name] for found in of_all]))], in_first_form
        )
        for field in schema
    }
    layered = {
        field.name: _read_back(field, [found[field.name] for found in of_all], in_first_form)
        for field in schema
    }
    united = {field.name: merged_bounds(bounds[field.name] for bounds in of_files) for field in schema}
    for bounds in (merged, layered, united):
        assert _may_match(predicate, bounds) or not any(matches)


def _named(schema: pa.Schema, ranges: Any) -> list[tuple[str, Any]]:
    return list(zip(schema.names, ranges, strict=True))


def _read_back(field: pa.Field, ranges: list[Any], in_first_form: bool = False) -> Any:
    """The bounds that a reader finds if each of the ranges is in a layer of its own."""
    layers = []
    for found in ranges:
        stored = first_form(found) if in_first_form else found
        content = encode_metadata_file(cells_of({"key": encode_range(stored, "file")}))
        reader = HFileReader(BytesIO(content), len(content))
        layers.append(read_metadata_records(reader, COLUMN_STATS, "test", ["k"], are_prefixes=True))
    return bounds_by_key(layers, field, in_first_form=in_first_form)["key"]


@pytest.mark.parametrize(
    ("kind", "least", "greatest"),
    [
        (pa.bool_(), False, True),
        (pa.int32(), -3, 7),
        (pa.int64(), -3, 2**40),
        (pa.string(), "a", "b"),
        (pa.decimal128(20, 2), Decimal("-1.25"), Decimal("7.70")),
        (pa.date32(), date(2024, 1, 8), date(2024, 2, 1)),
        (pa.timestamp("us", "UTC"), datetime(2024, 1, 8, tzinfo=UTC), datetime(2024, 2, 1, tzinfo=UTC)),
        (pa.timestamp("us"), datetime(2024, 1, 8), datetime(2024, 2, 1)),
    ],
    ids=str,
)
def test_bounds_of_the_first_form_are_known(
    kind: pa.DataType, least: Any, greatest: Any, tmp_path: Path
) -> None:
    path = str(tmp_path / "file.parquet")
    pq.write_table(pa.table({"c": pa.array([least, None, greatest], kind)}), path)
    base = BaseFile(path, Path(path).stat().st_size, "f", "0-0-0", "20240101000000000")
    field = pa.field("c", kind)
    slice_of_file = FileSlice("", "f", "20240101000000000", base)
    (found,) = measure_file(Storage(), MeasuredFile("file", slice_of_file, (field,)))
    assert _read_back(field, [found], in_first_form=True) == ColumnBounds(3, 1, least, greatest)
    # A column that had another type when the record was made is unknown.
    other = pa.field("c", pa.string() if kind != pa.string() else pa.int32())
    assert _read_back(other, [found], in_first_form=True).nulls is None


def _may_match(predicate: Predicate, bounds: dict[str, Any]) -> bool:
    return may_match(
        predicate,
        lambda path: ColumnStatistics(
            bounds[path[0]].rows, bounds[path[0]].nulls, bounds[path[0]].least, bounds[path[0]].greatest
        ),
    )


DAYS = 12
FILTERS = (
    "seq = 25",
    "seq >= 110",
    "seq IN (3, 77) AND price > 3",
    "id = 'k25'",
    "id LIKE 'k11%'",
    "price = 25.5",
    "price > 1e300",
    "amount = 7.70",
    "amount IS NULL",
    "day_of = date'2024-01-08' OR seq = 1",
    "note = 'ours'",
    "note IS NOT NULL AND seq < 40",
    "NOT (seq < 100)",
    "cast(seq AS STRING) = '25'",
    "SEQ = 25 AND dt <> '2024-01-01'",
    "_hoodie_record_key = 'k30'",
    "_hoodie_commit_time > '1' AND seq = 30",
    "extra = 'new' AND seq < 60",
)


@pytest.fixture(
    scope="module", params=parameters(["COPY_ON_WRITE", "MERGE_ON_READ"], in_ci=["MERGE_ON_READ"])
)
def skipped_table(
    request: pytest.FixtureRequest, session: Any, tmp_path_factory: Any
) -> Iterator[tuple[Any, str, str]]:
    """A bootstrapped table of version 9 with twelve partitions of ten rows in two files."""
    name = f"skipping_{request.param[:4].lower()}"
    arguments = f"table_version => 9, table_type => '{request.param}'"
    yield session, name, _bootstrap(session, name, tmp_path_factory.mktemp("skipping"), arguments)
    session.sql(f"DROP TABLE {name}")


def _bootstrap(session: Any, name: str, directory: Path, arguments: str) -> str:
    """Bootstrap a source of twelve partitions of ten rows in two files; the path of the table."""
    for number in range(DAYS):
        directory_of_day = directory / "source" / f"dt=2024-01-{number + 1:02}"
        directory_of_day.mkdir(parents=True)
        for file in range(2):
            ids = range(number * 10 + file * 5, number * 10 + file * 5 + 5)
            rows = pa.table(
                {
                    "id": [f"k{each}" for each in ids],
                    "seq": pa.array(ids, pa.int64()),
                    "price": [math.nan if each == 42 else each + 0.5 for each in ids],
                    "amount": pa.array(
                        [None if each % 20 == 0 else Decimal(each) / 10 for each in ids],
                        pa.decimal128(10, 2),
                    ),
                    "day_of": pa.array([date(2024, 1, number + 1)] * 5),
                    "note": pa.array([None] * 5, pa.string()),
                }
            )
            pq.write_table(rows, directory_of_day / f"part-{file}.parquet")
    session.sql(
        f"CALL bootstrap_table(table => '{name}', source => '{directory}/source', record_key => 'id',"
        f" precombine => 'seq', target_path => '{directory}/table', {arguments})"
    )
    return str(directory / "table")


def _rows(session: Any, text: str) -> list[str]:
    return sorted(repr(tuple(row)) for row in session.sql(text).rows)


def _check(session: Any, name: str, filters: tuple[str, ...]) -> None:
    text = " UNION ALL ".join(
        f"SELECT {number}, count(*), sum(seq), max(id), count(note) FROM {name} WHERE {where}"
        for number, where in enumerate(filters)
    )
    skipped = _rows(session, text)
    session.sql("SET hoodie.enable.data.skipping=false")
    try:
        assert skipped == _rows(session, text)
    finally:
        session.sql("RESET hoodie.enable.data.skipping")


def _plan(session: Any, text: str) -> str:
    ((plan,),) = [tuple(row) for row in session.sql(f"EXPLAIN {text}").rows]
    return str(plan)


@pytest.mark.spark
@pytest.mark.hms
def test_explain_shows_what_was_skipped_and_settings_turn_it_off(skipped_table: tuple[Any, str, str]) -> None:
    session, name, _ = skipped_table
    text = f"SELECT id FROM {name} WHERE day_of = date'2024-01-08' AND id = 'k72'"
    assert "11 partitions, then" in _plan(session, text)
    for setting in ("hoodie.enable.data.skipping", "hoodie.metadata.enable"):
        session.sql(f"SET {setting}=false")
        try:
            assert "skipped by statistics" not in _plan(session, text)
        finally:
            session.sql(f"RESET {setting}")


@pytest.mark.spark
@pytest.mark.hms
def test_a_narrow_filter_asks_for_the_files_that_match(skipped_table: tuple[Any, str, str]) -> None:
    session, name, path = skipped_table
    source = str(Path(path).with_name("source"))
    session.sql("SET hoodie.metadata.enable=true")
    try:
        for where, days in (("seq = 25", {"03"}), ("id = 'k25' AND seq < 60", {"01", "03"})):
            with counted_requests(path, source) as requests:
                assert _rows(session, f"SELECT id FROM {name} WHERE {where}") == ["('k25',)"]
            # Of texts, k25 is between k0 and k4.
            assert {asked.partition("dt=2024-01-")[2][:2] for _, asked in requests.below(source)} == days
            # One partition tells the depth of the others.
            assert len({asked for _, asked in requests.below(path) if "dt=" in asked}) <= 1
    finally:
        session.sql("RESET hoodie.metadata.enable")


@pytest.mark.spark
@pytest.mark.hms
def test_a_narrow_filter_on_a_table_of_version_6_asks_for_the_files_that_match(
    session: Any, tmp_path: Path
) -> None:
    name = "skipping_older"
    arguments = "indexes => 'column_stats', table_type => 'MERGE_ON_READ'"
    path = _bootstrap(session, name, tmp_path, arguments)
    with counted_requests(path, str(tmp_path / "source")) as requests:
        assert _rows(session, f"SELECT id FROM {name} WHERE seq = 25") == ["('k25',)"]
    asked_for = {asked for _, asked in requests.below(str(tmp_path / "source")) if ".parquet" in asked}
    assert {asked.partition("source/")[2] for asked in asked_for} == {"dt=2024-01-03/part-1.parquet"}
    session.sql(f"UPDATE {name} SET price = -1 WHERE seq = 25")
    session.sql(f"DELETE FROM {name} WHERE seq = 3")
    assert _rows(session, f"SELECT id FROM {name} WHERE price < 0 AND seq > 0") == ["('k25',)"]
    # Log files of deletes hold no values.
    assert "then 23 file slices" in _plan(session, f"SELECT id FROM {name} WHERE price < 0")
    session.sql(f"DROP TABLE {name}")


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.hms
def test_skipped_reads_equal_whole_reads(skipped_table: tuple[Any, str, str]) -> None:
    session, name, path = skipped_table
    before = FILTERS[:-1]
    _check(session, name, before)
    session.sql(f"UPDATE {name} SET seq = 1000, note = 'ours' WHERE seq IN (25, 61)")
    session.sql(f"UPDATE {name} SET price = double('NaN') WHERE seq = 80")
    session.sql(f"DELETE FROM {name} WHERE seq = 3")
    session.sql(
        f"MERGE INTO {name} t USING (SELECT 'k30' AS id) s ON t.id = s.id AND t.dt = '2024-01-04' "
        "WHEN MATCHED THEN UPDATE SET note = 'merged'"
    )
    assert _rows(session, f"SELECT id FROM {name} WHERE seq = 1000") == ["('k25',)", "('k61',)"]
    _check(session, name, (*before, "seq = 1000", "note = 'merged'"))
    is_merged = open_at(path).is_merge_on_read
    service = "run_compaction(op => 'scheduleandexecute', " if is_merged else "run_clustering("
    session.sql(f"CALL {service}table => '{name}')")
    session.sql(f"ALTER TABLE {name} ADD COLUMNS (extra STRING)")
    session.sql(f"UPDATE {name} SET extra = 'new' WHERE seq = 55")
    assert find_kept(open_at(path)) is not None
    _check(session, name, (*FILTERS, "seq = 1000"))
    assert _rows(session, f"SELECT id FROM {name} WHERE extra = 'new' AND seq < 60") == ["('k55',)"]
