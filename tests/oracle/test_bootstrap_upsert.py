"""Apache Hudi goes on writing tables that hudisql bootstrapped, and hudisql still reads them right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.oracle.client import HudiOracle, OracleError
from tests.oracle.comparison import META_COLUMNS, UNIQUE_COLUMN, assert_same_rows
from tests.oracle.shapes import SHAPES, Shape, bootstrap_shape, call_bootstrap
from tests.oracle.sources import sample_rows, write_source
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark]

COPY_ON_WRITE_SHAPES = [shape for shape in SHAPES if shape.table_type == "COPY_ON_WRITE"]


def _by_shape(shape: Shape) -> str:
    return shape.name


def _updated(shape: Shape) -> pa.Table:
    """The shape's rows once rows 100 to 129 are upserted: twenty changed, ten new."""
    rows = pa.concat_tables([sample_rows(0, 100), sample_rows(100, 130, "second")])
    return shape.with_partition_columns(rows)


@pytest.mark.parametrize(
    "shape",
    parameters(COPY_ON_WRITE_SHAPES, in_ci=["two_columns"]),
    ids=_by_shape,
)
def test_an_upsert_by_hudi_015_changes_and_adds_just_its_rows(
    oracle_015: HudiOracle, session: Any, tmp_path: Path, shape: Shape
) -> None:
    table = bootstrap_shape(session, shape, tmp_path, table=f"oracle.upserted_{shape.name}")
    changes = shape.with_partition_columns(sample_rows(100, 130, "second"))
    options = {**shape.write_options(), "hoodie.table.name": f"upserted_{shape.name}"}
    oracle_015.upsert(changes, table.path, options)

    theirs = oracle_015.read(table.path)
    expected = _updated(shape)
    assert_same_rows(theirs.select(expected.column_names), expected, sort_by=["seq"])
    ours = session.sql(f"SELECT * FROM oracle.upserted_{shape.name}").arrow()
    assert_same_rows(ours, theirs, sort_by=["seq"])


@pytest.mark.parametrize("name", parameters(["partitioned", "composite"], in_ci=["composite"]))
def test_an_upsert_by_hudi_120_changes_and_adds_just_its_rows(
    oracle_120: HudiOracle, session: Any, tmp_path: Path, name: str
) -> None:
    shape = next(shape for shape in SHAPES if shape.name == name)
    table = bootstrap_shape(session, shape, tmp_path, table=f"oracle.upserted_120_{name}")
    changes = shape.with_partition_columns(sample_rows(100, 130, "second"))
    options = {**shape.write_options(), "hoodie.table.name": f"upserted_120_{name}"}
    oracle_120.upsert(changes, table.path, options)

    theirs = oracle_120.read(table.path)
    expected = _updated(shape)
    assert_same_rows(theirs.select(expected.column_names), expected, sort_by=["seq"])
    ours = session.sql(f"SELECT * FROM oracle.upserted_120_{name}").arrow()
    assert_same_rows(ours, theirs, sort_by=["seq"])


def test_an_upsert_into_merge_on_read_leaves_logs_that_hudisql_merges(
    oracle_015: HudiOracle, session: Any, tmp_path: Path
) -> None:
    shape = next(shape for shape in SHAPES if shape.name == "merge_on_read")
    table = bootstrap_shape(session, shape, tmp_path, table="oracle.upserted_mor")
    changes = shape.with_partition_columns(sample_rows(100, 120, "second"))
    oracle_015.upsert(changes, table.path, {**shape.write_options(), "hoodie.table.name": "upserted_mor"})

    theirs = oracle_015.read(table.path)
    expected = shape.with_partition_columns(
        pa.concat_tables([sample_rows(0, 100), sample_rows(100, 120, "second")])
    )
    assert_same_rows(theirs.select(expected.column_names), expected, sort_by=["seq"])
    ours = session.sql("SELECT * FROM oracle.upserted_mor").arrow()
    assert_same_rows(ours, theirs, sort_by=["seq"])


KEY_VALUES: dict[str, tuple[pa.DataType, Callable[[int], object]]] = {
    "string": (pa.string(), lambda n: f"schlüssel {n}:{n},ä"),
    "int": (pa.int32(), lambda n: n - 15),
    "long": (pa.int64(), lambda n: (n - 15) * 5_000_000_000),
    "date": (pa.date32(), lambda n: date(1969, 12, 20) + timedelta(days=n)),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        lambda n: datetime(1969, 12, 31, 23, 59, 50, 1, tzinfo=UTC) + timedelta(seconds=n),
    ),
    "decimal": (pa.decimal128(12, 2), lambda n: Decimal(n * 10 - 105).scaleb(-2)),
    "wide_decimal": (pa.decimal128(30, 10), lambda n: Decimal(n - 15).scaleb(-10) * 10**12),
    "boolean": (pa.bool_(), lambda n: n == 0),
    "double": (pa.float64(), lambda n: (n - 15) * 10.0 ** (n - 15)),
    "float": (pa.float32(), lambda n: (n - 15) * 10.0 ** (n - 15)),
}
COMPOSITE_KEYS = {
    "composite_string_int": ("string", "int"),
    "composite_date_timestamp": ("date", "timestamp"),
    "composite_decimal_double_boolean": ("decimal", "double", "boolean"),
}


def _keyed_rows(key_types: Sequence[str], count: int, note: str) -> pa.Table:
    columns = {
        f"key_{name}": pa.array([KEY_VALUES[name][1](n) for n in range(count)], KEY_VALUES[name][0])
        for name in key_types
    }
    return pa.table({**columns, "seq": pa.array(range(count), pa.int32()), "note": [note] * count})


@pytest.mark.parametrize(
    "key_name",
    parameters(
        [*KEY_VALUES, *COMPOSITE_KEYS],
        in_ci=["string", "wide_decimal", "composite_date_timestamp", "composite_decimal_double_boolean"],
    ),
)
def test_hudi_015_finds_every_row_again_by_its_key(
    oracle_015: HudiOracle, session: Any, tmp_path: Path, key_name: str
) -> None:
    key_types = COMPOSITE_KEYS.get(key_name, (key_name,))
    count = 2 if key_name == "boolean" else 30
    record_key = ",".join(f"key_{name}" for name in key_types)
    source = write_source(tmp_path / "source", _keyed_rows(key_types, count, "first"))
    table, path = f"by_{key_name}", str(tmp_path / "table")
    call_bootstrap(
        session,
        {
            "table": f"oracle.{table}",
            "source": str(source),
            "record_key": record_key,
            "target_path": path,
            "precombine": "seq",
        },
    )
    before = oracle_015.read(path, columns=["seq", "_hoodie_record_key"])

    changes = _keyed_rows(key_types, count, "second")
    options = {
        "hoodie.table.name": table,
        "hoodie.datasource.write.recordkey.field": record_key,
        "hoodie.datasource.write.precombine.field": "seq",
        "hoodie.datasource.write.partitionpath.field": "",
    }
    oracle_015.upsert(changes, path, options)

    after = oracle_015.read(path)
    assert_same_rows(after.select(changes.column_names), changes, sort_by=["seq"])
    # The keys that Apache Hudi rendered for its changes are those that hudisql wrote.
    assert_same_rows(after.select(before.column_names), before, sort_by=["seq"])
    assert_same_rows(session.sql(f"SELECT * FROM oracle.{table}").arrow(), after, sort_by=["seq"])


ESCAPED_VALUES = ("a b:c/d%e", "2024-03-01 01:02:03", "plain", 'x"y=z#', "ümläut 名")


def _escape_as_hive_does(value: str) -> str:
    special = "\"#%'*/:=?\\{[]^"
    return "".join(f"%{ord(letter):02X}" if letter in special else letter for letter in value)


@pytest.mark.soak
def test_hudi_015_upserts_into_the_directories_that_hive_escaped(
    oracle_015: HudiOracle, session: Any, tmp_path: Path
) -> None:
    shape = Shape("escaped", rows=50, partition_columns={"part": lambda n: ESCAPED_VALUES[n % 5]})
    source = write_source(
        tmp_path / "source",
        sample_rows(0, 50),
        lambda n: "part=" + _escape_as_hive_does(ESCAPED_VALUES[n % 5]),
    )
    path = str(tmp_path / "table")
    call_bootstrap(
        session,
        {
            "table": "oracle.escaped",
            "source": str(source),
            "record_key": "id",
            "target_path": path,
            "precombine": "seq",
        },
    )
    directories = set(oracle_015.read(path)["_hoodie_partition_path"].to_pylist())
    assert directories == {"part=" + _escape_as_hive_does(value) for value in ESCAPED_VALUES}
    assert_same_rows(
        session.sql("SELECT * EXCEPT (" + ", ".join(META_COLUMNS) + ") FROM oracle.escaped").arrow(),
        shape.expected_rows(),
        sort_by=["seq"],
    )

    changes = shape.with_partition_columns(sample_rows(40, 60, "second"))
    options = {
        **shape.write_options(),
        "hoodie.datasource.write.partitionpath.urlencode": "true",
    }
    oracle_015.upsert(changes, path, options)

    after = oracle_015.read(path)
    assert set(after["_hoodie_partition_path"].to_pylist()) == directories
    expected = shape.with_partition_columns(
        pa.concat_tables([sample_rows(0, 40), sample_rows(40, 60, "second")])
    )
    ours = session.sql("SELECT * FROM oracle.escaped").arrow()
    assert_same_rows(ours.select(expected.column_names), expected, sort_by=["seq"])
    assert_same_rows(ours.select(META_COLUMNS), after.select(META_COLUMNS), sort_by=[UNIQUE_COLUMN])


TYPED_PARTITIONS: dict[str, tuple[str, pa.DataType, Sequence[object]]] = {
    "int": ("int", pa.int32(), (1, 10, 7)),
    "long": ("bigint", pa.int64(), (1, 5_000_000_000)),
    "date": ("date", pa.date32(), (date(2024, 3, 1), date(2024, 3, 2))),
    "decimal": ("decimal(5,2)", pa.decimal128(5, 2), (Decimal("1.50"), Decimal("2.00"))),
    "boolean": ("boolean", pa.bool_(), (True, False)),
    "double": ("double", pa.float64(), (1.5, 2.0)),
}


def _typed_rows(first: int, last: int, note: str, kind: str) -> pa.Table:
    _, data_type, values = TYPED_PARTITIONS[kind]
    rows = sample_rows(first, last, note).select(["id", "seq", "fare", "note"])
    return rows.append_column(
        "part", pa.array([values[n % len(values)] for n in range(first, last)], data_type)
    )


def _typed_table(session: Any, directory: Path, kind: str, partition_by: str) -> str:
    values = TYPED_PARTITIONS[kind][2]
    texts = [str(value).lower() for value in values]
    source = write_source(
        directory / "source",
        sample_rows(0, 30).select(["id", "seq", "fare", "note"]),
        lambda n: f"part={texts[n % len(texts)]}",
    )
    path = str(directory / "table")
    call_bootstrap(
        session,
        {
            "table": f"oracle.typed_{kind}",
            "source": str(source),
            "record_key": "id",
            "target_path": path,
            "precombine": "seq",
            "partition_by": partition_by,
        },
    )
    return path


TYPED_OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "seq",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.hive_style_partitioning": "true",
}


@pytest.mark.parametrize("kind", parameters(TYPED_PARTITIONS, in_ci=["date"]))
def test_typed_partition_columns_are_read_with_their_types(
    oracle_015: HudiOracle, oracle_120: HudiOracle, session: Any, tmp_path: Path, kind: str
) -> None:
    path = _typed_table(session, tmp_path, kind, f"part {TYPED_PARTITIONS[kind][0]}")
    expected = _typed_rows(0, 30, "first", kind)
    ours = session.sql(f"SELECT * FROM oracle.typed_{kind}").arrow()
    assert_same_rows(ours.select(expected.column_names), expected, sort_by=["seq"])
    for oracle in (oracle_015, oracle_120):
        by_path = oracle.read(path)
        by_name = oracle.sql(f"SELECT * FROM oracle.typed_{kind}")
        assert_same_rows(by_path, ours, sort_by=["seq"])
        assert_same_rows(by_name, ours, sort_by=["seq"])


@pytest.mark.soak
def test_hudi_015_refuses_to_merge_into_typed_partitions_and_harms_nothing(
    oracle_015: HudiOracle, session: Any, tmp_path: Path
) -> None:
    # Its merge puts the directory's text into the typed column; the plan warns of it. Hudi 1.2 merges such
    # rows.
    path = _typed_table(session, tmp_path, "int", "part int")
    before = oracle_015.read(path)
    with pytest.raises(OracleError, match="ClassCastException"):
        oracle_015.upsert(
            _typed_rows(20, 40, "second", "int"), path, {"hoodie.table.name": "typed_int", **TYPED_OPTIONS}
        )
    assert_same_rows(oracle_015.read(path), before, sort_by=["seq"])
    assert_same_rows(session.sql("SELECT * FROM oracle.typed_int").arrow(), before, sort_by=["seq"])


@pytest.mark.parametrize("kind", parameters(["int", "decimal", "boolean"], in_ci=["decimal"]))
def test_hudi_120_upserts_into_typed_partitions(
    oracle_120: HudiOracle, session: Any, tmp_path: Path, kind: str
) -> None:
    path = _typed_table(session, tmp_path, kind, f"part {TYPED_PARTITIONS[kind][0]}")
    oracle_120.upsert(
        _typed_rows(20, 40, "second", kind), path, {"hoodie.table.name": f"typed_{kind}", **TYPED_OPTIONS}
    )
    expected = pa.concat_tables([_typed_rows(0, 20, "first", kind), _typed_rows(20, 40, "second", kind)])
    theirs = oracle_120.read(path)
    assert_same_rows(theirs.select(expected.column_names), expected, sort_by=["seq"])
    assert_same_rows(session.sql(f"SELECT * FROM oracle.typed_{kind}").arrow(), theirs, sort_by=["seq"])


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["int", "date"])
def test_hudi_015_upserts_into_the_same_partitions_declared_as_strings(
    oracle_015: HudiOracle, session: Any, tmp_path: Path, kind: str
) -> None:
    path = _typed_table(session, tmp_path, kind, "part string")
    changes = _typed_rows(20, 40, "second", kind)
    directories = set(oracle_015.read(path)["_hoodie_partition_path"].to_pylist())
    # The frame's column may be typed: Hudi fits it to the table's string.
    oracle_015.upsert(changes, path, {"hoodie.table.name": f"typed_{kind}", **TYPED_OPTIONS})
    theirs = oracle_015.read(path)
    assert set(theirs["_hoodie_partition_path"].to_pylist()) == directories
    notes = dict(zip(theirs["seq"].to_pylist(), theirs["note"].to_pylist(), strict=True))
    expected = pa.concat_tables([_typed_rows(0, 20, "first", kind), _typed_rows(20, 40, "second", kind)])
    assert notes == dict(zip(expected["seq"].to_pylist(), expected["note"].to_pylist(), strict=True))
    assert_same_rows(session.sql(f"SELECT * FROM oracle.typed_{kind}").arrow(), theirs, sort_by=["seq"])


@pytest.mark.soak
def test_hudi_120_keeps_the_higher_ordering_value_where_hudi_015_takes_the_later_row(
    oracle_015: HudiOracle, oracle_120: HudiOracle, session: Any, tmp_path: Path
) -> None:
    shape = next(shape for shape in SHAPES if shape.name == "partitioned")
    late = shape.with_partition_columns(sample_rows(9, 10, "late"))
    lower = late.set_column(late.column_names.index("seq"), "seq", pa.array([3], pa.int32()))
    notes = {}
    for oracle, version in ((oracle_015, "6"), (oracle_120, "6"), (oracle_120, "9")):
        name = f"ordered_{oracle.version.replace('.', '')}_{version}"
        table = bootstrap_shape(session, shape, tmp_path / name, table=f"oracle.{name}")
        options = {**shape.write_options(), "hoodie.table.name": name}
        oracle.upsert(lower, table.path, {**options, "hoodie.write.table.version": version})
        rows = oracle.read(table.path, columns=["note"], where="id = 'k000009'")
        notes[oracle.version, version] = rows["note"].to_pylist()
    assert notes == {
        ("0.15.0", "6"): ["late 名 9"],
        ("1.2.0", "6"): ["first 名 9"],
        ("1.2.0", "9"): ["first 名 9"],
    }
