"""Tables without a record key: Apache Hudi and hudisql go on with each other's, by each other's keys."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.format.table_properties import KEY_GENERATOR_CLASS, RECORD_KEY_FIELDS, parse_properties
from hudisql.table.properties.new_table import key_generator_class
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.sources import sample_rows, write_source
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark]

COLUMNS = "id INT, v STRING, p STRING"
ROWS = "SELECT CAST(id AS INT) AS id, 'a' AS v, concat('p', id % 3) AS p FROM range({}, {})"
OPTIONS = {
    "hoodie.datasource.write.operation": "insert",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.hive_style_partitioning": "true",
}


def check(
    oracle: HudiOracle, session: Any, name: str, path: Path, expected: dict[int, str]
) -> dict[int, str]:
    """Both read the same rows with the same meta columns, `expected` by id; gives each row's record key."""
    theirs = oracle.read(str(path))
    ours = session.sql(f"SELECT * FROM {name}").arrow()
    assert_same_rows(ours, theirs, sort_by=["_hoodie_record_key"])
    keys = theirs["_hoodie_record_key"].to_pylist()
    assert [key for key, count in Counter(keys).items() if count > 1 or not key] == []
    ids = theirs["id"].to_pylist()
    assert dict(zip(ids, theirs["v"].to_pylist(), strict=True)) == expected
    return dict(zip(ids, keys, strict=True))


def change(sql: Any, name: str, first: int, mark: str) -> None:
    """Insert ids from `first` to `first + 9`, update `first + 2` to `first + 4`, delete `first + 5`."""
    sql(f"INSERT INTO {name} {ROWS.format(first, first + 10)}")
    sql(f"UPDATE {name} SET v = '{mark}' WHERE id BETWEEN {first + 2} AND {first + 4}")
    sql(f"DELETE FROM {name} WHERE id = {first + 5}")


def changed(first: int, mark: str) -> dict[int, str]:
    """What `change` leaves."""
    numbers = [first + number for number in range(10) if number != 5]
    return {number: mark if first + 2 <= number <= first + 4 else "a" for number in numbers}


def merge(sql: Any, name: str, known: int, new: int) -> None:
    """Set the row `known` by a MERGE on its id, and insert the row `new`."""
    sql(
        f"MERGE INTO {name} t USING (SELECT {known} AS i UNION ALL SELECT {new}) s ON t.id = s.i "
        "WHEN MATCHED THEN UPDATE SET v = 'm' WHEN NOT MATCHED THEN INSERT (id, v, p) VALUES (s.i, 'n', 'p1')"
    )


@pytest.mark.soak
@pytest.mark.parametrize(
    ("maker", "kind"),
    parameters(product(["hudisql", "hudi"], ["cow", "mor"]), in_ci=[("hudisql", "mor")]),
)
def test_hudi_015_and_hudisql_go_on_with_each_other_s_tables_without_a_key(
    oracle_015: HudiOracle, session: Any, tmp_path: Path, maker: str, kind: str
) -> None:
    path, name = tmp_path / "t", f"oracle.keyless_{maker}_{kind}"
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    make = session.sql if maker == "hudisql" else oracle_015.sql
    make(
        f"CREATE TABLE {name} ({COLUMNS}) USING hudi PARTITIONED BY (p) LOCATION '{path}' "
        f"TBLPROPERTIES (type = '{kind}')"
    )
    change(make, name, 0, "first")
    expected = changed(0, "first")
    before = check(oracle_015, session, name, path, expected)
    change(session.sql, name, 10, "ours")
    merge(session.sql, name, 11, 20)
    expected |= changed(10, "ours") | {11: "m", 20: "n"}
    oracle_015.sql(f"REFRESH TABLE {name}")
    change(oracle_015.sql, name, 30, "theirs")
    expected |= changed(30, "theirs")
    oracle_015.write(
        pa.table({"id": pa.array([50], pa.int32()), "v": ["f"], "p": ["p2"]}),
        str(path),
        {**OPTIONS, "hoodie.table.name": name.partition(".")[2]},
    )
    expected[50] = "f"
    if kind == "cow":
        # On merge-on-read tables 0.15 wants every column assigned.
        merge(oracle_015.sql, name, 0, 60)
        expected |= {0: "m", 60: "n"}
    for who, mark in ((session.sql, "all of ours"), (oracle_015.sql, "all of theirs")):
        oracle_015.sql(f"REFRESH TABLE {name}")
        who(f"UPDATE {name} SET v = '{mark}' WHERE id % 2 = 0")
        expected |= {number: mark for number in expected if number % 2 == 0}
        after = check(oracle_015, session, name, path, expected)
        assert {number: after[number] for number in before} == before
    session.sql(f"DROP TABLE {name}")


@pytest.mark.soak
@pytest.mark.parametrize("kind", parameters(["cow", "mor"], in_ci=["mor"]))
def test_hudi_120_goes_on_with_a_table_without_a_key(
    oracle_120: HudiOracle, session: Any, tmp_path: Path, kind: str
) -> None:
    path, name = tmp_path / "t", f"oracle.keyless_120_{kind}"
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    session.sql(
        f"CREATE TABLE {name} ({COLUMNS}) USING hudi PARTITIONED BY (p) LOCATION '{path}' "
        f"TBLPROPERTIES (type = '{kind}')"
    )
    change(session.sql, name, 0, "ours")
    change(oracle_120.sql, name, 10, "theirs")
    expected = changed(0, "ours") | changed(10, "theirs")
    before = check(oracle_120, session, name, path, expected)
    merge(session.sql, name, 11, 20)
    session.sql(f"UPDATE {name} SET v = 'ours again' WHERE id = 2")
    expected |= {11: "m", 20: "n", 2: "ours again"}
    after = check(oracle_120, session, name, path, expected)
    assert {number: after[number] for number in before} == before
    session.sql(f"DROP TABLE {name}")


@pytest.mark.parametrize("partitions", [(), ("p",), ("v", "p")], ids=len)
def test_the_properties_are_those_that_hudi_015_notes(
    oracle_015: HudiOracle, tmp_path: Path, partitions: tuple[str, ...]
) -> None:
    name, path = f"default.keyless_{len(partitions)}", tmp_path / "t"
    by = f"PARTITIONED BY ({', '.join(partitions)})" if partitions else ""
    oracle_015.sql(f"CREATE TABLE {name} ({COLUMNS}) USING hudi {by} LOCATION '{path}'")
    noted = parse_properties((path / ".hoodie" / "hoodie.properties").read_bytes())
    assert RECORD_KEY_FIELDS not in noted
    assert noted[KEY_GENERATOR_CLASS] == key_generator_class((), partitions)
    oracle_015.sql(f"DROP TABLE {name}")


@pytest.mark.soak
def test_hudi_015_goes_on_with_a_bootstrapped_table_without_a_key(
    oracle_015: HudiOracle, session: Any, tmp_path: Path
) -> None:
    source, path, name = tmp_path / "source", tmp_path / "t", "oracle.keyless_bootstrapped"
    # The sync after 0.15's SQL takes no timestamps as hudisql declares them.
    rows = sample_rows(0, 60).select(["id", "seq", "note"])
    write_source(source, rows, lambda number: f"p=p{number % 3}")
    session.sql(
        f"CALL bootstrap_table(table => '{name}', source => '{source}', target_path => '{path}', "
        "full_record_where => \"p = 'p2'\")"
    )

    def both() -> pa.Table:
        theirs = oracle_015.read(str(path))
        assert_same_rows(session.sql(f"SELECT * FROM {name}").arrow(), theirs, sort_by=["_hoodie_record_key"])
        assert len(set(theirs["_hoodie_record_key"].to_pylist())) == theirs.num_rows
        return theirs

    assert sorted(both()["seq"].to_pylist()) == list(range(60))
    oracle_015.sql(f"UPDATE {name} SET note = 'theirs' WHERE seq < 6")
    oracle_015.sql(f"DELETE FROM {name} WHERE seq = 10")
    session.sql(f"DELETE FROM {name} WHERE seq = 11")
    session.sql(f"UPDATE {name} SET note = 'ours' WHERE seq BETWEEN 4 AND 7")
    found = both()
    notes = dict(zip(found["seq"].to_pylist(), found["note"].to_pylist(), strict=True))
    assert sorted(notes) == [number for number in range(60) if number not in (10, 11)]
    assert [notes[number] for number in range(8)] == ["theirs"] * 4 + ["ours"] * 4
    session.sql(f"DROP TABLE {name}")
