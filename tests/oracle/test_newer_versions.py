"""Tables of versions 8 and 9 that hudisql writes to: Apache Hudi 1.2, on its defaults, goes on with them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudisql.format.paths.file_names import log_file_name
from hudisql.format.table_properties import MERGE_ON_READ
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable
from hudisql.write.transaction.commit import begin_commit
from hudisql.write.transaction.markers import Marker, MarkerKind, create_marker
from tests.opened import open_at
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.shapes import SHAPES, Shape, bootstrap_shape, noted_rows
from tests.oracle.sources import write_source
from tests.rows import rows as rows_of
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark]

SHAPE = SHAPES[0]
MERGE_ON_READ_SHAPE = next(each for each in SHAPES if each.table_type == MERGE_ON_READ)
NAME = "newer_versions"
# The test harness makes 1.2 write version 6 without a metadata table; these are its own defaults.
DEFAULTS = {"hoodie.write.table.version": "9", "hoodie.metadata.enable": "true"}
VERSION_8 = {"hoodie.write.table.version": "8", "hoodie.write.auto.upgrade": "false"}
WITHOUT_SKIPPING = {"hoodie.enable.data.skipping": "false"}


def _upsert(
    oracle: HudiOracle, path: str, shape: Shape, start: int, stop: int, note: str, **options: str
) -> None:
    given = {**shape.write_options(), **DEFAULTS, **options}
    chosen = {key: text for key, text in given.items() if text}
    oracle.upsert(noted_rows(shape, start, stop, note), path, chosen)


def _version(options: Mapping[str, str]) -> int:
    return int(options.get("hoodie.write.table.version", "9"))


def _table(path: str, version: int) -> HudiTable:
    table = open_at(path)
    assert table.version == version
    return table


def _notes(oracle: HudiOracle, session: Any, name: str, path: str) -> dict[int, str]:
    """The notes of all rows, once 1.2 and hudisql have read the same rows, also with a filter."""
    theirs = oracle.read(path, options=WITHOUT_SKIPPING)
    assert_same_rows(session.sql(f"SELECT * FROM {name}").arrow(), theirs, sort_by=["seq"])
    found = oracle.read(path, options=WITHOUT_SKIPPING, where="note = 'ours'")
    ours = theirs.filter(pc.equal(theirs["note"], "ours"))
    assert_same_rows(found, ours, sort_by=["seq"])
    notes = dict(zip(theirs["seq"].to_pylist(), theirs["note"].to_pylist(), strict=True))
    assert len(notes) == len(theirs)
    return notes


def _change(session: Any, name: str, path: str, expected: dict[int, str]) -> None:
    """UPDATE, DELETE, INSERT and MERGE, in the table and in `expected`."""
    session.sql(f"UPDATE {name} SET note = 'ours' WHERE seq < 5")
    expected.update(dict.fromkeys(range(5), "ours"))
    session.sql(f"DELETE FROM {name} WHERE seq IN (10, 11)")
    del expected[10], expected[11]
    columns = "* EXCEPT (id, seq, note), concat('new', id) AS id, seq + 1000L AS seq, 'ours' AS note"
    rows = f"SELECT {columns} FROM {name} WHERE seq IN (20, 21)"
    names = ", ".join(open_at(path).schema.names)
    session.sql(f"INSERT INTO {name} ({names}) SELECT {names} FROM ({rows})")
    expected.update({1020: "ours", 1021: "ours"})
    session.sql(
        f"MERGE INTO {name} t USING (SELECT id, seq FROM {name} WHERE seq IN (30, 31)) s ON t.id = s.id "
        "WHEN MATCHED AND t.seq = 30 THEN DELETE WHEN MATCHED THEN UPDATE SET note = 'merged'"
    )
    del expected[30]
    expected[31] = "merged"


@pytest.mark.parametrize("origin", parameters(["hudi", "upgraded", "version_8"], in_ci=[]))
def test_hudi_12_and_hudisql_change_a_table_in_turn(
    oracle_120: HudiOracle, session: Any, tmp_path: Path, origin: str
) -> None:
    path, name = str(tmp_path / "table"), f"{NAME}_{origin}"
    named = {"hoodie.table.name": name, **(VERSION_8 if origin == "version_8" else {})}
    version = _version(named)
    if origin != "upgraded":
        _upsert(oracle_120, path, SHAPE, 0, 60, "first", **named)
        session.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    else:
        bootstrap_shape(session, SHAPE, tmp_path, table=name)
        _upsert(oracle_120, path, SHAPE, 0, 60, "first", **named)
    assert _table(path, version).properties.metadata_partitions
    expected = _notes(oracle_120, session, name, path)
    _change(session, name, path, expected)
    table = _table(path, version)
    # Kept: that of a table that was not bootstrapped.
    assert bool(table.properties.metadata_partitions) is (origin != "upgraded")
    assert all(each.completion_time > each.timestamp for each in table.timeline.commits[-4:])
    assert _notes(oracle_120, session, name, path) == expected
    _go_on(oracle_120, session, name, path, SHAPE, expected, **named)


@pytest.mark.parametrize(
    ("mode", "version"),
    parameters(
        [("COMMIT_TIME_ORDERING", 9), ("EVENT_TIME_ORDERING", 9), ("EVENT_TIME_ORDERING", 8)],
        in_ci=[],
    ),
)
def test_hudi_12_compacts_what_hudisql_has_written_to_logs(
    oracle_120: HudiOracle, session: Any, tmp_path: Path, mode: str, version: int
) -> None:
    path, name, shape = str(tmp_path / "table"), f"{NAME}_{mode[:6].lower()}_{version}", MERGE_ON_READ_SHAPE
    given = {} if mode == "EVENT_TIME_ORDERING" else {"hoodie.datasource.write.precombine.field": ""}
    given |= VERSION_8 if version == 8 else {}
    _upsert(oracle_120, path, shape, 0, 60, "first", **given)
    session.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    assert _table(path, version).properties.record_merge_mode == mode
    expected = _notes(oracle_120, session, name, path)
    _change(session, name, path, expected)
    assert list(Path(path).rglob(".*.log.1_*"))
    assert _notes(oracle_120, session, name, path) == expected
    _go_on(oracle_120, session, name, path, shape, expected, **given)
    compacts = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1", **given}
    _upsert(oracle_120, path, shape, 50, 51, "compacted", **compacts)
    expected[50] = "compacted"
    assert _table(path, version).timeline.commits[-1].action == "commit"
    assert _notes(oracle_120, session, name, path) == expected


def _go_on(
    oracle: HudiOracle,
    session: Any,
    name: str,
    path: str,
    shape: Shape,
    expected: dict[int, str],
    **options: str,
) -> None:
    """1.2 upserts, hudisql updates and deletes, 1.2 upserts again; both read the same after each."""
    _upsert(oracle, path, shape, 3, 8, "theirs", **options)
    expected.update(dict.fromkeys(range(3, 8), "theirs"))
    assert _notes(oracle, session, name, path) == expected
    assert _table(path, _version(options)).properties.metadata_partitions
    session.sql(f"UPDATE {name} SET note = 'ours' WHERE seq IN (7, 40)")
    session.sql(f"DELETE FROM {name} WHERE seq IN (3, 45)")
    expected.update({7: "ours", 40: "ours"})
    del expected[3], expected[45]
    assert _notes(oracle, session, name, path) == expected
    _upsert(oracle, path, shape, 40, 42, "theirs", **options)
    expected.update({40: "theirs", 41: "theirs"})
    assert _notes(oracle, session, name, path) == expected


@pytest.mark.parametrize(
    "shape",
    parameters([SHAPE, MERGE_ON_READ_SHAPE], in_ci=[]),
    ids=lambda shape: shape.name,
)
def test_hudi_12_rolls_back_what_a_killed_writer_has_left(
    oracle_120: HudiOracle, session: Any, tmp_path: Path, shape: Shape
) -> None:
    path, name = str(tmp_path / "table"), f"{NAME}_killed_{shape.name}"
    _upsert(oracle_120, path, shape, 0, 60, "first")
    session.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    expected = _notes(oracle_120, session, name, path)
    failed = begin_commit(_table(path, 9), "UPSERT")
    kept = next(each for each in Path(path).rglob("*.parquet") if ".hoodie" not in str(each))
    file_id, place = kept.name.split("_")[0], kept.parent.name
    written = [f"{file_id}_0-1-0_{failed.instant_time}.parquet"]
    if shape.table_type == "MERGE_ON_READ":
        written.append(log_file_name(file_id, failed.instant_time, 1, "0-1-0"))
    for each in written:
        marker = Marker(place, each, MarkerKind.CREATE)
        create_marker(Storage(), path, failed.instant_time, marker)
        (kept.parent / each).write_bytes(kept.read_bytes())
    assert _notes(oracle_120, session, name, path) == expected
    _upsert(oracle_120, path, shape, 3, 4, "theirs")
    expected[3] = "theirs"
    assert _notes(oracle_120, session, name, path) == expected
    assert [each for each in written if (kept.parent / each).exists()] == []
    assert failed.instant_time not in {each.timestamp for each in _table(path, 9).timeline.instants}


@pytest.mark.parametrize(
    ("shape", "version"),
    parameters(
        [(SHAPE, 9), (MERGE_ON_READ_SHAPE, 9), (SHAPE, 8), (MERGE_ON_READ_SHAPE, 8)],
        in_ci=[],
    ),
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_hudi_12_goes_on_after_overwrites_dropped_partitions_and_new_columns(
    oracle_120: HudiOracle, session: Any, tmp_path: Path, shape: Shape, version: int
) -> None:
    path, name = str(tmp_path / "table"), f"{NAME}_overwritten_{shape.name}_{version}"
    options = VERSION_8 if version == 8 else {}
    _upsert(oracle_120, path, shape, 0, 60, "first", **options)
    session.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    expected = _notes(oracle_120, session, name, path)
    names = ", ".join(open_at(path).schema.names)
    own = names.replace(", dt", "")
    day = {seq: f"2024-03-0{seq % 3 + 1}" for seq in expected}
    chosen = f"SELECT * EXCEPT (note, dt), 'ours' AS note FROM {name} WHERE dt = '2024-03-01' AND seq < 30"
    session.sql(f"INSERT OVERWRITE {name} PARTITION (dt = '2024-03-01') ({own}) SELECT {own} FROM ({chosen})")
    expected = {
        seq: "ours" if day[seq] == "2024-03-01" else note
        for seq, note in expected.items()
        if day[seq] != "2024-03-01" or seq < 30
    }
    session.sql(f"ALTER TABLE {name} DROP PARTITION (dt = '2024-03-02')")
    expected = {seq: note for seq, note in expected.items() if day[seq] != "2024-03-02"}
    assert _notes(oracle_120, session, name, path) == expected
    session.sql("SET hoodie.spark.sql.insert.into.operation=bulk_insert")
    moved = f"SELECT {names} FROM (SELECT * EXCEPT (id, seq, note, dt), concat('new', id) AS id, seq + 1000L "
    moved += f"AS seq, 'ours' AS note, '2024-03-02' AS dt FROM {name} WHERE seq < 9)"
    try:
        session.sql(f"INSERT INTO {name} ({names}) {moved}")
    finally:
        session.sql("RESET hoodie.spark.sql.insert.into.operation")
    expected |= {seq + 1000: "ours" for seq in [*expected] if seq < 9}
    _upsert(oracle_120, path, shape, 6, 12, "theirs", **options)
    expected |= dict.fromkeys(range(6, 12), "theirs")
    assert _notes(oracle_120, session, name, path) == expected
    session.sql(f"ALTER TABLE {name} ADD COLUMNS (more INT)")
    session.sql(f"UPDATE {name} SET more = 7, note = 'ours' WHERE seq = 6")
    expected[6] = "ours"
    assert _notes(oracle_120, session, name, path) == expected
    session.sql(f"INSERT OVERWRITE TABLE {name} ({names}, more) SELECT {names}, 8 FROM {name} WHERE seq < 20")
    expected = {seq: note for seq, note in expected.items() if seq < 20}
    assert _notes(oracle_120, session, name, path) == expected
    assert rows_of(session, f"SELECT DISTINCT more FROM {name}") == [(8,)]
    session.sql(f"TRUNCATE TABLE {name}")
    fills = {"hoodie.write.set.null.for.missing.columns": "true"}
    _upsert(oracle_120, path, shape, 0, 3, "theirs", **options, **fills)
    assert _notes(oracle_120, session, name, path) == dict.fromkeys(range(3), "theirs")
    assert _table(path, version).timeline.pending == ()
    session.sql(f"DROP TABLE {name} PURGE")
    assert not Path(path).exists()


@pytest.mark.parametrize(
    ("kind", "shape"),
    parameters(
        [
            *(("bootstrap", each) for each in SHAPES if each.name != "prefixed"),
            *(("create", SHAPE), ("query", SHAPE)),
        ],
        in_ci=[("bootstrap", MERGE_ON_READ_SHAPE)],
    ),
    ids=lambda value: getattr(value, "name", value),
)
def test_hudi_12_goes_on_with_tables_that_hudisql_makes_in_version_9(
    oracle_120: HudiOracle, session: Any, tmp_path: Path, kind: str, shape: Shape
) -> None:
    path, name = str(tmp_path / "table"), f"{NAME}_made_{kind}_{shape.name}"
    named = {"hoodie.table.name": name}
    if kind == "bootstrap":
        bootstrap_shape(session, shape, tmp_path, table=name, table_version="9")
    else:
        plain = write_source(tmp_path / "plain", noted_rows(shape, 0, 60), None, files=1)
        session.sql(f"CREATE OR REPLACE TEMPORARY VIEW given AS SELECT * FROM parquet.`{plain}`")
        head = f"CREATE TABLE {name} USING hudi PARTITIONED BY (dt) LOCATION '{path}' TBLPROPERTIES "
        head += "(primaryKey = 'id', preCombineField = 'seq', 'hoodie.write.table.version' = '9')"
        if kind == "query":
            session.sql(f"{head} AS SELECT * FROM given")
        else:
            columns = ", ".join(f"{row[0]} {row[1]}" for row in session.sql("DESCRIBE given").rows)
            session.sql(head.replace("USING", f"({columns}) USING"))
            session.sql(f"INSERT INTO {name} SELECT * FROM given")
    assert _table(path, 9).properties.record_merge_mode == "EVENT_TIME_ORDERING"
    expected = _notes(oracle_120, session, name, path)
    assert len(expected) == (shape.rows if kind == "bootstrap" else 60)
    _change(session, name, path, expected)
    assert _notes(oracle_120, session, name, path) == expected
    _go_on(oracle_120, session, name, path, shape, expected, **named)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("mode", "kept"), [("COMMIT_TIME_ORDERING", [99, 98]), ("EVENT_TIME_ORDERING", [100] * 2)]
)
def test_hudi_12_merges_by_the_mode_that_hudisql_gives_a_table(
    oracle_120: HudiOracle, session: Any, tmp_path: Path, mode: str, kept: list[int]
) -> None:
    path, name = str(tmp_path / "table"), f"{NAME}_mode_{mode[:6].lower()}"
    session.sql(
        f"CREATE TABLE {name} (id INT, ts INT) USING hudi LOCATION '{path}' TBLPROPERTIES ("
        f"primaryKey = 'id', preCombineField = 'ts', recordMergeMode = '{mode}', "
        "'hoodie.write.table.version' = '9')"
    )
    options = {
        "hoodie.table.name": name,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
    }
    session.sql(f"INSERT INTO {name} VALUES (1, 100)")
    found = []
    for ts in (99, 98):
        if ts == 99:
            row = pa.table({"id": pa.array([1], pa.int32()), "ts": pa.array([ts], pa.int32())})
            oracle_120.upsert(row, path, options)
        else:
            session.sql(f"INSERT INTO {name} VALUES (1, {ts})")
        found.append(oracle_120.read(path).column("ts").to_pylist())
        assert [[row[0]] for row in session.sql(f"SELECT ts FROM {name}").rows] == [found[-1]]
    assert found == [[each] for each in kept]
