"""Tables whose directories are made by timestamp-based and custom key generators, written by both in turn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.opened import open_at
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.sources import sample_rows
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark]

_CLASS = "hoodie.datasource.write.keygenerator.class"
_FIELD = "hoodie.datasource.write.partitionpath.field"
_TIMES = "hoodie.keygen.timebased"
_MICROS = {
    f"{_TIMES}.timestamp.type": "SCALAR",
    f"{_TIMES}.timestamp.scalar.time.unit": "microseconds",
    f"{_TIMES}.output.dateformat": "yyyy/MM/dd HH",
    f"{_TIMES}.output.timezone": "GMT+8:00",
}
GENERATORS: Mapping[str, Mapping[str, str]] = {
    "timestamp": {
        _CLASS: "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
        _FIELD: "at",
        **_MICROS,
    },
    "text": {
        _CLASS: "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
        _FIELD: "day_text",
        "hoodie.deltastreamer.keygen.timebased.timestamp.type": "DATE_STRING",
        "hoodie.deltastreamer.keygen.timebased.input.dateformat": "dd.MM.yyyy",
        "hoodie.deltastreamer.keygen.timebased.output.dateformat": "yyyy-MM",
        "hoodie.deltastreamer.keygen.timebased.timezone": "UTC",
    },
    "custom": {
        _CLASS: "org.apache.hudi.keygen.CustomKeyGenerator",
        _FIELD: "is_even:SIMPLE,at:TIMESTAMP",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        **_MICROS,
        f"{_TIMES}.output.dateformat": "yyyyMMdd",
    },
}


PARTITION_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "timestamp": ("at",),
    "text": ("day_text",),
    "custom": ("is_even", "at"),
}


def _rows(first: int, last: int, note: str = "first") -> pa.Table:
    rows = sample_rows(first, last, note)
    return rows.append_column("day_text", pc.strftime(rows["day"], "%d.%m.%Y"))


@pytest.mark.parametrize("generator", parameters(GENERATORS, in_ci=["custom"]))
def test_hudi_015_and_hudisql_write_one_table_in_turn(
    oracle_015: HudiOracle, session: Any, tmp_path: Path, generator: str
) -> None:
    path, table = str(tmp_path / "table"), f"oracle.generated_{generator}"
    options = {
        "hoodie.table.name": f"generated_{generator}",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "seq",
        **GENERATORS[generator],
    }
    oracle_015.upsert(_rows(0, 20), path, options)
    session.sql(f"CALL hive_sync(table => '{table}', path => '{path}')")
    ours = session.spark.createDataFrame(_rows(10, 40, "second"))
    result = session.write(ours, table, "upsert", **GENERATORS[generator])
    assert (result.updated, result.inserted) == (10, 20)
    oracle_015.upsert(_rows(35, 50, "third"), path, options)
    theirs = oracle_015.read(path)
    assert theirs.num_rows == len(set(theirs["_hoodie_record_key"].to_pylist())) == 50
    for key, value in GENERATORS[generator].items():
        session.sql(f"SET {key} = {value}")
    session.sql(f"UPDATE {table} SET note = 'changed' WHERE seq = 3")
    session.sql(f"DELETE FROM {table} WHERE seq = 4")
    for key in GENERATORS[generator]:
        session.sql(f"RESET {key}")
    expected = pa.concat_tables([_rows(0, 10), _rows(10, 35, "second"), _rows(35, 50, "third")])
    rows = [dict(row, note="changed") if row["seq"] == 3 else row for row in expected.to_pylist()]
    wanted = pa.Table.from_pylist([row for row in rows if row["seq"] != 4], schema=expected.schema)
    assert_same_rows(
        session.sql(f"SELECT * FROM {table}").arrow().select(wanted.column_names), wanted, sort_by=["seq"]
    )
    # 0.15 reads the partition columns from the directories, as texts or NULL.
    theirs = oracle_015.read(path)
    others = [name for name in wanted.column_names if name not in PARTITION_COLUMNS[generator]]
    assert_same_rows(theirs.select(others), wanted.select(others), sort_by=["seq"])


_TABLE_CLASS = "hoodie.table.keygenerator.class"
_KEPT = {
    "text": {"hoodie.deltastreamer.keygen.timebased.input.dateformat": "dd.MM.yyyy"},
    "custom": {
        f"{_TIMES}.timestamp.scalar.time.unit": "microseconds",
        f"{_TIMES}.output.dateformat": "yyyyMMdd",
    },
    "timestamp": {f"{_TIMES}.output.dateformat": "yyyy/MM/dd HH"},
}
_PARTITIONS = {"text": ("2024-01",), "custom": ("false", "20200101"), "timestamp": ("2020/01/01 20",)}


@pytest.mark.parametrize("generator", parameters(GENERATORS, in_ci=["text"]))
def test_hudi_015_goes_on_with_a_table_that_hudisql_made(
    oracle_015: HudiOracle, session: Any, tmp_path: Path, generator: str
) -> None:
    path, table, given = str(tmp_path / "table"), f"oracle.made_{generator}", GENERATORS[generator]
    of_table = {
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "seq",
    }
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    session.spark.createDataFrame(_rows(0, 20)).createOrReplaceTempView("made_rows")
    if generator == "custom":
        frame = session.spark.table("made_rows")
        session.write(frame, table, "insert", **of_table, **given, path=path)
    else:
        properties = {**of_table, **given, _TABLE_CLASS: given[_CLASS]}
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        session.sql(
            f"CREATE TABLE {table} USING hudi PARTITIONED BY ({', '.join(PARTITION_COLUMNS[generator])}) "
            f"LOCATION '{path}' TBLPROPERTIES ({listed}) AS SELECT * FROM made_rows WHERE seq < 10"
        )
        session.sql(f"INSERT INTO {table} BY NAME SELECT * FROM made_rows WHERE seq >= 10")
    found = dict(open_at(path).properties.values)
    assert found[_TABLE_CLASS] == given[_CLASS]
    assert _KEPT[generator].items() <= found.items()
    assert f"{_TIMES}.timestamp.type" not in found
    oracle_015.upsert(
        _rows(10, 30, "theirs"), path, {"hoodie.table.name": f"made_{generator}", **of_table, **given}
    )
    session.sql(f"UPDATE {table} SET note = 'ours' WHERE seq = 3")
    wanted = pa.concat_tables([_rows(0, 10), _rows(10, 30, "theirs")]).to_pylist()
    expected = [dict(row, note="ours") if row["seq"] == 3 else row for row in wanted]
    ours = session.sql(f"SELECT * FROM {table}").arrow()
    kept = [name for name in _rows(0, 1).column_names if name not in PARTITION_COLUMNS[generator]]
    assert_same_rows(
        ours.select(_rows(0, 1).column_names),
        pa.Table.from_pylist(expected, _rows(0, 1).schema),
        sort_by=["seq"],
    )
    assert_same_rows(oracle_015.read(path).select(kept), ours.select(kept), sort_by=["seq"])
    column = PARTITION_COLUMNS[generator][-1]
    [(first,)] = session.sql(f"SELECT {column} FROM {table} WHERE seq = 7").rows
    seen = session.sql(f"SELECT seq FROM {table} WHERE {column} = '{first}'").rows
    assert 7 in {row.seq for row in seen}
    entry = session.context.metastore.get_table(*table.split("."))
    assert {each.type for each in entry.partition_columns} == {"string"}
    partitions = session.context.metastore.list_partitions(*table.split("."))
    assert _PARTITIONS[generator] in {each.values for each in partitions}
    assert len(session.sql(f"SHOW PARTITIONS {table}").rows) == len(partitions)


@pytest.mark.parametrize(
    ("version", "generator", "key"),
    parameters(
        [
            (version, generator, key)
            for version in (6, 9)
            for generator, key in (
                ("ComplexAvroKeyGenerator", "id,k"),
                ("ComplexKeyGenerator", "id"),
                ("SimpleAvroKeyGenerator", "id"),
                ("NonpartitionedAvroKeyGenerator", "id"),
            )
        ],
        in_ci=[(6, "ComplexAvroKeyGenerator", "id,k")],
    ),
)
def test_generators_of_the_same_keys_by_other_names(
    request: pytest.FixtureRequest, session: Any, tmp_path: Path, version: int, generator: str, key: str
) -> None:
    oracle = request.getfixturevalue("oracle_015" if version == 6 else "oracle_120")
    name, path = f"names_{generator}_{version}".lower(), str(tmp_path / "table")
    partitions = "" if generator.startswith("Non") else "PARTITIONED BY (dt)"
    session.sql(
        f"CREATE TABLE {name} (id INT, k STRING, v INT, dt STRING) USING hudi {partitions} LOCATION '{path}' "
        f"TBLPROPERTIES (primaryKey = '{key}', preCombineField = 'v', 'hoodie.write.table.version' = "
        f"'{version}', 'hoodie.table.keygenerator.class' = 'org.apache.hudi.keygen.{generator}')"
    )
    session.sql(f"INSERT INTO {name} VALUES (1, 'a', 1, 'd1'), (2, 'b', 1, 'd2'), (3, 'c', 1, 'd2')")
    options = {
        "hoodie.table.name": name,
        "hoodie.write.table.version": str(version),
        "hoodie.datasource.write.recordkey.field": key,
        "hoodie.datasource.write.precombine.field": "v",
        "hoodie.datasource.write.partitionpath.field": "dt" if partitions else "",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": str(bool(partitions)).lower(),
        "hoodie.datasource.write.keygenerator.class": f"org.apache.hudi.keygen.{generator}",
    }
    rows = {"id": [2, 4], "k": ["b", "d"], "v": [2, 1], "dt": ["d2", "d1"]}
    given = pa.table(rows).cast(
        pa.schema([("id", pa.int32()), ("k", pa.string()), ("v", pa.int32()), ("dt", pa.string())])
    )
    oracle.upsert(given, path, options)
    session.sql(f"INSERT INTO {name} VALUES (2, 'b', 3, 'd2'), (4, 'd', 2, 'd1')")
    theirs = oracle.read(path)
    ours = session.sql(f"SELECT * FROM {name}").arrow()
    assert_same_rows(ours, theirs, sort_by=["id"])
    assert sorted(zip(ours["id"].to_pylist(), ours["v"].to_pylist(), strict=True)) == [
        (1, 1),
        (2, 3),
        (3, 1),
        (4, 2),
    ]
